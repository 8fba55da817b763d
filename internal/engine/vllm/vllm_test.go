package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/engine/enginetest"
	"github.com/tito-rl/tito/internal/engine/rehearsal"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestInProcessAndOverHTTPAreTheSame(t *testing.T) {
	prompts := [][]token.ID{enginetest.Prompt("say hello"), enginetest.Prompt("say hello", "a", "again"), enginetest.Prompt("who?")}
	run := func(f enginetest.Factory) (out []enginetest.Result) {
		p := enginetest.Book(t)
		e, stop := f(t, enginetest.Setup{Policy: p, Params: p.Initial("v1"), Seed: 11})
		defer stop()
		for i := range 60 {
			r := enginetest.Request(prompts[i%3], fmt.Sprint("call-", i))
			r.Affinity = fmt.Sprint("trajectory-", i%4)
			if i%5 == 0 {
				seed := int64(i) - 30
				r.Sampling.Seed = &seed
			}
			out = append(out, enginetest.Collect(t.Context(), e, r))
		}
		return out
	}
	local := run(func(t testing.TB, s enginetest.Setup) (engine.Engine, func()) {
		e, err := rehearsal.New(rehearsal.Config{Policy: s.Policy, Params: s.Params, Seed: s.Seed})
		if err != nil {
			t.Fatal(err)
		}
		return e, func() {}
	})
	if diff := cmp.Diff(local, run(serve)); diff != "" {
		t.Error(diff)
	}
}

// play serves one canned body as a completions stream.
func play(t *testing.T, status int, h http.Header, body string) *Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for k, v := range h {
			w.Header()[k] = v
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	c, err := New(Config{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.CloseIdle(); srv.Close() })
	return c
}

func events(objects ...string) string {
	var b strings.Builder
	for _, o := range objects {
		b.WriteString("data: " + o + "\n\n")
	}
	return b.String()
}

func ask(c *Client) (enginetest.Result, error) {
	ctx := context.Background()
	r := engine.Request{IDs: []token.ID{5, 6, 7}, MaxTokens: 9, Sampling: chat.Neutral(), Stops: []token.ID{2}}
	st, err := c.Generate(ctx, r)
	if err != nil {
		return enginetest.Result{Code: fault.CodeOf(err)}, err
	}
	defer func() { _ = st.Close() }()
	var out enginetest.Result
	for {
		k, err := st.Next()
		if errors.Is(err, io.EOF) {
			out.Final = st.Final()
			return out, nil
		}
		if err != nil {
			out.Code = fault.CodeOf(err)
			return out, err
		}
		out.IDs = append(out.IDs, k.IDs...)
		out.Logprobs = append(out.Logprobs, k.Logprobs...)
		out.Versions = append(out.Versions, token.VersionSpan{Span: token.Span{Start: len(out.IDs) - len(k.IDs), End: len(out.IDs)}, Version: k.Version})
	}
}

// The events of a vLLM server as its own serving code writes them: the first chunk carries the prompt's ids, null fields
// are there or not, the usage comes in a chunk without choices.
const (
	evFirst = `{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" a","logprobs":{"text_offset":[0],"token_logprobs":[-0.4054651],"tokens":["token_id:11"],"top_logprobs":[{"token_id:11":-0.4054651}]},"finish_reason":null,"stop_reason":null,"prompt_token_ids":[5,6,7],"token_ids":[11]}]}`
	evNext  = `{"id":"cmpl-1","choices":[{"index":0,"text":"","logprobs":{"text_offset":[2,2],"token_logprobs":[-1e-05,-2.5],"tokens":["token_id:12","token_id:13"],"top_logprobs":[null,{"x":-1}]},"finish_reason":null,"stop_reason":null,"token_ids":[12,13]}],"usage":null}`
	evStop  = `{"id":"cmpl-1","choices":[{"index":0,"text":"","logprobs":{"text_offset":[2],"token_logprobs":[0.0],"tokens":["token_id:2"],"top_logprobs":[{}]},"finish_reason":"stop","stop_reason":null,"token_ids":[2]}]}`
	evUsage = `{"id":"cmpl-1","choices":[],"usage":{"prompt_tokens":3,"total_tokens":7,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2}}}`
	evDone  = `[DONE]`
)

func TestVLLMsStreamIsRead(t *testing.T) {
	got, err := ask(play(t, 200, nil, ": comment\r\n\r\nevent: x\r\n"+strings.ReplaceAll(events(evFirst, evNext, evStop, evUsage, evDone), "\n", "\r\n")))
	want := enginetest.Result{
		IDs: []token.ID{11, 12, 13, 2}, Logprobs: []float32{-0.4054651, -1e-05, -2.5, 0},
		Versions: []token.VersionSpan{{Span: token.Span{Start: 0, End: 1}}, {Span: token.Span{Start: 1, End: 3}}, {Span: token.Span{Start: 3, End: 4}}},
		Final:    engine.Final{Finish: "stop", Prompt: []token.ID{5, 6, 7}, Cached: 2, StopToken: 2},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestWhatIsWrongInAStreamHasItsCode(t *testing.T) {
	edit := func(ev, old, new string) string {
		if !strings.Contains(ev, old) {
			t.Fatalf("no %q in %s", old, ev)
		}
		return strings.Replace(ev, old, new, 1)
	}
	for name, c := range map[string]struct {
		body string
		code fault.Code
		ids  int
	}{
		"Cut":               {events(evFirst, evNext), fault.EngineCut, 3},
		"CutInALine":        {events(evFirst) + "data: {\"cho", fault.EngineCut, 1},
		"NoDone":            {events(evFirst, evNext, evStop, evUsage), fault.EngineCut, 4},
		"Empty":             {"", fault.EngineCut, 0},
		"OtherPrompt":       {events(edit(evFirst, "[5,6,7]", "[5,6,8]"), evStop, evDone), fault.EnginePrompt, 0},
		"ShortPrompt":       {events(edit(evFirst, "[5,6,7]", "[5,6]"), evStop, evDone), fault.EnginePrompt, 0},
		"LongPrompt":        {events(edit(evFirst, "[5,6,7]", "[5,6,7,8]"), evStop, evDone), fault.EnginePrompt, 0},
		"NoPrompt":          {events(edit(evFirst, `"prompt_token_ids":[5,6,7],`, ""), evStop, evDone), fault.EnginePrompt, 0},
		"NullPrompt":        {events(edit(evFirst, `[5,6,7]`, "null"), evStop, evDone), fault.EnginePrompt, 0},
		"NoIDs":             {events(evFirst, edit(evNext, `,"token_ids":[12,13]`, ""), evDone), fault.EngineIDs, 1},
		"NullIDs":           {events(evFirst, edit(evNext, `[12,13]`, "null"), evDone), fault.EngineIDs, 1},
		"LostIDs":           {events(evFirst, evStop, evUsage, evDone), fault.EngineIDs, 2},
		"Nothing":           {events(evUsage, evDone), fault.EngineIDs, 0},
		"NoFinish":          {events(evFirst, evNext, edit(evStop, `"finish_reason":"stop"`, `"finish_reason":null`), evUsage, evDone), fault.EngineFinish, 4},
		"Abort":             {events(evFirst, edit(evStop, `"finish_reason":"stop"`, `"finish_reason":"abort"`), evDone), fault.EngineCut, 2},
		"StrangeFinish":     {events(evFirst, edit(evStop, `"finish_reason":"stop"`, `"finish_reason":"repetition"`), evDone), fault.EngineProtocol, 2},
		"NotJSON":           {events(evFirst, "{nonsense}", evDone), fault.EngineProtocol, 1},
		"HugeID":            {events(evFirst, edit(evNext, "[12,", "[4294967296,"), evDone), fault.EngineProtocol, 1},
		"NegativeID":        {events(evFirst, edit(evNext, "[12,", "[-1,"), evDone), fault.EngineProtocol, 1},
		"TwoChoices":        {events(edit(evFirst, `"choices":[`, `"choices":[{},`), evDone), fault.EngineProtocol, 0},
		"ErrorInTheStream":  {events(evFirst, `{"error":{"message":"out of memory","type":"InternalServerError","param":null,"code":500}}`, evDone), fault.EngineStatus, 1},
		"OverloadInStream":  {events(`{"error":{"message":"busy","code":503}}`, evDone), fault.EngineBusy, 0},
		"OverflowInStream":  {events(`{"error":{"message":"This model's maximum context length is 3 tokens","code":400}}`, evDone), fault.ContextLength, 0},
		"ErrorWithoutACode": {events(`{"error":"dead"}`, evDone), fault.EngineStatus, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(play(t, 200, nil, c.body))
			if got.Code != c.code || len(got.IDs) != c.ids {
				t.Errorf("code %q after %d ids, want %q after %d: %v", got.Code, len(got.IDs), c.code, c.ids, err)
			}
		})
	}
}

func TestAWrongLogprobIsNeverTakenForARightOne(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		want     trajectory.LogprobState
	}{
		"Null":        {"[-1e-05,-2.5]", "[null,-2.5]", trajectory.LogprobInvalid},
		"NaN":         {"[-1e-05,-2.5]", "[-1e-05,NaN]", trajectory.LogprobInvalid},
		"Infinity":    {"[-1e-05,-2.5]", "[-Infinity,-2.5]", trajectory.LogprobInvalid},
		"MinusNines":  {"[-1e-05,-2.5]", "[-9999.0,-2.5]", trajectory.LogprobInvalid},
		"Positive":    {"[-1e-05,-2.5]", "[0.5,-2.5]", trajectory.LogprobInvalid},
		"OtherLabel":  {`"token_id:12","token_id:13"`, `"token_id:13","token_id:12"`, trajectory.LogprobInvalid},
		"TextLabels":  {`"token_id:12","token_id:13"`, `" the","\""`, trajectory.LogprobOK},
		"TooFew":      {"[-1e-05,-2.5]", "[-1e-05]", trajectory.LogprobCount},
		"TooMany":     {"[-1e-05,-2.5]", "[-1e-05,-2.5,-1]", trajectory.LogprobCount},
		"EmptyList":   {"[-1e-05,-2.5]", "[]", trajectory.LogprobCount},
		"NoList":      {`"token_logprobs":[-1e-05,-2.5],`, "", trajectory.LogprobCount},
		"OnlySpacing": {"[-1e-05,-2.5]", "[ -1e-05 ,\t-2.5 ]", trajectory.LogprobOK},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(evNext, c.old) {
				t.Fatal("the edit finds nothing")
			}
			bad := strings.Replace(evNext, c.old, c.new, 1)
			got, err := ask(play(t, 200, nil, events(evFirst, bad, evStop, evUsage, evDone)))
			if err != nil || len(got.IDs) != 4 {
				t.Fatalf("%v, ids %v", err, got.IDs)
			}
			if state := trajectory.LogprobsOf(got.Logprobs, len(got.IDs)); state != c.want {
				t.Errorf("%v is %s, want %s", got.Logprobs, state, c.want)
			}
		})
	}
	// Counts that are wrong in opposite ways never add up to a right one.
	few, many := strings.Replace(evNext, "[-1e-05,-2.5]", "[-1e-05]", 1), strings.Replace(evNext, "[-1e-05,-2.5]", "[-1,-1,-1]", 1)
	for _, order := range [][]string{{few, many}, {many, few}} {
		got, err := ask(play(t, 200, nil, events(evFirst, order[0], order[1], evStop, evDone)))
		if err != nil || trajectory.LogprobsOf(got.Logprobs, len(got.IDs)) != trajectory.LogprobCount {
			t.Errorf("%v: %d log probabilities for %d ids", err, len(got.Logprobs), len(got.IDs))
		}
	}
}

func TestTheStopIsReportedAsTheServerSaysIt(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		want     int64
	}{
		"EndOfText":   {"", "", 2}, // no stop reason: the model's own end, the last id
		"StopToken":   {`"stop_reason":null`, `"stop_reason":2`, 2},
		"StopString":  {`"stop_reason":null`, `"stop_reason":"\nUser"`, 2},
		"UnknownStop": {`"token_ids":[2]`, `"token_ids":[3]`, -1},
		"Length":      {`"finish_reason":"stop"`, `"finish_reason":"length"`, -1},
	} {
		t.Run(name, func(t *testing.T) {
			last := strings.Replace(evStop, c.old, c.new, 1)
			got, err := ask(play(t, 200, nil, events(evFirst, last, evDone)))
			if err != nil || got.Final.StopToken != c.want {
				t.Errorf("%v: stop token %d, want %d", err, got.Final.StopToken, c.want)
			}
		})
	}
}

func TestVersionsCutChunks(t *testing.T) {
	first := strings.Replace(evFirst, `"index":0`, `"index":0,"weight_versions":[{"version":"a","start":0,"end":1}]`, 1)
	next := strings.Replace(evNext, `"index":0`, `"index":0,"weight_versions":[{"version":"a","start":0,"end":2},{"version":"b","start":2,"end":3}]`, 1)
	got, err := ask(play(t, 200, nil, events(first, next, evStop, evDone)))
	var names []string
	for _, v := range got.Versions {
		names = append(names, fmt.Sprintf("%d-%d %s", v.Start, v.End, v.Version))
	}
	if diff := cmp.Diff([]string{"0-1 a", "1-2 a", "2-3 b", "3-4 b"}, names); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestStatusesHaveTheirCodes(t *testing.T) {
	after := http.Header{"Retry-After": {"7"}}
	for _, c := range []struct {
		status int
		h      http.Header
		body   string
		code   fault.Code
		words  string
	}{
		{400, nil, `{"error":{"message":"This model's maximum context length is 2048 tokens. However","type":"BadRequestError","param":"input_tokens","code":400}}`, fault.ContextLength, "2048"},
		{400, nil, `{"object":"error","message":"old form","type":"BadRequestError","param":null,"code":400}`, fault.EngineStatus, "old form"},
		{401, nil, `{"error":"Unauthorized"}`, fault.EngineStatus, "key"},
		{404, nil, `{"error":{"message":"The model ` + "`x`" + ` does not exist."}}`, fault.EngineStatus, "does not exist"},
		{429, after, ``, fault.EngineBusy, "7s"},
		{500, nil, strings.Repeat("x", 5000), fault.EngineStatus, "xxx…"},
		{502, nil, `<html>bad gateway</html>`, fault.EngineUnreachable, "bad gateway"},
		{503, after, ``, fault.EngineBusy, "7s"},
	} {
		got, err := ask(play(t, c.status, c.h, c.body))
		if got.Code != c.code || !strings.Contains(fmt.Sprint(err), c.words) {
			t.Errorf("status %d: %s: %v", c.status, got.Code, err)
		}
	}
}

func TestTheRequestSaysEverything(t *testing.T) {
	c, err := New(Config{URL: "http://engine:8000/v1/", Model: "m", Priority: 3, Interval: 16})
	if err != nil || c.base != "http://engine:8000" {
		t.Fatalf("%v, base %s", err, c.base)
	}
	seed := int64(-4)
	r := engine.Request{IDs: []token.ID{0, 4294967295, 7}, MaxTokens: 12, Sampling: chat.Neutral(), Stops: []token.ID{2, 3}, Affinity: "t\"1", Salt: "v1"}
	r.Sampling.Seed, r.Sampling.Stop = &seed, []string{"</s>"}
	body, err := c.body(r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	if err := d.Decode(&got); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	n := func(s string) json.Number { return json.Number(s) }
	want := map[string]any{
		"model": "m", "prompt": []any{n("0"), n("4294967295"), n("7")}, "n": n("1"), "max_tokens": n("12"), "stream": true,
		"stream_options": map[string]any{"include_usage": true}, "logprobs": n("0"), "return_token_ids": true,
		"return_tokens_as_token_ids": true, "include_stop_str_in_output": true, "skip_special_tokens": false,
		"spaces_between_special_tokens": false, "add_special_tokens": false, "temperature": n("1"), "top_p": n("1"), "top_k": n("0"),
		"min_p": n("0"), "presence_penalty": n("0"), "frequency_penalty": n("0"), "repetition_penalty": n("1"), "seed": n("-4"),
		"stop": []any{"</s>"}, "stop_token_ids": []any{n("2"), n("3")}, "cache_salt": "v1", "session_id": "t\"1", "priority": n("3"),
		"stream_interval": n("16"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r.Sampling.TopP = math.NaN()
	if _, err := c.Generate(t.Context(), r); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("NaN: %v", err)
	}
}

func TestAnEngineThatIsNotThereIsUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	c, err := New(Config{URL: "http://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ask(c); got.Code != fault.EngineUnreachable || !fault.EngineUnreachable.Info().Retry {
		t.Errorf("%s: %v", got.Code, err)
	}
	if _, err := c.Info(t.Context()); fault.CodeOf(err) != fault.EngineUnreachable {
		t.Errorf("info: %v", err)
	}
	for _, u := range []string{"", "engine:8000", "ftp://x", "http://"} {
		if _, err := New(Config{URL: u}); fault.CodeOf(err) != fault.BadConfig {
			t.Errorf("URL %q: %v", u, err)
		}
	}
}

func TestTheServerIsAskedWhatItServes(t *testing.T) {
	models := `{"object":"list","data":[{"id":"base","max_model_len":100},{"id":"tuned","max_model_len":50}]}`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			_, _ = io.WriteString(w, models)
		case "/version":
			_, _ = io.WriteString(w, `{"version":"0.11.0"}`)
		default:
			http.NotFound(w, r) // /weight_info is served in development mode only
		}
	}))
	defer srv.Close()
	for model, want := range map[string]int{"": 100, "tuned": 50, "other": 0} {
		c, err := New(Config{URL: srv.URL, Model: model})
		if err != nil {
			t.Fatal(err)
		}
		info, err := c.Info(t.Context())
		if info.MaxContext != want || info.Version != "" || (want == 0) != (fault.CodeOf(err) == fault.EngineStatus) {
			t.Errorf("model %q: %+v, %v", model, info, err)
		}
		if v, err := c.Server(t.Context()); v != "0.11.0" {
			t.Errorf("version %q, %v", v, err)
		}
		c.CloseIdle()
	}
	c := play(t, 200, nil, `not JSON`)
	if _, err := c.Info(t.Context()); fault.CodeOf(err) != fault.EngineProtocol {
		t.Errorf("no JSON: %v", err)
	}
}

func TestASilentEngineIsGivenUp(t *testing.T) {
	for _, first := range []string{"", events(evFirst)} {
		release := make(chan struct{})
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, first)
			_ = http.NewResponseController(w).Flush()
			<-release
		}))
		c, err := New(Config{URL: srv.URL, Idle: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		want := fault.EngineUnreachable
		if first != "" {
			want = fault.EngineCut
		}
		if got, err := ask(c); got.Code != want {
			t.Errorf("%q: %s: %v", first, got.Code, err)
		}
		close(release)
		c.CloseIdle()
		srv.Close()
	}
}

func TestAConnectionIsUsedAgain(t *testing.T) {
	p := enginetest.Book(t)
	e, err := rehearsal.New(rehearsal.Config{Policy: p, Params: p.Initial("v1")})
	if err != nil {
		t.Fatal(err)
	}
	opened := 0
	srv := httptest.NewUnstartedServer(e.Handler())
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened++
		}
	}
	srv.Start()
	c, err := New(Config{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if r := enginetest.Collect(t.Context(), c, enginetest.Request(enginetest.Prompt("say hello"), "k")); r.Code != "" {
			t.Fatal(r.Code)
		}
	}
	c.CloseIdle()
	srv.Close()
	if opened != 1 {
		t.Errorf("%d connections for 20 calls, one after the other", opened)
	}
}

func TestLongLinesAreRead(t *testing.T) {
	ids := make([]token.ID, 100_000)
	for i := range ids {
		ids[i] = token.ID(i * 3)
	}
	p := enginetest.Book(t)
	e, stop := serve(t, enginetest.Setup{Policy: p, Params: p.Initial("v1"), MaxContext: 200_000})
	defer stop()
	r := enginetest.Collect(t.Context(), e, enginetest.Request(ids, "k"))
	if r.Code != "" || !slices.Equal(r.Final.Prompt, ids) {
		t.Errorf("%q: %d ids reported", r.Code, len(r.Final.Prompt))
	}
}

func FuzzEvent(f *testing.F) {
	for _, s := range []string{evFirst, evNext, evStop, evUsage, `{"error":{"code":503}}`, `{"choices":[{"token_ids":[1],"text":"\ud83d"}]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data string) {
		s := &stream{prompt: []token.ID{5, 6, 7}, stop: -1, usage: -1}
		if err := s.event(data); fault.CodeOf(err) == fault.InternalError {
			t.Fatal(err)
		}
		for _, c := range s.ready {
			if len(c.IDs) == 0 || len(c.Logprobs) > len(c.IDs) {
				t.Fatalf("chunk %+v", c)
			}
		}
	})
}

// FuzzScanner compares the scanner with encoding/json on what both call JSON.
func FuzzScanner(f *testing.F) {
	f.Add(`{"a":[1,-2.5e-3,null],"a\u00e9\n":{"b":"x\"y"}}`)
	f.Fuzz(func(t *testing.T, data string) {
		if !json.Valid([]byte(data)) {
			return
		}
		p := scanner{s: data}
		p.skip()
		if p.bad || p.peek() != 0 {
			t.Fatalf("%q is JSON", data)
		}
		var m map[string]json.RawMessage
		if json.Unmarshal([]byte(data), &m) != nil || m == nil {
			return
		}
		keys := map[string]bool{}
		p = scanner{s: data}
		p.object(func(k string) { keys[k] = true; p.skip() })
		if p.bad || len(keys) != len(m) {
			t.Fatalf("%q: keys %v", data, keys)
		}
		for k := range m {
			if !keys[k] && k == strings.ToValidUTF8(k, "") {
				t.Fatalf("%q: no key %q", data, k)
			}
		}
	})
}

func TestFloatsAreTheNearestFloat32(t *testing.T) {
	for _, f := range []float32{-0.1, -1e-45, -3.4028235e38, -0.30000001, 0, -16777217, -1.1754944e-38} {
		for _, s := range []string{fmt.Sprint(f), fmt.Sprint(float64(f)), fmt.Sprintf("%.17g", float64(f))} {
			p := scanner{s: s}
			if got := p.float(); p.bad || math.Float32bits(got) != math.Float32bits(f) {
				t.Errorf("%s reads as %v", s, got)
			}
		}
	}
}
