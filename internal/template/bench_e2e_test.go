//go:build e2e

package template

import (
	"testing"

	"github.com/tito-rl/tito/internal/ojson"
)

func BenchmarkQwen3(b *testing.B) {
	tm, err := Compile(qwen3(b))
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		turns int
	}{{"rounds=3", 3}, {"rounds=100", 100}} {
		vars, err := ojson.Parse([]byte(`{"messages":` + longConversation(c.turns) + `,"tools":` + tools + `,"add_generation_prompt":true}`))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				out, err := tm.Render(vars.Members(), noon)
				if err != nil {
					b.Fatal(err)
				}
				n = len(out)
			}
			b.SetBytes(int64(n))
		})
	}
}

func BenchmarkCompileQwen3(b *testing.B) {
	src := qwen3(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(src); err != nil {
			b.Fatal(err)
		}
	}
}
