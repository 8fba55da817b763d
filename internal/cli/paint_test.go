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
		if a.paint() != (paint{}) {
			t.Errorf("%T is no terminal", a.Out)
		}
	}
	if (paint{}).in(red, "x") != "x" || (paint{colour: true}).in(red, "x") != "\x1b[31mx\x1b[0m" || (paint{colour: true}).in(red, "") != "" {
		t.Error("colours")
	}
}

func TestTextDoesNotCommandATerminal(t *testing.T) {
	const s = "a\x1b[2J\tb\r\n\u009b\a日本"
	if got := (paint{terminal: true}).text(s); got != `a\x1b[2J`+"\tb"+`\r`+"\n"+`\u009b\a`+"日本" {
		t.Errorf("%q", got)
	}
	if (paint{}).text(s) != s {
		t.Error("a file gets what there is")
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
	table(&plain, paint{}, tokens, true)
	table(&coloured, paint{colour: true}, tokens, true)
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
	at := func(ids []token.ID, texts ...string) []shownToken {
		out := make([]shownToken, len(ids))
		from := 0
		for i, id := range ids {
			out[i] = shownToken{ID: id, Start: from, End: from + len(texts[i]), raw: []byte(texts[i])}
			from = out[i].End
		}
		return out
	}
	type ids = []token.ID
	other := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		native, safe []shownToken
		want         []difference
	}{
		"None":   {at(ids{1, 2}, "a", "b"), at(ids{1, 2}, "a", "b"), []difference{}},
		"Middle": {at(ids{1, 9, 2}, "a", "<x>", "b"), at(ids{1, 3, 4, 2}, "a", "<", "x>", "b"), []difference{{1, 4, "<x>", ids{9}, ids{3, 4}, nil, nil}}},
		"Two": {at(ids{9, 1, 9}, "<x>", "a", "<x>"), at(ids{3, 4, 1, 3, 4}, "<", "x>", "a", "<", "x>"),
			[]difference{{0, 3, "<x>", ids{9}, ids{3, 4}, nil, nil}, {4, 7, "<x>", ids{9}, ids{3, 4}, nil, nil}}},
		"OtherTexts": {at(ids{1, 2, 5}, "a", "b", "e"), at(ids{1, 9, 2, 5}, "a", "<x>", "b", "e"),
			[]difference{{1, 1, "", ids{}, ids{9}, other("<x>"), nil}}},
		"NothingInCommon": {nil, at(ids{1}, "a"), []difference{{0, 0, "", ids{}, ids{1}, other("a"), nil}}},
	} {
		t.Run(name, func(t *testing.T) {
			text := func(ts []shownToken) (s string) {
				for _, x := range ts {
					s += string(x.raw)
				}
				return s
			}
			got := differences(c.native, c.safe, text(c.native) == text(c.safe))
			if d := cmp.Diff(c.want, got, cmp.AllowUnexported(difference{})); d != "" {
				t.Error(d)
			}
		})
	}
}
