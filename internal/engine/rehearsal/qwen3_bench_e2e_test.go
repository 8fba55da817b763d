//go:build e2e

package rehearsal

import (
	"fmt"
	"testing"

	"github.com/tito-rl/tito/internal/engine/enginetest"
	policy "github.com/tito-rl/tito/internal/rehearsal"
)

// BenchmarkE2EQwen3 answers prompts of Qwen3's tokens in process under the built-in books: the engine's own share of a turn.
func BenchmarkE2EQwen3(b *testing.B) {
	tok, f := qwen3(b)
	format, err := FormatOf(tok, f)
	if err != nil {
		b.Fatal(err)
	}
	p, err := policy.Compile(builtinBook(b), format)
	if err != nil {
		b.Fatal(err)
	}
	e, err := New(Config{Policy: p, Params: p.Initial("v1"), MaxContext: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	text := "The script `/app/total.sh` should print the sum "
	for len(text) < 1<<20 {
		text += "of the prices in the file that it is given, one a line. "
	}
	ids := tok.Encode(text)
	for _, n := range []int{4 << 10, 128 << 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			prompt := append(ids[:n:n], format.Opener...)
			for b.Loop() {
				if got := enginetest.Collect(b.Context(), e, enginetest.Request(prompt, "k")); got.Code != "" {
					b.Fatal(got.Code)
				}
			}
		})
	}
}
