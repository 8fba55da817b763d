package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint answers each request with the next of its answers and keeps the bodies.
type endpoint struct {
	t       *testing.T
	answers []func(w http.ResponseWriter)
	bodies  []string
	keys    []string
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		e.t.Error(err)
	}
	e.bodies = append(e.bodies, string(b))
	e.keys = append(e.keys, r.Header.Get("Idempotency-Key"))
	if len(e.answers) == 0 {
		e.t.Error("one request too many")
		return
	}
	next := e.answers[0]
	e.answers = e.answers[1:]
	next(w)
}

func events(lines ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for _, l := range lines {
			fmt.Fprintf(w, ": keep-alive\n\ndata: %s\n\n", l)
		}
	}
}

func refuse(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(status); fmt.Fprint(w, body) }
}

func callEvents(args string) func(http.ResponseWriter) {
	half := len(args) / 2
	q := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	return events(
		`{"choices":[{"delta":{"role":"assistant","reasoning_content":"hm"}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"bash","arguments":`+q(args[:half])+`}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":`+q(args[half:])+`}}]}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, `[DONE]`)
}

var done = events(`{"choices":[{"delta":{"content":"All "}}]}`, `{"choices":[{"delta":{"content":"done."},"finish_reason":"stop"}]}`, `[DONE]`)

func act1(t *testing.T, answers ...func(http.ResponseWriter)) (*endpoint, int, string) {
	t.Helper()
	e := &endpoint{t: t, answers: answers}
	srv := httptest.NewServer(e)
	defer srv.Close()
	dir := t.TempDir()
	spec, _ := json.Marshal(Spec{BaseURL: srv.URL + "/v1", APIKey: "k", Model: "m", Session: "s", Instruction: "Do it.", Workdir: dir,
		Transcript: filepath.Join(dir, "transcript.jsonl"), MaxTurns: 3})
	var errs bytes.Buffer
	code := Main(context.Background(), bytes.NewReader(spec), &errs)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	log, err := os.ReadFile(filepath.Join(dir, "transcript.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return e, code, string(log) + errs.String()
}

func TestTheAgentRunsToolsUntilThePolicyIsDone(t *testing.T) {
	e, code, log := act1(t, callEvents(`{ "command": "echo caf\u00e9; exit 3" }`), done)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	if len(e.bodies) != 2 || !strings.Contains(e.bodies[1], `{ \"command\": \"echo caf\\u00e9; exit 3\" }`) {
		t.Errorf("the arguments were not sent back as they came: %v", e.bodies)
	}
	if !strings.Contains(e.bodies[1], `café\n\n[exit code 3]`) || !strings.Contains(e.bodies[1], `"tool_call_id":"call_1"`) {
		t.Errorf("the tool's result is missing: %s", e.bodies[1])
	}
	if !strings.Contains(log, "All done.") {
		t.Errorf("transcript: %s", log)
	}
}

func TestADroppedAnswerIsAskedForAgainUnderTheSameKey(t *testing.T) {
	e, code, log := act1(t, events(`{"choices":[{"delta":{"content":"All"}}]}`), refuse(503, `{"error":{"message":"later"}}`), done)
	if code != 0 || len(e.keys) != 3 || e.keys[0] != e.keys[1] || e.keys[1] != e.keys[2] {
		t.Errorf("code %d, keys %v, %s", code, e.keys, log)
	}
}

func TestAnOverflowEndsWithItsOwnCode(t *testing.T) {
	_, code, log := act1(t, refuse(400, `{"error":{"message":"too long","code":"context_length_exceeded"}}`))
	if code != exitContext {
		t.Errorf("code %d, %s", code, log)
	}
}

func TestTheAgentStopsAfterItsTurns(t *testing.T) {
	again := callEvents(`{"command": "true"}`)
	_, code, log := act1(t, again, again, again)
	if code != exitTurns {
		t.Errorf("code %d, %s", code, log)
	}
}

func TestToolsAnswerWhateverIsAsked(t *testing.T) {
	dir := t.TempDir()
	spec := Spec{Workdir: dir}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("one two one"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, args, want string }{
		{"bash", `{"command": "true"}`, "[no output]"},
		{"bash", `{"command": "sleep 9", "timeout": 0.05}`, "stopped after"},
		{"bash", `{"command": `, "The arguments are not"},
		{"browse", `{}`, "no tool"},
		{"edit", `{"path": "f", "old": "two", "new": "2"}`, "Replaced."},
		{"edit", `{"path": "f", "old": "one", "new": "1"}`, "2 times"},
		{"edit", `{"path": "f", "old": "three", "new": "3"}`, "does not contain"},
		{"edit", `{"path": "g", "old": "a", "new": "b"}`, "no such file"},
	} {
		if got := run(context.Background(), spec, function{c.name, c.args}); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %q, want %q", c.name, c.args, got, c.want)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "f")); string(b) != "one 2 one" {
		t.Errorf("the file is %q", b)
	}
}
