package local

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/testkit"
)

func TestASandboxThatBreaksSaysSo(t *testing.T) {
	p := New(Options{})
	if err := p.Namespaces(); err != nil {
		testkit.Missing(t, "%v", err)
	}
	sb, err := p.Start(t.Context(), sandbox.Spec{Name: "x", Dir: filepath.Join(t.TempDir(), "box"), Workdir: "/app"})
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	go func() {
		_, _ = r.Read(make([]byte, 1))
		_ = sb.(*box).in.cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, r)
	}()
	if _, err := sb.Exec(context.Background(), sandbox.Cmd{Args: []string{"bash", "-c", "echo up; sleep 1000"}, Stdout: w}); fault.CodeOf(err) != fault.SandboxFailed {
		t.Errorf("the command: %v", err)
	}
	_ = w.Close()
	if _, err := sb.Exec(context.Background(), sandbox.Cmd{Args: []string{"true"}}); fault.CodeOf(err) != fault.SandboxFailed {
		t.Errorf("the next command: %v", err)
	}
	if err := sb.Reset(t.Context()); err != nil {
		t.Errorf("a reset starts it again: %v", err)
	}
	if _, err := sb.Exec(context.Background(), sandbox.Cmd{Args: []string{"true"}}); err != nil {
		t.Errorf("after the reset: %v", err)
	}
	if err := sb.Close(); err != nil {
		t.Error(err)
	}
}
