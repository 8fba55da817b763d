package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/sandbox"
)

// plain is a sandbox without namespaces: process groups in a folder. Its processes are found again by a mark in their
// environment, so that those that left their group end too, unless they cleared it.
type plain struct {
	spec sandbox.Spec
	mark string // NAME=value

	paths *layout // of the start: where paths lead does not change

	mu     sync.Mutex
	layout *layout
	groups map[int]bool
	closed bool
}

const markName = "TITO_SANDBOX"

func startPlain(l *layout, spec sandbox.Spec) (sandbox.Sandbox, error) {
	return &plain{spec: spec, layout: l, paths: l, mark: markName + "=" + l.dir, groups: map[int]bool{}}, nil
}

func (p *plain) Path(s string) string { return p.paths.path(s) }

func (p *plain) current() (*layout, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fault.New(fault.SandboxFailed, "sandbox %s is closed", p.spec.Name)
	}
	return p.layout, nil
}

func (p *plain) Exec(ctx context.Context, c sandbox.Cmd) (sandbox.Result, error) {
	l, err := p.current()
	if err != nil {
		return sandbox.Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return sandbox.Result{}, context.Cause(ctx)
	}
	io, err := openStdio(c)
	if err != nil {
		return sandbox.Result{}, fault.Wrap(fault.SandboxFailed, err, "sandbox %s", p.spec.Name)
	}
	pid, code, err := p.start(l, c, io)
	io.started()
	if err != nil {
		io.drain()
		return sandbox.Result{}, fault.Wrap(fault.SandboxFailed, err, "sandbox %s", p.spec.Name)
	}
	if pid == 0 {
		io.drain()
		return sandbox.Result{Code: code}, nil
	}
	done := make(chan report, 1)
	go func() { done <- waitPid(pid) }()
	start := time.Now()
	r, how := await(ctx, c, done, nil, func(s syscall.Signal) { _ = syscall.Kill(-pid, s) })
	io.drain()
	res := sandbox.Result{Code: r.Code, TimedOut: how == endTimeout, Wall: time.Since(start)}
	if r.Signal != 0 {
		res.Code, res.Signal = 128+r.Signal, unix.SignalName(syscall.Signal(r.Signal))
	}
	if how == endCtx {
		return res, context.Cause(ctx)
	}
	return res, nil
}

// start starts the command. Where it cannot be, pid is 0, code says so and a line is on its standard error.
func (p *plain) start(l *layout, c sandbox.Cmd, io *stdio) (pid, code int, err error) {
	if len(c.Args) == 0 {
		return 0, 0, errors.New("a command without arguments")
	}
	dir := c.Dir
	if dir == "" {
		dir = p.spec.Workdir
	}
	refuse := func(code int, why error) (int, int, error) {
		_, _ = fmt.Fprintf(io.files[2], "%s: %v\n", c.Args[0], why)
		return 0, code, nil
	}
	env := append(environ(l, p.spec, c.Env), p.mark)
	exe, err := plainLook(c.Args[0], l.path(dir), env)
	if err != nil {
		return refuse(127, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, 0, errors.New("it is closed")
	}
	pid, err = syscall.ForkExec(exe, c.Args, &syscall.ProcAttr{
		Dir: l.path(dir), Env: env, Sys: &syscall.SysProcAttr{Setpgid: true},
		Files: []uintptr{io.files[0].Fd(), io.files[1].Fd(), io.files[2].Fd()},
	})
	if err != nil {
		return refuse(126, err)
	}
	p.groups[pid] = true
	return pid, 0, nil
}

func plainLook(name, dir string, env []string) (string, error) {
	if filepath.Base(name) != name {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if _, err := os.Stat(name); err != nil {
			return "", errors.New("no such file")
		}
		return name, nil
	}
	list := ""
	for _, kv := range env {
		if len(kv) > 5 && kv[:5] == "PATH=" {
			list = kv[5:]
		}
	}
	for _, d := range filepath.SplitList(list) {
		if exe, err := exec.LookPath(filepath.Join(d, name)); err == nil {
			return exe, nil
		}
	}
	return "", errors.New("command not found")
}

func waitPid(pid int) report {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(pid, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return report{Code: 1, Err: err.Error()}
		case ws.Signaled():
			return report{Signal: int(ws.Signal())}
		}
		return report{Code: ws.ExitStatus()}
	}
}

// kill ends every process of the sandbox that can be found.
func (p *plain) kill() {
	for pid := range p.groups {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	p.groups = map[int]bool{}
	for range 10 { // a process may fork while it is looked for
		pids := marked(p.mark)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (p *plain) Upload(ctx context.Context, src, dst string) error {
	l, err := p.current()
	if err != nil {
		return err
	}
	return l.upload(ctx, src, dst)
}

func (p *plain) Download(ctx context.Context, src, dst string) error {
	l, err := p.current()
	if err != nil {
		return err
	}
	return l.download(ctx, src, dst)
}

func (p *plain) Reset(_ context.Context, mounts ...sandbox.Mount) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fault.New(fault.SandboxFailed, "sandbox %s is closed", p.spec.Name)
	}
	p.kill()
	l := *p.layout
	l.mounts = slices.Clone(l.mounts)
	if err := l.repair(); err != nil {
		return fault.Wrap(fault.SandboxFailed, err, "sandbox %s: repairing its folders", p.spec.Name)
	}
	if err := l.mount(mounts); err != nil {
		return err
	}
	if err := l.workdir(p.spec.Workdir); err != nil {
		return fault.Wrap(fault.SandboxFailed, err, "sandbox %s: its working folder", p.spec.Name)
	}
	p.layout = &l
	return nil
}

func (p *plain) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.kill()
	return fault.Wrap(fault.SandboxFailed, p.layout.remove(), "sandbox %s: removing %s", p.spec.Name, p.spec.Dir)
}

// marked lists the processes whose environment holds the mark.
func marked(mark string) []int {
	procs, _ := filepath.Glob("/proc/[0-9]*/environ")
	var pids []int
	for _, f := range procs {
		b, err := os.ReadFile(f)
		if err != nil || !hasVar(b, mark) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(f, "/proc/%d/environ", &pid); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func hasVar(environ []byte, kv string) bool {
	for len(environ) > 0 {
		i := slices.Index(environ, 0)
		if i < 0 {
			i = len(environ)
		}
		if string(environ[:i]) == kv {
			return true
		}
		environ = environ[min(i+1, len(environ)):]
	}
	return false
}
