package train

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/schedule"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/trial"
)

func TestTheLoopLearns(t *testing.T) {
	b := newBench(t.TempDir())
	b.trainer.Rate = 3
	b.config.Schedule.Steps, b.config.Schedule.Members = 16, 8
	lines, err := Run(t.Context(), b.config)
	if err != nil {
		t.Fatal(err)
	}
	first, last := lines[0], lines[len(lines)-1]
	if len(lines) != 16 || first.Reward > 0.6 || last.Reward < 0.95 {
		t.Errorf("%d steps, reward from %v to %v", len(lines), first.Reward, last.Reward)
	}
	if first.Checked == 0 || first.Checked != first.Tokens || first.Entropy <= 0 || first.GradNorm <= 0 {
		t.Errorf("the trainer's figures: %+v", first.Metrics)
	}
	if first.Continuity.Turns != 2*first.Scored || first.Scored != 16 {
		t.Errorf("continuity of %d turns, %d scored", first.Continuity.Turns, first.Scored)
	}
}

func TestEachLineCountsWhatItsStepScored(t *testing.T) {
	b := newBench(t.TempDir())
	b.dice.fail = func(r schedule.Rollout) error {
		switch {
		case r.Step == 0 && r.Group == 0 && r.Member == 0 && r.Retry == 0:
			return fault.New(fault.SandboxFailed, "once")
		case r.Step == 1 && r.Member == 1:
			return fault.New(fault.TraceBroken, "always")
		case r.Step == 2 && r.Group == 4 && r.Member == 2:
			return fault.New(fault.BadTask, "for good")
		}
		return nil
	}
	lines, err := Run(t.Context(), b.config)
	if err != nil {
		t.Fatal(err)
	}
	type counts struct {
		Scored, Retries int
		Failed, Lost    map[string]int
	}
	want := []counts{
		{8, 1, map[string]int{"sandbox_failed": 1}, nil},
		{6, 2, map[string]int{"trace_broken": 4}, map[string]int{"trace_broken": 2}},
		{7, 0, map[string]int{"bad_task": 1}, map[string]int{"bad_task": 1}},
	}
	for i, l := range lines {
		if d := cmp.Diff(want[i], counts{l.Scored, l.Retries, l.Failed, l.Lost}); d != "" {
			t.Errorf("step %d (-want +got):\n%s", i, d)
		}
		if l.Continuity.Turns != 2*l.Scored {
			t.Errorf("step %d: %d turns of %d rollouts", i, l.Continuity.Turns, l.Scored)
		}
	}
	for a, n := range b.dice.rolled {
		if n != 1 {
			t.Errorf("%s ran %d times", Name(a), n)
		}
	}
}

func TestTooManyRejectedGroupsEndTheRunAndAResumeGoesOn(t *testing.T) {
	b := newBench(t.TempDir())
	b.dice.fail = func(schedule.Rollout) error { return fault.New(fault.HarnessMissing, "not here") }
	_, err := Run(t.Context(), b.config)
	wantCode(t, err, fault.TrainerFailed)
	b = newBench(b.config.Dir)
	b.config.Resume = true
	lines, err := Run(t.Context(), b.config)
	if err != nil || len(lines) != 3 {
		t.Fatalf("%d steps, %v", len(lines), err)
	}
}

func TestABatchThatIsNotWhatWasSampledStopsTheRun(t *testing.T) {
	turn := func(r *materialize.RolloutRun, i int) materialize.TurnSpan { return r.Segments[0].Turns[i] }
	for name, change := range map[string]func(*materialize.RolloutRun){
		"LogprobByOneBit": func(r *materialize.RolloutRun) {
			at := turn(r, 1).Start
			for r.Segments[0].Logprobs[at] == 0 {
				at++
			}
			r.Segments[0].Logprobs[at] *= 1 + 1.2e-7
		},
		"SignOfZero": func(r *materialize.RolloutRun) {
			s := &r.Segments[0]
			for i := range s.Logprobs {
				if s.LossMask[i] == 1 && s.Logprobs[i] == 0 {
					s.Logprobs[i] = float32(math.Copysign(0, -1))
				}
			}
		},
		"ID":       func(r *materialize.RolloutRun) { r.Segments[0].Tokens[turn(r, 0).Start]++ },
		"Position": func(r *materialize.RolloutRun) { r.Segments[0].Turns[1].Start++ },
		"Version":  func(r *materialize.RolloutRun) { r.Segments[0].Versions[0].Version = "v0" },
		"VersionOfTheFuture": func(r *materialize.RolloutRun) {
			r.Segments[0].Versions[0].Version = "v7"
		},
		"VersionOfNobody":  func(r *materialize.RolloutRun) { r.Segments[0].Versions[0].Version = "v01" },
		"VersionMissing":   func(r *materialize.RolloutRun) { r.Segments[0].Versions = r.Segments[0].Versions[1:] },
		"VersionTwice":     func(r *materialize.RolloutRun) { s := &r.Segments[0]; s.Versions = append(s.Versions, s.Versions[0]) },
		"MaskedID":         func(r *materialize.RolloutRun) { r.Segments[0].LossMask[turn(r, 0).Start] = 0 },
		"ContextID":        func(r *materialize.RolloutRun) { r.Segments[0].LossMask[0] = 1 },
		"TurnThatVanished": func(r *materialize.RolloutRun) { r.Segments[0].Turns = r.Segments[0].Turns[:1] },
		"ShortColumn":      func(r *materialize.RolloutRun) { r.Segments[0].Logprobs = r.Segments[0].Logprobs[1:] },
		"SpanOutside":      func(r *materialize.RolloutRun) { r.Segments[0].Turns[1].End += 99 },
		"Prompt":           func(r *materialize.RolloutRun) { swapTask(r) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t.TempDir())
			b.dice.change = func(r *materialize.RolloutRun) {
				if r.Segments[0].Versions[0].Version != "v0" { // from the second step on
					change(r)
				}
			}
			lines, err := Run(t.Context(), b.config)
			wantCode(t, err, fault.TrainerMismatch)
			if len(lines) != 1 {
				t.Errorf("%d steps ended; only the first has true samples", len(lines))
			}
			if _, err := os.Stat(b.trainer.paramsFile(2)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("parameters were made: %v", err)
			}
		})
	}
}

// swapTask puts the ids of the other task into the prompt, at the same length.
func swapTask(r *materialize.RolloutRun) {
	for i, id := range r.Segments[0].Tokens {
		if id == 'a' || id == 'b' {
			r.Segments[0].Tokens[i] = 'a' + 'b' - id
			return
		}
	}
}

func TestARunWithoutAnAdvantageIsRefused(t *testing.T) {
	b := newBench(t.TempDir())
	b.dice.change = func(r *materialize.RolloutRun) { r.Advantage = nil }
	_, err := Run(t.Context(), b.config)
	wantCode(t, err, fault.TrainerFailed)
}

func TestCancellingKeepsTheRunForAResume(t *testing.T) {
	b := newBench(t.TempDir())
	b.dice.hang = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var kinds []string
	b.config.Progress = func(p Progress) { kinds = append(kinds, string(p.Kind)) }
	b.config.crash = func(point string) error {
		if point == "done" {
			cancel()
		}
		return nil
	}
	_, err := Run(ctx, b.config)
	wantCode(t, err, fault.Interrupted)
	if got := strings.Join(kinds, " "); got != "stopping rollout rollout rollout" {
		t.Errorf("told %s", got)
	}
	b = newBench(b.config.Dir)
	b.config.Resume = true
	lines, err := Run(t.Context(), b.config)
	if err != nil || len(lines) != 3 {
		t.Fatalf("%d steps, %v", len(lines), err)
	}
	for a := range b.dice.rolled {
		if a.Step == 0 && a.Issue == 0 && a.Group == 0 && a.Member < 3 {
			t.Errorf("%s ran under the name of the attempt that was cancelled", Name(a))
		}
	}
}

func TestARunDirectoryHasOneRun(t *testing.T) {
	dir := t.TempDir()
	lock, err := store.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(dir)
	_, err = Run(t.Context(), b.config)
	wantCode(t, err, fault.RunDirBusy)
	b.config.Lock = lock
	if _, err := Run(t.Context(), b.config); err != nil {
		t.Fatal(err)
	}
	b.config.Resume = false
	_, err = Run(t.Context(), b.config)
	wantCode(t, err, fault.BadConfig)
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestAResumeRefusesAnotherSchedule(t *testing.T) {
	b := newBench(t.TempDir())
	if _, err := Run(t.Context(), b.config); err != nil {
		t.Fatal(err)
	}
	b.config.Resume = true
	b.config.Schedule.Steps++
	_, err := Run(t.Context(), b.config)
	wantCode(t, err, fault.BadConfig)
}

func TestAResumeOfAFinishedRunChangesNothing(t *testing.T) {
	b := newBench(t.TempDir())
	want, err := Run(t.Context(), b.config)
	if err != nil {
		t.Fatal(err)
	}
	b = newBench(b.config.Dir)
	b.config.Resume = true
	got, err := Run(t.Context(), b.config)
	if err != nil || len(b.dice.rolled) != 0 {
		t.Fatalf("%d rollouts, %v", len(b.dice.rolled), err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestBrokenFilesOfACheckpointAreNamed(t *testing.T) {
	for name, spoil := range map[string]func(b *bench) string{
		"State":             func(b *bench) string { return filepath.Join(b.config.Dir, stateFile) },
		"MetricsInTheMidst": func(b *bench) string { return filepath.Join(b.config.Dir, metricsFile) },
		"Parameters":        func(b *bench) string { return b.trainer.paramsFile(3) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t.TempDir())
			if _, err := Run(t.Context(), b.config); err != nil {
				t.Fatal(err)
			}
			path := spoil(b)
			had, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			had[0] ^= 0x5b
			if err := os.WriteFile(path, had, 0o644); err != nil {
				t.Fatal(err)
			}
			b.config.Resume = true
			_, err = Run(t.Context(), b.config)
			wantCode(t, err, fault.CheckpointBad)
		})
	}
}

func TestAStepOfAnotherBatchIsRefused(t *testing.T) {
	b := newBench(t.TempDir())
	one := Batch{Batch: schedule.Batch{Step: 0, Version: 0}}
	if err := b.trainer.Step(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if err := b.trainer.Step(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	one.Groups = []schedule.Group{{Task: "a"}}
	wantCode(t, b.trainer.Step(t.Context(), one), fault.CheckpointBad)
	_, err := b.trainer.Metrics(5)
	wantCode(t, err, fault.CheckpointBad)
}

func TestOnlyAScoredTrialHasAReward(t *testing.T) {
	one := 1.0
	for _, c := range []struct {
		outcome trial.Outcome
		reward  *float64
		code    fault.Code
		want    fault.Code
	}{
		{trial.Scored, &one, "", ""},
		{trial.OutOfTime, &one, fault.AgentTimeout, ""},
		{trial.OutOfContext, &one, fault.HarnessFailed, ""},
		{trial.OutOfTime, nil, fault.VerifierTimeout, fault.VerifierTimeout},
		{trial.OutOfContext, nil, fault.RewardMissing, fault.RewardMissing},
		{trial.TraceBroken, &one, "", fault.TraceBroken},
		{trial.TraceBroken, &one, fault.EngineIDs, fault.TraceBroken},
		{trial.InfraFailed, &one, fault.RewardBad, fault.RewardBad},
		{trial.InfraFailed, nil, "", fault.SandboxFailed},
		{trial.Cancelled, &one, fault.Interrupted, fault.Interrupted},
	} {
		res := &trial.Result{Tito: trial.Own{Outcome: c.outcome, Reward: c.reward}}
		if c.code != "" {
			res.Exception = &trial.Exception{Code: c.code}
		}
		if got := fault.CodeOf(unscored(res)); got != c.want {
			t.Errorf("%s with reward %v and %q: %q, want %q", c.outcome, c.reward != nil, c.code, got, c.want)
		}
	}
}
