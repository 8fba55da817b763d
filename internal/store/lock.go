package store

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tito-rl/tito/internal/fault"
)

// LockName is the file in a run directory that its owner holds locked. It says in JSON who that is.
const LockName = "run.lock"

// Owner says who holds a run directory.
type Owner struct {
	PID     int    `json:"pid"`
	Host    string `json:"host"`
	Command string `json:"command"`
	Since   string `json:"since"`
}

// Lock is a run directory held by this process. The kernel lets go of it when the process ends, however it ends.
type Lock struct{ f *os.File }

// LockDir takes a run directory, which it makes where it does not exist. A directory that another process holds is
// [fault.RunDirBusy], and the error names that process.
func LockDir(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, writeFault(err, dir)
	}
	path := filepath.Join(dir, LockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, writeFault(err, path)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		defer f.Close()
		return nil, busy(dir, f)
	}
	if err == nil {
		err = writeOwner(f)
	}
	if err != nil {
		f.Close()
		return nil, writeFault(err, path)
	}
	return &Lock{f}, nil
}

func writeOwner(f *os.File) error {
	host, _ := os.Hostname()
	b, err := json.Marshal(Owner{os.Getpid(), host, strings.Join(os.Args[:min(2, len(os.Args))], " "), time.Now().UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(append(b, '\n'), 0)
	return err
}

func busy(dir string, f *os.File) error {
	b, _ := io.ReadAll(io.LimitReader(f, 1<<16))
	var o Owner
	if json.Unmarshal(b, &o) != nil || o.PID == 0 { // its owner has not written it yet
		return fault.New(fault.RunDirBusy, "another process uses %s", dir).WithFix("wait for it, or choose another --out")
	}
	return fault.New(fault.RunDirBusy, "process %d on %s (%s) has used %s since %s", o.PID, o.Host, o.Command, dir, o.Since).
		WithFix("wait for it or stop it, or choose another --out")
}

// Release lets go of the directory. The lock file stays, empty.
func (l *Lock) Release() error {
	err := l.f.Truncate(0)
	return errors.Join(err, l.f.Close())
}
