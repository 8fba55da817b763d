package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	defaultTimeout = 30 * time.Second
	maxTimeout     = 10 * time.Minute
	maxOutput      = 16 << 10 // bytes of a tool's output that go into the history
)

// run does one tool call and returns what the policy is told. Whatever goes wrong is told too: it is never an error.
func run(ctx context.Context, spec Spec, f function) string {
	switch f.Name {
	case "bash":
		var a struct {
			Command string  `json:"command"`
			Timeout float64 `json:"timeout"`
		}
		if bad := arguments(f.Arguments, &a); bad != "" {
			return bad
		}
		return bash(ctx, spec, a.Command, a.Timeout)
	case "edit":
		var a struct{ Path, Old, New string }
		if bad := arguments(f.Arguments, &a); bad != "" {
			return bad
		}
		return edit(spec, a.Path, a.Old, a.New)
	}
	return fmt.Sprintf("There is no tool %q; the tools are bash and edit.", f.Name)
}

// arguments reads a call's arguments; what it says of bad ones is for the policy.
func arguments(s string, into any) (complaint string) {
	if err := json.Unmarshal([]byte(s), into); err != nil {
		return fmt.Sprintf("The arguments are not what the tool takes: %v", err)
	}
	return ""
}

func bash(ctx context.Context, spec Spec, command string, seconds float64) string {
	limit := defaultTimeout
	if seconds > 0 {
		limit = min(time.Duration(seconds*float64(time.Second)), maxTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir = spec.Workdir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	said := clip(strings.ToValidUTF8(out.String(), "\uFFFD"))
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return said + fmt.Sprintf("\n[stopped after %s]", limit)
	case errors.As(err, &exit):
		return said + fmt.Sprintf("\n[exit code %d]", exit.ExitCode())
	case err != nil:
		return said + "\n[" + err.Error() + "]"
	case said == "":
		return "[no output]"
	}
	return said
}

// clip keeps the beginning and the end of a long output.
func clip(s string) string {
	if len(s) <= maxOutput {
		return s
	}
	head, tail := s[:maxOutput/2], s[len(s)-maxOutput/2:]
	return strings.ToValidUTF8(head, "") + fmt.Sprintf("\n[%d bytes left out]\n", len(s)-len(head)-len(tail)) + strings.ToValidUTF8(tail, "")
}

func edit(spec Spec, path, old, with string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(spec.Workdir, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	switch n := strings.Count(string(b), old); {
	case old == "":
		return "The text to replace is empty."
	case n == 0:
		return "The file does not contain that text."
	case n > 1:
		return fmt.Sprintf("The file contains that text %d times; give more of it.", n)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(b), old, with, 1)), info.Mode()); err != nil {
		return err.Error()
	}
	return "Replaced."
}
