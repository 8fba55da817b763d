//go:build e2e

package rehearsal

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/engine/enginetest"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/family/chatml"
	"github.com/tito-rl/tito/internal/ojson"
	policy "github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// qwen3 loads Qwen3's own tokenizer and template.
func qwen3(t testing.TB) (*tokenizer.Tokenizer, family.Family) {
	t.Helper()
	dir := testkit.Qwen3(t)
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	tok, err := tokenizer.Load(read("tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := ojson.Parse(read("tokenizer_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	src, _ := config.Get("chat_template")
	tpl, err := template.Compile(src.Str())
	if err != nil {
		t.Fatal(err)
	}
	f, err := chatml.New(tok, tpl, family.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tok, f
}

func builtinBook(t testing.TB) *policy.Book {
	t.Helper()
	var books []*policy.Book
	err := fs.WalkDir(builtin.Tasks, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "rehearsal.json" {
			return err
		}
		data, err := fs.ReadFile(builtin.Tasks, path)
		if err != nil {
			return err
		}
		b, err := policy.ParseBook(data)
		books = append(books, b)
		return err
	})
	if err != nil || len(books) < 8 {
		t.Fatalf("%d books: %v", len(books), err)
	}
	m, err := policy.Merge(books...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestE2EQwen3PlaysTheBuiltInBooks(t *testing.T) {
	tok, f := qwen3(t)
	format, err := FormatOf(tok, f)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Decode(format.Opener); !strings.HasPrefix(strings.TrimLeft(got, "\n"), "<|im_start|>assistant") {
		t.Fatalf("opener %q", got)
	}
	book := builtinBook(t)
	p, err := policy.Compile(book, format)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Policy: p, Params: p.Initial("v1")})
	if err != nil {
		t.Fatal(err)
	}
	w := e.Weights()
	scenes := 0
	for _, s := range book.Scenes {
		ms := []chat.Message{{Role: chat.User, Content: chat.T(strings.Join(s.Match, "\n"))}}
		for turn := range 3 {
			r, err := f.Render(family.Conversation{Messages: ms})
			if err != nil {
				t.Fatal(err)
			}
			state := p.State(r.IDs)
			if state.Scene == policy.DefaultScene || state.Turn != turn {
				t.Errorf("%s, turn %d: %+v", s.Name, turn, state)
			}
			got := enginetest.Collect(t.Context(), e, enginetest.Request(r.IDs, s.Name))
			if got.Code != "" {
				t.Fatalf("%s: %s", s.Name, got.Code)
			}
			want, err := w.Logprobs(r.IDs, got.IDs)
			if err != nil || len(want) != len(got.Logprobs) {
				t.Fatalf("%s: %v", s.Name, err)
			}
			parsed := parseReply(f, r.IDs, got.IDs)
			ms = append(ms, parsed)
			for _, c := range parsed.Calls {
				ms = append(ms, chat.Message{Role: chat.Tool, CallID: c.ID, Content: chat.T("ok")})
			}
			ms = append(ms, chat.Message{Role: chat.User, Content: chat.T("go on")})
			scenes++
		}
	}
	if scenes < 24 {
		t.Errorf("only %d situations were played", scenes)
	}
}

func parseReply(f family.Family, prompt, ids []token.ID) chat.Message {
	ps := f.Parse(family.ParseInput{Prompt: prompt})
	ps.Add(ids)
	parsed, _ := ps.Done(true)
	m := chat.Message{Role: chat.Assistant, Content: parsed.Content, Reasoning: parsed.Reasoning}
	for _, a := range parsed.Calls {
		if a.IsCall {
			m.Calls = append(m.Calls, chat.Call{ID: "c", Name: a.Name, Arguments: a.Arguments})
		}
	}
	return m
}
