package trial

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/task"
)

// environment starts the sandbox, puts in what the Dockerfile copies, and waits until the task is healthy.
func (r *run) environment(ctx context.Context) error {
	box, err := r.Provider.Start(ctx, r.spec)
	if err != nil {
		return err
	}
	r.box = box
	if err := r.build(ctx); err != nil {
		return err
	}
	return r.healthy(ctx)
}

func (r *run) build(ctx context.Context) error {
	var script []string
	for _, d := range r.Task.Build.Dirs {
		script = append(script, "mkdir -p "+quote(r.box.Path(d)))
	}
	for _, c := range r.Task.Build.Copies {
		if err := r.box.Upload(ctx, c.Src, c.Dst); err != nil {
			return fault.Wrap(fault.SandboxFailed, err, "environment/Dockerfile:%d: COPY", c.Line)
		}
		if c.Mode != "" {
			script = append(script, "chmod -R "+c.Mode+" "+quote(r.box.Path(c.Dst)))
		}
	}
	if len(script) == 0 {
		return nil
	}
	var out limited
	res, err := r.box.Exec(ctx, sandbox.Cmd{Args: []string{"bash", "-c", strings.Join(script, " && ")}, Dir: "/", Stdout: &out, Stderr: &out})
	if err == nil && res.Code != 0 {
		err = fault.New(fault.SandboxFailed, "building the environment: %s", out.String())
	}
	return err
}

// quote makes s one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// healthy repeats the task's health check until it succeeds. A check that times out is a failed one.
func (r *run) healthy(ctx context.Context) error {
	h := r.Task.Config.Environment.Healthcheck
	if h == nil {
		return nil
	}
	retries := 3
	if h.Retries != nil {
		retries = *h.Retries
	}
	begun := r.Now()
	grace, failed := task.Seconds(h.StartPeriodSec, 0), 0
	for {
		var out limited
		res, err := r.box.Exec(ctx, sandbox.Cmd{
			Args: []string{"bash", "-c", h.Command}, Stdout: &out, Stderr: &out, Timeout: task.Seconds(h.TimeoutSec, 30*time.Second),
		})
		if err != nil {
			return err
		}
		if res.Code == 0 && !res.TimedOut {
			return nil
		}
		pause := task.Seconds(h.IntervalSec, 5*time.Second)
		if r.Now().Sub(begun) < grace {
			pause = task.Seconds(h.StartIntervalSec, 5*time.Second)
		} else if failed++; failed >= retries {
			return named{"HealthcheckError", fault.New(fault.SandboxFailed, "the task's health check failed %d times, last with code %d: %s", failed, res.Code, out.String())}
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// named is an error with its name in Harbor.
type named struct {
	name string
	error
}

func (n named) Unwrap() error { return n.error }

// limited keeps the first 2,000 bytes written, for messages.
type limited struct{ b []byte }

func (l *limited) Write(p []byte) (int, error) {
	if room := 2000 - len(l.b); room > 0 {
		l.b = append(l.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (l *limited) String() string {
	if len(l.b) == 0 {
		return "no output"
	}
	return fmt.Sprintf("%q", l.b)
}
