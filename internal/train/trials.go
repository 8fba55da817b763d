package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/schedule"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/task"
	"github.com/tito-rl/tito/internal/trajectory"
	"github.com/tito-rl/tito/internal/trial"
	"github.com/tito-rl/tito/internal/verify"
)

// Trials rolls out by trials. Each rollout has a folder of its own under Dir, named after its attempt.
type Trials struct {
	Run   string // id of the training run: identities are made of it
	Dir   string // of the trials
	Tasks map[string]*task.Task
	Base  trial.Config // what all trials share; Task, Dir, Name and IDs are set for each
	// Verify proves each artifact before its rollout counts; one that fails is a broken trace.
	Verify bool
	Policy trajectory.Policy // for samples; zero = the artifact's own
}

// Name is the folder of an attempt's trial.
func Name(a schedule.Attempt) string { return fmt.Sprintf("%s-i%d", try(a), a.Issue) }

// try names what an attempt and its later issues have in common.
func try(a schedule.Attempt) string {
	return fmt.Sprintf("s%04d-g%05d-m%02d-r%d", a.Step, a.Group, a.Member, a.Retry)
}

// identities of an attempt: a retry renews all but run, group and member. Another issue of the same try renews the trial
// alone, so that the policy draws the same tokens again: a run that was killed learns what it would have learned.
func (t *Trials) identities(r schedule.Rollout) trajectory.Identities {
	return trajectory.Identities{
		Trajectory: t.Run + "-" + try(r.Attempt), Trial: Name(r.Attempt), Run: fmt.Sprintf("%s-g%05d-m%02d", t.Run, r.Group, r.Member),
		Group: fmt.Sprintf("%s-g%05d", t.Run, r.Group), Member: r.Member, Retry: r.Retry, Affinity: fmt.Sprintf("%016x", r.Seed),
	}
}

// Roll implements [Roller].
func (t *Trials) Roll(ctx context.Context, r schedule.Rollout) (Rolled, error) {
	c := t.Base
	c.Task = t.Tasks[r.Task]
	if c.Task == nil {
		return Rolled{}, fault.New(fault.BadTask, "the run has no task %q", r.Task)
	}
	c.Name, c.Dir, c.IDs = Name(r.Attempt), t.dir(r.Attempt), t.identities(r)
	if err := t.setAside(r.Attempt); err != nil {
		return Rolled{}, err
	}
	res, err := trial.Run(ctx, c)
	if err != nil {
		return Rolled{}, err
	}
	if err := unscored(res); err != nil {
		return Rolled{}, err
	}
	out := Rolled{Reward: *res.Tito.Reward}
	if t.Verify {
		if err := t.prove(c.Dir, res.Tito.Head); err != nil {
			return Rolled{}, err
		}
	}
	if out.Summary, err = t.Summary(r.Attempt); err != nil {
		return Rolled{}, &fault.Error{Code: fault.TraceBroken, Msg: c.Dir, Err: err}
	}
	return out, nil
}

// Summary implements [Roller].
func (t *Trials) Summary(a schedule.Attempt) (materialize.Summary, error) {
	tree, err := readTree(t.dir(a))
	if err != nil {
		return materialize.Summary{}, err
	}
	o := materialize.Options{Policy: t.Policy}
	run, err := materialize.Run(tree, o)
	if err != nil {
		return materialize.Summary{}, err
	}
	return materialize.Summarize(tree, o, &run), nil
}

func (t *Trials) dir(a schedule.Attempt) string { return filepath.Join(t.Dir, Name(a)) }

// setAside moves what this try left when it was stopped or cut by a crash to a folder "interrupted" beside Dir: among the
// trials one try is one trial, so that no trajectory is there twice.
func (t *Trials) setAside(a schedule.Attempt) error {
	for issue := range a.Issue + 1 {
		old := a
		old.Issue = issue
		from := t.dir(old)
		if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		to := filepath.Join(filepath.Dir(t.Dir), "interrupted", Name(old))
		err := os.MkdirAll(filepath.Dir(to), 0o755)
		if err == nil {
			err = os.RemoveAll(to)
		}
		if err == nil {
			err = os.Rename(from, to)
		}
		if err != nil {
			return fault.Wrap(fault.StoreFailed, err, "setting an interrupted trial aside")
		}
	}
	return nil
}

// unscored is the fault of a trial that has no reward, nil where it has one. A task that failed is a reward; everything
// else that went wrong is not.
func unscored(res *trial.Result) error {
	code, what := fault.SandboxFailed, "no reward"
	if e := res.Exception; e != nil {
		code, what = e.Code, e.Type+": "+e.Message
	}
	switch o := res.Tito.Outcome; o {
	case trial.Scored, trial.OutOfTime, trial.OutOfContext:
		if res.Tito.Reward != nil {
			return nil
		}
	case trial.Cancelled:
		code = fault.Interrupted
	case trial.TraceBroken:
		code = fault.TraceBroken
	}
	return fault.New(code, "trial %s (%s): %s", res.TrialName, res.Tito.Outcome, what)
}

// prove verifies a trial's artifact against the head of its chain as the host knew it.
func (t *Trials) prove(dir, head string) error {
	path := filepath.Join(dir, store.JournalName)
	b, err := os.ReadFile(path)
	if err != nil {
		return fault.Wrap(fault.StoreFailed, err, "reading %s", path)
	}
	o := verify.Options{Head: head}
	if t.Policy != (trajectory.Policy{}) {
		o.Policy = &t.Policy
	}
	if _, err = verify.Verify(b, o); err != nil {
		return &fault.Error{Code: fault.TraceBroken, Msg: path, Err: err}
	}
	return nil
}

// Samples implements [Roller].
func (t *Trials) Samples(r schedule.Run) (*materialize.RolloutRun, error) {
	tree, err := readTree(t.dir(r.Attempt))
	if err != nil {
		return nil, err
	}
	run, err := materialize.Run(tree, materialize.Options{Reward: &r.Reward, Advantage: &r.Advantage, Policy: t.Policy})
	return &run, err
}

func readTree(dir string) (*trajectory.Tree, error) {
	path := filepath.Join(dir, store.JournalName)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "reading %s", path)
	}
	f, err := artifact.Decode(b)
	if err != nil {
		return nil, fault.Wrap(fault.ArtifactRecord, err, "reading %s", path)
	}
	return artifact.ToTree(f)
}

// Result reads the result.json of a trial.
func Result(dir string) (*trial.Result, error) {
	b, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		return nil, fault.Wrap(fault.FileMissing, err, "reading a trial's result")
	}
	var r trial.Result
	return &r, fault.Wrap(fault.CheckpointBad, json.Unmarshal(b, &r), "reading a trial's result")
}
