package sandbox

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// WriteFile writes the file name under the host folder dir. Dir is one that a sandbox can write to: a link in it that
// leads out of it is refused, never followed.
func WriteFile(dir, name string, data []byte) error {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if fi, err := r.Lstat(name); err == nil && !fi.Mode().IsRegular() {
		if err := r.RemoveAll(name); err != nil {
			return err
		}
	}
	return r.WriteFile(name, data, 0o644)
}

// ReadFile reads at most limit bytes of the regular file name under the host folder dir. Links out of dir, pipes and
// devices are errors; so is a longer file.
func ReadFile(dir, name string, limit int64) ([]byte, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	f, err := r.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("not a regular file (%s)", fi.Mode().Type())}
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("longer than %d bytes", limit)}
	}
	return b, nil
}
