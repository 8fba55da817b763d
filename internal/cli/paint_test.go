package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/token"
)

func TestOnlyATerminalIsColoured(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	none := func(string) string { return "" }
	for _, a := range []app{{Streams: Streams{Out: f, Env: none}}, {Streams: Streams{Out: &strings.Builder{}, Env: none}}} {
		if a.paint() {
			t.Errorf("%T is no terminal", a.Out)
		}
	}
	if paint(false).in(red, "x") != "x" || paint(true).in(red, "x") != "\x1b[31mx\x1b[0m" || paint(true).in(red, "") != "" {
		t.Error("colours")
	}
}

func TestATableShowsWhoseATokenIs(t *testing.T) {
	m, err := model.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	ids := m.Tokenizer.Encode("<|im_end|><think>a\n")
	tokens, _ := tokensOf(m.Tokenizer, ids)
	tokens[2].origin = &origin{Message: 3, Role: "tool", Field: "content"}
	var plain, coloured strings.Builder
	table(&plain, false, tokens, true)
	table(&coloured, true, tokens, true)
	want := ` offset      id  kind    bytes                      message role      field     token
      0    4089  special 3c7c696d5f656e647c3e                                   "<|im_end|>"
     10    4090  added   3c7468696e6b3e                                         "<think>"
     17      97  text    61                               3 tool      content   "a"
     18      10  text    0a                                                     "\n"
`
	if d := cmp.Diff(want, plain.String()); d != "" {
		t.Error(d)
	}
	for _, s := range []string{"\x1b[35m\"<|im_end|>\"", "\x1b[36m\"<think>\"", "\x1b[32m\"a\"", "\x1b[2m\"\\n\""} {
		if !strings.Contains(coloured.String(), s) {
			t.Errorf("no %q in %q", s, coloured.String())
		}
	}
}

func TestInvalidBytesAreNamed(t *testing.T) {
	want := []stretch{{1, 3, "ffe2"}, {4, 5, "80"}}
	if d := cmp.Diff(want, invalid([]byte("a\xff\xe2b\x80\ufffd"))); d != "" {
		t.Error(d)
	}
}

func TestADifferenceEndsWhereBothStandAtTheSameByte(t *testing.T) {
	at := func(ids []token.ID, ends ...int) []shownToken {
		out := make([]shownToken, len(ids))
		from := 0
		for i, id := range ids {
			out[i] = shownToken{ID: id, Start: from, End: ends[i], Text: "t"}
			from = ends[i]
		}
		return out
	}
	for name, c := range map[string]struct {
		native, safe []shownToken
		want         []difference
	}{
		"None":   {at([]token.ID{1, 2}, 1, 3), at([]token.ID{1, 2}, 1, 3), []difference{}},
		"Middle": {at([]token.ID{1, 9, 2}, 1, 5, 6), at([]token.ID{1, 3, 4, 2}, 1, 2, 5, 6), []difference{{1, 5, "t", []token.ID{9}, []token.ID{3, 4}, nil}}},
		"Two":    {at([]token.ID{9, 1, 9}, 2, 3, 5), at([]token.ID{3, 4, 1, 3, 4}, 1, 2, 3, 4, 5), []difference{{0, 2, "t", []token.ID{9}, []token.ID{3, 4}, nil}, {3, 5, "t", []token.ID{9}, []token.ID{3, 4}, nil}}},
		"Longer": {at([]token.ID{1}, 1), at([]token.ID{1, 2}, 1, 2), []difference{{1, 2, "t", []token.ID{}, []token.ID{2}, nil}}},
		"Empty":  {nil, at([]token.ID{1}, 1), []difference{{0, 1, "t", []token.ID{}, []token.ID{1}, nil}}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, differences(c.native, c.safe), cmp.AllowUnexported(difference{})); d != "" {
				t.Error(d)
			}
		})
	}
}
