package tokenizer

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/fault"
)

// checkCompiled compares a tokenizer with what its compiled form gives.
func checkCompiled(t *testing.T, tok *Tokenizer) {
	t.Helper()
	again, err := LoadCompiled(tok.Compiled("k"), "k")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tok.Added(), again.Added()); diff != "" || again.VocabSize() != tok.VocabSize() {
		t.Errorf("-before +after\n%s", diff)
	}
	for _, text := range goldenTexts(7) {
		ids := tok.Encode(text)
		if got := again.Encode(text); !slices.Equal(got, ids) {
			t.Fatalf("%q\n got %v\nwant %v", text, got, ids)
		}
		if got, want := again.Decode(ids), tok.Decode(ids); !bytes.Equal(got, want) {
			t.Fatalf("%v decode to %q, want %q", ids, got, want)
		}
	}
}

func TestADamagedCompiledFormIsRefused(t *testing.T) {
	whole := load(t, variant(t, variants["Gemma"])).Compiled("k")
	if _, err := LoadCompiled(whole, "other"); fault.CodeOf(err) != fault.BadTokenizer {
		t.Errorf("under another key: %v", err)
	}
	r := rand.New(rand.NewPCG(12, 12))
	head := len(compiledMagic) + 4
	for i := range 100 {
		b := slices.Clone(whole)
		if at := r.IntN(len(b)); i%3 == 0 {
			b = b[:at]
		} else {
			b[at] ^= byte(1 + r.IntN(255))
		}
		if _, err := LoadCompiled(b, "k"); fault.CodeOf(err) != fault.BadTokenizer {
			t.Fatalf("damage %d: %v", i, err)
		}
		// Behind a right checksum damage may go unseen, but never panics or hangs.
		if len(b) > head {
			for range 5 {
				b[head+r.IntN(len(b)-head)] ^= byte(r.IntN(256))
			}
			sign(b)
			if tok, err := LoadCompiled(b, "k"); err == nil {
				tok.Decode(tok.Encode(traps[len(traps)-1]))
			}
		}
	}
}
