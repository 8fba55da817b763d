package train

import (
	"fmt"
	"math"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/rehearsal"
)

// gradient adds up the runs of a batch.
type gradient struct {
	t       *Rehearsal
	version int // the batch's
	into    []float64
	weights map[string]*rehearsal.Weights // by version
	tokens  int
	logprob float64 // sum over the trained ids
}

// run checks and learns one run. Every id that the ledger counts as trained must pass the check, each once.
func (g *gradient) run(r *materialize.RolloutRun) error {
	if r.Advantage == nil {
		return fault.New(fault.TrainerFailed, "run %s has no advantage", r.RunID)
	}
	before := g.tokens
	for i := range r.Segments {
		s := &r.Segments[i]
		if len(s.LossMask) != len(s.Tokens) || len(s.Logprobs) != len(s.Tokens) {
			return fault.New(fault.TrainerMismatch, "run %s, segment %d: %d ids, %d mask entries, %d log probabilities", r.RunID, i,
				len(s.Tokens), len(s.LossMask), len(s.Logprobs))
		}
		for _, turn := range s.Turns {
			if !turn.Trains {
				continue
			}
			if err := g.turn(s, turn, *r.Advantage); err != nil {
				return fault.Wrap(fault.TrainerMismatch, err, "run %s, segment %d, turn %d", r.RunID, i, turn.Turn)
			}
		}
		if masked := ones(s.LossMask); masked != s.Trained {
			return fault.New(fault.TrainerMismatch, "run %s, segment %d: %d ids are marked, %d are said to train", r.RunID, i, masked, s.Trained)
		}
	}
	if n := g.tokens - before; n != r.Ledger.Trained {
		return fault.New(fault.TrainerMismatch, "run %s: %d ids passed the check, the ledger counts %d as trained", r.RunID, n, r.Ledger.Trained)
	}
	return nil
}

func ones(mask []uint8) int {
	n := 0
	for _, m := range mask {
		n += int(m)
	}
	return n
}

// turn checks and learns one turn's ids, each under its own version.
func (g *gradient) turn(s *materialize.Segment, turn materialize.TurnSpan, advantage float64) error {
	if turn.Start < 0 || turn.Start > turn.End || turn.End > len(s.Tokens) {
		return fault.New(fault.TrainerMismatch, "ids %d to %d of %d", turn.Start, turn.End, len(s.Tokens))
	}
	completion := s.Tokens[turn.Start:turn.End]
	state := g.t.Policy.State(s.Tokens[:turn.Start])
	for _, v := range s.Versions {
		from, to := max(v.Start, turn.Start)-turn.Start, min(v.End, turn.End)-turn.Start
		if from >= to {
			continue
		}
		w, err := g.at(v.Version)
		if err != nil {
			return err
		}
		again, err := w.LogprobsIn(state, completion[:to])
		if err != nil {
			return err
		}
		scale := make([]float64, to) // 0 for the ids of other versions
		for i := from; i < to; i++ {
			at := turn.Start + i
			if s.LossMask[at] == 0 {
				continue
			}
			if math.Float32bits(float32(again[i])) != math.Float32bits(s.Logprobs[at]) {
				return fault.New(fault.TrainerMismatch, "id %d at %d was recorded with log probability %v; under %s it is %v", completion[i], at,
					s.Logprobs[at], v.Version, float32(again[i])).
					WithFix("run tito verify and tito explain on the artifact: ids, positions or versions are not what was sampled")
			}
			scale[i] = advantage
			g.tokens++
			g.logprob += again[i]
		}
		if err := w.GradIn(state, completion[:to], scale, g.into); err != nil {
			return err
		}
	}
	return nil
}

// at is the policy under the version of that name, which must be published by the time of the batch.
func (g *gradient) at(version string) (*rehearsal.Weights, error) {
	if w := g.weights[version]; w != nil {
		return w, nil
	}
	var n int
	if _, err := fmt.Sscanf(version, "v%d", &n); err != nil || VersionName(n) != version || n < 0 || n > g.version {
		return nil, fault.New(fault.TrainerMismatch, "version %q is not one that the run had published by then", version)
	}
	p, err := g.t.Load(n)
	if err != nil {
		return nil, err
	}
	w, err := g.t.Policy.At(p)
	if err != nil {
		return nil, err
	}
	g.weights[version] = w
	return w, nil
}
