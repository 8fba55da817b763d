package all

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
)

// typedTools declare one argument of each type.
const typedTools = `[{"type": "function", "function": {"name": "bash", "description": "Runs.", "parameters": {"type": "object", "properties": {
 "k": {"type": "string"}, "line": {"type": "string"}, "n": {"type": "array"}, "f": {"type": "number"}, "i": {"type": "integer"}, "b": {"type": "boolean"},
 "z": {"type": ["string", "null"]}, "o": {"$ref": "#/$defs/Thing"}, "u": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, "$defs": {"Thing": {"type": "object"}}}}},
 {"type": "function", "function": {"name": "read_file", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}}]`

// pieces are what texts are made of: words, and all that has a meaning in the format.
func (f *subject) pieces() []string {
	out := []string{"a", "b c", "\n", " ", ".", "é", "😀", `"`, `\`, "{", "}", "\uFDD0", "1.0", "null", "True", "</parameter>", "</parameter>\n</function>", "</function>",
		"<parameter=x>", "<parameter name=\"x\">", "</invoke>", "<function=", "\n</parameter>\n"}
	for id, s := range f.added {
		if f.Decode([]token.ID{id}) == s { // Gemma's runs of ▁ are spaces
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

func (f *subject) randomText(r *rand.Rand, n int) string {
	ps := f.pieces()
	var sb strings.Builder
	for range r.IntN(n) {
		sb.WriteString(ps[r.IntN(len(ps))])
	}
	return sb.String()
}

// randomReply is a reply whose calls have typed arguments.
func (f *subject) randomReply(r *rand.Rand) chat.Reply {
	out := chat.Reply{Finish: chat.FinishStop}
	if f.reasons() && (r.IntN(2) == 0 || f.Layout.Opening != "") {
		out.Reasoning = chat.T(f.randomText(r, 6))
	}
	if s := f.randomText(r, 6); s != "" {
		out.Content = chat.T(s)
	}
	if f.WriteCalls == nil || f.Leading && r.IntN(2) == 0 {
		return out
	}
	for range r.IntN(4) {
		text := func() string { return string(ojson.AppendString(nil, f.randomText(r, 5))) }
		all := []string{`"k": ` + text(), `"line": ` + text(), `"n": ["x", 2]`, `"f": 1.5`, `"i": 12345678901234567890`, `"b": true`, `"z": null`, `"o": {"a": "b"}`, `"u": 7`}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		out.Calls = append(out.Calls, chat.Call{Name: "bash", Arguments: "{" + strings.Join(all[:r.IntN(4)], ", ") + "}"})
	}
	if f.NewReader != nil && len(out.Calls) > 1 {
		out.Calls = out.Calls[:1]
	}
	if f.Leading && len(out.Calls) > 0 {
		out.Content, out.Calls = chat.Text{}, out.Calls[:1]
	}
	return out
}

// reasons is whether a reply may have reasoning: there are tokens for it, and the prompt has not closed it already.
func (f *subject) reasons() bool {
	if f.NewReader != nil {
		return true
	}
	_, ok := f.tok.Lookup(f.Think)
	return ok && !strings.Contains(f.Layout.Opening, f.Thought)
}

func (f *subject) tools(t testing.TB) []ojson.Value { return value(t, typedTools).Elems() }

// prompt is the one that a reply follows.
func (f *subject) prompt(t testing.TB) []token.ID {
	t.Helper()
	r, err := f.Render(family.Conversation{Messages: []chat.Message{user("u")}})
	if err != nil {
		t.Fatal(err)
	}
	return r.IDs
}

func TestEveryFormatParsesWhatItSpeaks(t *testing.T) { eachModel(t, parsesWhatItSpeaks) }

func parsesWhatItSpeaks(t *testing.T, _ model, f *subject) {
	in := family.ParseInput{Prompt: f.prompt(t), Tools: f.tools(t)}
	refused := 0
	const n = 200
	for seed := range uint64(n) {
		want := f.randomReply(rand.New(rand.NewPCG(seed, 2)))
		said, err := f.Speak(want)
		if fault.CodeOf(err) == fault.BadRequest {
			refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		p := parse(t, f, in, said, nil, true)
		if d := cmp.Diff(want, replyOf(p)); d != "" {
			t.Fatalf("seed %d, %s:\n%s%v", seed, show(f, said), d, p)
		}
		if !f.isStop(said[len(said)-1]) || slices.ContainsFunc(said[:len(said)-1], f.isStop) {
			t.Fatalf("seed %d: %s", seed, show(f, said))
		}
	}
	if refused > n/4 {
		t.Errorf("%d of %d replies cannot be said", refused, n)
	}
}

func replyOf(p family.Parsed) chat.Reply {
	out := chat.Reply{Content: p.Content, Reasoning: p.Reasoning, Finish: chat.FinishStop}
	for _, c := range p.Calls {
		if c.IsCall {
			out.Calls = append(out.Calls, chat.Call{Name: c.Name, Arguments: c.Arguments})
		}
	}
	return out
}

func TestEveryFormatKeepsAnEchoedReply(t *testing.T) { eachModel(t, keepsAnEchoedReply) }

func keepsAnEchoedReply(t *testing.T, m model, f *subject) {
	checked := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		c := family.Conversation{Messages: []chat.Message{user("u" + f.randomText(r, 4))}, Sampled: map[int][]token.ID{}, Tools: f.tools(t)}
		var memo family.Memo
		for turn := range 3 {
			before, err := f.RenderWith(&memo, c)
			if err != nil {
				t.Fatal(err)
			}
			if full, _ := f.Render(c); !slices.Equal(full.IDs, before.IDs) || full.Text != before.Text {
				t.Fatalf("seed %d: reuse gives other ids", seed)
			}
			reply := f.canonical(m, f.randomReply(r))
			said, err := f.Speak(reply)
			if err != nil {
				continue
			}
			c.Sampled[len(c.Messages)] = said
			reply = f.withIDs(t, before.IDs, said, reply)
			c.Messages = append(c.Messages, echo(reply))
			for _, call := range reply.Calls {
				c.Messages = append(c.Messages, chat.Message{Role: chat.Tool, CallID: call.ID, Content: chat.T("r" + f.randomText(r, 5))})
			}
			if len(reply.Calls) == 0 {
				c.Messages = append(c.Messages, user("go on"))
			}
			after, err := f.Render(c)
			if err != nil {
				t.Fatal(err)
			}
			check := append(slices.Clone(before.IDs), said...)
			if k := token.CommonPrefix(check, after.IDs); k < len(check) {
				t.Fatalf("seed %d, turn %d: id %d differs: %q then %q", seed, turn, k, show(f, check[k:]), show(f, after.IDs[k:]))
			}
			checked++
			if len(reply.Calls) == 0 {
				break // a user's message may strip reasoning
			}
		}
	}
	if checked < 60 {
		t.Errorf("%d turns checked", checked)
	}
}

// sorted is a JSON object with its keys in order.
func sorted(object string) string {
	v, _ := family.ArgumentsObject(object)
	ms := slices.SortedFunc(slices.Values(v.Members()), func(a, b ojson.Member) int { return strings.Compare(a.Key, b.Key) })
	var out []string
	for _, m := range ms {
		out = append(out, string(ojson.AppendString(nil, m.Key))+": "+string(m.Value.Raw()))
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// withIDs gives r's calls the ids that were said, or some.
func (f *subject) withIDs(t *testing.T, prompt, said []token.ID, r chat.Reply) chat.Reply {
	r.Calls = slices.Clone(r.Calls)
	for i, c := range parse(t, f, family.ParseInput{Prompt: prompt}, said, nil, true).Calls {
		if r.Calls[i].ID = c.ModelID; c.ModelID == "" {
			r.Calls[i].ID = "call_" + strconv.Itoa(i)
		}
	}
	return r
}

// canonical makes r one that the template writes as it was spoken.
func (f *subject) canonical(m model, r chat.Reply) chat.Reply {
	if m.trims {
		r.Content = chat.T(strings.TrimSpace(r.Content.S))
	}
	switch {
	case f.WriteCalls == nil || !f.reasons() || f.Layout.ThinkEnd == f.Format.Layout.ThinkEnd && m.template == "coder":
		r.Reasoning = chat.Text{}
	default:
		r.Reasoning = chat.T(strings.TrimSpace("because " + r.Reasoning.S))
	}
	if m.alone {
		r.Content = chat.Text{}
	}
	for i := range r.Calls {
		if m.sorts {
			r.Calls[i].Arguments = sorted(r.Calls[i].Arguments)
		}
	}
	if f.WriteCalls != nil {
		r.Calls = append(r.Calls, chat.Call{Name: "bash", Arguments: `{"k": "v"}`})
		if m.single {
			r.Calls = r.Calls[:1]
		}
	} else {
		r.Content = chat.T(strings.TrimSpace("so " + r.Content.S))
	}
	return r
}

func TestNoFormatMakesASpecialTokenOfABody(t *testing.T) { eachModel(t, makesNoSpecialToken) }

func makesNoSpecialToken(t *testing.T, m model, f *subject) {
	for seed := range uint64(60) {
		dirty := "x" + f.randomText(rand.New(rand.NewPCG(seed, 4)), 8)
		with := func(s string) family.Conversation {
			args := `{"k": ` + string(ojson.AppendString(nil, s)) + `}`
			content := chat.T(s)
			if m.alone {
				content = chat.Text{}
			}
			return family.Conversation{
				Messages: []chat.Message{{Role: chat.System, Content: chat.T(s)}, user(s),
					{Role: chat.Assistant, Content: content, Reasoning: chat.T(s), Calls: []chat.Call{{ID: s, Name: s, Arguments: args}}},
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
		if d := cmp.Diff(specials(with("x")), specials(with(dirty))); d != "" {
			t.Fatalf("seed %d, %q:\n%s", seed, dirty, d)
		}
	}
}

// scraps are stretches of ids that matter to the format's grammar.
func (f *subject) scraps() [][]token.ID {
	var out [][]token.ID
	for _, a := range f.tok.Added() {
		out = append(out, []token.ID{a.ID})
	}
	for _, s := range append(f.pieces(), "\n\n", "<function=bash>\n", "<parameter=k>\n", "\n</parameter>\n</function>\n", "<invoke name=\"bash\">\n", "</parameter>\n</invoke>\n", "bash", "<parameter=k", "=", ">") {
		out = append(out, f.tok.EncodeBody(s))
	}
	emoji := f.tok.EncodeBody("\U0001F9FF")
	return append(out, emoji[:1], emoji[len(emoji)-1:])
}

func (f *subject) babble(r *rand.Rand) (said []token.ID) {
	ss := f.scraps()
	call := f.tok.EncodeBody("\n<function=bash>\n<parameter=k>\n")
	if strings.HasPrefix(f.Name(), "minimax") {
		call = f.tok.EncodeBody("\n<invoke name=\"bash\">\n<parameter name=\"k\">")
	}
	for range r.IntN(25) {
		switch id, ok := f.tok.Lookup(f.Call); {
		case ok && r.IntN(4) == 0:
			said = append(append(said, id), call...)
		case ok && r.IntN(4) == 0:
			id, _ = f.tok.Lookup(f.Called)
			said = append(said, id)
		}
		said = append(said, ss[r.IntN(len(ss))]...)
	}
	return said
}

func TestNoFormatDependsOnHowAStreamIsCut(t *testing.T) { eachModel(t, isCutAnyhow) }

func isCutAnyhow(t *testing.T, _ model, f *subject) {
	prompt, tools := f.prompt(t), f.tools(t)
	for seed := range seeds(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		said := f.babble(r)
		if reply, err := f.Speak(f.randomReply(r)); err == nil && r.IntN(2) == 0 && len(reply) > 0 { // a reply with a wound
			at := r.IntN(len(reply))
			said = append(append(slices.Clone(reply[:at]), said[:min(len(said), r.IntN(6))]...), reply[at:]...)
		}
		in := family.ParseInput{NoCalls: r.IntN(8) == 0}
		if r.IntN(2) == 0 {
			in.Prompt = prompt
		}
		if r.IntN(2) == 0 {
			in.Tools = tools
		}
		f.checkCuts(t, in, said, r)
	}
}

func (f *subject) checkCuts(t testing.TB, in family.ParseInput, said []token.ID, r *rand.Rand) {
	t.Helper()
	stopped := r.IntN(2) == 0
	want := parse(t, f, in, said, nil, stopped)
	for range 3 {
		if d := cmp.Diff(want, parse(t, f, in, said, randomCuts(r, len(said)), stopped)); d != "" {
			t.Fatalf("%s:\n%s", show(f, said), d)
		}
	}
	if f.NewReader == nil { // headers are in no text
		nothingIsLost(t, f, in, said, want)
	}
}

func FuzzEveryFormatOnIDs(f *testing.F) {
	var subjects []*subject
	for _, name := range []string{"coder", "gemma4", "glm45", "glm5", "kimi", "harmony", "llama", "minimax", "ministral", "mistralsmall", "nemotron", "plain", "qwen35"} {
		subjects = append(subjects, models[name].bind(f))
	}
	f.Add([]byte{1, 2, 3}, uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		s := subjects[seed%uint64(len(subjects))]
		ss := s.scraps()
		var said []token.ID
		for _, c := range b {
			said = append(said, ss[int(c)%len(ss)]...)
		}
		s.checkCuts(t, family.ParseInput{}, said, rand.New(rand.NewPCG(seed, 3)))
	})
}
