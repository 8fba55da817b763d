package host_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/dialect"
	"github.com/tito-rl/tito/internal/dialect/chatcompletions"
	"github.com/tito-rl/tito/internal/engine"
	playing "github.com/tito-rl/tito/internal/engine/rehearsal"
	"github.com/tito-rl/tito/internal/engine/vllm"
	"github.com/tito-rl/tito/internal/host"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/session"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/trajectory"
	"github.com/tito-rl/tito/internal/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// book is a tool loop of four turns, each with several ways to say it, and a conversation of one turn.
const book = `{
 "format": "tito-rehearsal/1",
 "scenes": [{
  "name": "loop", "match": ["count the files"],
  "steps": [
   {"when": {"turn": 0}, "replies": [
     {"reasoning": "Look first.", "content": "I look.", "calls": [{"name": "bash", "arguments": "{\"command\": \"ls\"}"}], "weight": 2},
     {"content": "I look.", "calls": [{"name": "bash", "arguments": "{\"command\": \"ls -a\"}"}]}]},
   {"when": {"turn": 1}, "replies": [
     {"calls": [{"name": "bash", "arguments": "{\"command\":\"ls | wc -l\"}"}, {"name": "bash", "arguments": "{\"command\": \"pwd\"}"}]},
     {"content": "Twice.", "calls": [{"name": "bash", "arguments": "{ \"command\": \"ls | wc -l\" }"}, {"name": "bash", "arguments": "{}"}]}]},
   {"when": {"turn": 2}, "replies": [{"content": "bad", "calls": [{"name": "bash", "arguments": "{\"command\": "}]}]},
   {"when": {"turn": 3}, "replies": [{"content": "There are 3 files."}, {"reasoning": "Done.", "content": "Three."}]}
  ]
 }],
 "default": [{"content": "hello there, how are you today?"}, {"content": "hello there, how is it going then?"}, {"content": "hi, what shall we do about it all?"}]
}`

func policyOf(t testing.TB, m *model.Model, book string) *rehearsal.Policy {
	t.Helper()
	b, err := rehearsal.ParseBook([]byte(book))
	if err != nil {
		t.Fatal(err)
	}
	f, err := playing.FormatOf(m.Tokenizer, m.Family)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rehearsal.Compile(b, f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rig is a host on loopback with a client of its own.
type rig struct {
	t       testing.TB
	c       host.Config
	dir     string
	faults  []rehearsal.Fault
	overNet bool                                // the engine is reached over HTTP
	wrap    func(engine.Engine) engine.Engine   // nil = as it is
	keep    func(store.Journals) store.Journals // nil = as it is

	host    *host.Host
	base    string
	client  *http.Client
	arrived chan struct{} // a call arrived at its session
	served  chan struct{} // a request was served, its handler is over
	calls   *counter
}

// counter counts what the engine is asked.
type counter struct {
	engine.Engine
	mu sync.Mutex
	n  int
}

func (c *counter) Generate(ctx context.Context, r engine.Request) (engine.Stream, error) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.Engine.Generate(ctx, r)
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

var begun = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// up starts a host with one trajectory's worth of defaults; set changes them.
func up(t testing.TB, set func(*rig)) *rig {
	t.Helper()
	m, err := model.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: t.TempDir(), arrived: make(chan struct{}, 100000), served: make(chan struct{}, 100000)}
	r.c = host.Config{Model: m, Dialects: []dialect.Dialect{chatcompletions.Dialect{}}, EnginePause: time.Microsecond, Writer: "test",
		Now: func() time.Time { return begun }, Durability: store.Process}
	if set != nil {
		set(r)
	}
	if r.c.Engine == nil {
		r.c.Engine = r.play()
	}
	if r.wrap != nil {
		r.c.Engine = r.wrap(r.c.Engine)
	}
	r.calls = &counter{Engine: r.c.Engine}
	r.c.Engine = r.calls
	if r.c.Info, err = r.calls.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.c.Journals = store.NewDir(r.dir, r.c.Durability)
	if r.keep != nil {
		r.c.Journals = r.keep(r.c.Journals)
	}
	r.host = host.New(r.c)
	l, err := host.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := r.host.Handler()
	s := host.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		defer func() { r.served <- struct{}{} }()
		h.ServeHTTP(w, q)
	}))
	r.base = host.URL(l)
	tr := &http.Transport{}
	r.client = &http.Client{Transport: tr}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = r.host.Close(context.Background(), "the test is over") // tests check the ends that matter to them
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// play makes the rehearsal engine, in process or behind HTTP.
func (r *rig) play() engine.Engine {
	r.t.Helper()
	p := policyOf(r.t, r.c.Model, book)
	e, err := playing.New(playing.Config{Policy: p, Params: p.Initial("v1"), Faults: r.faults, Seed: 3})
	if err != nil {
		r.t.Fatal(err)
	}
	if !r.overNet {
		return e
	}
	srv := httptest.NewServer(e.Handler())
	c, err := vllm.New(vllm.Config{URL: srv.URL, Processed: true})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.CloseIdle(); srv.Close() })
	return c
}

// open begins a trajectory; its token is "key-" and its id.
func (r *rig) open(id string) host.Endpoint {
	r.t.Helper()
	e, err := r.host.Open(r.t.Context(), host.Open{Identities: trajectory.Identities{Trajectory: id, Affinity: "a"}, Token: "key-" + id,
		Classify: func(*session.CallArrived) (trajectory.Class, string) {
			r.arrived <- struct{}{}
			return trajectory.ClassPolicy, ""
		}})
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

func (r *rig) seal(id string) host.Sealed {
	r.t.Helper()
	s, err := r.host.Seal(context.Background(), id, "done")
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) journal(id string) []byte {
	r.t.Helper()
	b, err := r.c.Journals.Read(id + "/" + store.JournalName)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// proved is the tree of a finished trajectory, whose every claim holds and whose ledger balances.
func (r *rig) proved(id string) *trajectory.Tree {
	r.t.Helper()
	return proved(r.t, r.journal(id))
}

func proved(t testing.TB, b []byte) *trajectory.Tree {
	t.Helper()
	if _, err := verify.Verify(b, verify.Options{}); err != nil {
		t.Fatal(err)
	}
	f, err := artifact.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := artifact.ToTree(f)
	if err != nil {
		t.Fatal(err)
	}
	run, err := materialize.Run(tree, materialize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Ledger.Balance(); err != nil {
		t.Fatal(err)
	}
	return tree
}

// fact is what a turn recorded, as far as tests compare it.
type fact struct {
	Finish   trajectory.Finish
	Error    string
	State    trajectory.LogprobState
	Delivery trajectory.Delivery
}

func facts(t *trajectory.Tree) []fact {
	out := []fact{}
	for _, n := range t.Turns() {
		out = append(out, fact{n.Finish, n.Error, n.LogprobState(), t.Delivery(n.Seq).State})
	}
	return out
}

func (r *rig) recorded(id string, want ...fact) {
	r.t.Helper()
	if d := cmp.Diff(append([]fact{}, want...), facts(r.proved(id))); d != "" {
		r.t.Errorf("recorded (-want +got):\n%s", d)
	}
}

// heard is an answer as a client understands it.
type heard struct {
	Status    int
	Code      string // of an error
	Message   string
	RetryIn   string
	Content   string
	Reasoning string
	Calls     []called
	Finish    string
	Prompt    int // usage
	Tokens    int
	Logprobs  int
	Comments  int  // on a stream
	Cut       bool // the connection broke before the answer was whole
}

type called struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// request is what a client sends.
type request struct {
	path, token string
	header      map[string]string
	body        map[string]any
	raw         []byte // instead of body
}

func ask(e host.Endpoint, messages []any, stream bool) request {
	b := map[string]any{"model": "policy", "messages": messages, "stream": stream, "tools": tools}
	if stream {
		b["stream_options"] = map[string]any{"include_usage": true}
	}
	return request{path: e.Path + "/chat/completions", token: e.Token, body: b}
}

var tools = []any{map[string]any{"type": "function", "function": map[string]any{"name": "bash", "parameters": map[string]any{
	"type": "object", "properties": map[string]any{"command": map[string]any{"type": "string"}}}}}}

func user(text string) []any { return []any{map[string]any{"role": "user", "content": text}} }

func (r *rig) post(ctx context.Context, q request) (*http.Response, error) {
	r.t.Helper()
	body := q.raw
	if body == nil {
		var err error
		if body, err = json.Marshal(q.body); err != nil {
			r.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+q.path, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+q.token)
	for k, v := range q.header {
		req.Header.Set(k, v)
	}
	return r.client.Do(req)
}

// say sends a request, hears the answer, and waits until the host is done with it.
func (r *rig) say(q request) heard {
	r.t.Helper()
	h := r.hear(r.post(r.t.Context(), q))
	<-r.served
	return h
}

func (r *rig) hear(res *http.Response, err error) heard {
	r.t.Helper()
	if err != nil {
		return heard{Cut: true}
	}
	defer res.Body.Close()
	h := heard{Status: res.StatusCode, RetryIn: res.Header.Get("Retry-After")}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		h.Cut = !h.stream(r.t, res.Body)
		return h
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		h.Cut = true
		return h
	}
	h.json(r.t, b)
	return h
}

// message is one JSON document or chunk of an answer.
type message struct {
	Choices []struct {
		Message, Delta struct {
			Content   string   `json:"content"`
			Reasoning string   `json:"reasoning_content"`
			Calls     []called `json:"tool_calls"`
		}
		Finish   string `json:"finish_reason"`
		Logprobs *struct {
			Content []any `json:"content"`
		} `json:"logprobs"`
	}
	Usage *struct {
		Prompt int `json:"prompt_tokens"`
		Tokens int `json:"completion_tokens"`
	}
	Error *struct{ Message, Code string }
}

func (h *heard) json(t testing.TB, b []byte) {
	t.Helper()
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	if m.Error != nil {
		h.Code, h.Message = m.Error.Code, m.Error.Message
		return
	}
	if m.Usage != nil {
		h.Prompt, h.Tokens = m.Usage.Prompt, m.Usage.Tokens
	}
	for _, c := range m.Choices {
		for _, p := range []struct {
			content, reasoning string
			calls              []called
		}{{c.Message.Content, c.Message.Reasoning, c.Message.Calls}, {c.Delta.Content, c.Delta.Reasoning, c.Delta.Calls}} {
			h.Content += p.content
			h.Reasoning += p.reasoning
			h.Calls = append(h.Calls, p.calls...)
		}
		if c.Finish != "" {
			h.Finish = c.Finish
		}
		if c.Logprobs != nil {
			h.Logprobs += len(c.Logprobs.Content)
		}
	}
}

// stream reads events; it is false where the stream breaks off.
func (h *heard) stream(t testing.TB, body io.Reader) bool {
	t.Helper()
	for in := bufio.NewReader(body); ; {
		line, err := in.ReadString('\n')
		switch {
		case err != nil:
			return false
		case strings.HasPrefix(line, ":"):
			h.Comments++
		case line == "data: [DONE]\n":
			_, err := io.ReadAll(in)
			return err == nil
		case strings.HasPrefix(line, "data: "):
			h.json(t, []byte(line[len("data: "):]))
		}
	}
}

// echo is the answer as an agent sends it back, with a result for each of its calls.
func (h *heard) echo() []any {
	m := map[string]any{"role": "assistant", "content": h.Content}
	if h.Reasoning != "" {
		m["reasoning_content"] = h.Reasoning
	}
	out := []any{m}
	if len(h.Calls) > 0 {
		m["tool_calls"] = h.Calls
	}
	for _, c := range h.Calls {
		out = append(out, map[string]any{"role": "tool", "tool_call_id": c.ID, "content": "ran " + c.Function.Arguments})
	}
	return out
}

// loop plays the tool loop from the conversation so far to its end, and returns what was heard.
func (r *rig) loop(e host.Endpoint, stream bool) []heard {
	r.t.Helper()
	talk := user("please count the files")
	var out []heard
	for {
		h := r.say(ask(e, talk, stream))
		if h.Status != http.StatusOK || h.Cut || len(out) > 10 {
			r.t.Fatalf("turn %d: %+v", len(out)+1, h)
		}
		out = append(out, h)
		if len(h.Calls) == 0 {
			return out
		}
		talk = append(talk, h.echo()...)
	}
}

func listenAt(t testing.TB, addr string) net.Listener {
	t.Helper()
	l, err := host.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// wordy is a dialect whose answers are long.
type wordy struct {
	dialect.Dialect
	text string
}

func (d wordy) Reply(dialect.Meta, chat.Request, chat.Reply) []byte { return []byte(d.text) }
