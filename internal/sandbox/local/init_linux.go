package local

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaybeInit becomes a sandbox's init where this process was started as one, and then does not return. A program that
// uses the package calls it first in main, and its tests first in TestMain.
func MaybeInit() {
	if os.Args[0] != initName {
		return
	}
	// Every signal is caught, so that none from inside ends init; a caught one is default again in what init starts.
	signal.Notify(make(chan os.Signal, 1))
	if err := runInit(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// reaper is init's own state: which process is which command.
type reaper struct {
	wire *wire
	mu   sync.Mutex // held while a process is started, so that its end is not seen before its number is known
	pids map[int]int
	ids  map[int]int // command -> process, which leads its group
}

func runInit() error {
	f := os.NewFile(3, "host")
	c, err := net.FileConn(f)
	if err != nil {
		return fmt.Errorf("init has no socket to its host: %w", err)
	}
	_ = f.Close()
	w := &wire{c: c.(*net.UnixConn)}
	var s setup
	if _, err := w.recv(&s); err != nil {
		return err
	}
	if err := enter(s); err != nil {
		return w.send(report{Err: err.Error()})
	}
	r := &reaper{wire: w, pids: map[int]int{}, ids: map[int]int{}}
	chld := make(chan os.Signal, 1)
	signal.Notify(chld, syscall.SIGCHLD)
	go r.reap(chld)
	if err := w.send(report{}); err != nil {
		return err
	}
	return r.serve()
}

// serve starts and signals commands until the host closes the socket. All of them are started from this one thread,
// which has given up the capabilities that no command needs.
func (r *reaper) serve() error {
	runtime.LockOSThread()
	if err := dropCapabilities(); err != nil {
		return err
	}
	for {
		var o order
		fds, err := r.wire.recv(&o)
		if err != nil {
			return nil // the host is gone or closes: the kernel kills the rest
		}
		if o.Signal != 0 {
			r.signal(o)
		} else if len(fds) == 3 {
			if err := r.start(o, fds); err != nil {
				return err
			}
		}
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
	}
}

func (r *reaper) signal(o order) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pid := r.ids[o.ID]; pid != 0 {
		_ = syscall.Kill(-pid, syscall.Signal(o.Signal))
	}
}

func (r *reaper) start(o order, fds []int) error {
	refuse := func(code int, why error) error {
		_, _ = syscall.Write(fds[2], fmt.Appendf(nil, "%s: %v\n", o.Args[0], why))
		return r.wire.send(report{ID: o.ID, Code: code})
	}
	dir := string(o.Dir)
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return refuse(126, fmt.Errorf("the working folder %s is not there", dir))
	}
	exe, err := lookPath(o)
	if err != nil {
		return refuse(127, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(exe, o.Args, &syscall.ProcAttr{
		Dir: dir, Env: o.Env, Files: []uintptr{uintptr(fds[0]), uintptr(fds[1]), uintptr(fds[2])},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return refuse(126, err)
	}
	r.pids[pid], r.ids[o.ID] = o.ID, pid
	return nil
}

// lookPath finds the program as a shell would, in the command's own PATH.
func lookPath(o order) (string, error) {
	name := o.Args[0]
	if strings.Contains(name, "/") {
		p := name
		if !filepath.IsAbs(p) {
			p = filepath.Join(string(o.Dir), p)
		}
		if _, err := os.Stat(p); err != nil {
			return "", errors.New("no such file")
		}
		return p, nil
	}
	for _, kv := range o.Env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			p := filepath.Join(dir, name)
			if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
				return p, nil
			}
		}
	}
	return "", errors.New("command not found")
}

// reap collects every child, the commands and the orphans that fell to init.
func (r *reaper) reap(chld <-chan os.Signal) {
	for range chld {
		for {
			var ws syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			r.ended(pid, ws)
		}
	}
}

func (r *reaper) ended(pid int, ws syscall.WaitStatus) {
	r.mu.Lock()
	id, ok := r.pids[pid]
	delete(r.pids, pid)
	r.mu.Unlock()
	if !ok {
		return
	}
	rep := report{ID: id, Code: ws.ExitStatus()}
	if ws.Signaled() {
		rep.Code, rep.Signal = 0, int(ws.Signal())
	}
	_ = r.wire.send(rep)
}

// enter builds the new root and moves into it.
func enter(s setup) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
		return fmt.Errorf("sethostname: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	if err := bind(s.Root, s.Root, false); err != nil {
		return err
	}
	for _, p := range s.Shared {
		if err := bind(p, filepath.Join(s.Root, p), true); err != nil {
			return err
		}
	}
	if err := mountKernel(s.Root); err != nil {
		return err
	}
	for _, m := range s.Mounts {
		if err := bind(m.Host, filepath.Join(s.Root, m.Path), m.ReadOnly); err != nil {
			return err
		}
	}
	if err := pivot(s.Root); err != nil {
		return err
	}
	unix.Umask(0o022)
	for _, l := range s.Limits {
		if err := lower(l); err != nil {
			return err
		}
	}
	return nil
}

// lower sets a limit, or leaves the one in force where that is lower.
func lower(l rlimit) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(l.Resource, &now); err != nil {
		return fmt.Errorf("getrlimit %d: %w", l.Resource, err)
	}
	v := min(l.Value, now.Max)
	if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: v, Max: v}); err != nil {
		return fmt.Errorf("setrlimit %d to %d: %w", l.Resource, v, err)
	}
	return nil
}

func touch(p string) error {
	f, err := os.OpenFile(p, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func bind(from, to string, readOnly bool) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("binding %s: %w", from, err)
	}
	if !readOnly {
		return nil
	}
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, to, unix.AT_RECURSIVE, attr); err != nil {
		return fmt.Errorf("making %s read-only (this needs Linux 5.12): %w", from, err)
	}
	return nil
}

// mountKernel makes /proc and a /dev with the usual harmless devices.
func mountKernel(root string) error {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("proc", filepath.Join(root, "proc"), "proc", safe, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	// Root on the host is root inside: its way to the kernel's settings is shut.
	for _, n := range []string{"sys", "irq", "bus", "fs", "sysrq-trigger"} {
		at := filepath.Join(root, "proc", n)
		if _, err := os.Lstat(at); err != nil {
			continue
		}
		if err := bind(at, at, true); err != nil {
			return err
		}
	}
	dev := filepath.Join(root, "dev")
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=64k"); err != nil {
		return fmt.Errorf("mounting /dev: %w", err)
	}
	for _, n := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		at := filepath.Join(dev, n)
		if err := touch(at); err != nil {
			return err
		}
		if err := bind("/dev/"+n, at, false); err != nil {
			return err
		}
	}
	links := map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"}
	for n, to := range links {
		if err := os.Symlink(to, filepath.Join(dev, n)); err != nil {
			return err
		}
	}
	for _, n := range []string{"pts", "shm"} {
		if err := os.Mkdir(filepath.Join(dev, n), 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("devpts", filepath.Join(dev, "pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return fmt.Errorf("mounting /dev/pts: %w", err)
	}
	if err := unix.Mount("tmpfs", filepath.Join(dev, "shm"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=256m"); err != nil {
		return fmt.Errorf("mounting /dev/shm: %w", err)
	}
	return nil
}

// pivot makes root the root and drops the old one.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	return os.Chdir("/")
}

// kept are the capabilities of a command: those for files, ids and ports, none to mount, load or trace.
var kept = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID,
	unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_AUDIT_WRITE, unix.CAP_SETFCAP,
}

// dropCapabilities narrows what this thread's children can have.
func dropCapabilities() error {
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if slices.Contains(kept, c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
	return nil
}
