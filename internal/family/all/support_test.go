package all

import (
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

var rewrite = flag.Bool("rewrite", false, "write what the code gives into vectors/parse and vectors/render")

// subject is a format bound to a model.
type subject struct {
	*family.Kit
	tok   *tokenizer.Tokenizer
	added map[token.ID]string
}

func bind(t testing.TB, tokJSON, tpl string, opts family.Options) *subject {
	t.Helper()
	tok, err := tokenizer.Load([]byte(tokJSON))
	if err != nil {
		t.Fatal(err)
	}
	c, err := template.Compile(tpl)
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(tok, c, opts)
	if err != nil {
		t.Fatal(err)
	}
	s := &subject{f.(*family.Kit), tok, map[token.ID]string{}}
	for _, a := range tok.Added() {
		s.added[a.ID] = a.Content
	}
	return s
}

func (f *subject) id(t testing.TB, spelled string) token.ID {
	t.Helper()
	id, ok := f.tok.Lookup(spelled)
	if !ok {
		t.Fatalf("no token %q", spelled)
	}
	return id
}

func (f *subject) isStop(id token.ID) bool {
	for _, s := range f.Stops() {
		if s.ID == id {
			return true
		}
	}
	return false
}

var once sync.Once
var small *subject

func bundleTokenizer(t testing.TB) string {
	t.Helper()
	tok, err := builtin.Bundle.ReadFile("bundle/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(tok)
}

// bundle is the family bound to the built-in model.
func bundle(t testing.TB) *subject {
	t.Helper()
	once.Do(func() {
		tpl, err := builtin.Bundle.ReadFile("bundle/chat_template.jinja")
		if err != nil {
			t.Fatal(err)
		}
		small = bind(t, bundleTokenizer(t), string(tpl), family.Options{})
	})
	if small == nil {
		t.Fatal("the built-in model did not load")
	}
	return small
}

// piece is text (encoded with no added token in it), a token by its spelling, or bytes, one token each.
type piece struct {
	Text  string
	Token string `json:"token,omitempty"`
	Bytes string `json:"bytes,omitempty"`
}

func (p *piece) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, &p.Text)
	}
	type plain piece
	return json.Unmarshal(b, (*plain)(p))
}

func (p piece) MarshalJSON() ([]byte, error) {
	switch {
	case p.Token != "":
		return plainJSON(map[string]string{"token": p.Token})
	case p.Bytes != "":
		return plainJSON(map[string]string{"bytes": p.Bytes})
	}
	return plainJSON(p.Text)
}

func plainJSON(v any) ([]byte, error) {
	var sb strings.Builder
	e := json.NewEncoder(&sb)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return []byte(strings.TrimSuffix(sb.String(), "\n")), err
}

func ids(t testing.TB, f *subject, ps []piece) []token.ID {
	t.Helper()
	var out []token.ID
	for _, p := range ps {
		switch {
		case p.Token != "":
			out = append(out, f.id(t, p.Token))
		case p.Bytes != "":
			b, err := hex.DecodeString(p.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range b {
				out = append(out, byteToken(t, f, c))
			}
		default:
			out = append(out, f.tok.EncodeBody(p.Text)...)
		}
	}
	return out
}

func byteToken(t testing.TB, f *subject, c byte) token.ID {
	t.Helper()
	for id := range token.ID(f.tok.VocabSize()) {
		if b, ok := f.tok.Bytes(id); ok && len(b) == 1 && b[0] == c {
			return id
		}
	}
	t.Fatalf("no token of byte %x", c)
	return 0
}

func declare(names []string) []ojson.Value {
	var out []ojson.Value
	for _, n := range names {
		v, err := ojson.Parse([]byte(`{"type": "function", "function": {"name": "` + n + `", "parameters": {}}}`))
		if err != nil {
			panic(err)
		}
		out = append(out, v)
	}
	return out
}

// listener joins the events of one parse.
type listener struct {
	reasoning, content string
	calls              []int
}

func (l *listener) hear(es []family.Event) {
	for _, e := range es {
		switch e.Kind {
		case family.EventReasoning:
			l.reasoning += e.Text
		case family.EventContent:
			l.content += e.Text
		case family.EventCall:
			l.calls = append(l.calls, e.Call)
		}
	}
}

// parse reads ids cut as cuts says, and checks that the events add up to the result.
func parse(t testing.TB, f *subject, in family.ParseInput, ids []token.ID, cuts []int, stopped bool) family.Parsed {
	t.Helper()
	p := f.Parse(in)
	var l listener
	at := 0
	for _, c := range append(cuts, len(ids)) {
		l.hear(p.Add(ids[at:c]))
		at = c
	}
	out, es := p.Done(stopped)
	l.hear(es)
	var calls []int
	for i, c := range out.Calls {
		if c.IsCall {
			calls = append(calls, i)
		}
		if c.Span.Start < 0 || c.Span.End > len(ids) || c.Span.Len() <= 0 || f.Decode(ids[c.Span.Start:c.Span.End]) != c.Raw {
			t.Errorf("call %d: span %v is not its text %q", i, c.Span, c.Raw)
		}
	}
	if l.content != out.Content.S || l.reasoning != out.Reasoning.S || !equalInts(l.calls, calls) {
		t.Errorf("events say %q %q %v, the result %q %q %v", l.reasoning, l.content, l.calls, out.Reasoning.S, out.Content.S, calls)
	}
	return out
}

func equalInts(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func vectors(t *testing.T, kind string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testkit.Root(), "vectors", kind, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors of %s: %v", kind, err)
	}
	return files
}

func load(t *testing.T, file string, v any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func save(t *testing.T, file string, v any) {
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

func user(s string) chat.Message { return chat.Message{Role: chat.User, Content: chat.T(s)} }

// seeds is how many random cases an ordinary run tries of n: a third, and all with TITO_LONG.
func seeds(n uint64) uint64 {
	if os.Getenv("TITO_LONG") == "" {
		return (n + 2) / 3
	}
	return n
}
