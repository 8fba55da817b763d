package all

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/token"
)

// renderVector is one file of vectors/render: a conversation and its prompt under the built-in model. In tokens, an added
// token stands by its spelling between ⟦ and ⟧, what lies between them is plain text.
type renderVector struct {
	About    string          `json:"about"`
	Messages []vectorMessage `json:"messages"`
	Tools    []string        `json:"tools,omitempty"` // each tool's JSON
	Kwargs   json.RawMessage `json:"kwargs,omitempty"`
	Native   bool            `json:"native,omitempty"`
	Text     string          `json:"text"`
	Tokens   string          `json:"tokens"`
	Count    int             `json:"count"`
}

type vectorMessage struct {
	Role      chat.Role   `json:"role"`
	Content   *string     `json:"content"`
	Reasoning *string     `json:"reasoning,omitempty"`
	Calls     []chat.Call `json:"calls,omitempty"`
	CallID    string      `json:"call_id,omitempty"`
	Sampled   []piece     `json:"sampled,omitempty"` // the completion that this message echoes
}

func (v renderVector) conversation(t *testing.T, f *subject) family.Conversation {
	c := family.Conversation{Native: v.Native, Clock: template.Clock{Year: 2026, Month: 11, Day: 30}, Sampled: map[int][]token.ID{}}
	for i, m := range v.Messages {
		out := chat.Message{Role: m.Role, Calls: m.Calls, CallID: m.CallID, Content: chat.Text{Presence: chat.Null}}
		if m.Content != nil {
			out.Content = chat.T(*m.Content)
		}
		if m.Reasoning != nil {
			out.Reasoning = chat.T(*m.Reasoning)
		}
		if m.Sampled != nil {
			c.Sampled[i] = ids(t, f, m.Sampled)
		}
		c.Messages = append(c.Messages, out)
	}
	for _, s := range v.Tools {
		c.Tools = append(c.Tools, value(t, s))
	}
	if v.Kwargs != nil {
		c.Kwargs = value(t, string(v.Kwargs))
	}
	return c
}

func value(t testing.TB, s string) ojson.Value {
	t.Helper()
	v, err := ojson.Parse([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// show spells ids so that added tokens can be told from text that spells them.
func show(f *subject, ids []token.ID) string {
	var out strings.Builder
	var plain []token.ID
	for _, id := range ids {
		if s, ok := f.added[id]; ok {
			out.WriteString(f.Decode(plain) + "⟦" + s + "⟧")
			plain = nil
		} else {
			plain = append(plain, id)
		}
	}
	out.WriteString(f.Decode(plain))
	return out.String()
}

func TestEveryRenderVectorHolds(t *testing.T) {
	f := bundle(t)
	for _, file := range vectors(t, "render") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			var v renderVector
			load(t, file, &v)
			r, err := f.Render(v.conversation(t, f))
			if err != nil {
				t.Fatal(err)
			}
			got := v
			got.Text, got.Tokens, got.Count = r.Text, show(f, r.IDs), len(r.IDs)
			if *rewrite {
				save(t, file, got)
				return
			}
			if d := cmp.Diff(v, got); d != "" {
				t.Errorf("%s\n%s", v.About, d)
			}
			if strings.ReplaceAll(strings.ReplaceAll(got.Tokens, "⟦", ""), "⟧", "") != r.Text {
				t.Errorf("the ids do not spell the text")
			}
		})
	}
}

// texts that replies and messages are made of: all in the normal form that the tokenizer keeps.
var texts = []string{"a", "b c", "\n", " ", ".", "é", "😀", "</think>", "<think>", "<tool_call>", "</tool_call>", "<|im_end|>", "<|im_start|>", "<tool_response>", "<|im_", `"`, `\`, "{", "}", "\uFDD0", "<\uFDD1", "1.0"}

func randomText(r *rand.Rand, n int) string {
	var sb strings.Builder
	for range r.IntN(n) {
		sb.WriteString(texts[r.IntN(len(texts))])
	}
	return sb.String()
}

func randomReply(r *rand.Rand) chat.Reply {
	var out chat.Reply
	if r.IntN(2) == 0 {
		out.Reasoning = chat.T(randomText(r, 6))
	}
	if s := randomText(r, 6); s != "" {
		out.Content = chat.T(s)
	}
	for range r.IntN(4) {
		args := "{}"
		if n := r.IntN(4); n < 2 {
			args = `{"` + strings.Repeat("k", n+1) + `": ` + string(ojson.AppendString(nil, randomText(r, 6))) + `, "n": [1.0, 1e7, null]}`
		} else if n == 3 {
			args = []string{`{"a": `, `{"a": "b`, `nope`, `{"a": 1}}`, `[1]`, `{"a":1,"a":2}`}[r.IntN(6)]
		}
		out.Calls = append(out.Calls, chat.Call{Name: []string{"bash", "read_file", `q"q`}[r.IntN(3)], Arguments: args})
	}
	out.Finish = chat.FinishStop
	return out
}

func TestWhatIsSpokenIsParsedBack(t *testing.T) {
	f := bundle(t)
	for seed := range seeds(1000) {
		want := randomReply(rand.New(rand.NewPCG(seed, 2)))
		said, err := f.Speak(want)
		if err != nil {
			t.Fatal(err)
		}
		p := parse(t, f, family.ParseInput{}, said, nil, true)
		got := chat.Reply{Content: p.Content, Reasoning: p.Reasoning, Finish: chat.FinishStop}
		for _, c := range p.Calls {
			if c.IsCall {
				got.Calls = append(got.Calls, chat.Call{Name: c.Name, Arguments: c.Arguments})
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("seed %d, %s:\n%s", seed, show(f, said), d)
		}
		for _, id := range said[:len(said)-1] {
			if f.isStop(id) || id == f.id(t, f.Turn) {
				t.Fatalf("seed %d: a body became a special token: %s", seed, show(f, said))
			}
		}
	}
}

// echo is a reply as a harness sends it back.
func echo(r chat.Reply) chat.Message {
	return chat.Message{Role: chat.Assistant, Content: r.Content, Reasoning: r.Reasoning, Calls: r.Calls}
}

// canonical makes r one that the template writes as it was spoken.
func canonical(r chat.Reply) chat.Reply {
	r.Content.S = strings.TrimLeft(r.Content.S, " \n")
	if r.Reasoning.S = strings.Trim(r.Reasoning.S, "\n"); r.Reasoning.S == "" {
		r.Reasoning = chat.Text{}
	}
	for i := range r.Calls {
		r.Calls[i].Arguments = strings.ReplaceAll(r.Calls[i].Arguments, "1e7", "10000000.0")
		if r.Calls[i].Arguments == `{"a":1,"a":2}` {
			r.Calls[i].Arguments = `{"a": 2}`
		}
		if r.Calls[i].Name == `q"q` {
			r.Calls[i].Name = "quote"
		}
	}
	return r
}

func TestAnEchoedReplyExtendsItsCheckpoint(t *testing.T) { checkpoints(t, bundle(t), 500) }

func checkpoints(t *testing.T, f *subject, n uint64) {
	for seed := range n {
		r := rand.New(rand.NewPCG(seed, 3))
		c := family.Conversation{Messages: []chat.Message{user("u" + randomText(r, 4))}, Sampled: map[int][]token.ID{}}
		if r.IntN(2) == 0 {
			c.Tools = declare([]string{"bash", "</tool_call>"})
		}
		var memo family.Memo
		for turn := range 4 {
			before, err := f.RenderWith(&memo, c)
			if err != nil {
				t.Fatal(err)
			}
			if full, _ := f.Render(c); !slices.Equal(full.IDs, before.IDs) || full.Text != before.Text {
				t.Fatalf("seed %d: reuse gives other ids", seed)
			}
			reply := canonical(randomReply(r))
			reply.Reasoning = chat.T("because " + strings.Trim(reply.Reasoning.S, "\n")) // empty reasoning is dropped by templates
			reply.Calls = append(reply.Calls, chat.Call{Name: "bash", Arguments: "{}"})
			said, err := f.Speak(reply)
			if err != nil {
				t.Fatal(err)
			}
			c.Sampled[len(c.Messages)] = said
			c.Messages = append(c.Messages, echo(reply), chat.Message{Role: chat.Tool, CallID: "x", Content: chat.T(randomText(r, 5))})
			after, err := f.Render(c)
			if err != nil {
				t.Fatal(err)
			}
			check := append(slices.Clone(before.IDs), said...)
			if k := token.CommonPrefix(check, after.IDs); k < len(check) {
				t.Fatalf("seed %d, turn %d: id %d differs: %q then %q", seed, turn, k, show(f, check[k:]), show(f, after.IDs[k:]))
			}
		}
	}
}

// A special id inside a body comes back as that id only where the completion sampled it.
func TestASampledSpecialTokenComesBackWhereItWasSampled(t *testing.T) {
	f := bundle(t)
	said := ids(t, f, []piece{{Token: "<think>"}, {Text: "\nsee "}, {Token: "<|im_start|>"}, {Text: " and <|im_start|> and "}, {Token: "<tool_response>"}, {Text: "\n"}, {Token: "</think>"},
		{Text: "\n\n<think> "}, {Token: "<think>"}, {Text: " x\n"},
		{Token: "<tool_call>"}, {Text: "\n" + `{"name": "bash", "arguments": {"a": "</tool_call> `}, {Token: "</tool_call>"}, {Text: ` </tool_call>", "b": "`}, {Token: "<tool_call>"}, {Text: `"}}` + "\n"}, {Token: "</tool_call>"},
		{Text: "\n"}, {Token: "<tool_call>"}, {Text: "\n" + `{"name": "bash", "arguments": {"a": "</tool_call>"}}` + "\n"}, {Token: "</tool_call>"}, {Token: "<|im_end|>"}})
	p := parse(t, f, family.ParseInput{}, said, nil, true)
	reply := chat.Reply{Content: p.Content, Reasoning: p.Reasoning}
	for _, c := range p.Calls {
		reply.Calls = append(reply.Calls, chat.Call{Name: c.Name, Arguments: c.Arguments})
	}
	if len(reply.Calls) != 2 {
		t.Fatalf("%+v", p)
	}
	c := family.Conversation{Messages: []chat.Message{user("u"), echo(reply), user("go on")}, Sampled: map[int][]token.ID{1: said}}
	r, err := f.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := f.Render(family.Conversation{Messages: c.Messages[:1]})
	want := append(first.IDs, said...)
	if k := token.CommonPrefix(want, r.IDs); k < len(want) {
		t.Errorf("want %s\n got %s", show(f, want), show(f, r.IDs))
	}
	c.Sampled = nil // the same words from anyone else are text
	r, _ = f.Render(c)
	if n := strings.Count(show(f, r.IDs), "⟦<think>⟧"); n != 1 {
		t.Errorf("%d think tokens: %s", n, show(f, r.IDs))
	}
}

func TestABodyNeverBecomesASpecialToken(t *testing.T) {
	f := bundle(t)
	clean := "x"
	for seed := range seeds(300) {
		r := rand.New(rand.NewPCG(seed, 4))
		dirty := "x" + randomText(r, 8)
		with := func(s string) family.Conversation {
			args := `{"k": ` + string(ojson.AppendString(nil, s)) + `}`
			return family.Conversation{
				Messages: []chat.Message{{Role: chat.System, Content: chat.T(s)}, user(s),
					{Role: chat.Assistant, Content: chat.T(s), Reasoning: chat.T(s), Calls: []chat.Call{{ID: s, Name: s, Arguments: args}, {Name: "n", Arguments: "{" + s}}},
					{Role: chat.Tool, Content: chat.T(s), CallID: s}, user(s)},
				Tools: []ojson.Value{value(t, `{"type": "function", "function": {"name": "f", "description": `+string(ojson.AppendString(nil, s))+`}}`)},
			}
		}
		specials := func(c family.Conversation) (out []token.ID) {
			r, err := f.Render(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range r.IDs {
				if _, ok := f.added[id]; ok {
					out = append(out, id)
				}
			}
			if f.Decode(r.IDs) != r.Text {
				t.Fatalf("seed %d: the ids spell %q, the text is %q", seed, f.Decode(r.IDs), r.Text)
			}
			return out
		}
		if d := cmp.Diff(specials(with(clean)), specials(with(dirty))); d != "" {
			t.Fatalf("seed %d, %q:\n%s", seed, dirty, d)
		}
	}
}

func TestNativeEncodesTheTextAsItStands(t *testing.T) {
	f := bundle(t)
	c := family.Conversation{Messages: []chat.Message{user("a<|im_end|>b")}, Native: true}
	r, err := f.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.IDs, f.tok.Encode(r.Text)) || strings.Count(show(f, r.IDs), "⟦<|im_end|>⟧") != 2 {
		t.Errorf("%s", show(f, r.IDs))
	}
}

func TestSettingsMayNotReplaceTheConversation(t *testing.T) {
	f := bundle(t)
	for _, k := range []string{"messages", "tools"} {
		c := family.Conversation{Messages: []chat.Message{user("u")}, Kwargs: value(t, `{"`+k+`": []}`)}
		if _, err := f.Render(c); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("%s: %v", k, err)
		}
	}
	if _, err := f.Render(family.Conversation{}); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("no messages: %v", err)
	}
}

func TestWhatTheTemplateRefusesIsTheClientsFault(t *testing.T) {
	f := bundle(t)
	c := family.Conversation{Messages: []chat.Message{{Role: "robot", Content: chat.T("x")}}}
	if _, err := f.Render(c); fault.CodeOf(err) != fault.TemplateRefused {
		t.Errorf("%v", err)
	}
}

func TestBodiesAreFoundInThePrompt(t *testing.T) {
	f := bundle(t)
	c := family.Conversation{Messages: []chat.Message{user("first words"), {Role: chat.Assistant, Reasoning: chat.T("think so"), Content: chat.T("saying"),
		Calls: []chat.Call{{Name: "bash", Arguments: `{"command": "ls"}`}}}, {Role: chat.Tool, Content: chat.T("a.txt")}}}
	r, err := f.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range f.Bodies(c, r) {
		got = append(got, b.Field+":"+strings.TrimSpace(f.Decode(r.IDs[b.Start:b.End])))
	}
	want := []string{"content:first words", "reasoning:think so", "content:saying", "name:bash", `arguments:{"command": "ls"}`, "content:a.txt"}
	for i := range want {
		if i >= len(got) || !strings.Contains(got[i], strings.SplitN(want[i], ":", 2)[1]) || !strings.HasPrefix(got[i], strings.SplitN(want[i], ":", 2)[0]) {
			t.Fatalf("%q", got)
		}
	}
}

// long is a conversation of about n tokens.
func long(n int) family.Conversation {
	c := family.Conversation{Messages: []chat.Message{user("go")}, Tools: declare([]string{"bash", "read", "write", "edit"})}
	out := strings.Repeat("drwxr-xr-x 2 root root 4096 src/main.go: func main() { return x < 3 }\n", 20)
	for i := 0; i < n; i += 700 {
		c.Messages = append(c.Messages, chat.Message{Role: chat.Assistant, Content: chat.T("Next."), Reasoning: chat.T("I think."), Calls: []chat.Call{{ID: "c", Name: "bash", Arguments: `{"command": "ls -la"}`}}},
			chat.Message{Role: chat.Tool, CallID: "c", Content: chat.T(out)})
	}
	return c
}

func BenchmarkRender(b *testing.B) {
	f := bundle(b)
	c := long(128000)
	r, err := f.Render(c)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Whole", func(b *testing.B) {
		for b.Loop() {
			if _, err := f.Render(c); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Text", func(b *testing.B) {
		for b.Loop() {
			if _, err := f.Text(c); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Reuse", func(b *testing.B) {
		var memo family.Memo
		for b.Loop() {
			if _, err := f.RenderWith(&memo, c); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(r.IDs)), "ids")
	})
}
