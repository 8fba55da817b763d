// Package train drives the loop: the scheduler says what to do next, a [Roller] runs rollouts, a [Trainer] learns from them.
//
// Everything that a resume needs is on the disk before it is acted on: the scheduler's state before each of its effects, a
// rollout's result and artifact before it counts, the trainer's new parameters before its step counts. A run that is killed
// anywhere goes on with nothing trained twice. Samples are never kept in memory between a rollout and its training: they are
// made again from the artifacts, which is what everybody else will do. The package must not know flags, screens or engines.
package train

import (
	"context"

	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/schedule"
	"github.com/tito-rl/tito/internal/store"
)

// Roller runs rollouts. It must be safe for concurrent use.
type Roller interface {
	// Roll runs r to its end and keeps its result where a crash cannot take it. A rollout that was scored has a nil error;
	// any other outcome is a fault, whose code says whether to try again.
	Roll(ctx context.Context, r schedule.Rollout) (Rolled, error)
	// Samples makes the run of a scored rollout again, from what Roll kept.
	Samples(r schedule.Run) (*materialize.RolloutRun, error)
	// Summary sums up a scored rollout again, from what Roll kept.
	Summary(a schedule.Attempt) (materialize.Summary, error)
}

// Rolled is a scored rollout.
type Rolled struct {
	Reward  float64
	Summary materialize.Summary
}

// Batch is what one step learns from: the groups of the schedule, and each run's samples in the same order.
type Batch struct {
	schedule.Batch
	Samples [][]*materialize.RolloutRun
}

// Trainer learns and publishes.
type Trainer interface {
	// Step makes optimizer step b.Step and keeps its result where a crash cannot take it. Asked for a step that it has made,
	// it changes nothing.
	Step(ctx context.Context, b Batch) error
	// Metrics gives the figures of a step that was made, also by an earlier process.
	Metrics(step int) (Metrics, error)
	// Publish puts the parameters of a version into force. Version 0 is what the run began with.
	Publish(ctx context.Context, version int) error
}

// Metrics are a trainer's own figures of a step.
type Metrics struct {
	GradNorm float64 `json:"grad_norm"`
	Entropy  float64 `json:"entropy"` // mean of -log p over the trained ids, in nats
	Tokens   int     `json:"trained_tokens"`
	Checked  int     `json:"logprobs_checked"` // recomputed and found equal to the last bit
}

// Config is what a loop is made of.
type Config struct {
	Dir      string // the run directory: checkpoint/ and metrics.jsonl are written here
	Schedule schedule.Config
	Roller   Roller
	Trainer  Trainer
	Resume   bool           // go on with the run in Dir; without one there, begin
	Lock     *store.Lock    // of Dir, where the caller holds it; nil = Run takes it
	Progress func(Progress) // called from one goroutine; nil = none

	crash func(point string) error // tests: an error stops the loop there as a kill would
}

// Kind says what a [Progress] is about.
type Kind string

// The kinds of progress.
const (
	RolloutEnded Kind = "rollout"  // Rollout, and Rolled or Err
	StepEnded    Kind = "step"     // Step
	Resumed      Kind = "resumed"  // the run goes on
	Stopping     Kind = "stopping" // what is in flight is cancelled
)

// Progress is told as things happen.
type Progress struct {
	Kind    Kind
	Rollout schedule.Rollout
	Rolled  Rolled
	Err     error // of the rollout
	Step    StepMetrics
	Done    int // rollouts of this step that were scored or given up
	Total   int // rollouts of a step
}

const (
	stateFile   = "checkpoint/schedule.json"
	metricsFile = "metrics.jsonl"
)

// Run runs the loop until the schedule is done, and returns one line of metrics a step, those of earlier processes
// included. When ctx ends it stops what is in flight, keeps it for a resume, and returns [fault.Interrupted]. A directory
// that another process uses is [fault.RunDirBusy]; one that holds a run is [fault.BadConfig] without Resume, and with it
// where the schedule is not the run's own. The trainer's failures end the run; it can be resumed.
func Run(ctx context.Context, c Config) ([]StepMetrics, error) {
	if c.Lock == nil {
		lock, err := store.LockDir(c.Dir)
		if err != nil {
			return nil, err
		}
		defer func() { _ = lock.Release() }()
	}
	l := &loop{c: c, cancels: map[schedule.Attempt]context.CancelFunc{}}
	if err := l.open(); err != nil {
		return nil, err
	}
	defer l.metrics.close()
	err := l.run(ctx)
	return l.metrics.lines, err
}
