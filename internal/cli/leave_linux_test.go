package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A quickstart that is stopped or killed leaves no process behind: none that sees its run directory, or was started in it.
func TestNothingOfAQuickstartOutlivesIt(t *testing.T) {
	for name, c := range map[string]struct {
		signal syscall.Signal
		code   int
	}{
		"Interrupted": {syscall.SIGINT, 130},
		"Terminated":  {syscall.SIGTERM, 130},
		"Killed":      {syscall.SIGKILL, -1},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0], "quickstart", "--out", dir, "--steps", "2")
			cmd.Args[0] = "tito"
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			until(t.Fatalf, time.Minute, "sandboxes run", func() bool {
				done, err := filepath.Glob(filepath.Join(dir, "trials", "*", "result.json"))
				return err == nil && len(done) > 0 && len(seeing(t, dir, cmd.Process.Pid)) > 0
			})
			start := time.Now()
			if err := syscall.Kill(-cmd.Process.Pid, c.signal); err != nil { // as a terminal does
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("it took %s to end", took)
			}
			if got := cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit code %d, want %d\n%s", got, c.code, out.String())
			}
			if c.signal == syscall.SIGKILL { // the kernel ends what it left
				until(t.Fatalf, 3*time.Second, "the sandboxes end", func() bool { return len(seeing(t, dir, 0)) == 0 })
			}
			if left := seeing(t, dir, 0); len(left) > 0 {
				t.Errorf("these are left: %q", left)
			}
		})
	}
}

// seeing lists the processes but one that have dir among their mounts, their arguments, their environment, or as their
// working folder.
func seeing(t *testing.T, dir string, but int) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(all) == 0 {
		t.Fatalf("%d processes, %v", len(all), err)
	}
	var out []string
	for _, p := range all {
		var facts []byte
		for _, f := range []string{"mountinfo", "cmdline", "environ"} {
			b, _ := os.ReadFile(filepath.Join(p, f))
			facts = append(facts, b...)
		}
		cwd, _ := os.Readlink(filepath.Join(p, "cwd"))
		if pid := filepath.Base(p); pid != strconv.Itoa(but) && pid != strconv.Itoa(os.Getpid()) && (bytes.Contains(facts, []byte(dir)) || strings.HasPrefix(cwd, dir)) {
			cmdline, _ := os.ReadFile(filepath.Join(p, "cmdline"))
			out = append(out, pid+" "+string(cmdline))
		}
	}
	return out
}
