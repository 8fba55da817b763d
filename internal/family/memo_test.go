package family

import (
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

func load(t testing.TB) (*tokenizer.Tokenizer, tokenizer.AddedToken) {
	t.Helper()
	b, err := builtin.Bundle.ReadFile("bundle/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range tok.Added() {
		if a.Content == "<|im_start|>" {
			if !Isolating(a, tok.Added()) {
				t.Fatal("<|im_start|> is not isolating")
			}
			return tok, a
		}
	}
	t.Fatal("no <|im_start|>")
	return nil, tokenizer.AddedToken{}
}

func TestEncodingWithAMemoEqualsEncodingWithoutOne(t *testing.T) {
	tok, cut := load(t)
	pieces := []string{"<|im_start|>", "<|im_start|>user\n", "<|im_end|>\n", "<\uFDD0|im_start|>", "\n", " ", "word", "words ", "é", "<|im_", "start|>", "<think>", "1", "\n\n", "😀"}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		var memo Memo
		text := ""
		for range 12 {
			switch n := len(text); r.IntN(4) {
			case 0: // the history changed somewhere
				text = text[:strings.LastIndex(text[:r.IntN(n+1)], "<")+1]
				text = strings.ToValidUTF8(text, "")
			case 1: // another conversation
				if r.IntN(4) == 0 {
					text = ""
				}
			}
			for range r.IntN(6) {
				text += pieces[r.IntN(len(pieces))]
			}
			mark := []rune{0, '\uFDD0', '\uFDD0', '\uFDD1'}[r.IntN(4)] // which a rune of the text is in one render, and not in the next
			want := encode(tok, text, mark)
			if got := memo.Encode(tok, text, mark, cut); !slices.Equal(want, got) {
				t.Fatalf("seed %d, %q:\nwant %v\n got %v", seed, text, want, got)
			}
		}
	}
}

func TestTheCallerOwnsWhatAMemoGives(t *testing.T) {
	tok, cut := load(t)
	var memo Memo
	text := "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
	a := memo.Encode(tok, text, 0, cut)
	for i := range a {
		a[i] = 0
	}
	if b := memo.Encode(tok, text, 0, cut); !slices.Equal(b, tok.Encode(text)) {
		t.Errorf("%v", b)
	}
}

func TestATokenInsideAnotherIsNotIsolating(t *testing.T) {
	a := tokenizer.AddedToken{ID: 1, Content: "<a>"}
	for _, c := range []struct {
		with tokenizer.AddedToken
		all  []tokenizer.AddedToken
		want bool
	}{
		{a, []tokenizer.AddedToken{a}, true},
		{a, []tokenizer.AddedToken{a, {ID: 2, Content: "x<a>"}}, false},
		{tokenizer.AddedToken{ID: 1, Content: "<a>", RStrip: true}, nil, false},
		{tokenizer.AddedToken{ID: 1, Content: "<a>", Normalized: true}, nil, false},
	} {
		if got := Isolating(c.with, c.all); got != c.want {
			t.Errorf("%+v: %v", c.with, got)
		}
	}
}

func TestAMemoKeepsNothingOfTextThatIsCutIntoSlices(t *testing.T) {
	plain, cut := load(t)
	var ranks strings.Builder
	special := map[uint32]bool{}
	for _, a := range plain.Added() {
		special[uint32(a.ID)] = true
	}
	for id := range uint32(plain.VocabSize()) {
		if b, ok := plain.Bytes(token.ID(id)); ok && !special[id] {
			ranks.WriteString(base64.StdEncoding.EncodeToString(b) + " " + strconv.Itoa(int(id)) + "\n")
		}
	}
	tok, err := tokenizer.LoadRanks([]byte(ranks.String()), tokenizer.KimiRanks([]tokenizer.AddedToken{cut}))
	if err != nil {
		t.Fatal(err)
	}
	var memo Memo
	text := cut.Content
	for range 30 {
		text += strings.Repeat("the", 700) + cut.Content + strings.Repeat("x", 130)
		if got := memo.Encode(tok, text, 0, cut); !slices.Equal(got, tok.Encode(text)) {
			t.Fatalf("at %d bytes the ids differ", len(text))
		}
	}
}
