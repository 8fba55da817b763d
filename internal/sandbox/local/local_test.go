package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/sandbox/local"
	"github.com/tito-rl/tito/internal/sandbox/sandboxtest"
	"github.com/tito-rl/tito/internal/testkit"
)

const hostFlag = "be-a-host-in="

func TestMain(m *testing.M) {
	local.MaybeInit()
	for _, a := range os.Args {
		if dir, ok := strings.CutPrefix(a, hostFlag); ok {
			beHost(dir)
		}
	}
	goleak.VerifyTestMain(m)
}

// namespaces is a provider whose sandboxes have them; the test is skipped where the kernel does not.
func namespaces(t testing.TB) *local.Provider {
	t.Helper()
	p := local.New(local.Options{})
	if err := p.Namespaces(); err != nil {
		testkit.Missing(t, "%v", err)
	}
	return p
}

func TestASandboxOfNamespacesPassesTheSuite(t *testing.T) { sandboxtest.Run(t, namespaces(t)) }

func TestAPlainSandboxPassesTheSuite(t *testing.T) {
	sandboxtest.Run(t, local.New(local.Options{Plain: true}))
}

func TestWithoutNamespacesATaskWithRealPathsIsRefused(t *testing.T) {
	_, err := local.New(local.Options{Plain: true}).Start(t.Context(), sandbox.Spec{Name: "x", Dir: filepath.Join(t.TempDir(), "b"), Workdir: "/app"})
	if fault.CodeOf(err) != fault.SandboxUnsupported {
		t.Fatal(err)
	}
}

func TestTheHostsHomeAndProcessesAreOutOfSight(t *testing.T) {
	p := namespaces(t)
	home, err := os.UserHomeDir()
	if err != nil {
		testkit.Missing(t, "this user has no home folder")
	}
	sb := sandboxtest.Start(t, p, nil)
	out := sandboxtest.Sh(t, sb, fmt.Sprintf(`
		[ "$(id -u)" = 0 ] || echo not root
		[ "$HOME" = /root ] && [ -z "$(ls -A /root)" ] || echo the home is not fresh
		[ -z "$(ls -A %q 2>/dev/null)" ] || echo the home of the host is there
		[ -z "$(find /home /tmp /var/tmp -mindepth 1)" ] || echo leftovers
		ls -d /proc/[0-9]* | wc -l`, home))
	if n := strings.TrimSpace(out); n != "2" && n != "3" && n != "4" { // init, bash, ls, wc
		t.Errorf("inside: %q", out)
	}
	if out := sandboxtest.Sh(t, sb, `
		touch /usr/x /etc/x 2>/dev/null && echo the shared folders are writable
		(echo 3 > /proc/sys/vm/drop_caches) 2>/dev/null && echo can set the kernel
		mount -t tmpfs none /tmp 2>/dev/null && echo can mount
		mount -o remount,rw,bind /usr 2>/dev/null && echo can remount
		ls /proc/1/root/ 2>/dev/null && echo can look through init
		kill -TERM 1; kill -KILL 1; kill -STOP 1; kill -INT 1; kill -QUIT 1; kill -SEGV 1
		true`); out != "" {
		t.Errorf("inside: %q", out)
	}
	if out := sandboxtest.Sh(t, sb, "echo x > /dev/null; echo y > /dev/shm/z; cat < <(echo piped); hostname; ls /dev/pts/ptmx"); out != "piped\ntito\n/dev/pts/ptmx\n" {
		t.Errorf("devices: %q", out)
	}
}

func TestLimitsBoundACommand(t *testing.T) {
	p := namespaces(t)
	sb := sandboxtest.Start(t, p, func(s *sandbox.Spec) {
		s.Limits = sandbox.Limits{MemoryMB: 512, StorageMB: 1, OpenFiles: 64, CPUTime: 1}
	})
	if out := sandboxtest.Sh(t, sb, "ulimit -n; ulimit -d; ulimit -f; ulimit -t; ulimit -c"); out != "64\n524288\n1024\n1\n0\n" {
		t.Errorf("limits: %q", out)
	}
	if out := sandboxtest.Sh(t, sb, "(head -c 2000000 /dev/zero > big; true) 2>/dev/null; stat -c %s big"); out != "1048576\n" {
		t.Errorf("size: %q", out)
	}
}

func TestTheBinaryIsShownAtItsPath(t *testing.T) {
	p := namespaces(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sb := sandboxtest.Start(t, p, func(s *sandbox.Spec) { s.Exe = exe })
	sandboxtest.Sh(t, sb, "[ -x "+sb.Path(sandbox.ExePath)+" ] && ! echo x 2>/dev/null >> "+sandbox.ExePath)
}

func TestPathsOfTheHostsOwnFoldersAreRefused(t *testing.T) {
	p := namespaces(t)
	dir := t.TempDir()
	for _, s := range []sandbox.Spec{
		{Workdir: "/usr/src"},
		{Workdir: "app"},
		{Workdir: "/app", Mounts: []sandbox.Mount{{Host: dir, Path: "/etc/x"}}},
		{Workdir: "/app", Mounts: []sandbox.Mount{{Host: dir, Path: "/"}}},
	} {
		s.Name, s.Dir = "x", filepath.Join(t.TempDir(), "b")
		if _, err := p.Start(t.Context(), s); fault.CodeOf(err) != fault.SandboxUnsupported {
			t.Errorf("%+v: %v", s, err)
		}
		if _, err := os.Lstat(s.Dir); err == nil {
			t.Errorf("%+v: its folder is left", s)
		}
	}
	sb := sandboxtest.Start(t, p, nil)
	if err := sb.Upload(t.Context(), dir, "/usr/local/x"); fault.CodeOf(err) != fault.SandboxUnsupported {
		t.Errorf("upload: %v", err)
	}
}

// beHost is the process that TestNothingOutlivesAKilledHost kills.
func beHost(dir string) {
	sb, err := local.New(local.Options{}).Start(context.Background(), sandbox.Spec{
		Name: "orphan", Dir: filepath.Join(dir, "box"), Workdir: "/app", Mounts: []sandbox.Mount{{Host: filepath.Join(dir, "beat"), Path: "/beat"}},
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	script := `setsid bash -c 'trap "" TERM HUP INT PIPE; exec 9<>/beat/pipe; echo up >&9; while :; do sleep 0.05; done' & wait`
	_, _ = sb.Exec(context.Background(), sandbox.Cmd{Args: []string{"bash", "-c", script}})
	os.Exit(1)
}

func TestNothingOutlivesAKilledHost(t *testing.T) {
	namespaces(t)
	dir := t.TempDir()
	beat := filepath.Join(dir, "beat")
	if err := os.Mkdir(beat, 0o755); err != nil {
		t.Fatal(err)
	}
	// The daemon inside holds a named pipe for writing: reading it ends when the last process of the sandbox has gone.
	if err := syscall.Mkfifo(filepath.Join(beat, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	host := exec.Command(os.Args[0], hostFlag+dir)
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.Open(filepath.Join(beat, "pipe")) // waits for the writer
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	b := make([]byte, 3)
	if _, err := pipe.Read(b); err != nil || string(b) != "up\n" {
		t.Fatalf("%q %v", b, err)
	}
	_ = host.Process.Kill()
	_ = host.Wait()
	if n, err := pipe.Read(b); n != 0 || err == nil { // end of file, or the test's own timeout
		t.Fatalf("read %d %v", n, err)
	}
}

func BenchmarkStartAndClose(b *testing.B) {
	p := namespaces(b)
	for i := range b.N {
		sb, err := p.Start(b.Context(), sandbox.Spec{Name: "x", Dir: filepath.Join(b.TempDir(), fmt.Sprint(i)), Workdir: "/app"})
		if err != nil {
			b.Fatal(err)
		}
		if err := sb.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExec(b *testing.B) {
	p := namespaces(b)
	sb, err := p.Start(b.Context(), sandbox.Spec{Name: "x", Dir: filepath.Join(b.TempDir(), "x"), Workdir: "/app"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sb.Close() }()
	for b.Loop() {
		if _, err := sb.Exec(b.Context(), sandbox.Cmd{Args: []string{"true"}}); err != nil {
			b.Fatal(err)
		}
	}
}
