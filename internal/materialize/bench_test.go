package materialize_test

import (
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// longChain is one conversation of 200 turns with 128k ids at its end.
func longChain(b *testing.B) *trajectory.Tree {
	tree := trajectory.New(trajectory.Header{Model: trajectory.ModelInfo{Family: "test"}, Policy: trajectory.DefaultPolicy()})
	size := 0
	for seq := trajectory.Seq(1); seq <= 200; seq++ {
		n := &trajectory.Turn{Seq: seq, Parent: seq - 1, Base: seq - 1, Keep: size, Suffix: make([]token.ID, 320), Completion: make([]token.ID, 320),
			Why: trajectory.WhyPrefix, Class: trajectory.ClassPolicy, Finish: trajectory.FinishStop, Prompt: trajectory.PromptEchoed, Stop: -1,
			Sampling: chat.Neutral(), Processed: true}
		for i := range n.Completion {
			n.Suffix[i] = token.ID(int(seq)*7919+i*31) % 150000
			n.Completion[i] = token.ID(int(seq)*104729+i*17) % 150000
			n.Logprobs = append(n.Logprobs, -float32(i%97)/13)
		}
		if err := tree.Add(n); err != nil {
			b.Fatal(err)
		}
		if err := tree.SetDelivery(trajectory.DeliveryFact{Seq: seq, State: trajectory.DeliveryDelivered}); err != nil {
			b.Fatal(err)
		}
		size += 640
	}
	return tree
}

func BenchmarkRunOf128kTokensIn200Turns(b *testing.B) {
	tree := longChain(b)
	for b.Loop() {
		if _, err := materialize.Run(tree, materialize.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJSONOf128kTokens(b *testing.B) {
	run, err := materialize.Run(longChain(b), materialize.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var out []byte
	for b.Loop() {
		out = run.AppendJSON(out[:0])
	}
	b.SetBytes(int64(len(out)))
}
