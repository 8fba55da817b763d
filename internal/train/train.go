// Package train drives the loop: the scheduler says what to do next, a [Roller] runs rollouts, a [Trainer] learns from them.
//
// Everything that a resume needs is on the disk before it is acted on: the scheduler's state before each of its effects, a
// rollout's result and artifact before it counts, the trainer's new parameters before its step counts. A run that is killed
// anywhere goes on with nothing trained twice. Samples are never kept in memory between a rollout and its training: they are
// made again from the artifacts, which is what everybody else will do.
package train

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/schedule"
	"github.com/tito-rl/tito/internal/store"
)

// Roller runs one rollout to its end.
type Roller interface {
	// Roll runs r and leaves its result and artifact under Dir(r). A rollout that was scored has a nil error; any other
	// outcome is a fault, whose code says whether to try again. Roll must be safe for concurrent use.
	Roll(ctx context.Context, r schedule.Rollout) (Rolled, error)
	// Samples makes the run of a scored rollout again, from what Roll left.
	Samples(a schedule.Attempt, group string, reward, advantage float64) (*materialize.RolloutRun, error)
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
	// it does nothing.
	Step(ctx context.Context, b Batch) (Metrics, error)
	// Publish puts the parameters of a version into force. Version 0 is what the run began with.
	Publish(ctx context.Context, version int) error
}

// Metrics are a trainer's own figures of a step.
type Metrics struct {
	GradNorm float64 `json:"grad_norm"`
	Entropy  float64 `json:"entropy"`
	Tokens   int     `json:"trained_tokens"`
	Checked  int     `json:"logprobs_checked"` // recomputed and found equal
}

// Config is what a loop is made of.
type Config struct {
	Dir      string // the run directory; its parts are described in README
	Schedule schedule.Config
	Roller   Roller
	Trainer  Trainer
	Resume   bool
	Progress func(Progress) // called from one goroutine; nil = none
}

// Progress is told as things happen.
type Progress struct {
	Kind    string // rollout, step, resumed, stopping
	Rollout schedule.Rollout
	Rolled  Rolled
	Err     error // of the rollout
	Step    StepMetrics
	Flying  int
	Done    int // rollouts of this step that have ended
	Total   int // rollouts of a step
}

const (
	stateFile   = "checkpoint/schedule.json"
	metricsFile = "metrics.jsonl"
)

// Run runs the loop until the schedule is done, and returns one line of metrics a step. When ctx ends it stops what is in
// flight, keeps it for a resume, and returns [fault.Interrupted].
func Run(ctx context.Context, c Config) ([]StepMetrics, error) {
	lock, err := store.LockDir(c.Dir)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	l := &loop{c: c, cancels: map[schedule.Attempt]context.CancelFunc{}}
	if err := l.open(); err != nil {
		return nil, err
	}
	defer l.metrics.close()
	err = l.run(ctx)
	return l.metrics.lines, err
}

type loop struct {
	c       Config
	sched   *schedule.Scheduler
	events  chan schedule.Event
	cancels map[schedule.Attempt]context.CancelFunc
	work    sync.WaitGroup
	metrics *metrics

	reason string // why the schedule finished

	mu     sync.Mutex // guards what is below
	rolled []report   // ends of rollouts, to be told in order
	err    error      // that ends the run
}

type report struct {
	r   schedule.Rollout
	out Rolled
	err error
}

func (l *loop) open() error {
	path := filepath.Join(l.c.Dir, stateFile)
	b, err := os.ReadFile(path)
	switch {
	case err == nil && !l.c.Resume:
		return fault.New(fault.BadConfig, "%s holds a run already", l.c.Dir).WithFix("use --resume to go on with it, or another --out")
	case err == nil:
		l.sched, err = schedule.Restore(b)
	case os.IsNotExist(err):
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fault.Wrap(fault.StoreFailed, err, "making the run directory")
		}
		l.sched, err = schedule.New(l.c.Schedule)
	default:
		err = fault.Wrap(fault.CheckpointBad, err, "reading the run's state")
	}
	if err != nil {
		return err
	}
	sc := l.sched.Config()
	l.events = make(chan schedule.Event, sc.Groups*sc.Members+4) // no worker ever waits to report
	l.metrics, err = openMetrics(filepath.Join(l.c.Dir, metricsFile))
	return err
}

// run feeds the scheduler until it is finished.
func (l *loop) run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer l.work.Wait()
	defer cancel()
	if _, version := l.sched.Position(); version > 0 || l.c.Resume {
		if err := l.c.Trainer.Publish(ctx, version); err != nil {
			return err
		}
		l.tell(Progress{Kind: "resumed"})
	}
	stop := ctx.Done()
	next := schedule.Event{Kind: schedule.Begin}
	for {
		if err := l.step(work, next); err != nil || l.reason != "" {
			return l.end(ctx, err)
		}
		select {
		case next = <-l.events:
			l.tellRolled()
		case <-stop:
			stop = nil
			l.tell(Progress{Kind: "stopping"})
			next = schedule.Event{Kind: schedule.Stop}
		}
	}
}

func (l *loop) end(ctx context.Context, err error) error {
	switch {
	case err != nil:
		return err
	case l.reason == schedule.FinishInterrupted:
		return fault.Wrap(fault.Interrupted, context.Cause(ctx), "the run was stopped; --resume goes on with it")
	case l.reason == schedule.FinishFaults:
		return fault.New(fault.TrainerFailed, "too many groups in a row were rejected; see the results under %s", filepath.Join(l.c.Dir, "trials")).
			WithFix("mend the cause and use --resume")
	}
	return nil
}

// step gives the scheduler an event, writes its state down, and starts what it asks for.
func (l *loop) step(ctx context.Context, e schedule.Event) error {
	l.mu.Lock()
	err := l.err
	l.mu.Unlock()
	if err != nil {
		return err
	}
	effects := l.sched.Step(e)
	state, err := l.sched.State()
	if err != nil {
		return err
	}
	if err := store.WriteFile(filepath.Join(l.c.Dir, stateFile), state, 0o644); err != nil {
		return err
	}
	for _, e := range effects {
		if err := l.do(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) do(ctx context.Context, e schedule.Effect) error {
	switch e.Kind {
	case schedule.Start:
		l.start(ctx, e.Rollout)
	case schedule.Cancel:
		if cancel := l.cancels[e.Rollout.Attempt]; cancel != nil {
			cancel()
		}
	case schedule.Train:
		l.async(func() (schedule.Event, error) { return l.train(ctx, e.Batch) })
	case schedule.Publish:
		l.async(func() (schedule.Event, error) {
			return schedule.Event{Kind: schedule.Published, Version: e.Version}, l.c.Trainer.Publish(ctx, e.Version)
		})
	case schedule.Report:
		m, err := l.metrics.step(e.Report)
		if err != nil {
			return err
		}
		if m != nil {
			l.tell(Progress{Kind: "step", Step: *m})
		}
	case schedule.Finish:
		l.reason = e.Reason
	}
	return nil
}

// async runs work beside the loop and queues its event. A failure of the trainer ends the run: it can be resumed.
func (l *loop) async(work func() (schedule.Event, error)) {
	l.work.Add(1)
	go func() {
		defer l.work.Done()
		e, err := work()
		if err != nil {
			e = schedule.Event{Kind: schedule.Stop}
			l.mu.Lock()
			l.err = err
			l.mu.Unlock()
		}
		l.events <- e
	}()
}

func (l *loop) start(ctx context.Context, r schedule.Rollout) {
	ctx, cancel := context.WithCancel(ctx)
	l.cancels[r.Attempt] = cancel
	l.async(func() (schedule.Event, error) {
		defer cancel()
		out, err := l.c.Roller.Roll(ctx, r)
		l.mu.Lock()
		l.rolled = append(l.rolled, report{r, out, err})
		l.mu.Unlock()
		e := schedule.Event{Kind: schedule.Finished, Attempt: r.Attempt, Reward: out.Reward, Trainable: out.Summary.Ledger.Trained}
		switch {
		case ctx.Err() != nil && err != nil:
			e = schedule.Event{Kind: schedule.Cancelled, Attempt: r.Attempt}
		case err != nil:
			code := fault.CodeOf(err)
			e = schedule.Event{Kind: schedule.Failed, Attempt: r.Attempt, Code: code, Retryable: code.Info().Retry}
		}
		return e, nil
	})
}

func (l *loop) train(ctx context.Context, b schedule.Batch) (schedule.Event, error) {
	batch := Batch{Batch: b}
	for _, g := range b.Groups {
		var runs []*materialize.RolloutRun
		for _, r := range g.Runs {
			run, err := l.c.Roller.Samples(r.Attempt, g.Task, r.Reward, r.Advantage)
			if err != nil {
				return schedule.Event{}, err
			}
			runs = append(runs, run)
		}
		batch.Samples = append(batch.Samples, runs)
	}
	m, err := l.c.Trainer.Step(ctx, batch)
	if err != nil {
		return schedule.Event{}, err
	}
	l.metrics.trained(b.Step, m)
	return schedule.Event{Kind: schedule.Trained, Step: b.Step}, nil
}

// tellRolled passes on the ends of rollouts.
func (l *loop) tellRolled() {
	l.mu.Lock()
	list := l.rolled
	l.rolled = nil
	l.mu.Unlock()
	for _, r := range list {
		delete(l.cancels, r.r.Attempt)
		l.metrics.rolled(r)
		l.tell(Progress{Kind: "rollout", Rollout: r.r, Rolled: r.out, Err: r.err})
	}
}

func (l *loop) tell(p Progress) {
	if l.c.Progress == nil {
		return
	}
	c := l.sched.Config()
	p.Flying, p.Total, p.Done = len(l.cancels), c.Groups*c.Members, l.metrics.done()
	l.c.Progress(p)
}

// line writes v as one line of JSON.
func line(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(b, '\n'), err
}
