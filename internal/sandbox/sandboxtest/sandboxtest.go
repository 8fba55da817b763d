// Package sandboxtest is the suite that every kind of sandbox passes. Only test files import it.
package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/sandbox"
)

// Run runs the suite against a provider. Scripts spell sandbox paths with $TITO_TASK_ROOT before them.
func Run(t *testing.T, p sandbox.Provider) {
	for _, c := range []struct {
		name string
		f    func(*testing.T, sandbox.Provider)
	}{
		{"ACommandSeesItsEnvironmentAndNothingOfTheHosts", exactEnv},
		{"ExitCodesAndSignalsArriveAsTheyAre", exits},
		{"StdoutAndStderrAreKeptApartOrInOneOrder", streams},
		{"StandardInputReachesTheCommand", stdin},
		{"ABackgroundProcessThatHoldsStdoutDoesNotHoldUpTheCommand", heldStdout},
		{"ATimeoutKillsTheWholeGroupAlsoWhenItIgnoresSIGTERM", stubborn},
		{"ACancelledContextEndsTheCommandAndIsTheError", cancelled},
		{"CommandsShareFilesAndProcesses", shared},
		{"MountsAreTheHostsOwnFolders", mounts},
		{"UploadAndDownloadKeepModesAndLinks", copies},
		{"DownloadFollowsNoLinkOutOfTheSandbox", links},
		{"ResetKillsEveryProcessAndKeepsFiles", reset},
		{"ResetShowsFreshMountsEvenWhereTheAgentLeftLinks", resetMounts},
		{"CloseLeavesNoProcessAndNoFile", closes},
		{"ABigOutputIsReadWhole", bigOutput},
	} {
		t.Run(c.name, func(t *testing.T) { t.Parallel(); c.f(t, p) })
	}
}

// Start starts a sandbox with /app as its working folder, closed at the test's end.
func Start(t *testing.T, p sandbox.Provider, change func(*sandbox.Spec)) sandbox.Sandbox {
	t.Helper()
	spec := sandbox.Spec{
		Name: "test", Dir: filepath.Join(t.TempDir(), "box"), Workdir: "/app", TaskRoot: true,
		Env: map[string]string{"FROM_SPEC": "a b", "OVERRIDDEN": "spec"},
	}
	if change != nil {
		change(&spec)
	}
	sb, err := p.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(spec.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the sandbox's folder is left: %v", err)
		}
	})
	return sb
}

// Sh runs a bash script that must end well, and returns what it printed.
func Sh(t *testing.T, sb sandbox.Sandbox, script string) string {
	t.Helper()
	out, res := try(t, sb, script)
	if res.Code != 0 {
		t.Fatalf("%s\nended with %+v:\n%s", script, res, out)
	}
	return out
}

func try(t *testing.T, sb sandbox.Sandbox, script string) (string, sandbox.Result) {
	t.Helper()
	var out bytes.Buffer
	res, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), res
}

func exactEnv(t *testing.T, p sandbox.Provider) {
	sb := Start(t, p, nil)
	var out bytes.Buffer
	res, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"env"}, Stdout: &out, Env: map[string]string{"OVERRIDDEN": "command"}})
	if err != nil || res.Code != 0 {
		t.Fatal(res, err)
	}
	allowed := []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", sandbox.TaskRootEnv, "TITO_SANDBOX", "FROM_SPEC", "OVERRIDDEN"}
	got := map[string]string{}
	for line := range strings.Lines(out.String()) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		got[k] = v
	}
	for _, k := range allowed {
		if _, ok := got[k]; !ok && k != "TITO_SANDBOX" {
			t.Errorf("%s is not set", k)
		}
		if k != "FROM_SPEC" && k != "OVERRIDDEN" {
			delete(got, k)
		}
	}
	if len(got) != 2 || got["FROM_SPEC"] != "a b" || got["OVERRIDDEN"] != "command" {
		t.Errorf("unexpected environment: %v", got)
	}
	odd := "a\xffb\n'\" c"
	out.Reset()
	if _, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"printf", "%s %s", odd, ""}, Stdout: &out}); err != nil || out.String() != odd+" " {
		t.Errorf("an argument of odd bytes arrived as %q %v", out.String(), err)
	}
	if pwd := strings.TrimSpace(Sh(t, sb, "pwd -P")); !strings.HasSuffix(pwd, "/app") {
		t.Errorf("working folder is %s", pwd)
	}
}

func exits(t *testing.T, p sandbox.Provider) {
	sb := Start(t, p, nil)
	for script, want := range map[string]sandbox.Result{
		"exit 0":        {},
		"exit 7":        {Code: 7},
		"kill -KILL $$": {Code: 137, Signal: "SIGKILL"},
		"kill -TERM $$": {Code: 143, Signal: "SIGTERM"},
		"kill -PIPE $$": {Code: 141, Signal: "SIGPIPE"},
	} {
		_, got := try(t, sb, script)
		got.Wall = 0
		if got != want {
			t.Errorf("%s: %+v, want %+v", script, got, want)
		}
	}
	for arg, want := range map[string]int{"no-such-program": 127, "/no/such/file": 127, sb.Path("/app"): 126} {
		var errs bytes.Buffer
		got, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{arg}, Stderr: &errs})
		if err != nil || got.Code != want || errs.Len() == 0 {
			t.Errorf("%s: %+v %v %q, want code %d", arg, got, err, errs.String(), want)
		}
	}
}

func streams(t *testing.T, p sandbox.Provider) {
	sb := Start(t, p, nil)
	var out, errs bytes.Buffer
	script := []string{"bash", "-c", "echo 1; echo 2 >&2; echo 3"}
	if _, err := sb.Exec(t.Context(), sandbox.Cmd{Args: script, Stdout: &out, Stderr: &errs}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "1\n3\n" || errs.String() != "2\n" {
		t.Errorf("apart: %q and %q", out.String(), errs.String())
	}
	out.Reset()
	if _, err := sb.Exec(t.Context(), sandbox.Cmd{Args: script, Stdout: &out, Stderr: &out}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "1\n2\n3\n" {
		t.Errorf("together: %q", out.String())
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := sb.Exec(t.Context(), sandbox.Cmd{Args: script, Stdout: f, Stderr: f}); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(f.Name()); string(b) != "1\n2\n3\n" {
		t.Errorf("into a file: %q", b)
	}
}

func stdin(t *testing.T, p sandbox.Provider) {
	sb := Start(t, p, nil)
	big := strings.Repeat("0123456789\n", 100_000)
	var out bytes.Buffer
	if _, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"cat"}, Stdin: strings.NewReader(big), Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if out.String() != big {
		t.Errorf("read back %d of %d bytes", out.Len(), len(big))
	}
	if got := Sh(t, sb, "cat | wc -c"); strings.TrimSpace(got) != "0" {
		t.Errorf("without an input a command reads %s bytes", got)
	}
}

func heldStdout(t *testing.T, p sandbox.Provider) {
	sb := Start(t, p, nil)
	start := time.Now()
	if got := Sh(t, sb, "sleep 1000 & echo done"); got != "done\n" {
		t.Errorf("output %q", got)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("it took %s", d)
	}
}

func stubborn(t *testing.T, p sandbox.Provider) {
	sb := Start(t, p, nil)
	script := `trap '' TERM; (trap '' TERM; while :; do echo >> beat; sleep 0.01; done) & while :; do sleep 0.01; done`
	res, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"bash", "-c", script}, Timeout: 300 * time.Millisecond, Grace: 100 * time.Millisecond})
	if err != nil || !res.TimedOut || res.Signal != "SIGKILL" {
		t.Fatalf("%+v %v", res, err)
	}
	stands(t, sb, "the group's child lives on")
	// One that ends on SIGTERM, with a child in its group that does not.
	script = `(trap '' TERM; while :; do echo >> beat; sleep 0.01; done) & wait`
	res, err = sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"bash", "-c", script}, Timeout: 300 * time.Millisecond})
	if err != nil || !res.TimedOut || res.Signal != "SIGTERM" {
		t.Fatalf("%+v %v", res, err)
	}
	stands(t, sb, "the child that ignores SIGTERM lives on")
}

// stands checks that nobody writes $PWD/beat any more.
func stands(t *testing.T, sb sandbox.Sandbox, what string) {
	t.Helper()
	if out := Sh(t, sb, `[ -s beat ] || echo no beat; sleep 0.05; a=$(cat beat); sleep 0.15; b=$(cat beat); [ "$a" = "$b" ] || echo beats`); out != "" {
		t.Errorf("%s: %s", what, out)
	}
}

func cancelled(t *testing.T, p sandbox.Provider) {
	sb := Start(t, p, nil)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	go func() {
		_, _ = r.Read(make([]byte, 1))
		cancel(why)
	}()
	_, err = sb.Exec(ctx, sandbox.Cmd{Args: []string{"bash", "-c", "echo started; sleep 1000"}, Stdout: w})
	_ = w.Close()
	if !errors.Is(err, why) {
		t.Fatalf("error %v", err)
	}
	if _, err := sb.Exec(ctx, sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, why) {
		t.Fatalf("a command after the end: %v", err)
	}
	Sh(t, sb, "true") // the sandbox goes on
}

func shared(t *testing.T, p sandbox.Provider) {
	sb := Start(t, p, nil)
	Sh(t, sb, `echo x > $TITO_TASK_ROOT/tmp/file; (sleep 1000 & echo $! > pid)`)
	Sh(t, sb, `[ "$(cat $TITO_TASK_ROOT/tmp/file)" = x ] && kill -0 $(cat pid)`)
}

func mounts(t *testing.T, p sandbox.Provider) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "note")
	write(t, file, "from the host")
	sb := Start(t, p, func(s *sandbox.Spec) {
		s.Mounts = []sandbox.Mount{{Host: dir, Path: "/data/deep"}, {Host: file, Path: "/data/note", ReadOnly: true}}
	})
	if got := Sh(t, sb, "cat $TITO_TASK_ROOT/data/note; echo inside > $TITO_TASK_ROOT/data/deep/out"); got != "from the host" {
		t.Errorf("read %q", got)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "out")); err != nil || string(b) != "inside\n" {
		t.Errorf("on the host: %q %v", b, err)
	}
	_, err := p.Start(t.Context(), sandbox.Spec{Name: "bad", Dir: filepath.Join(t.TempDir(), "b"), Workdir: "/app", TaskRoot: true,
		Mounts: []sandbox.Mount{{Host: filepath.Join(dir, "not-there"), Path: "/x"}}})
	if fault.CodeOf(err) != fault.SandboxFailed {
		t.Errorf("a mount of nothing: %v", err)
	}
}

func write(t *testing.T, p, s string) {
	t.Helper()
	if err := os.WriteFile(p, []byte(s), 0o644); err != nil {
		t.Fatal(err)
	}
}

func copies(t *testing.T, p sandbox.Provider) {
	src := t.TempDir()
	write(t, filepath.Join(src, "run.sh"), "#!/bin/sh\necho ran\n")
	if err := errors.Join(os.Chmod(filepath.Join(src, "run.sh"), 0o755), os.Mkdir(filepath.Join(src, "d"), 0o755),
		os.Symlink("../run.sh", filepath.Join(src, "d", "link")), syscall.Mkfifo(filepath.Join(src, "fifo"), 0o644)); err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	sb := Start(t, p, func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Host: logs, Path: "/up/logs"}} })
	if err := sb.Upload(t.Context(), src, "/up/here"); err != nil {
		t.Fatal(err)
	}
	if err := sb.Upload(t.Context(), filepath.Join(src, "run.sh"), "/up/alone"); err != nil {
		t.Fatal(err)
	}
	if got := Sh(t, sb, "cd $TITO_TASK_ROOT/up; here/d/link; ./alone; ls here; echo log > logs/l"); got != "ran\nran\nd\nrun.sh\n" {
		t.Errorf("uploaded: %q", got)
	}
	back := filepath.Join(t.TempDir(), "back")
	if err := sb.Download(t.Context(), "/up", back); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(filepath.Join(back, "alone"))
	if err != nil || fi.Mode().Perm() != 0o755 {
		t.Errorf("mode of the copy: %v %v", fi, err)
	}
	if to, err := os.Readlink(filepath.Join(back, "here", "d", "link")); err != nil || to != "../run.sh" {
		t.Errorf("link of the copy: %q %v", to, err)
	}
	if b, err := os.ReadFile(filepath.Join(back, "logs", "l")); err != nil || string(b) != "log\n" {
		t.Errorf("below a mount: %q %v", b, err)
	}
	if err := sb.Download(t.Context(), "/not/there", back); fault.CodeOf(err) != fault.SandboxFailed {
		t.Errorf("a download of nothing: %v", err)
	}
}

func links(t *testing.T, p sandbox.Provider) {
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "host only")
	sb := Start(t, p, nil)
	Sh(t, sb, "ln -s "+secret+" leak; ln -s "+filepath.Dir(secret)+" dir; mkdir ok; ln -s "+secret+" ok/leak")
	to := t.TempDir()
	for _, p := range []string{"/app/leak", "/app/dir", "/app/dir/secret"} {
		if err := sb.Download(t.Context(), p, filepath.Join(to, "x")); err == nil {
			t.Errorf("%s was followed", p)
		}
	}
	if err := sb.Download(t.Context(), "/app/ok", filepath.Join(to, "ok")); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Lstat(filepath.Join(to, "ok", "leak")); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was not kept as one: %v %v", fi, err)
	}
	if err := sb.Upload(t.Context(), secret, "/app/dir/planted"); err == nil {
		t.Error("an upload went through a link out of the sandbox")
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(secret), "planted")); err == nil {
		t.Error("a file was planted on the host")
	}
}

const daemon = `setsid bash -c 'trap "" TERM HUP INT; while :; do echo >> beat; sleep 0.01; done' </dev/null >/dev/null 2>&1 & disown; until [ -s beat ]; do sleep 0.01; done`

func reset(t *testing.T, p sandbox.Provider) {
	sb := Start(t, p, nil)
	Sh(t, sb, "echo kept > file; echo kept > $TITO_TASK_ROOT/tmp/file; "+daemon)
	if err := sb.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	stands(t, sb, "a daemon outlived the reset")
	if got := Sh(t, sb, "cat file $TITO_TASK_ROOT/tmp/file; rm -r $TITO_TASK_ROOT/app"); got != "kept\nkept\n" {
		t.Errorf("files after the reset: %q", got)
	}
	if err := sb.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	Sh(t, sb, "touch file") // in the working folder, which is there again
}

func resetMounts(t *testing.T, p sandbox.Provider) {
	old, elsewhere := t.TempDir(), t.TempDir()
	sb := Start(t, p, func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Host: old, Path: "/logs/verifier"}} })
	Sh(t, sb, `echo planted > $TITO_TASK_ROOT/logs/verifier/reward.json; ln -s `+elsewhere+` $TITO_TASK_ROOT/tests; mkdir -p $TITO_TASK_ROOT/srv/x; echo planted > $TITO_TASK_ROOT/srv/x/y`)
	tests, logs, srv := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(tests, "test.sh"), "echo true tests")
	if err := sb.Reset(t.Context(), sandbox.Mount{Host: tests, Path: "/tests"}, sandbox.Mount{Host: logs, Path: "/logs/verifier"}, sandbox.Mount{Host: srv, Path: "/srv/x"}); err != nil {
		t.Fatal(err)
	}
	if got := Sh(t, sb, "cd $TITO_TASK_ROOT/; bash tests/test.sh; ls logs/verifier srv/x/; echo 1 > logs/verifier/reward.txt"); got != "true tests\nlogs/verifier:\n\nsrv/x/:\n" {
		t.Errorf("after the reset: %q", got)
	}
	if b, err := os.ReadFile(filepath.Join(logs, "reward.txt")); err != nil || string(b) != "1\n" {
		t.Errorf("the new mount: %q %v", b, err)
	}
	if es, _ := os.ReadDir(elsewhere); len(es) != 0 {
		t.Errorf("the reset wrote through the agent's link: %v", es)
	}
}

func closes(t *testing.T, p sandbox.Provider) {
	beat := t.TempDir()
	sb := Start(t, p, func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Host: beat, Path: "/app"}} })
	Sh(t, sb, "mkdir shut; touch shut/f; chmod 000 shut; "+daemon)
	if err := errors.Join(sb.Close(), sb.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"true"}}); fault.CodeOf(err) != fault.SandboxFailed {
		t.Errorf("a command after Close: %v", err)
	}
	_ = os.Chmod(filepath.Join(beat, "shut"), 0o755)
	if err := os.Remove(filepath.Join(beat, "beat")); err != nil {
		t.Fatal(err)
	}
	timer := time.NewTimer(150 * time.Millisecond)
	<-timer.C
	if _, err := os.Stat(filepath.Join(beat, "beat")); err == nil {
		t.Error("a process outlived Close")
	}
}

func bigOutput(t *testing.T, p sandbox.Provider) {
	sb := Start(t, p, nil)
	if got := Sh(t, sb, "head -c 20000000 /dev/zero"); len(got) != 20_000_000 {
		t.Errorf("read %d bytes", len(got))
	}
}
