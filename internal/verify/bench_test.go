package verify_test

import (
	"fmt"
	"testing"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
	"github.com/tito-rl/tito/internal/verify"
)

// longArtifact is one conversation of n turns, 500 new ids each, with its messages. Each turn loses its stop to a realign
// where realign says so.
func longArtifact(tb testing.TB, n int, realign bool) []byte {
	w := artifact.NewWriter()
	var out []byte
	put := func(b []byte, err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, b...)
	}
	put(w.Header(trajectory.Header{Identities: trajectory.Identities{Trajectory: "t"}, Custody: "host", Prompt: "full_history", RenderBy: "tito",
		Policy: trajectory.DefaultPolicy(), VocabSize: 151936}))
	size, messages := 0, 0
	for seq := trajectory.Seq(1); int(seq) <= n; seq++ {
		t := &trajectory.Turn{Seq: seq, Parent: seq - 1, Base: seq - 1, Keep: size, Suffix: make([]token.ID, 400), Completion: make([]token.ID, 100),
			Why: trajectory.WhyEcho, Class: trajectory.ClassPolicy, Finish: trajectory.FinishStop, Prompt: trajectory.PromptEchoed, Stop: -1,
			Sampling: chat.Neutral(), Processed: true, MsgBase: seq - 1, MsgKeep: messages, Logprobs: make([]float32, 100)}
		if seq == 1 {
			t.Why = trajectory.WhyFirst
		} else {
			t.Echoes = []trajectory.Echo{{Message: messages, Turn: seq - 1, Verdict: trajectory.EchoExact, By: "ids"}}
			if realign {
				t.Keep -= 2
			}
		}
		for i := range t.Suffix {
			t.Suffix[i] = token.ID(int(seq)*7919+i*31) % 150000
		}
		for i := range t.Completion {
			t.Completion[i], t.Logprobs[i] = token.ID(int(seq)*104729+i*17)%150000, -float32((int(seq)+i)%97)/13
		}
		for i := range 2 {
			b, h, err := w.Blob(fmt.Appendf(nil, `{"role":"tool","content":"%d %d"}`, seq, i))
			put(b, err)
			t.MsgNew = append(t.MsgNew, h)
		}
		put(w.Turn(t))
		put(w.Delivery(trajectory.DeliveryFact{Seq: seq, State: trajectory.DeliveryDelivered}))
		size, messages = t.Keep+500, messages+2
	}
	put(w.End(trajectory.End{Reason: "finished"}))
	return out
}

// Costs per turn that grow with the number of turns would show here as a tenfold figure.
func BenchmarkLongTrajectory(b *testing.B) {
	for _, n := range []int{100, 1000} {
		file := longArtifact(b, n, true)
		f, err := artifact.Decode(file)
		if err != nil {
			b.Fatal(err)
		}
		tree, err := artifact.ToTree(f)
		if err != nil {
			b.Fatal(err)
		}
		run, err := materialize.Run(tree, materialize.Options{})
		if err != nil || len(run.Segments) != 1 {
			b.Fatal(err)
		}
		rows := run.AppendJSON(nil)
		for _, c := range []struct {
			name string
			do   func() error
		}{
			{"write", func() error { longArtifact(b, n, true); return nil }},
			{"decode", func() error { _, err := artifact.Decode(file); return err }},
			{"tree", func() error { _, err := artifact.ToTree(f); return err }},
			{"fates", func() error { trajectory.Fates(tree, trajectory.DefaultPolicy()); return nil }},
			{"materialize", func() error { _, err := materialize.Run(tree, materialize.Options{}); return err }},
			{"verify", func() error { _, err := verify.Verify(file, verify.Options{}); return err }},
			{"compare", func() error { _, err := verify.Verify(file, verify.Options{Runs: rows}); return err }},
		} {
			b.Run(fmt.Sprintf("%s/turns=%d", c.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := c.do(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n)/1000, "µs/turn")
			})
		}
	}
}
