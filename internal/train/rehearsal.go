package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/token"
)

// Rehearsal trains the rehearsal policy by the policy gradient: for each trained id, advantage times the gradient of its
// log probability, summed over a run and averaged over the runs of a batch. Before it learns from an id it computes the
// id's log probability again, from the sample's own ids and the parameters of the version that is recorded for it: a single
// difference, of a single bit, stops the run. That is a check of the whole way from the engine to the sample.
type Rehearsal struct {
	Policy *rehearsal.Policy
	Dir    string  // holds one file of parameters a version; made where missing
	Rate   float64 // of the step
	// Install puts parameters into force in the engine.
	Install func(rehearsal.Params) error
}

// VersionName is how tokens name a version of the parameters.
func VersionName(version int) string { return fmt.Sprintf("v%d", version) }

func (t *Rehearsal) file(version int) string {
	return filepath.Join(t.Dir, fmt.Sprintf("params-%05d.txt", version))
}

// Load gives the parameters of a version; version 0 is the book's own.
func (t *Rehearsal) Load(version int) (rehearsal.Params, error) {
	if version == 0 {
		return t.Policy.Initial(VersionName(0)), nil
	}
	b, err := os.ReadFile(t.file(version))
	if err != nil {
		return rehearsal.Params{}, fault.Wrap(fault.CheckpointBad, err, "reading the parameters of %s", VersionName(version))
	}
	return rehearsal.ParseParams(b)
}

// Publish implements [Trainer].
func (t *Rehearsal) Publish(_ context.Context, version int) error {
	p, err := t.Load(version)
	if err != nil {
		return err
	}
	return t.Install(p)
}

// Step implements [Trainer]. The parameters that it makes are those of version b.Version+1.
func (t *Rehearsal) Step(_ context.Context, b Batch) (Metrics, error) {
	if _, err := os.Stat(t.file(b.Version + 1)); err == nil {
		return Metrics{}, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Metrics{}, fault.Wrap(fault.CheckpointBad, err, "looking for the step's result")
	}
	params, err := t.Load(b.Version)
	if err != nil {
		return Metrics{}, err
	}
	g := gradient{t: t, into: make([]float64, len(params.Theta)), weights: map[string]*rehearsal.Weights{}}
	runs := 0
	for _, group := range b.Samples {
		for _, run := range group {
			if err := g.run(run); err != nil {
				return Metrics{}, err
			}
			runs++
		}
	}
	next, err := params.Ascend(VersionName(b.Version+1), t.Rate/float64(max(runs, 1)), g.into)
	if err != nil {
		return Metrics{}, err
	}
	if err := os.MkdirAll(t.Dir, 0o755); err != nil {
		return Metrics{}, fault.Wrap(fault.StoreFailed, err, "making the checkpoint directory")
	}
	m := Metrics{GradNorm: norm(g.into) / float64(max(runs, 1)), Tokens: g.tokens, Checked: g.tokens}
	if g.tokens > 0 {
		m.Entropy = -g.logprob / float64(g.tokens)
	}
	return m, store.WriteFile(t.file(b.Version+1), next.Encode(), 0o644)
}

func norm(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x * x
	}
	return math.Sqrt(s)
}

// gradient adds up runs.
type gradient struct {
	t       *Rehearsal
	into    []float64
	weights map[string]*rehearsal.Weights // by version
	tokens  int
	logprob float64 // sum over the trained ids
}

func (g *gradient) run(r *materialize.RolloutRun) error {
	if r.Advantage == nil {
		return fault.New(fault.TrainerFailed, "run %s has no advantage", r.RunID)
	}
	for i := range r.Segments {
		s := &r.Segments[i]
		for _, turn := range s.Turns {
			if !turn.Trains || turn.Len() == 0 {
				continue
			}
			if err := g.turn(s, turn, *r.Advantage); err != nil {
				return fault.Wrap(fault.TrainerMismatch, err, "run %s, segment %d, turn %d", r.RunID, i, turn.Turn)
			}
		}
	}
	return nil
}

// turn checks and learns one turn's ids.
func (g *gradient) turn(s *materialize.Segment, turn materialize.TurnSpan, advantage float64) error {
	prompt, completion := s.Tokens[:turn.Start], s.Tokens[turn.Start:turn.End]
	state := g.t.Policy.State(prompt)
	scale := make([]float64, len(completion))
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
		for i := from; i < to; i++ {
			at := turn.Start + i
			if s.LossMask[at] == 0 {
				continue
			}
			if float32(again[i]) != s.Logprobs[at] {
				return mismatch(completion[i], at, v.Version, s.Logprobs[at], float32(again[i]))
			}
			scale[i] = advantage
			g.tokens++
			g.logprob += again[i]
		}
		if err := w.GradIn(state, completion[:to], masked(scale[:to], from), g.into); err != nil {
			return err
		}
	}
	return nil
}

// masked gives scale with its first from entries 0, so that each id counts under its own version alone.
func masked(scale []float64, from int) []float64 {
	if from == 0 {
		return scale
	}
	out := make([]float64, len(scale))
	copy(out[from:], scale[from:])
	return out
}

func mismatch(id token.ID, at int, version string, recorded, computed float32) error {
	return fault.New(fault.TrainerMismatch, "id %d at %d was recorded with log probability %v; under %s it is %v", id, at, recorded,
		version, computed).WithFix("run tito verify and tito explain on the artifact: ids, positions or versions are not what was sampled")
}

// at is the policy under the version of that name.
func (g *gradient) at(version string) (*rehearsal.Weights, error) {
	if w := g.weights[version]; w != nil {
		return w, nil
	}
	var n int
	if _, err := fmt.Sscanf(version, "v%d", &n); err != nil || VersionName(n) != version {
		return nil, fault.New(fault.TrainerMismatch, "version %q is not one that this run published", version)
	}
	p, err := g.t.Load(n)
	if err != nil {
		return nil, err
	}
	w, err := g.t.Policy.At(p)
	g.weights[version] = w
	return w, err
}
