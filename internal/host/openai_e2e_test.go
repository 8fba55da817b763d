//go:build e2e

package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/host"
	"github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/trajectory"
)

// official drives a host with OpenAI's own Python client, as published, and prints a line a thing tried.
const official = `
import json, sys
import httpx, openai
from openai import OpenAI
conf = json.loads(sys.argv[1])
tools = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}]

def client(name, **kw):
    kw = {"api_key": "key-" + name, "max_retries": 0, **kw}
    return OpenAI(base_url=conf["base"] + "/t/" + name + "/v1", **kw)

def say(what, **v):
    print(json.dumps({"what": what, **v}))

def heard(m, finish, usage):
    return {"content": m.content or "", "reasoning": getattr(m, "reasoning_content", None) or "", "finish": finish, "tokens": usage.completion_tokens,
            "calls": [[c.id, c.function.name, c.function.arguments] for c in m.tool_calls or []]}

def whole(c, **ask):
    r = c.chat.completions.create(**ask)
    return r.choices[0].message, heard(r.choices[0].message, r.choices[0].finish_reason, r.usage)

def streamed(c, **ask):
    with c.chat.completions.stream(stream_options={"include_usage": True}, **ask) as s:
        for _ in s: pass
        r = s.get_final_completion()
    return r.choices[0].message, heard(r.choices[0].message, r.choices[0].finish_reason, r.usage)

def loop(name, ask):
    c, msgs, out = client(name), [{"role": "user", "content": "please count the files"}], []
    while True:
        m, h = ask(c, model="policy", messages=msgs, tools=tools)
        out.append(h)
        if not h["calls"]: return out
        msgs.append(m.model_dump(exclude_none=True, include={"role", "content", "tool_calls", "reasoning_content"}))
        for call in m.tool_calls:
            msgs.append({"role": "tool", "tool_call_id": call.id, "content": "ran " + call.function.arguments})

for name, ask in (("whole", whole), ("streamed", streamed)):
    say("loop", name=name, turns=loop(name, ask))

hi = dict(model="policy", messages=[{"role": "user", "content": "hi"}])
def refused(what, f):
    try:
        f()
        say(what, error=None)
    except openai.APIStatusError as e:
        say(what, error=[type(e).__name__, e.status_code, e.code, e.type])

c = client("plain")
say("models", ids=[m.id for m in c.models.list()])
lp = c.chat.completions.create(**hi, logprobs=True)
say("logprobs", one_each=len(lp.choices[0].logprobs.content) == lp.usage.completion_tokens, text="".join(t.token for t in lp.choices[0].logprobs.content).startswith(lp.choices[0].message.content))
refused("n", lambda: c.chat.completions.create(**hi, n=2))
refused("json", lambda: c.chat.completions.create(**hi, response_format={"type": "json_object"}))
refused("token", lambda: client("plain", api_key="wrong").chat.completions.create(**hi))
refused("trajectory", lambda: client("nobody", api_key="wrong").chat.completions.create(**hi))
refused("long", lambda: c.chat.completions.create(model="policy", messages=[{"role": "user", "content": "a long story " * 90000}]))
refused("large", lambda: c.chat.completions.create(model="policy", messages=[{"role": "user", "content": "x" * 3000000}]))

m, h = whole(client("busy", max_retries=2), **hi)
say("busy", finish=h["finish"])
try:
    for _ in client("cut").chat.completions.create(**hi, stream=True): pass
    say("cut", error=None)
except httpx.RemoteProtocolError as e:
    say("cut", error=type(e).__name__)
m, h = whole(client("cut"), **hi)
say("cut again", finish=h["finish"])
m, h = whole(client("slow", max_retries=1, timeout=4), **hi)
say("slow", finish=h["finish"])
`

// slowOnce never ends its first answer to the trajectory "slow".
type slowOnce struct {
	engine.Engine
	mu   sync.Mutex
	seen map[string]bool
}

func (s *slowOnce) Generate(ctx context.Context, r engine.Request) (engine.Stream, error) {
	s.mu.Lock()
	first := !s.seen[r.Affinity]
	s.seen[r.Affinity] = true
	s.mu.Unlock()
	st, err := s.Engine.Generate(ctx, r)
	if first && r.Affinity == "slow" && err == nil {
		g := &gate{began: make(chan struct{}, 1), open: make(chan struct{}), stopped: make(chan struct{}, 1), after: 1}
		return &gatedStream{Stream: st, g: g, ctx: ctx}, nil
	}
	return st, err
}

func TestE2ETheOfficialClientDrivesAHost(t *testing.T) {
	python := testkit.Python(t)
	r := up(t, func(r *rig) {
		r.c.MaxBody, r.c.MaxContext = 2_000_000, 100_000
		// The engine counts its calls: the loops make eight and logprobs one, then all tries for the first "busy" fail, the
		// SDK's own second one is answered, and what comes after is cut.
		for i := range host.DefaultEngineTries {
			r.faults = append(r.faults, rehearsal.Fault{Kind: rehearsal.FaultStatus, Status: 503, Call: 10 + i, Turn: -1})
		}
		after := 10 + host.DefaultEngineTries + 1
		r.faults = append(r.faults, rehearsal.Fault{Kind: rehearsal.FaultDrop, After: 3, Call: after, Turn: -1})
		r.c.Live = true
		r.wrap = func(e engine.Engine) engine.Engine { return &slowOnce{Engine: e, seen: map[string]bool{}} }
	})
	names := []string{"whole", "streamed", "plain", "busy", "cut", "slow"}
	for _, name := range names {
		if _, err := r.host.Open(t.Context(), host.Open{Identities: trajectory.Identities{Trajectory: name, Affinity: name}, Token: "key-" + name}); err != nil {
			t.Fatal(err)
		}
	}
	conf, err := json.Marshal(map[string]string{"base": r.base})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", official, string(conf))
	cmd.Env = []string{"NO_PROXY=*"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, stderr.Bytes(), out)
	}
	t.Logf("%s", out)
	type said struct {
		What, Name, Finish string
		Turns              []any
		IDs                []string
		OneEach            bool `json:"one_each"`
		Text               bool
		Error              any
	}
	var got []said
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var s said
		if err := d.Decode(&s); err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	if len(got) < 2 || len(got[0].Turns) != 4 || len(got[1].Turns) != 4 {
		t.Fatalf("%+v", got)
	}
	failed := func(what, class string, status int, code, kind string) said {
		return said{What: what, Error: []any{class, float64(status), code, kind}}
	}
	const invalid = "invalid_request_error"
	want := []said{
		{What: "models", IDs: []string{"rehearsal"}},
		{What: "logprobs", OneEach: true, Text: true},
		failed("n", "BadRequestError", 400, "unsupported_field", invalid),
		failed("json", "BadRequestError", 400, "unsupported_field", invalid),
		failed("token", "AuthenticationError", 401, "unauthorized", invalid),
		failed("trajectory", "NotFoundError", 404, "unknown_route", invalid),
		failed("long", "BadRequestError", 400, "context_length_exceeded", invalid),
		failed("large", "APIStatusError", 413, "request_too_large", invalid),
		{What: "busy", Finish: "stop"},
		{What: "cut", Error: "RemoteProtocolError"},
		{What: "cut again", Finish: "stop"},
		{What: "slow", Finish: "stop"},
	}
	if d := cmp.Diff(want, got[2:]); d != "" {
		t.Error(d)
	}
	for _, name := range names {
		r.seal(name)
		r.proved(name)
	}
	if d := cmp.Diff(facts(r.proved("cut")), []fact{{trajectory.FinishError, "engine_stream_cut", trajectory.LogprobOK, trajectory.DeliveryUndelivered}, good}); d != "" {
		t.Error(d)
	}
	if n := r.proved("slow").Turns(); n[len(n)-1].RetryCount != 1 {
		t.Errorf("%+v", n[len(n)-1])
	}
}
