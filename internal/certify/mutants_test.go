package certify

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/family/all"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
	"github.com/tito-rl/tito/vectors"
)

func read(t testing.TB, from fs.FS, name string) string {
	t.Helper()
	b, err := fs.ReadFile(from, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// bundle is the built-in model's tokenizer and its template's source.
func bundle(t testing.TB) (*tokenizer.Tokenizer, string) {
	t.Helper()
	tok, err := tokenizer.Load([]byte(read(t, builtin.Bundle, "bundle/tokenizer.json")))
	if err != nil {
		t.Fatal(err)
	}
	return tok, read(t, builtin.Bundle, "bundle/chat_template.jinja")
}

func bind(t testing.TB, tok *tokenizer.Tokenizer, src string) Model {
	t.Helper()
	tpl, err := template.Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	f, err := all.New(tok, tpl, family.Options{Tokens: []ojson.Member{{Key: "eos_token", Value: ojson.StringOf("<|im_end|>")}}})
	if err != nil {
		t.Fatal(err)
	}
	return Model{Family: f, Tokenizer: tok, BOS: "<|endoftext|>"}
}

// proveFew proves over every 23rd history: more than the mutants need, and fast under the race detector.
func proveFew(m Model) *Result {
	p := newProver(m)
	var few []history
	for i, h := range p.histories {
		if i%23 == 0 {
			few = append(few, h)
		}
	}
	p.histories = few
	return p.prove()
}

func find(t testing.TB, r *Result, name string) (Claim, string) {
	t.Helper()
	for _, l := range r.Levels {
		for _, c := range l.Claims {
			if c.Claim == name {
				return c, l.Level
			}
		}
	}
	t.Fatalf("no claim %s", name)
	return Claim{}, ""
}

func TestEachMutantIsRefutedAtItsLevel(t *testing.T) {
	var file struct {
		Mutants []struct {
			Name, Level, Claim string
			Replace            []struct{ Old, New string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, vectors.FS, "qualify/mutants.json")), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Mutants) < 12 {
		t.Fatalf("%d mutants", len(file.Mutants))
	}
	tok, src := bundle(t)
	whole := proveFew(bind(t, tok, src))
	for _, m := range file.Mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			mutant := src
			for _, r := range m.Replace {
				if strings.Count(mutant, r.Old) != 1 {
					t.Fatalf("%q is there %d times", r.Old, strings.Count(mutant, r.Old))
				}
				mutant = strings.Replace(mutant, r.Old, r.New, 1)
			}
			r := proveFew(bind(t, tok, mutant))
			c, level := find(t, r, m.Claim)
			if c.Verdict != Refuted || level != m.Level || c.Counter == nil || len(c.Counter.Messages) == 0 {
				t.Fatalf("%s at %s is %s: %+v", m.Claim, level, c.Verdict, c)
			}
			if had, _ := find(t, whole, m.Claim); had.Verdict != Proved {
				t.Fatalf("%s is %s without the change", m.Claim, had.Verdict)
			}
			if r.Digest == whole.Digest {
				t.Error("the digest does not tell it from the original")
			}
		})
	}
}

func TestTheBundleIsProvedAndTheResultIsTheSameTwice(t *testing.T) {
	tok, src := bundle(t)
	m := bind(t, tok, src)
	a, b := proveFew(m), proveFew(m)
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if y, _ := json.Marshal(b); string(x) != string(y) {
		t.Error("two proofs differ")
	}
	for _, l := range a.Levels {
		if l.Verdict != Proved {
			t.Errorf("%s is %s", l.Level, l.Verdict)
		}
		for _, c := range l.Claims {
			if c.Verdict == Refuted && !strings.HasPrefix(c.Claim, "append.split_batch") {
				t.Errorf("%s: %s %+v", c.Claim, c.Why, c.Counter)
			}
		}
	}
}

func TestTheCorpusHasEveryFormOfReply(t *testing.T) {
	tok, src := bundle(t)
	m := bind(t, tok, src)
	n, wides := 0, 0
	kinds := map[string]int{}
	for _, h := range corpus(m.Family) {
		n++
		if h.wide {
			wides++
		}
		for _, a := range appends(h) {
			kinds[kindOf(h, a.kind)]++
		}
	}
	if n < 1200 || wides < 500 {
		t.Errorf("%d histories, %d wide", n, wides)
	}
	for _, k := range Kinds() {
		if kinds[k] < 100 || kinds[k+toolless] < 30 {
			t.Errorf("%s: %d, without tools %d", k, kinds[k], kinds[k+toolless])
		}
	}
	if len(Cases(m.Family)) < 200 {
		t.Errorf("%d cases", len(Cases(m.Family)))
	}
}
