package all

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
)

// parseVector is one file of vectors/parse.
type parseVector struct {
	About      string  `json:"about"`
	Model      string  `json:"model,omitempty"` // of another format than chatml-hermes
	Prompt     []piece `json:"prompt,omitempty"`
	Tools      []tool  `json:"tools,omitempty"`
	NoCalls    bool    `json:"no_calls,omitempty"`
	Completion []piece `json:"completion"`
	Stopped    *bool   `json:"stopped,omitempty"` // true unless said
	Parsed     parsed  `json:"parsed"`
	Echo       string  `json:"echo,omitempty"` // "extends" where the reply, echoed unchanged, renders to the sampled ids; else "drifts"
}

// tool is a declared one: a name, or a name with a schema of its parameters.
type tool struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

func (d *tool) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, &d.Name)
	}
	type plain tool
	return json.Unmarshal(b, (*plain)(d))
}

func (d tool) MarshalJSON() ([]byte, error) {
	if d.Parameters == nil {
		return plainJSON(d.Name)
	}
	type plain tool
	return plainJSON(plain(d))
}

func declared(t testing.TB, tools []tool) (out []ojson.Value) {
	for _, d := range tools {
		params := d.Parameters
		if params == nil {
			params = []byte("{}")
		}
		out = append(out, value(t, `{"type": "function", "function": {"name": "`+d.Name+`", "parameters": `+string(params)+`}}`))
	}
	return out
}

type parsed struct {
	Reasoning *string   `json:"reasoning,omitempty"`
	Content   *string   `json:"content,omitempty"`
	Calls     []attempt `json:"calls,omitempty"`
	End       string    `json:"end"`
	Issues    []string  `json:"issues,omitempty"`
}

type attempt struct {
	Status    family.AttemptStatus `json:"status"`
	IsCall    bool                 `json:"is_call"`
	Name      string               `json:"name,omitempty"`
	ModelID   string               `json:"model_id,omitempty"`
	Arguments string               `json:"arguments,omitempty"`
	Raw       string               `json:"raw"`
}

func viewParsed(p family.Parsed) parsed {
	v := parsed{End: string(p.End), Issues: p.Issues}
	if p.Reasoning.Presence == chat.Present {
		v.Reasoning = &p.Reasoning.S
	}
	if p.Content.Presence == chat.Present {
		v.Content = &p.Content.S
	}
	for _, c := range p.Calls {
		v.Calls = append(v.Calls, attempt{c.Status, c.IsCall, c.Name, c.ModelID, c.Arguments, c.Raw})
	}
	return v
}

func TestEveryParseVectorHoldsHoweverItIsCut(t *testing.T) {
	f := bundle(t)
	for _, file := range vectors(t, "parse") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) { runParseVector(t, f, file, *rewrite) })
	}
}

func TestEveryParseVectorOfEveryFormatHolds(t *testing.T) {
	subjects := map[string]*subject{}
	for _, dir := range []string{"qwen-xml", "gemma-4", "deepseek-v3", "deepseek-v3.1", "glm", "kimi-k2", "harmony", "llama3-json", "minimax-m2", "mistral", "generic"} {
		for _, file := range vectors(t, filepath.Join("parse", dir)) {
			t.Run(dir+"/"+strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
				var v parseVector
				load(t, file, &v)
				if subjects[v.Model] == nil {
					subjects[v.Model] = models[v.Model].bind(t)
				}
				if subjects[v.Model].Name() != dir {
					t.Fatalf("%s is of %s", v.Model, subjects[v.Model].Name())
				}
				runParseVector(t, subjects[v.Model], file, *rewrite)
			})
		}
	}
}

func runParseVector(t *testing.T, f *subject, file string, write bool) {
	var v parseVector
	load(t, file, &v)
	in := family.ParseInput{Prompt: ids(t, f, v.Prompt), Tools: declared(t, v.Tools), NoCalls: v.NoCalls}
	stopped := v.Stopped == nil || *v.Stopped
	said := ids(t, f, v.Completion)
	got := parse(t, f, in, said, nil, stopped)
	echo := ""
	if v.Model == "" {
		echo = echoes(t, f, v, said, got)
	}
	if write {
		v.Parsed, v.Echo = viewParsed(got), echo
		save(t, file, v)
		return
	}
	if (f == small || v.Model != "") && echo != v.Echo { // Qwen3's template drops empty reasoning elsewhere
		t.Errorf("%s\nthe echo %s, not %s", v.About, echo, v.Echo)
	}
	if d := cmp.Diff(v.Parsed, viewParsed(got)); d != "" {
		t.Errorf("%s\n%s", v.About, d)
	}
	for seed := range uint64(20) {
		if d := cmp.Diff(got, parse(t, f, in, said, randomCuts(rand.New(rand.NewPCG(seed, 1)), len(said)), stopped)); d != "" {
			t.Fatalf("cut another way (%d):\n%s", seed, d)
		}
	}
	if f.NewReader == nil {
		nothingIsLost(t, f, in, said, got)
	}
}

// echoes says whether a harness that sends the reply back unchanged gets the sampled ids into its next prompt.
func echoes(t *testing.T, f *subject, v parseVector, said []token.ID, p family.Parsed) string {
	t.Helper()
	if v.Prompt != nil {
		return ""
	}
	reply := chat.Reply{Content: p.Content, Reasoning: p.Reasoning}
	for _, c := range p.Calls {
		if c.IsCall {
			reply.Calls = append(reply.Calls, chat.Call{Name: c.Name, Arguments: c.Arguments})
		}
	}
	c := family.Conversation{Messages: []chat.Message{user("u")}, Sampled: map[int][]token.ID{1: said}}
	before, err := f.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	c.Messages = append(c.Messages, echo(reply), user("go on"))
	after, err := f.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	want := append(before.IDs, said...)
	if token.CommonPrefix(want, after.IDs) == len(want) {
		return "extends"
	}
	return "drifts"
}

func randomCuts(r *rand.Rand, n int) []int {
	var cuts []int
	p := r.Float64()
	for i := 1; i < n; i++ {
		if r.Float64() < p {
			cuts = append(cuts, i)
		}
	}
	return cuts
}

// scrap is a stretch of ids that matters to the grammar.
func scraps(f *subject) [][]token.ID {
	var out [][]token.ID
	for _, s := range f.tok.Added() {
		out = append(out, []token.ID{s.ID})
	}
	for _, s := range []string{"\n", "\n\n", "a", " ", `"`, `{"name": "bash", "arguments": {}}`, `{"name": "bash", "arguments": {"command": "`, `"}}`, `}`, `{`, `\`, "é", "😀",
		"</tool_call>", "<think>", `{"name":"x"}`, `,`, `[`, `]`, `1`, `true`} {
		out = append(out, f.tok.EncodeBody(s))
	}
	emoji := f.tok.EncodeBody("\U0001F9FF")
	return append(out, emoji[:1], emoji[len(emoji)-1:])
}

func TestParsingDoesNotDependOnHowTheStreamIsCut(t *testing.T) {
	f := bundle(t)
	ss := scraps(f)
	for seed := range seeds(1000) {
		r := rand.New(rand.NewPCG(seed, 7))
		var said []token.ID
		for range r.IntN(25) {
			if r.IntN(3) == 0 {
				said = append(said, f.id(t, []string{f.Call, f.Called}[r.IntN(2)]))
			}
			said = append(said, ss[r.IntN(len(ss))]...)
		}
		in := family.ParseInput{NoCalls: r.IntN(8) == 0}
		if r.IntN(4) == 0 {
			in.Tools = declare([]string{"bash"})
		}
		if r.IntN(4) == 0 {
			in.Prompt = append(f.tok.Encode("<|im_start|>assistant\n<think>"), f.tok.Encode(strings.Repeat("\n", r.IntN(2)))...)
		}
		stopped := r.IntN(2) == 0
		want := parse(t, f, in, said, nil, stopped)
		for range 3 {
			if d := cmp.Diff(want, parse(t, f, in, said, randomCuts(r, len(said)), stopped)); d != "" {
				t.Fatalf("seed %d:\n%s", seed, d)
			}
		}
		nothingIsLost(t, f, in, said, want)
	}
}

// nothingIsLost checks that the texts and the calls together hold everything that was said, but for framing newlines.
func nothingIsLost(t testing.TB, f *subject, in family.ParseInput, said []token.ID, p family.Parsed) {
	t.Helper()
	var all, got strings.Builder
	end := len(said)
	for i, id := range said {
		if f.isStop(id) {
			end = i
			break
		}
	}
	all.WriteString(f.Decode(said[:end]))
	got.WriteString(p.Reasoning.S + p.Content.S)
	block := -1
	for _, c := range p.Calls {
		if c.IsCall && c.Span.Start != block { // several calls of one block share its text
			got.WriteString(c.Raw)
			block = c.Span.Start
		}
	}
	tags := strings.NewReplacer("\n", "", f.Think, "", f.Thought, "", strings.TrimSpace(f.ThinkWord), "")
	a, b := tags.Replace(all.String()), tags.Replace(got.String())
	if count(a) != count(b) {
		t.Errorf("said %q, read as %q", all.String(), got.String())
	}
}

// count is how often each byte occurs: pieces move, nothing goes away.
func count(s string) (n [256]int) {
	for i := range len(s) {
		n[s[i]]++
	}
	return n
}

func FuzzParseOnIDs(f *testing.F) {
	fam := bundle(f)
	f.Add([]byte{1, 2, 3}, uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		ss := scraps(fam)
		var said []token.ID
		for _, c := range b {
			said = append(said, ss[int(c)%len(ss)]...)
		}
		want := parse(t, fam, family.ParseInput{}, said, nil, true)
		if d := cmp.Diff(want, parse(t, fam, family.ParseInput{}, said, randomCuts(rand.New(rand.NewPCG(seed, 3)), len(said)), true)); d != "" {
			t.Fatal(d)
		}
		nothingIsLost(t, fam, family.ParseInput{}, said, want)
	})
}

func TestAnIdOutsideTheVocabularyIsNoText(t *testing.T) {
	f := bundle(t)
	p := parse(t, f, family.ParseInput{}, []token.ID{1 << 30, f.Stops()[0].ID}, nil, true)
	if p.Content.S != "" || p.End != family.EndStop {
		t.Errorf("%+v", p)
	}
}
