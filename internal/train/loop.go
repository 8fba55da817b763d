package train

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/schedule"
	"github.com/tito-rl/tito/internal/store"
)

// loop is a run under way. Its fields belong to the goroutine of run; work beside it only reports.
type loop struct {
	c       Config
	sched   *schedule.Scheduler
	reports chan report
	cancels map[schedule.Attempt]context.CancelFunc // of what flies
	work    sync.WaitGroup
	metrics *metrics
	reason  string // why the schedule finished
}

// report is the end of work beside the loop.
type report struct {
	event   schedule.Event
	rollout *Progress // where it was a rollout
	err     error     // ends the run
}

// open reads the run's state, or begins one.
func (l *loop) open() error {
	path := filepath.Join(l.c.Dir, stateFile)
	b, err := readIfThere(path)
	if err != nil {
		return fault.Wrap(fault.CheckpointBad, err, "reading the run's state")
	}
	if b != nil && !l.c.Resume {
		return fault.New(fault.BadConfig, "%s holds a run already", l.c.Dir).WithFix("use --resume to go on with it, or another --out")
	}
	if l.sched, err = schedule.New(l.c.Schedule); err != nil {
		return err
	}
	if b != nil {
		given := l.sched.Config()
		if l.sched, err = schedule.Restore(b); err != nil {
			return fault.Wrap(fault.CheckpointBad, err, "%s", path)
		}
		if had := l.sched.Config(); !reflect.DeepEqual(had, given) {
			return fault.New(fault.BadConfig, "the run in %s was begun with the schedule %+v, not with %+v", l.c.Dir, had, given).
				WithFix("restore its run.yaml, or begin another run")
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fault.Wrap(fault.StoreFailed, err, "making the checkpoint folder")
	}
	room := l.c.Schedule.Groups * l.c.Schedule.Members
	if n := l.c.Schedule.Concurrency; n > 0 {
		room = min(room, n)
	}
	l.reports = make(chan report, room+1) // for all that can be under way: no work ever waits to report
	l.metrics, err = openMetrics(filepath.Join(l.c.Dir, metricsFile))
	return err
}

// run feeds the scheduler until it is finished.
func (l *loop) run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer l.work.Wait()
	defer cancel()
	if l.c.Resume {
		_, version := l.sched.Position()
		if err := l.c.Trainer.Publish(work, version); err != nil {
			return err
		}
		l.tell(Progress{Kind: Resumed})
	}
	stop := ctx.Done()
	next := schedule.Event{Kind: schedule.Begin}
	for {
		if err := l.step(work, next); err != nil || l.reason != "" {
			return l.end(ctx, err)
		}
		select {
		case r := <-l.reports:
			if r.err != nil {
				return r.err
			}
			l.tellRollout(r.rollout)
			next = r.event
		case <-stop:
			stop = nil
			l.tell(Progress{Kind: Stopping})
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

// step gives the scheduler an event, writes its state down, and then does what it asks for.
func (l *loop) step(ctx context.Context, e schedule.Event) error {
	effects := l.sched.Step(e)
	state, err := l.sched.State()
	if err != nil {
		return err
	}
	if err := l.at("saving"); err != nil {
		return err
	}
	if err := store.WriteFile(filepath.Join(l.c.Dir, stateFile), state, 0o644); err != nil {
		return err
	}
	for _, e := range effects {
		if err := l.at(string(e.Kind)); err != nil {
			return err
		}
		if err := l.do(ctx, e); err != nil {
			return err
		}
	}
	return l.at("done")
}

func (l *loop) at(point string) error {
	if l.c.crash == nil {
		return nil
	}
	return l.c.crash(point)
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
		l.async(func() report {
			return report{event: schedule.Event{Kind: schedule.Trained, Step: e.Batch.Step}, err: l.train(ctx, e.Batch)}
		})
	case schedule.Publish:
		l.async(func() report {
			return report{event: schedule.Event{Kind: schedule.Published, Version: e.Version}, err: l.c.Trainer.Publish(ctx, e.Version)}
		})
	case schedule.Report:
		return l.report(e)
	case schedule.Finish:
		l.reason = e.Reason
	}
	return nil
}

// async runs work beside the loop and queues its report.
func (l *loop) async(work func() report) {
	l.work.Add(1)
	go func() {
		defer l.work.Done()
		l.reports <- work()
	}()
}

func (l *loop) start(ctx context.Context, r schedule.Rollout) {
	ctx, cancel := context.WithCancel(ctx)
	l.cancels[r.Attempt] = cancel
	l.async(func() report {
		defer cancel()
		out, err := l.c.Roller.Roll(ctx, r)
		e := schedule.Event{Kind: schedule.Finished, Attempt: r.Attempt, Reward: out.Reward, Trainable: out.Summary.Ledger.Trained}
		switch {
		case err != nil && ctx.Err() != nil:
			e = schedule.Event{Kind: schedule.Cancelled, Attempt: r.Attempt}
		case err != nil:
			code := fault.CodeOf(err)
			e = schedule.Event{Kind: schedule.Failed, Attempt: r.Attempt, Code: code, Retryable: code.Info().Retry}
		}
		return report{event: e, rollout: &Progress{Kind: RolloutEnded, Rollout: r, Rolled: out, Err: err}}
	})
}

func (l *loop) train(ctx context.Context, b schedule.Batch) error {
	batch := Batch{Batch: b}
	for _, g := range b.Groups {
		var runs []*materialize.RolloutRun
		for _, r := range g.Runs {
			run, err := l.c.Roller.Samples(r)
			if err != nil {
				return err
			}
			runs = append(runs, run)
		}
		batch.Samples = append(batch.Samples, runs)
	}
	return l.c.Trainer.Step(ctx, batch)
}

// report writes a step's line of metrics, where it has none yet. What an earlier process rolled out is summed up from the
// disk.
func (l *loop) report(e schedule.Effect) error {
	if l.metrics.has(e.Report.Step) {
		return nil
	}
	s := StepMetrics{StepReport: e.Report}
	for _, a := range e.Scored {
		sum, ok := l.metrics.summaries[a]
		if !ok {
			var err error
			if sum, err = l.c.Roller.Summary(a); err != nil {
				return err
			}
		}
		s.Continuity.Add(sum)
	}
	if e.Report.Groups > 0 {
		var err error
		if s.Metrics, err = l.c.Trainer.Metrics(e.Report.Step); err != nil {
			return err
		}
	}
	s.Seconds = time.Since(l.metrics.begun).Seconds()
	if err := l.metrics.write(s); err != nil {
		return err
	}
	l.tell(Progress{Kind: StepEnded, Step: s})
	return nil
}

// tellRollout passes on the end of a rollout; nil is none.
func (l *loop) tellRollout(p *Progress) {
	if p == nil {
		return
	}
	delete(l.cancels, p.Rollout.Attempt)
	if p.Err == nil {
		l.metrics.summaries[p.Rollout.Attempt] = p.Rolled.Summary
		p.Done = 1
	}
	l.tell(*p)
}

func (l *loop) tell(p Progress) {
	if l.c.Progress == nil {
		return
	}
	settled, total := l.sched.Settled()
	p.Done, p.Total = p.Done+settled, total
	l.c.Progress(p)
}
