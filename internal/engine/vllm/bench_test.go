package vllm

import (
	"fmt"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/engine/enginetest"
	"github.com/tito-rl/tito/internal/engine/rehearsal"
	"github.com/tito-rl/tito/internal/token"
)

// long is an engine that answers every prompt with n ids.
func long(b *testing.B, n int) *rehearsal.Engine {
	b.Helper()
	text := make([]byte, n-1)
	for i := range text {
		text[i] = byte('A' + i%26)
	}
	p, err := policyOf(string(text))
	if err != nil {
		b.Fatal(err)
	}
	e, err := rehearsal.New(rehearsal.Config{Policy: p, Params: p.Initial("v1"), Chunk: 1, MaxContext: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	return e
}

func run(b *testing.B, e engine.Engine, prompt []token.ID, want int) {
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		r := engine.Request{IDs: prompt, MaxTokens: want, Sampling: chat.Neutral(), Stops: []token.ID{enginetest.ToyStop}}
		got := enginetest.Collect(b.Context(), e, r)
		if got.Code != "" || len(got.IDs) != want {
			b.Fatalf("%q after %d ids", got.Code, len(got.IDs))
		}
		n += want
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkGenerate is one stream at a time over loopback, one id an event, server and client on the same processors.
func BenchmarkGenerate(b *testing.B) {
	e := long(b, 1000)
	c, stop := over(b, e, 0)
	defer stop()
	run(b, c, enginetest.Prompt("go"), 1000)
}

// BenchmarkGenerateInIntervals asks the server for 16 ids an event.
func BenchmarkGenerateInIntervals(b *testing.B) {
	e := long(b, 1000)
	c, stop := over(b, e, 16)
	defer stop()
	run(b, c, enginetest.Prompt("go"), 1000)
}

// BenchmarkPrompt sends long prompts, whose ids come back in the first event.
func BenchmarkPrompt(b *testing.B) {
	for _, n := range []int{8 << 10, 128 << 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			e := long(b, 2)
			c, stop := over(b, e, 0)
			defer stop()
			prompt := make([]token.ID, n)
			for i := range prompt {
				prompt[i] = token.ID(i*7919) % 150000
			}
			run(b, c, prompt, 2)
		})
	}
}

// BenchmarkEvent reads one event of one id.
func BenchmarkEvent(b *testing.B) {
	b.ReportAllocs()
	s := &stream{prompt: []token.ID{5, 6, 7}, stop: -1, usage: -1}
	if err := s.event(evFirst); err != nil {
		b.Fatal(err)
	}
	data := []byte(evNext)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		s.ready = s.ready[:0]
		if err := s.event(string(data)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBody writes the request for a long prompt.
func BenchmarkBody(b *testing.B) {
	b.ReportAllocs()
	c, err := New(Config{URL: "http://engine"})
	if err != nil {
		b.Fatal(err)
	}
	r := engine.Request{IDs: make([]token.ID, 128<<10), MaxTokens: 1, Sampling: chat.Neutral()}
	for i := range r.IDs {
		r.IDs[i] = token.ID(i*7919) % 150000
	}
	for b.Loop() {
		if _, err := c.body(r); err != nil {
			b.Fatal(err)
		}
	}
}
