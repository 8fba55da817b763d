package rehearsal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tito-rl/tito/internal/engine/enginetest"
	"github.com/tito-rl/tito/internal/fault"
	policy "github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/token"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func setup(t testing.TB, faults ...policy.Fault) enginetest.Setup {
	p := enginetest.Book(t)
	return enginetest.Setup{Policy: p, Params: p.Initial("v1"), MaxContext: 400, Faults: faults}
}

// post sends one completions request straight to the handler.
func post(e *Engine, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/v1/completions", strings.NewReader(body)))
	return w
}

func body(prompt []token.ID, more string) string {
	b, _ := json.Marshal(prompt)
	return `{"model":"rehearsal","prompt":` + string(b) + `,"max_tokens":300` + more + `}`
}

type wireChoice struct {
	Text     string `json:"text"`
	Logprobs *struct {
		TokenLogprobs []*float32           `json:"token_logprobs"`
		Tokens        []string             `json:"tokens"`
		TextOffset    []int                `json:"text_offset"`
		Top           []map[string]float64 `json:"top_logprobs"`
	} `json:"logprobs"`
	Finish   *string     `json:"finish_reason"`
	Stop     *int        `json:"stop_reason"`
	Prompt   []token.ID  `json:"prompt_token_ids"`
	IDs      *[]token.ID `json:"token_ids"`
	Versions []struct {
		Version    string
		Start, End int
	} `json:"weight_versions"`
}

type wireAnswer struct {
	ID, Object, Model string
	Choices           []wireChoice
	Usage             *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
}

func parse(t *testing.T, s string) wireAnswer {
	t.Helper()
	var a wireAnswer
	if err := json.Unmarshal([]byte(s), &a); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	return a
}

func TestAWholeAnswerAndAStreamSayTheSame(t *testing.T) {
	for key := range 20 {
		s := setup(t)
		s.Chunk = 3
		e := build(t, s)
		prompt := enginetest.Prompt("say hello")
		more := fmt.Sprintf(`,"request_id":"k%d","return_token_ids":true,"logprobs":0,"skip_special_tokens":false`, key)
		whole := parse(t, post(e, body(prompt, more)).Body.String())
		c := whole.Choices[0]
		if c.Text != e.c.Policy.Decode(*c.IDs) || !cmp.Equal(c.Prompt, prompt) || whole.Usage.Completion != len(*c.IDs) ||
			whole.Usage.Total != len(prompt)+len(*c.IDs) || c.Finish == nil || len(c.Logprobs.Tokens) != len(*c.IDs) {
			t.Fatalf("%+v", whole)
		}
		var joined wireChoice
		lines := strings.Split(post(e, body(prompt, more+`,"stream":true,"stream_options":{"include_usage":true}`)).Body.String(), "\n\n")
		if lines[len(lines)-2] != "data: [DONE]" || parse(t, strings.TrimPrefix(lines[len(lines)-3], "data: ")).Usage.Completion != len(*c.IDs) {
			t.Fatalf("the stream ends in %q", lines[len(lines)-3:])
		}
		joined.IDs = new([]token.ID)
		for i, l := range lines[:len(lines)-3] {
			ev := parse(t, strings.TrimPrefix(l, "data: ")).Choices[0]
			if (i == 0) != (ev.Prompt != nil) || len(*ev.IDs) > 3 {
				t.Fatalf("event %d: %s", i, l)
			}
			joined.Text += ev.Text
			*joined.IDs = append(*joined.IDs, *ev.IDs...)
			joined.Finish, joined.Stop = ev.Finish, ev.Stop
		}
		if joined.Text != c.Text || !cmp.Equal(*joined.IDs, *c.IDs) || *joined.Finish != *c.Finish || !cmp.Equal(joined.Stop, c.Stop) {
			t.Errorf("stream %+v, whole %+v", joined, c)
		}
		last := (*c.IDs)[len(*c.IDs)-1]
		if named := c.Stop != nil; named != (last == enginetest.ToyEnd) {
			t.Errorf("last id %d, stop reason %v", last, c.Stop)
		}
	}
}

func TestWhatIsNotAskedForIsNotSent(t *testing.T) {
	e := build(t, setup(t))
	a := parse(t, post(e, body(enginetest.Prompt("say hello", "x", "y"), "")).Body.String())
	c := a.Choices[0]
	if c.IDs != nil || c.Prompt != nil || c.Logprobs != nil || c.Text != "the one reply to this" {
		t.Errorf("%+v", c)
	}
}

func TestFieldsThatCannotBeHonouredAreNamed(t *testing.T) {
	e := build(t, setup(t))
	prompt := enginetest.Prompt("say hello")
	for _, c := range []struct{ more, name string }{
		{`,"n":2`, "n"}, {`,"echo":true`, "echo"}, {`,"stop":["x"]`, "stop"}, {`,"logit_bias":{"1":5}`, "logit_bias"},
		{`,"temperature":0`, "temperature"}, {`,"top_p":0.9`, "top_p"}, {`,"min_p":0.1`, "min_p"}, {`,"logprobs":5`, "logprobs"},
		{`,"min_tokens":9`, "min_tokens"}, {`,"structured_outputs":{"regex":"a"}`, "structured_outputs"}, {`,"max_tokens":"x"`, "max_tokens"},
	} {
		w := post(e, body(prompt, c.more))
		var got struct {
			Error struct{ Message, Type string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 400 || !strings.Contains(got.Error.Message, c.name) {
			t.Errorf("%s: status %d, %s", c.more, w.Code, w.Body)
		}
	}
	for _, ok := range []string{`,"n":1,"echo":false,"stop":[],"logit_bias":null,"best_of":1,"suffix":null`, `,"unknown":7`} {
		if w := post(e, body(prompt, ok)); w.Code != 200 {
			t.Errorf("%s: %s", ok, w.Body)
		}
	}
}

func TestABadPromptIsRefused(t *testing.T) {
	e := build(t, setup(t))
	for _, p := range []string{`"text"`, `[[1,2]]`, `[]`, `[1.5]`, `[-1]`, `[4294967296]`, `["1"]`, `null`, `[99999999999999999999]`} {
		if w := post(e, `{"prompt":`+p+`}`); w.Code != 400 {
			t.Errorf("prompt %s: status %d", p, w.Code)
		}
	}
	for _, b := range []string{``, `{`, `[]`, `{}`} {
		if w := post(e, b); w.Code != 400 {
			t.Errorf("body %q: status %d", b, w.Code)
		}
	}
	if w := post(e, body(make([]token.ID, 200), "")); w.Code != 400 || !strings.Contains(w.Body.String(), "maximum context length is 400 tokens") {
		t.Errorf("overflow: %d %s", w.Code, w.Body)
	}
	if w := post(e, `{"model":"other","prompt":[1]}`); w.Code != 404 {
		t.Errorf("another model: %d", w.Code)
	}
}

func TestTheServerDescribesItself(t *testing.T) {
	s := setup(t)
	e, err := New(Config{Policy: s.Policy, Params: s.Params, MaxContext: 400, APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path, auth string) (int, string) {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
		r.Header.Set("Authorization", auth)
		e.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		path, auth string
		code       int
		holds      string
	}{
		{"/health", "", 200, ""}, {"/v1/models", "Bearer k", 200, `"max_model_len":400`}, {"/version", "Bearer k", 200, "version"},
		{"/weight_info", "Bearer k", 200, `"v1"`}, {"/v1/models", "Bearer x", 401, "Unauthorized"}, {"/v1/models", "", 401, ""},
		{"/nothing", "Bearer k", 404, ""}, {"/v1/completions", "Bearer k", 405, ""},
	} {
		if code, got := get(c.path, c.auth); code != c.code || !strings.Contains(got, c.holds) {
			t.Errorf("%s with %q: %d %s", c.path, c.auth, code, got)
		}
	}
}

func TestADropReallyCutsTheConnection(t *testing.T) {
	for _, stream := range []string{"", `,"stream":true`} {
		srv := httptest.NewServer(build(t, setup(t, policy.Fault{Kind: policy.FaultDrop, Turn: -1, After: 4})).Handler())
		client := &http.Client{Transport: &http.Transport{}}
		res, err := client.Post(srv.URL+"/v1/completions", "application/json", strings.NewReader(body(enginetest.Prompt("say hello"), stream)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) == 0 || strings.Contains(string(got), "[DONE]") {
			t.Errorf("read %d bytes, then %v", len(got), err)
		}
		res.Body.Close()
		client.CloseIdleConnections()
		srv.Close()
	}
}

func TestANaNIsNullOnTheWire(t *testing.T) {
	e := build(t, setup(t, policy.Fault{Kind: policy.FaultNaN, Turn: -1, After: 1}))
	a := parse(t, post(e, body(enginetest.Prompt("say hello"), `,"logprobs":1`)).Body.String())
	if lps := a.Choices[0].Logprobs.TokenLogprobs; lps[0] == nil || lps[1] != nil {
		t.Errorf("%v", lps)
	}
	for f, want := range map[float32]string{float32(math.Inf(-1)): "-9999.0", -0.1: "-0.10000000149011612", 0: "0"} {
		if got := string(appendFloat(nil, f)); got != want {
			t.Errorf("%v is written %s, want %s", f, got, want)
		}
	}
}

func TestPublishingIsAtomicUnderLoad(t *testing.T) {
	s := setup(t)
	s.Chunk = 1
	e := build(t, s)
	params := map[string]*policy.Weights{"v1": e.Weights()}
	for i := 2; i < 40; i++ {
		p, err := s.Params.With(fmt.Sprint("v", i), map[string]float64{"greet/0/0": float64(i), "greet/0/4": float64(-i)})
		if err != nil {
			t.Fatal(err)
		}
		if params[p.Version], err = s.Policy.At(p); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 2; i < 40; i++ {
			if err := e.Publish(params[fmt.Sprint("v", i)].Params()); err != nil {
				t.Error(err)
			}
		}
	})
	prompt := enginetest.Prompt("say hello")
	for i := range 100 {
		wg.Go(func() {
			r := enginetest.Collect(context.Background(), e, enginetest.Request(prompt, fmt.Sprint(i)))
			for _, v := range r.Versions {
				want, err := params[v.Version].Logprobs(prompt, r.IDs)
				if err != nil {
					t.Error(err)
					return
				}
				for j := v.Start; j < v.End; j++ {
					if r.Logprobs[j] != float32(want[j]) {
						t.Errorf("id %d under %s: %v, want %v", j, v.Version, r.Logprobs[j], want[j])
					}
				}
			}
		})
	}
	wg.Wait()
	if e.Weights().Version() != "v39" {
		t.Errorf("in force: %s", e.Weights().Version())
	}
}

func TestFaultsFitByCallAndScene(t *testing.T) {
	prompt, other := enginetest.Prompt("say hello"), enginetest.Prompt("who?")
	ask := func(e *Engine, p []token.ID) fault.Code {
		return enginetest.Collect(t.Context(), e, enginetest.Request(p, "k")).Code
	}
	e := build(t, setup(t, policy.Fault{Kind: policy.FaultStatus, Status: 500, Call: 2, Turn: -1}))
	if a, b, c := ask(e, prompt), ask(e, prompt), ask(e, prompt); a != "" || b != fault.EngineStatus || c != "" {
		t.Errorf("second call: %q %q %q", a, b, c)
	}
	e = build(t, setup(t, policy.Fault{Kind: policy.FaultStatus, Status: 500, Scene: "greet", Turn: 0, Times: 2}))
	if a, b, c, d := ask(e, other), ask(e, prompt), ask(e, prompt), ask(e, prompt); a != "" || b != fault.EngineStatus || c != b || d != "" {
		t.Errorf("by scene, twice: %q %q %q %q", a, b, c, d)
	}
}

func TestAFaultThatNamesNoParameterIsRefused(t *testing.T) {
	s := setup(t)
	_, err := New(Config{Policy: s.Policy, Params: s.Params, Faults: []policy.Fault{{Kind: policy.FaultSwap, Version: "x", Set: map[string]float64{"nobody": 1}}}})
	if fault.CodeOf(err) != fault.BadConfig {
		t.Error(err)
	}
	s.Params.Names = nil
	if _, err := New(Config{Policy: s.Policy, Params: s.Params}); fault.CodeOf(err) != fault.CheckpointBad {
		t.Error(err)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add(body(enginetest.Prompt("say hello"), `,"stream":true,"logprobs":0,"return_token_ids":true`))
	f.Add(`{"prompt":[1,2,3],"stop_token_ids":[4],"seed":-1}`)
	e := build(f, setup(f))
	f.Fuzz(func(t *testing.T, b string) {
		if w := post(e, b); w.Code != 200 && w.Code != 400 && w.Code != 404 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	})
}
