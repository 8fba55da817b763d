package train

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/schedule"
)

var errKilled = errors.New("killed")

// killer ends a process at its n-th point: from then on nothing of it reaches the disk.
type killer struct {
	n      int
	cancel context.CancelFunc

	mu    sync.Mutex
	count int
	dead  bool
	where string
}

func (k *killer) at(point string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return errKilled
	}
	k.count++
	if k.count == k.n {
		k.dead, k.where = true, point
		k.cancel()
		return errKilled
	}
	return nil
}

// mortal is a trainer that can be killed before, within and after each of its effects.
type mortal struct {
	*Rehearsal
	k *killer
}

func (m mortal) Step(ctx context.Context, b Batch) error {
	if err := m.k.at("before a step"); err != nil {
		return err
	}
	had, err := m.made(b.Step)
	if err != nil {
		return err
	}
	if err := m.Rehearsal.Step(ctx, b); err != nil {
		return err
	}
	if err := m.k.at("within a step"); err != nil {
		if had == nil { // between its two files
			err = errors.Join(err, os.Remove(m.stepFile(b.Step)))
		}
		return err
	}
	return m.k.at("after a step")
}

func (m mortal) Publish(ctx context.Context, v int) error {
	if err := m.k.at("before a publication"); err != nil {
		return err
	}
	if err := m.Rehearsal.Publish(ctx, v); err != nil {
		return err
	}
	return m.k.at("after a publication")
}

// faulty breaks one try for a while and one for good.
func faulty(r schedule.Rollout) error {
	switch {
	case r.Group == 0 && r.Member == 1 && r.Retry == 0:
		return fault.New(fault.SandboxFailed, "once")
	case r.Group == 3 && r.Member == 0:
		return fault.New(fault.RewardMissing, "for good")
	}
	return nil
}

// process runs the loop in dir until it is killed at its n-th point or done; n = 0 is never.
func process(t *testing.T, dir string, n int, resume bool) *killer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := newBench(dir)
	k := &killer{n: n, cancel: cancel}
	b.dice.fail, b.dice.at = faulty, k.at
	b.config.Trainer, b.config.crash, b.config.Resume = mortal{b.trainer, k}, k.at, resume
	b.config.Schedule.Steps = 2
	if _, err := Run(ctx, b.config); err != nil && !k.dead {
		t.Fatalf("point %d: %v", n, err)
	}
	return k
}

func TestAKillAtAnyPointChangesNothing(t *testing.T) {
	whole := t.TempDir()
	points := process(t, whole, 0, false).count
	want := readTrace(t, whole)
	if len(want.Params) != 2 || len(want.Lines) != 2 || points < 40 {
		t.Fatalf("%d parameter files, %d lines, %d points", len(want.Params), len(want.Lines), points)
	}
	if d := cmp.Diff(map[string]int{"sandbox_failed": 1}, want.Lines[0].Failed); d != "" {
		t.Error(d)
	}
	step := 1
	if testing.Short() {
		step = 5
	}
	for n := 1; n <= points; n += step {
		dir := t.TempDir()
		k := process(t, dir, n, false)
		process(t, dir, 0, true)
		if d := cmp.Diff(want, readTrace(t, dir)); d != "" {
			t.Fatalf("killed at point %d, %s (-whole +resumed):\n%s", n, k.where, d)
		}
	}
}

func TestManyKillsInARowChangeNothing(t *testing.T) {
	whole := t.TempDir()
	points := process(t, whole, 0, false).count
	want := readTrace(t, whole)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 8 {
		dir := t.TempDir()
		var where []string
		for life := 0; ; life++ {
			k := process(t, dir, 1+rng.IntN(points/2), life > 0)
			if !k.dead {
				break
			}
			where = append(where, fmt.Sprintf("%d %s", k.n, k.where))
		}
		if d := cmp.Diff(want, readTrace(t, dir)); d != "" {
			t.Fatalf("killed at %q (-whole +resumed):\n%s", where, d)
		}
	}
}

func TestALineCutByAKillIsWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	process(t, dir, 0, false)
	want := readTrace(t, dir)
	path := dir + "/" + metricsFile
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{1, 2, 50} {
		if err := os.WriteFile(path, b[:len(b)-cut], 0o644); err != nil {
			t.Fatal(err)
		}
		process(t, dir, 0, true)
		if d := cmp.Diff(want, readTrace(t, dir)); d != "" {
			t.Fatalf("cut by %d (-whole +resumed):\n%s", cut, d)
		}
	}
}

// child is the loop in a process of its own, which prints a line a rollout and step.
func child(dir string) int {
	b := newBench(dir)
	b.dice.fail, b.config.Resume = faulty, true
	b.config.Schedule.Steps = 2
	b.config.Progress = func(p Progress) { fmt.Println(p.Kind) }
	if _, err := Run(context.Background(), b.config); err != nil {
		fmt.Fprintln(os.Stderr, err, fault.CodeOf(err))
		return 1
	}
	return 0
}

func TestAKilledProcessIsResumedByTheNext(t *testing.T) {
	whole, dir := t.TempDir(), t.TempDir()
	process(t, whole, 0, false)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(2, 2))
	for life := 0; ; life++ {
		cmd := exec.Command(exe)
		cmd.Env, cmd.Stderr = append(os.Environ(), "TITO_TRAIN_CHILD="+dir), os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + rng.IntN(5) {
			lines.Scan()
		}
		if life == 1 { // one directory, two processes
			b := newBench(dir)
			b.config.Resume = true
			_, err := Run(t.Context(), b.config)
			wantCode(t, err, fault.RunDirBusy)
		}
		if life < 4 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			continue
		}
		for lines.Scan() { // to its end
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		break
	}
	if d := cmp.Diff(readTrace(t, whole), readTrace(t, dir)); d != "" {
		t.Errorf("(-whole +resumed):\n%s", d)
	}
}
