package train

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/store"
)

// Rehearsal trains the rehearsal policy by the policy gradient: for each trained id, advantage times the gradient of its
// log probability, summed over a run and averaged over the runs of a batch. Before it learns from an id it computes the
// id's log probability again, from the sample's own ids and the parameters of the version that is recorded for it: a single
// difference, of a single bit, is a [fault.TrainerMismatch] and stops the run, and so is a trained id without a version, or
// one that the ledger does not know. That is a check of the whole way from the engine to the sample.
type Rehearsal struct {
	Policy *rehearsal.Policy
	Dir    string  // holds params-VERSION.txt and step-STEP.json; made where missing
	Rate   float64 // of the step
	// Install puts parameters into force in the engine.
	Install func(rehearsal.Params) error
}

// made is a step that was made. Its file is written after the parameters: where it is, they are whole.
type made struct {
	Step    int     `json:"step"`
	Version int     `json:"version"` // of the parameters that it made
	Batch   string  `json:"batch"`   // SHA-256 of the batch
	Metrics Metrics `json:"metrics"`
}

// VersionName is how tokens name a version of the parameters.
func VersionName(version int) string { return fmt.Sprintf("v%d", version) }

func (t *Rehearsal) paramsFile(version int) string {
	return filepath.Join(t.Dir, fmt.Sprintf("params-%05d.txt", version))
}

func (t *Rehearsal) stepFile(step int) string {
	return filepath.Join(t.Dir, fmt.Sprintf("step-%05d.json", step))
}

// Load gives the parameters of a version; version 0 is the book's own.
func (t *Rehearsal) Load(version int) (rehearsal.Params, error) {
	if version == 0 {
		return t.Policy.Initial(VersionName(0)), nil
	}
	path := t.paramsFile(version)
	b, err := os.ReadFile(path)
	if err != nil {
		return rehearsal.Params{}, fault.Wrap(fault.CheckpointBad, err, "reading the parameters of %s", VersionName(version))
	}
	p, err := rehearsal.ParseParams(b)
	if err == nil && p.Version != VersionName(version) {
		err = fault.New(fault.CheckpointBad, "it holds the parameters of %q", p.Version)
	}
	return p, fault.Wrap(fault.CheckpointBad, err, "%s", path)
}

// Publish implements [Trainer].
func (t *Rehearsal) Publish(_ context.Context, version int) error {
	p, err := t.Load(version)
	if err != nil {
		return err
	}
	return t.Install(p)
}

// Metrics implements [Trainer].
func (t *Rehearsal) Metrics(step int) (Metrics, error) {
	m, err := t.made(step)
	if err == nil && m == nil {
		err = fault.New(fault.CheckpointBad, "%s is missing", t.stepFile(step))
	}
	if err != nil {
		return Metrics{}, err
	}
	return m.Metrics, nil
}

// made reads a step's file; nil where the step was not made.
func (t *Rehearsal) made(step int) (*made, error) {
	path := t.stepFile(step)
	b, err := readIfThere(path)
	if b == nil || err != nil {
		return nil, fault.Wrap(fault.CheckpointBad, err, "reading a step that was made")
	}
	var m made
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fault.Wrap(fault.CheckpointBad, err, "%s", path)
	}
	return &m, nil
}

// Step implements [Trainer]. The parameters that it makes are those of version b.Version+1.
func (t *Rehearsal) Step(_ context.Context, b Batch) error {
	batch, err := digest(b)
	if err != nil {
		return err
	}
	had, err := t.made(b.Step)
	if err != nil {
		return err
	}
	if had != nil {
		if had.Batch != batch || had.Version != b.Version+1 {
			return fault.New(fault.CheckpointBad, "%s was made of another batch", t.stepFile(b.Step)).WithFix("the checkpoint is another run's: begin in a new directory")
		}
		return nil
	}
	params, err := t.Load(b.Version)
	if err != nil {
		return err
	}
	g := gradient{t: t, version: b.Version, into: make([]float64, len(params.Theta)), weights: map[string]*rehearsal.Weights{}}
	runs := 0
	for _, group := range b.Samples {
		for _, run := range group {
			if err := g.run(run); err != nil {
				return err
			}
			runs++
		}
	}
	scale := 1 / float64(max(runs, 1))
	next, err := params.Ascend(VersionName(b.Version+1), t.Rate*scale, g.into)
	if err != nil {
		return err
	}
	return t.keep(made{Step: b.Step, Version: b.Version + 1, Batch: batch, Metrics: Metrics{
		GradNorm: norm(g.into) * scale, Entropy: -g.logprob / float64(max(g.tokens, 1)), Tokens: g.tokens, Checked: g.tokens,
	}}, next)
}

func (t *Rehearsal) keep(m made, p rehearsal.Params) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(t.Dir, 0o755); err != nil {
		return fault.Wrap(fault.StoreFailed, err, "making the checkpoint folder")
	}
	if err := store.WriteFile(t.paramsFile(m.Version), p.Encode(), 0o644); err != nil {
		return err
	}
	return store.WriteFile(t.stepFile(m.Step), append(b, '\n'), 0o644)
}

// digest names a batch by its attempts, rewards and advantages.
func digest(b Batch) (string, error) {
	j, err := json.Marshal(b.Batch)
	sum := sha256.Sum256(j)
	return hex.EncodeToString(sum[:]), err
}

func norm(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x * x
	}
	return math.Sqrt(s)
}
