package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/sandbox"
)

// shared are the host's folders of programs and their data. Nothing else of the host is seen: home folders, other
// top-level folders (they may hold a task's own tests) and sockets stay out.
var shared = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/sys"}

// fresh are the folders that every sandbox has of its own.
var fresh = map[string]fs.FileMode{
	"/tmp": 0o1777, "/root": 0o700, "/home": 0o755, "/var/tmp": 0o1777, "/var/log": 0o755, "/var/lib": 0o755, "/var/cache": 0o755,
	"/run": 0o755, "/mnt": 0o755, "/srv": 0o755, "/proc": 0o755, "/dev": 0o755,
}

// layout is a sandbox's file tree as the host sees it: the root folder, and mounts on it. Everything below the root may
// have been changed by an agent, so it is reached through [os.Root] only, which follows no link out of it.
type layout struct {
	dir    string            // Spec.Dir
	real   bool              // paths are real inside: namespaces
	shared []string          // host folders bound read-only
	links  map[string]string // such as /bin -> usr/bin
	mounts []sandbox.Mount   // longest path first
}

func (l *layout) root() string { return filepath.Join(l.dir, "root") }

// prefix stands before sandbox paths in commands.
func (l *layout) prefix() string {
	if l.real {
		return ""
	}
	return l.root()
}

func (l *layout) path(p string) string { return l.prefix() + path.Clean("/"+p) }

func newLayout(spec sandbox.Spec, real bool) (*layout, error) {
	l := &layout{dir: spec.Dir, real: real, links: map[string]string{}}
	fail := func(err error) (*layout, error) {
		_ = l.remove()
		return nil, fault.Wrap(fault.SandboxFailed, err, "sandbox %s: making its folders in %s", spec.Name, spec.Dir)
	}
	if err := l.remove(); err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(l.root(), 0o755); err != nil {
		return fail(err)
	}
	// A file that the agent makes setuid must not be reachable by other users of the host.
	if err := os.Chmod(l.dir, 0o700); err != nil {
		return fail(err)
	}
	if real {
		if err := l.share(); err != nil {
			return fail(err)
		}
	}
	if err := l.repair(); err != nil {
		return fail(err)
	}
	mounts := spec.Mounts
	if spec.Exe != "" {
		mounts = append(slices.Clone(mounts), sandbox.Mount{Host: spec.Exe, Path: sandbox.ExePath, ReadOnly: true})
	}
	if p, err := filepath.EvalSymlinks("/etc/resolv.conf"); real && err == nil && l.sharedOver(p) == "" {
		mounts = append(slices.Clone(mounts), sandbox.Mount{Host: p, Path: p, ReadOnly: true})
	}
	if err := l.mount(mounts); err != nil {
		_ = l.remove()
		return nil, err
	}
	if s := l.sharedOver(spec.Workdir); s != "" {
		_ = l.remove()
		return nil, fault.New(fault.SandboxUnsupported, "the working folder %s: %s is the host's own, shared read-only", spec.Workdir, s)
	}
	if err := l.mkdirAll(spec.Workdir); err != nil {
		return fail(err)
	}
	return l, nil
}

// share lists the host's shared folders and links.
func (l *layout) share() error {
	for _, p := range shared {
		fi, err := os.Lstat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case fi.Mode()&fs.ModeSymlink != 0: // /bin -> usr/bin
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			l.links[p] = to
		case fi.IsDir():
			l.shared = append(l.shared, p)
		}
	}
	return nil
}

// mount adds mounts, replacing those at the same paths, and makes their mount points.
func (l *layout) mount(ms []sandbox.Mount) error {
	for _, m := range ms {
		m.Path = path.Clean(m.Path)
		host, err := filepath.Abs(m.Host)
		if err != nil {
			return fault.Wrap(fault.SandboxFailed, err, "mount at %s", m.Path)
		}
		m.Host = host
		if !path.IsAbs(m.Path) || m.Path == "/" {
			return fault.New(fault.SandboxUnsupported, "a mount at %q: the path must be absolute and below the root", m.Path)
		}
		if s := l.sharedOver(m.Path); s != "" {
			return fault.New(fault.SandboxUnsupported, "a mount at %s: %s is the host's own, shared read-only", m.Path, s)
		}
		fi, err := os.Stat(m.Host)
		if err != nil {
			return fault.Wrap(fault.SandboxFailed, err, "mount at %s", m.Path)
		}
		l.mounts = slices.DeleteFunc(l.mounts, func(o sandbox.Mount) bool { return o.Path == m.Path || under(o.Path, m.Path) })
		if err := l.point(m.Path, fi.IsDir(), m.Host); err != nil {
			return fault.Wrap(fault.SandboxFailed, err, "making the mount point %s", m.Path)
		}
		l.mounts = append(l.mounts, m)
		slices.SortStableFunc(l.mounts, func(a, b sandbox.Mount) int { return len(b.Path) - len(a.Path) })
	}
	return nil
}

// repair makes the folders, links and mount points that a sandbox begins with, also where an agent replaced them.
func (l *layout) repair() error {
	r, err := os.OpenRoot(l.root())
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	for _, p := range l.shared {
		if err := ensureDir(r, p[1:]); err != nil {
			return err
		}
	}
	for p, to := range l.links {
		if err := errors.Join(r.RemoveAll(p[1:]), r.Symlink(to, p[1:])); err != nil {
			return err
		}
	}
	for p, mode := range fresh {
		if err := errors.Join(ensureDirs(r, p[1:]), chmod(r, p[1:], mode)); err != nil {
			return err
		}
	}
	for _, m := range slices.Backward(l.mounts) {
		fi, err := os.Stat(m.Host)
		if err != nil {
			return err
		}
		if err := l.point(m.Path, fi.IsDir(), m.Host); err != nil {
			return err
		}
	}
	return nil
}

// chmod takes a mode with Unix's sticky bit.
func chmod(r *os.Root, p string, mode fs.FileMode) error {
	if mode&0o1000 != 0 {
		mode = mode&0o777 | fs.ModeSticky
	}
	return r.Chmod(p, mode)
}

// point makes the mount point p. What stands there or on the way and is no folder, such as a link that an agent left, is
// removed. Without namespaces the point is a link to host.
func (l *layout) point(p string, isDir bool, host string) error {
	base, rel := l.locate(path.Dir(p))
	r, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if err := ensureDirs(r, rel); err != nil {
		return err
	}
	at := path.Join(rel, path.Base(p))
	if !l.real {
		return errors.Join(r.RemoveAll(at), r.Symlink(host, at))
	}
	if isDir {
		return ensureDir(r, at)
	}
	if fi, err := r.Lstat(at); err == nil && fi.Mode().IsRegular() {
		return nil
	}
	return errors.Join(r.RemoveAll(at), r.WriteFile(at, nil, 0o644))
}

// ensureDirs makes p and its parents real folders.
func ensureDirs(r *os.Root, p string) error {
	if p == "." {
		return nil
	}
	at := ""
	for name := range strings.SplitSeq(p, "/") {
		at = path.Join(at, name)
		if err := ensureDir(r, at); err != nil {
			return err
		}
	}
	return nil
}

func ensureDir(r *os.Root, at string) error {
	fi, err := r.Lstat(at)
	if err == nil && fi.IsDir() {
		return nil
	}
	if err == nil {
		if err := r.Remove(at); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return r.Mkdir(at, 0o755)
}

// under is whether p lies strictly below dir.
func under(p, dir string) bool { return strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") }

func (l *layout) sharedOver(p string) string {
	for _, s := range l.shared {
		if p == s || under(p, s) {
			return s
		}
	}
	return ""
}

// locate finds the host folder (or file) that holds the sandbox path p, and the rest of the path below it.
func (l *layout) locate(p string) (base, rel string) {
	p = path.Clean("/" + p)
	for _, m := range l.mounts {
		if p == m.Path {
			return m.Host, "."
		}
		if under(p, m.Path) {
			return m.Host, p[len(m.Path)+1:]
		}
	}
	if p == "/" {
		return l.root(), "."
	}
	return l.root(), p[1:]
}

func (l *layout) mkdirAll(p string) error {
	base, rel := l.locate(p)
	r, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if rel == "." {
		return nil
	}
	return r.MkdirAll(rel, 0o755)
}

// workdir makes the working folder where an agent removed it, or left a file there. A link stays.
func (l *layout) workdir(p string) error {
	base, rel := l.locate(p)
	r, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if fi, err := r.Lstat(rel); err == nil && (fi.IsDir() || fi.Mode()&fs.ModeSymlink != 0) {
		return nil
	}
	return ensureDirs(r, rel)
}

// remove deletes the sandbox's state, also folders that were made unreadable.
func (l *layout) remove() error {
	err := os.RemoveAll(l.dir)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(l.dir, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(l.dir)
}

func (l *layout) upload(ctx context.Context, src, dst string) error {
	if s := l.sharedOver(dst); s != "" {
		return fault.New(fault.SandboxUnsupported, "cannot write %s: %s is the host's own, shared read-only", dst, s)
	}
	fi, err := os.Stat(src)
	if err != nil {
		return fault.Wrap(fault.SandboxFailed, err, "upload to %s", dst)
	}
	parent := dst
	if !fi.IsDir() {
		parent = path.Dir(path.Clean(dst))
	}
	if err := l.mkdirAll(parent); err != nil {
		return fault.Wrap(fault.SandboxFailed, err, "upload to %s", dst)
	}
	base, rel := l.locate(dst)
	from := src
	if !fi.IsDir() {
		from = filepath.Dir(src)
	}
	return fault.Wrap(fault.SandboxFailed, copyBetween(ctx, from, relName(src, fi), base, rel), "upload %s to %s", src, dst)
}

func (l *layout) download(ctx context.Context, src, dst string) error {
	base, rel := l.locate(src)
	r, err := os.OpenRoot(base)
	if err != nil {
		return fault.Wrap(fault.SandboxFailed, err, "download %s", src)
	}
	fi, err := r.Stat(rel)
	_ = r.Close()
	if err != nil {
		return fault.Wrap(fault.SandboxFailed, err, "download %s", src)
	}
	to, name := dst, "."
	if !fi.IsDir() {
		to, name = filepath.Dir(dst), filepath.Base(dst)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fault.Wrap(fault.SandboxFailed, err, "download %s", src)
	}
	if err := copyBetween(ctx, base, rel, to, name); err != nil {
		return fault.Wrap(fault.SandboxFailed, err, "download %s to %s", src, dst)
	}
	for _, m := range l.mounts {
		if s := path.Clean(src); under(m.Path, s) {
			at := filepath.Join(dst, filepath.FromSlash(strings.TrimPrefix(m.Path, s)))
			if fi, err := os.Lstat(at); err == nil && fi.Mode()&fs.ModeSymlink != 0 { // a mount point without namespaces
				_ = os.Remove(at)
			}
			if err := l.download(ctx, m.Path, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func relName(src string, fi fs.FileInfo) string {
	if fi.IsDir() {
		return "."
	}
	return filepath.Base(src)
}

func copyBetween(ctx context.Context, srcDir, src, dstDir, dst string) error {
	from, err := os.OpenRoot(srcDir)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenRoot(dstDir)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	return copyTree(ctx, from, src, to, dst)
}

// copyTree copies src, a folder's content or one file, to dst. Links are kept, special files are left out.
func copyTree(ctx context.Context, from *os.Root, src string, to *os.Root, dst string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fi, err := from.Lstat(src)
	if err != nil {
		return err
	}
	switch {
	case fi.IsDir():
		if dst != "." {
			if err := ensureDir(to, dst); err != nil {
				return err
			}
		}
		d, err := from.Open(src)
		if err != nil {
			return err
		}
		names, err := d.Readdirnames(-1)
		_ = d.Close()
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, n := range names {
			if err := copyTree(ctx, from, path.Join(src, n), to, path.Join(dst, n)); err != nil {
				return err
			}
		}
		if dst != "." {
			return to.Chmod(dst, fi.Mode().Perm()|0o700)
		}
		return nil
	case fi.Mode()&fs.ModeSymlink != 0:
		target, err := from.Readlink(src)
		if err != nil {
			return err
		}
		return errors.Join(to.RemoveAll(dst), to.Symlink(target, dst))
	case fi.Mode().IsRegular():
		return copyFile(from, src, to, dst, fi.Mode().Perm())
	}
	return nil
}

func copyFile(from *os.Root, src string, to *os.Root, dst string, mode fs.FileMode) error {
	in, err := from.Open(src)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if fi, err := to.Lstat(dst); err == nil && !fi.Mode().IsRegular() {
		if err := to.RemoveAll(dst); err != nil {
			return err
		}
	}
	// A child forked meanwhile would hold the file open for writing until its exec, and a script that is open for writing
	// cannot be run ("text file busy").
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := to.OpenFile(dst, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close())
}
