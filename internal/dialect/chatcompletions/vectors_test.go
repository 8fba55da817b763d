package chatcompletions

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/dialect"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write what the code gives into vectors/wire")

// vector is one file of vectors/wire: a request and how it reads, or a reply and how it is written, or an error.
type vector struct {
	About   string          `json:"about"`
	Request json.RawMessage `json:"request,omitempty"`
	Text    string          `json:"request_text,omitempty"` // where the request is no JSON, or its spelling matters
	Reads   *reads          `json:"reads,omitempty"`
	Refused *refusal        `json:"refused,omitempty"`
	Reply   *reply          `json:"reply,omitempty"`
	JSON    string          `json:"json,omitempty"`
	SSE     []string        `json:"sse,omitempty"`
	Error   *failure        `json:"error,omitempty"`
}

type reads struct {
	Model        string            `json:"model"`
	Messages     []message         `json:"messages"`
	Tools        []string          `json:"tools,omitempty"`
	Kwargs       string            `json:"chat_template_kwargs,omitempty"`
	MaxTokens    int               `json:"max_tokens,omitempty"`
	Stream       bool              `json:"stream,omitempty"`
	IncludeUsage bool              `json:"include_usage,omitempty"`
	Logprobs     bool              `json:"logprobs,omitempty"`
	Asked        map[string]string `json:"asked,omitempty"`
	Ignored      map[string]string `json:"ignored,omitempty"`
}

type message struct {
	Role      chat.Role   `json:"role"`
	Content   *string     `json:"content,omitempty"` // absent and null are both left out; see presence
	Presence  string      `json:"presence,omitempty"`
	Reasoning *string     `json:"reasoning,omitempty"`
	Calls     []chat.Call `json:"calls,omitempty"`
	CallID    string      `json:"call_id,omitempty"`
	Name      string      `json:"name,omitempty"`
}

type refusal struct {
	Code  fault.Code `json:"code"`
	Param string     `json:"param,omitempty"`
}

type reply struct {
	Content   *string             `json:"content"`
	Reasoning *string             `json:"reasoning,omitempty"`
	Calls     []chat.Call         `json:"calls,omitempty"`
	Finish    chat.Finish         `json:"finish"`
	Usage     chat.Usage          `json:"usage"`
	Logprobs  []chat.TokenLogprob `json:"logprobs,omitempty"`
	Pieces    []string            `json:"pieces,omitempty"` // sent as they come: "r:…" or "c:…"
}

type failure struct {
	Code   fault.Code `json:"code"`
	Msg    string     `json:"msg"`
	Status int        `json:"status"`
	Body   string     `json:"body"`
	Retry  bool       `json:"retry"`
}

func TestEveryWireVectorHolds(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testkit.Root(), "vectors", "wire", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".json"), func(t *testing.T) {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var want vector
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			got := run(t, want)
			if *rewrite {
				write(t, f, got)
				return
			}
			if d := cmp.Diff(want, got, cmp.Comparer(func(a, b json.RawMessage) bool { return string(a) == string(b) })); d != "" {
				t.Error(d)
			}
		})
	}
}

func write(t *testing.T, file string, v vector) {
	t.Helper()
	var sb strings.Builder
	e := json.NewEncoder(&sb)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(sb.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run fills in what the code gives for v's inputs.
func run(t *testing.T, v vector) vector {
	var q chat.Request
	d := Dialect{}
	v.Reads, v.Refused, v.JSON, v.SSE = nil, nil, "", nil
	if v.Request != nil || v.Text != "" {
		body := []byte(v.Text)
		if v.Text == "" {
			body = v.Request
		}
		var err error
		if q, err = d.ParseRequest(body); err != nil {
			v.Refused = &refusal{fault.CodeOf(err), dialect.Param(err)}
		} else if v.Reply == nil {
			v.Reads = view(q)
		}
	}
	if v.Reply != nil {
		m, r := dialect.Meta{ID: "chatcmpl-1", Created: 1700000000, Model: "policy"}, v.Reply.chat()
		v.JSON = string(d.Reply(m, q, r))
		s := d.Stream(m, q)
		var out []byte
		for _, p := range v.Reply.Pieces {
			if text, ok := strings.CutPrefix(p, "r:"); ok {
				out = append(out, s.Reasoning(text)...)
			} else {
				out = append(out, s.Content(p[2:])...)
			}
		}
		out = append(out, s.Finish(r)...)
		v.SSE = strings.Split(strings.TrimSuffix(string(out), "\n\n"), "\n\n")
		whole(t, r, v.SSE)
	}
	if v.Error != nil {
		f := d.Failure(fault.New(v.Error.Code, "%s", v.Error.Msg))
		v.Error = &failure{v.Error.Code, v.Error.Msg, f.Status, string(f.Body), f.Retry}
	}
	return v
}

// whole joins a stream's deltas again: they must be the reply.
func whole(t *testing.T, r chat.Reply, events []string) {
	t.Helper()
	var content, reasoning string
	calls := make([]chat.Call, len(r.Calls))
	for _, e := range events[:len(events)-1] {
		v, err := ojson.Parse([]byte(strings.TrimPrefix(e, "data: ")))
		if err != nil {
			t.Fatalf("%v in %s", err, e)
		}
		choices, _ := v.Get("choices")
		delta, _ := choices.At(0).Get("delta")
		c, _ := delta.Get("content")
		content += c.Str()
		c, _ = delta.Get("reasoning_content")
		reasoning += c.Str()
		tc, _ := delta.Get("tool_calls")
		for _, c := range tc.Elems() {
			i, _ := c.Get("index")
			id, _ := c.Get("id")
			f, _ := c.Get("function")
			name, _ := f.Get("name")
			args, _ := f.Get("arguments")
			n := int(i.Num()[0] - '0')
			calls[n] = chat.Call{ID: id.Str(), Name: name.Str(), Arguments: args.Str()}
		}
	}
	if content != r.Content.S || reasoning != r.Reasoning.S || len(calls) > 0 && !cmp.Equal(calls, r.Calls) {
		t.Errorf("the stream says %q, %q, %v", content, reasoning, calls)
	}
	if events[len(events)-1] != "data: [DONE]" {
		t.Errorf("the stream ends with %q", events[len(events)-1])
	}
}

func (r reply) chat() chat.Reply {
	out := chat.Reply{Calls: r.Calls, Finish: r.Finish, Usage: r.Usage, Logprobs: r.Logprobs}
	if r.Content != nil {
		out.Content = chat.T(*r.Content)
	}
	if r.Reasoning != nil {
		out.Reasoning = chat.T(*r.Reasoning)
	}
	return out
}

func view(q chat.Request) *reads {
	r := &reads{Model: q.Model, MaxTokens: q.MaxTokens, Stream: q.Stream, IncludeUsage: q.IncludeUsage, Logprobs: q.WantLogprobs,
		Asked: spell(q.Asked), Ignored: spell(q.Ignored)}
	if q.TemplateKwargs.IsValid() {
		r.Kwargs = string(q.TemplateKwargs.Raw())
	}
	for _, t := range q.Tools {
		r.Tools = append(r.Tools, string(t.Raw()))
	}
	for _, m := range q.Messages {
		v := message{Role: m.Role, Calls: m.Calls, CallID: m.CallID, Name: m.Name}
		if m.Content.Presence == chat.Present {
			v.Content = &m.Content.S
		}
		if m.Reasoning.Presence == chat.Present {
			v.Reasoning = &m.Reasoning.S
		}
		switch {
		case m.Parts:
			v.Presence = "parts"
		case m.Content.Presence == chat.Null:
			v.Presence = "null"
		case m.Content.Presence == chat.Absent:
			v.Presence = "absent"
		}
		r.Messages = append(r.Messages, v)
	}
	return r
}

func spell(ms []ojson.Member) map[string]string {
	if len(ms) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, m := range ms {
		out[m.Key] = string(m.Value.Raw())
	}
	return out
}
