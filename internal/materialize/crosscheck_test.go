package materialize_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/trajectory"
	"github.com/tito-rl/tito/internal/verify"
)

// TestTheIndependentReaderDerivesTheSameRuns: verify shares no code with this package; on random forests both must come to
// the same segments, masks, log probabilities and ledger.
func TestTheIndependentReaderDerivesTheSameRuns(t *testing.T) {
	segments := 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 9))
		f := randomForest(t, r)
		pol := randomPolicy(r)
		run, err := materialize.Run(f.tree, materialize.Options{Policy: pol})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		rep, err := verify.Verify(f.artifact(t), verify.Options{Policy: &pol, Runs: run.AppendJSON(nil)})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if rep.Runs != 1 || rep.Segments != len(run.Segments) {
			t.Fatalf("seed %d: %d runs compared, %d segments derived, %d made", seed, rep.Runs, rep.Segments, len(run.Segments))
		}
		segments += len(run.Segments)
	}
	if segments == 0 {
		t.Fatal("no segments were compared")
	}
}

// artifact writes the forest as its file.
func (f *forest) artifact(t *testing.T) []byte {
	t.Helper()
	w := artifact.NewWriter()
	var out []byte
	put := func(b []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	put(w.Header(f.tree.Header()))
	for i := range messageKinds {
		b, _, err := w.Blob(fmt.Append(nil, i))
		put(b, err)
	}
	for _, n := range f.turns {
		put(w.Turn(n))
		put(w.Delivery(f.tree.Delivery(n.Seq)))
	}
	put(w.End(trajectory.End{Reason: "finished", Turns: len(f.turns)}))
	return out
}
