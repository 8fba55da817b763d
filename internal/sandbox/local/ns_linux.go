package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/sandbox"
)

const initName = "tito-sandbox-init"

// startTimeout bounds the time from clone to a ready init.
const startTimeout = 20 * time.Second

// box is a sandbox of namespaces, seen from the host.
type box struct {
	spec sandbox.Spec

	mu     sync.Mutex // guards what follows; Reset and Close hold it throughout
	layout *layout
	in     *initProc
	closed bool
}

// initProc is one init process with its commands.
type initProc struct {
	cmd  *exec.Cmd
	wire *wire
	gone chan struct{} // closed when the socket has ended

	mu      sync.Mutex
	next    int
	waiting map[int]chan report
}

// probe starts and ends an init with a root of its own, to see whether the kernel allows it.
func probe() error {
	dir, err := os.MkdirTemp("", "tito-probe-")
	if err != nil {
		return fault.Wrap(fault.SandboxFailed, err, "probing for namespaces")
	}
	l, err := newLayout(sandbox.Spec{Name: "probe", Dir: dir, Workdir: "/"}, true)
	if err != nil {
		return err
	}
	defer func() { _ = l.remove() }()
	in, err := startInit(context.Background(), l, sandbox.Spec{Name: "probe"})
	if err != nil {
		return fault.New(fault.SandboxUnsupported, "the kernel does not allow user, mount and pid namespaces here: %v", err)
	}
	in.stop()
	return nil
}

func startNS(ctx context.Context, l *layout, spec sandbox.Spec) (sandbox.Sandbox, error) {
	in, err := startInit(ctx, l, spec)
	if err != nil {
		return nil, fault.Wrap(fault.SandboxFailed, err, "sandbox %s", spec.Name)
	}
	return &box{spec: spec, layout: l, in: in}, nil
}

func startInit(ctx context.Context, l *layout, spec sandbox.Spec) (*initProc, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	host, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe")
	// A test binary that does not call MaybeInit runs no test; a program refuses the flag.
	cmd.Args = []string{initName, "-test.run=^$"}
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{theirs}
	var said strings.Builder
	cmd.Stderr = &said
	cmd.SysProcAttr = sysProcAttr()
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		_ = host.Close()
		return nil, fmt.Errorf("starting init: %w", err)
	}
	in := &initProc{cmd: cmd, wire: &wire{c: host}, gone: make(chan struct{}), waiting: map[int]chan report{}}
	ready := in.expect() // its id is 0
	go in.read()
	if err := in.wire.send(setupOf(l, spec)); err != nil {
		in.stop()
		return nil, fmt.Errorf("init ended at once: %w %s", err, said.String())
	}
	select {
	case r := <-ready.ch:
		if r.Err != "" {
			in.stop()
			return nil, errors.New(r.Err)
		}
		return in, nil
	case <-in.gone:
		in.stop()
		return nil, fmt.Errorf("init ended before it was ready: %s", strings.TrimSpace(said.String()))
	case <-ctx.Done():
		in.stop()
		return nil, context.Cause(ctx)
	}
}

func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	f := os.NewFile(uintptr(fds[0]), "host end")
	defer func() { _ = f.Close() }()
	theirs := os.NewFile(uintptr(fds[1]), "init end")
	c, err := net.FileConn(f)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return c.(*net.UnixConn), theirs, nil
}

func sysProcAttr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Setsid:     true,
	}
	if os.Geteuid() == 0 { // root may map every id that it has, so that chown and tar work inside
		a.UidMappings, a.GidMappings = identity("/proc/self/uid_map"), identity("/proc/self/gid_map")
		a.GidMappingsEnableSetgroups = true
		return a
	}
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	return a
}

// identity maps each id that this process's own namespace knows to itself.
func identity(file string) []syscall.SysProcIDMap {
	one := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	f, err := os.Open(file)
	if err != nil {
		return one
	}
	defer func() { _ = f.Close() }()
	var ms []syscall.SysProcIDMap
	for s := bufio.NewScanner(f); s.Scan(); {
		var inside, outside, n int
		if _, err := fmt.Sscan(s.Text(), &inside, &outside, &n); err != nil {
			return one
		}
		ms = append(ms, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: n})
	}
	if len(ms) == 0 {
		return one
	}
	return ms
}

func setupOf(l *layout, spec sandbox.Spec) setup {
	s := setup{Root: l.root(), Shared: l.shared, Hostname: "tito", Limits: limitsOf(spec.Limits)}
	for _, m := range slices.Backward(l.mounts) {
		s.Mounts = append(s.Mounts, mount{Host: m.Host, Path: m.Path, ReadOnly: m.ReadOnly})
	}
	return s
}

func limitsOf(l sandbox.Limits) []rlimit {
	out := []rlimit{{unix.RLIMIT_CORE, 0}}
	add := func(res int, v int) {
		if v > 0 {
			out = append(out, rlimit{res, uint64(v)})
		}
	}
	add(unix.RLIMIT_DATA, l.MemoryMB<<20)
	add(unix.RLIMIT_FSIZE, l.StorageMB<<20)
	add(unix.RLIMIT_NOFILE, l.OpenFiles)
	add(unix.RLIMIT_CPU, int((l.CPUTime+time.Second-1)/time.Second))
	if os.Geteuid() != 0 { // root is exempt
		add(unix.RLIMIT_NPROC, l.Processes)
	}
	return out
}

type ticket struct {
	id int
	ch chan report
}

func (in *initProc) expect() ticket {
	in.mu.Lock()
	defer in.mu.Unlock()
	t := ticket{in.next, make(chan report, 1)}
	in.next++
	in.waiting[t.id] = t.ch
	return t
}

func (in *initProc) read() {
	defer close(in.gone)
	for {
		var r report
		if _, err := in.wire.recv(&r); err != nil {
			return
		}
		in.mu.Lock()
		ch := in.waiting[r.ID]
		delete(in.waiting, r.ID)
		in.mu.Unlock()
		if ch != nil {
			ch <- r
		}
	}
}

// stop kills init, and with it every process of its namespace, and waits until they are gone.
func (in *initProc) stop() {
	_ = in.cmd.Process.Kill()
	_ = in.cmd.Wait()
	_ = in.wire.c.Close()
	<-in.gone
}

func (b *box) Path(p string) string { return path.Clean("/" + p) }

func (b *box) current() (*initProc, *layout, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.in == nil {
		return nil, nil, fault.New(fault.SandboxFailed, "sandbox %s is closed", b.spec.Name)
	}
	return b.in, b.layout, nil
}

func (b *box) Exec(ctx context.Context, c sandbox.Cmd) (sandbox.Result, error) {
	in, l, err := b.current()
	if err != nil {
		return sandbox.Result{}, err
	}
	if len(c.Args) == 0 {
		return sandbox.Result{}, fault.New(fault.InternalError, "sandbox %s: a command without arguments", b.spec.Name)
	}
	if err := ctx.Err(); err != nil {
		return sandbox.Result{}, context.Cause(ctx)
	}
	io, err := openStdio(c)
	if err != nil {
		return sandbox.Result{}, fault.Wrap(fault.SandboxFailed, err, "sandbox %s", b.spec.Name)
	}
	dir := c.Dir
	if dir == "" {
		dir = b.spec.Workdir
	}
	t := in.expect()
	err = in.wire.send(order{ID: t.id, Args: c.Args, Env: environ(l, b.spec, c.Env), Dir: []byte(dir)}, io.fds()...)
	io.started()
	if err != nil {
		io.abandon()
		return sandbox.Result{}, fault.Wrap(fault.SandboxFailed, err, "sandbox %s: its init is gone", b.spec.Name)
	}
	signal := func(s syscall.Signal) { _ = in.wire.send(order{ID: t.id, Signal: int(s)}) }
	start := time.Now()
	r, how := await(ctx, c, t.ch, in.gone, signal)
	io.drain()
	res := sandbox.Result{Code: r.Code, TimedOut: how == endTimeout, Wall: time.Since(start)}
	if r.Signal != 0 {
		res.Code, res.Signal = 128+r.Signal, unix.SignalName(syscall.Signal(r.Signal))
	}
	switch {
	case how == endGone:
		return res, fault.New(fault.SandboxFailed, "sandbox %s ended while a command ran in it", b.spec.Name)
	case how == endCtx:
		return res, context.Cause(ctx)
	case r.Err != "":
		return res, fault.New(fault.SandboxFailed, "sandbox %s: %s", b.spec.Name, r.Err)
	}
	return res, nil
}

func (b *box) Upload(ctx context.Context, src, dst string) error {
	_, l, err := b.current()
	if err != nil {
		return err
	}
	return l.upload(ctx, src, dst)
}

func (b *box) Download(ctx context.Context, src, dst string) error {
	_, l, err := b.current()
	if err != nil {
		return err
	}
	return l.download(ctx, src, dst)
}

// Reset ends the init and starts another on the same root.
func (b *box) Reset(ctx context.Context, mounts ...sandbox.Mount) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.in == nil {
		return fault.New(fault.SandboxFailed, "sandbox %s is closed", b.spec.Name)
	}
	b.in.stop()
	b.in = nil
	l := *b.layout
	l.mounts = slices.Clone(l.mounts)
	if err := l.repair(); err != nil {
		return fault.Wrap(fault.SandboxFailed, err, "sandbox %s: repairing its folders", b.spec.Name)
	}
	if err := l.mount(mounts); err != nil {
		return err
	}
	if err := l.workdir(b.spec.Workdir); err != nil {
		return fault.Wrap(fault.SandboxFailed, err, "sandbox %s: its working folder", b.spec.Name)
	}
	in, err := startInit(ctx, &l, b.spec)
	if err != nil {
		return fault.Wrap(fault.SandboxFailed, err, "sandbox %s: starting again", b.spec.Name)
	}
	b.layout, b.in = &l, in
	return nil
}

func (b *box) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	if b.in != nil {
		b.in.stop()
	}
	return fault.Wrap(fault.SandboxFailed, b.layout.remove(), "sandbox %s: removing %s", b.spec.Name, b.spec.Dir)
}
