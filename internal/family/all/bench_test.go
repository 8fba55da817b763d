package all

import (
	"slices"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/token"
)

// BenchmarkParse reads 32k ids one by one: words, one value of a call that never ends, and calls that are cut off.
func BenchmarkParse(b *testing.B) {
	const n = 32000
	subjects := map[string]*subject{"chatml": bundle(b)}
	for name, m := range models {
		subjects[name] = m.bind(b)
	}
	for name, f := range subjects {
		words := f.tok.EncodeBody(strings.Repeat("word ", n))[:n]
		open := f.babbleOpening(b)
		for what, ids := range map[string][]token.ID{"Words": words, "Value": append(slices.Clone(open), words[:n-len(open)]...), "Broken": f.broken(open, n)} {
			b.Run(name+"/"+what, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					p := f.Parse(family.ParseInput{})
					for i := range ids {
						p.Add(ids[i : i+1])
					}
					p.Done(false)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/id")
			})
		}
	}
}

// babbleOpening is the beginning of a call, up to its first value.
func (f *subject) babbleOpening(b *testing.B) []token.ID {
	var out []token.ID
	for _, s := range []string{f.Call, "\n<function=bash>\n<parameter=k>\n", `<invoke name="bash">` + "\n" + `<parameter name="k">`, `{"name": "bash", "arguments": {"k": "`} {
		out = append(out, f.tok.Encode(s)...)
	}
	return out
}

// broken is calls, each closed inside its first value, n ids in all.
func (f *subject) broken(open []token.ID, n int) []token.ID {
	if id, ok := f.tok.Lookup(f.Called); ok && f.Called != "" {
		open = append(slices.Clone(open), id)
	}
	open = append(slices.Clone(open), f.tok.EncodeBody(" x ")...)
	return slices.Repeat(open, n/len(open)+1)[:n]
}
