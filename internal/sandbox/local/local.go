// Package local is the sandbox made of Linux namespaces by tito itself, with no daemon, image or root rights.
//
// It is NO SECURITY BOUNDARY: it keeps an agent's files and processes together, out of the host's home folders and gone
// at the end, but shares the host's kernel, network and installed programs (read-only). Run only agents and tasks here
// that you would run in your own shell.
//
// A sandbox is an init process (the same binary, see [MaybeInit]) in fresh user, mount, pid, ipc and uts namespaces. Its
// root is a folder of the caller's, with the host's programs (/usr, /bin, /lib, /etc, /opt, …) bound read-only and a
// fresh /proc, /dev, /tmp and home. Init serves commands over a socket; when that socket closes, by Close or by the death
// of its host, init ends and the kernel kills whatever is left. Where the kernel allows no such namespaces, only tasks
// that spell their paths with $TITO_TASK_ROOT run, as plain process groups.
//
// Ids: the user is root inside, and on the host the user who runs tito.
package local

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/sandbox"
)

// Options choose how sandboxes are made.
type Options struct {
	// Plain makes process groups even where namespaces are allowed.
	Plain bool
}

// Provider starts local sandboxes.
type Provider struct {
	opts  Options
	probe func() error // once: nil where namespaces are allowed
}

// New makes a provider. Whether the kernel allows namespaces is tried at first use, once.
func New(o Options) *Provider {
	return &Provider{opts: o, probe: sync.OnceValue(probe)}
}

// Name is local.
func (p *Provider) Name() string { return "local" }

// Namespaces tells why sandboxes are not made of namespaces, or nil.
func (p *Provider) Namespaces() error {
	if p.opts.Plain {
		return fault.New(fault.SandboxUnsupported, "namespaces are switched off")
	}
	return p.probe()
}

// Info says what the kernel allows here.
func (p *Provider) Info() sandbox.Info {
	i := sandbox.Info{Name: p.Name(), Notes: []string{
		"no security boundary: the kernel, the network and installed programs are the host's",
		"a task's Dockerfile is honoured for WORKDIR, ENV, COPY and ADD of local files; FROM is noted",
	}}
	if err := p.Namespaces(); err != nil {
		i.Notes = append(i.Notes, "only tasks that use $TITO_TASK_ROOT run here: "+err.Error())
		return i
	}
	i.Isolates = []string{"user", "mount", "pid", "ipc", "uts"}
	i.Limits = []string{"memory (data of one process)", "storage (one file)", "cpu_time (one process)", "open_files"}
	if os.Geteuid() != 0 {
		i.Limits = append(i.Limits, "processes")
	}
	return i
}

// Start makes the sandbox's root folder in spec.Dir and its init process.
func (p *Provider) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if spec.Dir == "" {
		return nil, fault.New(fault.InternalError, "sandbox %s: Spec.Dir is empty", spec.Name)
	}
	if spec.Workdir == "" {
		spec.Workdir = "/"
	}
	if !path.IsAbs(spec.Workdir) {
		return nil, fault.New(fault.SandboxUnsupported, "sandbox %s: the working folder %q is not absolute", spec.Name, spec.Workdir)
	}
	noNS := p.Namespaces()
	if noNS != nil && !spec.TaskRoot {
		return nil, fault.Wrap(fault.SandboxUnsupported, noNS,
			"sandbox %s: paths such as %s cannot be made real here, and the task does not use $%s", spec.Name, spec.Workdir, sandbox.TaskRootEnv)
	}
	dir, err := filepath.Abs(spec.Dir)
	if err != nil {
		return nil, fault.Wrap(fault.SandboxFailed, err, "sandbox %s", spec.Name)
	}
	spec.Dir = dir
	l, err := newLayout(spec, noNS == nil)
	if err != nil {
		return nil, err
	}
	if noNS != nil {
		return startPlain(l, spec)
	}
	sb, err := startNS(ctx, l, spec)
	if err != nil {
		_ = l.remove()
		return nil, err
	}
	return sb, nil
}

// environ is the environment of a command: defaults, then the spec's, then the command's.
func environ(l *layout, spec sandbox.Spec, extra map[string]string) []string {
	m := map[string]string{
		"PATH": sandbox.DefaultPath, "HOME": l.path("/root"), "USER": "root", "LOGNAME": "root", "LANG": "C.UTF-8",
		"TMPDIR": l.path("/tmp"), sandbox.TaskRootEnv: l.prefix(),
	}
	for k, v := range spec.Env {
		m[k] = v
	}
	for k, v := range extra {
		m[k] = v
	}
	env := make([]string, 0, len(m))
	for k, v := range m {
		env = append(env, k+"="+v)
	}
	return env
}
