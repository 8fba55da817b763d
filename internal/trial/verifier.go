package trial

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/task"
)

const (
	testsDir  = "tests"  // the tests' copy for the sandbox, in the trial's folder while it runs
	maxStdout = 16 << 20 // bytes kept of the tests' output
)

// toVerifier goes from the agent's phase to the verifier's: its processes die, then the trajectory is sealed, artifacts
// are kept, and the tests run.
func (r *run) toVerifier(ctx context.Context) {
	if err := os.Mkdir(r.path(testsDir), 0o755); err != nil {
		r.except(fault.Wrap(fault.SandboxFailed, err, "making the tests' folder"), "AddTestsDirError")
		return
	}
	if err := r.box.Reset(ctx,
		sandbox.Mount{Host: r.path(testsDir), Path: sandbox.TestsPath},
		sandbox.Mount{Host: r.path("verifier"), Path: sandbox.VerifierLogs},
	); err != nil {
		if ctx.Err() == nil { // else it was cancelled
			r.except(err, "")
		}
		return
	}
	r.seal(ctx, "finished")
	r.collect(ctx)
	if r.phase(ctx, PhaseVerifier, &r.res.Verifier, r.verify, "VerifierTimeoutError", r.runTests) {
		r.readRewards()
	}
}

// runTests runs tests/test.sh. Its exit code says nothing; its reward file does.
func (r *run) runTests(ctx context.Context) error {
	vars, err := task.Resolve(r.Task.Config.Verifier.Env, r.Vars)
	if err != nil {
		return err
	}
	if err := r.box.Upload(ctx, r.Task.Tests(), sandbox.TestsPath); err != nil {
		return named{"AddTestsDirError", err}
	}
	out, err := os.OpenFile(r.path("verifier", "test-stdout.txt"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fault.Wrap(fault.SandboxFailed, err, "making the tests' log")
	}
	w := &capped{w: out, left: maxStdout}
	// In a subshell a script without a first line #! runs in bash too.
	test := quote(r.box.Path(sandbox.TestsPath + "/test.sh"))
	_, err = r.box.Exec(ctx, sandbox.Cmd{
		Args: []string{"bash", "-c", "chmod +x " + test + " && (" + test + ")"}, Env: vars, Stdout: w, Stderr: w,
	})
	w.end()
	if cerr := out.Close(); err == nil && cerr != nil {
		err = fault.Wrap(fault.SandboxFailed, cerr, "writing the tests' log")
	}
	if err != nil {
		return err
	}
	// Nothing that the tests started may write a reward any more.
	return r.box.Close()
}

// capped passes on the first bytes and counts the rest.
type capped struct {
	w       io.Writer
	left    int
	dropped int
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	c.dropped += len(p) - n
	if n > 0 {
		if _, err := c.w.Write(p[:n]); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (c *capped) end() {
	if c.dropped > 0 {
		_, _ = fmt.Fprintf(c.w, "\n[%d more bytes]\n", c.dropped)
	}
}

func (r *run) readRewards() {
	rewards, err := readRewards(r.path("verifier"))
	if err != nil {
		r.except(err, rewardName(err))
		return
	}
	r.res.VerifierResult = &VerifierResult{Rewards: rewards}
	main, err := mainReward(rewards)
	if err != nil {
		r.except(err, rewardName(err))
		return
	}
	r.verified = true
	r.res.Tito.Reward = &main
}

// rewardName is the name in Harbor of a bad reward.
func rewardName(err error) string {
	switch fault.CodeOf(err) {
	case fault.RewardMissing:
		return "RewardFileNotFoundError"
	case fault.RewardEmpty:
		return "RewardFileEmptyError"
	}
	return "VerifierOutputParseError"
}

// collect runs the task's collect commands and downloads its artifacts. It never fails a trial.
func (r *run) collect(ctx context.Context) {
	for _, c := range r.Task.Config.Verifier.Collect {
		var out limited
		res, err := r.box.Exec(ctx, sandbox.Cmd{
			Args: []string{"bash", "-c", c.Command}, Stdout: &out, Stderr: &out, Timeout: task.Seconds(c.TimeoutSec, time.Minute),
		})
		if err != nil || res.Code != 0 || res.TimedOut {
			r.log.printf("collect %q: code %d, timed out %t, %v: %s", c.Command, res.Code, res.TimedOut, err, out.String())
		}
	}
	r.artifacts(ctx)
}
