package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/family/all"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
	"github.com/tito-rl/tito/internal/trajectory"
)

// real plays a session on a real tokenizer, template and family.
type real struct {
	t *testing.T
	f family.Family
	s *Session
}

// bundle is the built-in model, read once.
var bundle = sync.OnceValues(model.Builtin)

func onBundle(t *testing.T) *real {
	t.Helper()
	m, err := bundle()
	if err != nil {
		t.Fatal(err)
	}
	return realOn(t, m.Family)
}

func newReal(t *testing.T, tok []byte, tpl string) *real {
	t.Helper()
	tk, err := tokenizer.Load(tok)
	if err != nil {
		t.Fatal(err)
	}
	tm, err := template.Compile(tpl)
	if err != nil {
		t.Fatal(err)
	}
	f, err := all.New(tk, tm, family.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return realOn(t, f)
}

func realOn(t *testing.T, f family.Family) *real {
	h := trajectory.Header{Policy: trajectory.DefaultPolicy(), MaxContext: 4096}
	h.Trajectory = "t1"
	return &real{t, f, New(Config{Family: f, Header: h, Processed: true,
		Clock: template.Clock{Year: 2026, Month: 1, Day: 2, Weekday: 5, YearDay: 2}})}
}

// ask sends messages and lets the policy sample reply; it returns what the client gets.
func (r *real) ask(msgs []chat.Message, reply chat.Reply) Reply {
	r.t.Helper()
	ids, err := r.f.Speak(reply)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.askIDs(msgs, ids)
}

func (r *real) askIDs(msgs []chat.Message, ids []token.ID) Reply {
	r.t.Helper()
	id := r.s.Next()
	var last []Effect
	step := func(e Event) {
		r.t.Helper()
		effects, err := r.s.Step(e)
		if err != nil {
			r.t.Fatal(err)
		}
		last = append(last[:0], effects...)
	}
	tools, err := ojson.Parse([]byte(`[{"type":"function","function":{"name":"bash","parameters":{"type":"object","properties":{"cmd":{"type":"string"}}}}}]`))
	if err != nil {
		r.t.Fatal(err)
	}
	step(&CallArrived{Request: &chat.Request{N: 1, Messages: msgs, Tools: tools.Elems(), ToolsRaw: tools.Raw()}})
	g, ok := last[0].(Generate)
	if !ok {
		r.t.Fatalf("%+v", last[0])
	}
	for _, one := range ids {
		step(EngineChunk{Call: id, IDs: []token.ID{one}, Logprobs: []float32{-0.1}})
	}
	step(EngineFinal{Call: id, Finish: "stop", Prompt: g.IDs})
	step(Persisted{r.s.appends})
	out, ok := last[0].(Reply)
	if !ok {
		r.t.Fatalf("%+v", last[0])
	}
	step(Delivered{Call: id})
	return out
}

func message(role chat.Role, text string) chat.Message {
	return chat.Message{Role: role, Content: chat.T(text), Raw: fmt.Appendf(nil, "%s %s", role, text)}
}

func result(id, text string) chat.Message {
	m := message(chat.Tool, text)
	m.CallID = id
	return m
}

// echo is the reply as a harness sends it back; change does what the harness does to it.
func echo(r Reply, change func(*chat.Message)) chat.Message {
	m := chat.Message{Role: chat.Assistant, Content: r.Reply.Content, Reasoning: r.Reply.Reasoning, Calls: append([]chat.Call{}, r.Reply.Calls...)}
	if change != nil {
		change(&m)
	}
	m.Raw = fmt.Appendf(nil, "%+v", m)
	return m
}

func TestOnTheBuiltInModelAToolLoopExtends(t *testing.T) {
	r := onBundle(t)
	msgs := []chat.Message{message(chat.System, "Be brief. <|im_end|> is text."), message(chat.User, "Which files are there?")}
	a := r.ask(msgs, chat.Reply{Reasoning: chat.T("I look first."), Calls: []chat.Call{
		{Name: "bash", Arguments: `{"cmd": "ls"}`}, {Name: "bash", Arguments: `{"cmd": "pwd"}`}}})
	if len(a.Reply.Calls) != 2 || a.Reply.Finish != chat.FinishToolCalls || a.Reply.Reasoning.S != "I look first." {
		t.Fatalf("%+v", a.Reply)
	}
	msgs = append(msgs, echo(a, nil), result(a.Reply.Calls[0].ID, "a.txt"), result(a.Reply.Calls[1].ID, "/app"))
	b := r.ask(msgs, chat.Reply{Content: chat.T("I read it."), Calls: []chat.Call{{Name: "bash", Arguments: `{"cmd": "cat a.txt"}`}}})
	if b.Continuity.Kind != trajectory.Extend {
		t.Errorf("%+v", b.Continuity)
	}
	msgs = append(msgs, echo(b, nil), result(b.Reply.Calls[0].ID, "hello <tool_call>"))
	c := r.ask(msgs, chat.Reply{Content: chat.T("It says hello.")})
	if c.Continuity.Kind != trajectory.Extend || c.Reply.Finish != chat.FinishStop {
		t.Errorf("%+v", c)
	}
	msgs = append(msgs, echo(c, nil), message(chat.User, "Thanks."))
	if d := r.ask(msgs, chat.Reply{Content: chat.T("Yes.")}); d.Continuity.Kind != trajectory.Extend {
		t.Errorf("%+v", d.Continuity)
	}
}

func TestOnTheBuiltInModelReserialisedArgumentsRealign(t *testing.T) {
	r := onBundle(t)
	msgs := []chat.Message{message(chat.User, "Which files are there?")}
	// What a policy samples need not be what a template would write: no space after the colon, and 1.0.
	ids, err := r.f.Speak(chat.Reply{Content: chat.T("I look."), Calls: []chat.Call{{Name: "bash", Arguments: `{"cmd":"ls","n":1.0}`}}})
	if err != nil {
		t.Fatal(err)
	}
	a := r.askIDs(msgs, ids)
	msgs = append(msgs, echo(a, func(m *chat.Message) {
		var v struct {
			Cmd string  `json:"cmd"`
			N   float64 `json:"n"`
		}
		if err := json.Unmarshal([]byte(m.Calls[0].Arguments), &v); err != nil {
			t.Fatal(err)
		}
		b, _ := json.Marshal(v)
		m.Calls[0].Arguments = strings.ReplaceAll(string(b), ":", ": ")
	}), result(a.Reply.Calls[0].ID, "a.txt"))
	b := r.ask(msgs, chat.Reply{Content: chat.T("There is a.txt.")})
	tree := r.s.Tree()
	if b.Continuity.Kind != trajectory.Realign || b.Continuity.Lost == 0 || b.Continuity.First <= tree.PromptLen(1) {
		t.Errorf("%+v", b.Continuity)
	}
	if e := tree.Turn(2).Echoes[0]; e.Verdict != trajectory.EchoEquivalent || e.Which[0] != trajectory.SameArguments {
		t.Errorf("%+v", e)
	}
}

func TestOnTheBuiltInModelDroppedReasoningSplits(t *testing.T) {
	r := onBundle(t)
	msgs := []chat.Message{message(chat.User, "Hello?")}
	a := r.ask(msgs, chat.Reply{Reasoning: chat.T("A greeting."), Content: chat.T("Hello.")})
	msgs = append(msgs, echo(a, func(m *chat.Message) { m.Reasoning = chat.Text{} }), message(chat.User, "More?"))
	b := r.ask(msgs, chat.Reply{Content: chat.T("No.")})
	if b.Continuity.Kind != trajectory.Split || b.Continuity.Reason != trajectory.ReasonTokenDrift {
		t.Errorf("%+v", b.Continuity)
	}
	if e := r.s.Tree().Turn(2).Echoes[0]; e.Turn != 1 || e.Verdict != trajectory.EchoEquivalent {
		t.Errorf("%+v", e)
	}
}

func TestLogProbabilitiesThatAreShiftedBetweenChunksNeverCountAsRight(t *testing.T) {
	for _, cuts := range [][][2]int{{{2, 1}, {1, 2}}, {{1, 2}, {2, 1}}, {{0, 1}, {3, 2}}, {{2, 0}, {1, 3}}, {{3, 0}}, {{1, 1}, {2, 2}}} {
		r := onBundle(t)
		ids, err := r.f.Speak(chat.Reply{Content: chat.T("yes")})
		if err != nil || len(ids) < 2 {
			t.Fatal(ids, err)
		}
		ids = append(ids[:1:1], ids[len(ids)-2:]...)
		id := r.s.Next()
		r.must(&CallArrived{Request: &chat.Request{N: 1, Messages: []chat.Message{message(chat.User, "a")}}})
		at, right := 0, true
		for _, c := range cuts {
			var col []float32
			for range c[1] {
				col = append(col, -1)
			}
			r.must(EngineChunk{Call: id, IDs: ids[at : at+c[0]], Logprobs: col, RawLogprobs: col})
			at, right = at+c[0], right && c[0] == c[1]
		}
		r.must(EngineFinal{Call: id, Finish: "stop"})
		turn := r.s.Tree().Turn(1)
		want := trajectory.LogprobCount
		switch {
		case right:
			want = trajectory.LogprobOK
		case len(cuts) == 1:
			want = trajectory.LogprobMissing
		}
		if got := turn.LogprobState(); got != want || trajectory.LogprobsOf(turn.RawLogprobs, len(turn.Completion)) != want {
			t.Errorf("%v: %s, want %s: %v", cuts, got, want, turn.Logprobs)
		}
	}
}

func TestWhereNoToolsAreDeclaredNothingIsACall(t *testing.T) {
	for _, tools := range []bool{true, false} {
		r := onBundle(t)
		ids, err := r.f.Speak(chat.Reply{Calls: []chat.Call{{Name: "bash", Arguments: `{"cmd": "ls"}`}}})
		if err != nil {
			t.Fatal(err)
		}
		e := &CallArrived{Request: &chat.Request{N: 1, Messages: []chat.Message{message(chat.User, "a")}}}
		if tools {
			v, err := ojson.Parse([]byte(`[{"type":"function","function":{"name":"bash"}}]`))
			if err != nil {
				t.Fatal(err)
			}
			e.Request.Tools, e.Request.ToolsRaw = v.Elems(), v.Raw()
		}
		id := r.s.Next()
		r.must(e)
		r.must(EngineChunk{Call: id, IDs: ids, Logprobs: make([]float32, len(ids))})
		r.must(EngineFinal{Call: id, Finish: "stop"})
		reply := r.s.Tree().Turn(1).Reply
		if called := len(reply.Calls) == 1 && reply.Calls[0].ID != ""; called != tools {
			t.Errorf("tools %v: %+v", tools, reply)
		}
		if !tools && !strings.Contains(reply.Content.S, "<tool_call>") {
			t.Errorf("what looks like a call is text: %+v", reply)
		}
	}
}

func TestWhatIsNoUnicodeIsTheSameLiveAndRestored(t *testing.T) {
	r := onBundle(t)
	id := r.s.Next()
	r.must(&CallArrived{Request: &chat.Request{N: 1, Messages: []chat.Message{message(chat.User, "a")}}, Session: "s\xff", Idempotency: "k\xfe"})
	ids, err := r.f.Speak(chat.Reply{Content: chat.T("yes")})
	if err != nil {
		t.Fatal(err)
	}
	r.must(EngineChunk{Call: id, IDs: ids, Logprobs: make([]float32, len(ids))})
	r.must(EngineFinal{Call: id, Finish: "stop"})
	if turn := r.s.Tree().Turn(1); turn.Session != "s\uFFFD" || turn.Idempotency != "k\uFFFD" {
		t.Errorf("%q %q", turn.Session, turn.Idempotency)
	}
}

func (r *real) must(e Event) {
	r.t.Helper()
	if _, err := r.s.Step(e); err != nil {
		r.t.Fatal(err)
	}
}

func TestACallOfAnAnswerThatNobodyGotHasNoID(t *testing.T) {
	v, err := ojson.Parse([]byte(`[{"type":"function","function":{"name":"bash"}}]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []Event{EngineFailed{Call: 1, Err: fault.New(fault.EngineCut, "scripted")}, ClientGone{Call: 1}, EngineFinal{Call: 1, Finish: "stop"}} {
		r := onBundle(t)
		ids, err := r.f.Speak(chat.Reply{Calls: []chat.Call{{Name: "bash", Arguments: `{}`}}})
		if err != nil {
			t.Fatal(err)
		}
		r.must(&CallArrived{Request: &chat.Request{N: 1, Messages: []chat.Message{message(chat.User, "a")}, Tools: v.Elems(), ToolsRaw: v.Raw()}})
		r.must(EngineChunk{Call: 1, IDs: ids, Logprobs: make([]float32, len(ids))})
		r.must(end)
		_, whole := end.(EngineFinal)
		calls := r.s.Tree().Turn(1).Reply.Calls
		if len(calls) != 1 || (calls[0].ID != "") != whole {
			t.Errorf("%T: %+v", end, calls)
		}
	}
}
