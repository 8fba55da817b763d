package store

import (
	"context"
	"errors"
	"sync"
	"syscall"

	"github.com/tito-rl/tito/internal/fault"
)

// file is what a journal needs of an *os.File that is open at its end.
type file interface {
	Write([]byte) (int, error)
	Truncate(int64) error
	Seek(int64, int) (int64, error)
	Sync() error
	Close() error
}

// journal is a Journal in one file.
type journal struct {
	name  string
	power bool

	mu     sync.Mutex // guards the file's end
	f      file
	size   int64
	broken error
	closed bool

	syncing sync.Mutex // held by the one commit that talks to the disk
	synced  int64      // guarded by mu
}

func (j *journal) Append(records []byte) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return j.size, err
	}
	n, err := j.f.Write(records)
	if err == nil {
		j.size += int64(n)
		return j.size, nil
	}
	failed := writeFault(err, j.name)
	if n > 0 { // part of a record is in the file: cut it off
		if err := j.cutBack(); err != nil {
			j.broken = fault.Wrap(fault.StoreFailed, err, "journal %s holds part of a record that could not be cut off", j.name)
			return j.size, j.broken
		}
	}
	return j.size, failed
}

func (j *journal) cutBack() error {
	if err := j.f.Truncate(j.size); err != nil {
		return err
	}
	_, err := j.f.Seek(j.size, 0)
	return err
}

func (j *journal) usable() error {
	switch {
	case j.broken != nil:
		return j.broken
	case j.closed:
		return fault.New(fault.StoreFailed, "journal %s is closed", j.name)
	}
	return nil
}

func (j *journal) Commit(ctx context.Context, pos int64) error {
	if err := ctx.Err(); err != nil {
		return fault.Wrap(fault.Interrupted, err, "commit of journal %s", j.name)
	}
	if !j.power {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.broken
	}
	j.syncing.Lock() // those who wait here find their bytes synced by the one before
	defer j.syncing.Unlock()
	j.mu.Lock()
	end, done, err := j.size, j.synced >= pos, j.broken
	closed := j.closed
	j.mu.Unlock()
	switch {
	case done:
		return nil
	case err != nil:
		return err
	case closed:
		return fault.New(fault.StoreFailed, "journal %s is closed", j.name)
	}
	err = j.f.Sync()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil { // the kernel may have dropped the pages: nothing about this file is certain any more
		j.broken = fault.Wrap(fault.StoreFailed, err, "journal %s could not be brought to the disk", j.name)
		return j.broken
	}
	j.synced = max(j.synced, end)
	return nil
}

func (j *journal) Close() error {
	j.mu.Lock()
	size, closed, broken := j.size, j.closed, j.broken
	j.mu.Unlock()
	if closed {
		return nil
	}
	var err error
	if broken == nil {
		err = j.Commit(context.Background(), size)
	}
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	return errors.Join(err, fault.Wrap(fault.StoreFailed, j.f.Close(), "close journal %s", j.name))
}

// writeFault is the fault of a failed write: a full disk, quota or size limit, or anything else.
func writeFault(err error, name string) error {
	code := fault.StoreFailed
	var fix string
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		code, fix = fault.DiskFull, "free some space and try again"
	}
	return &fault.Error{Code: code, Msg: "write " + name, Fix: fix, Err: err}
}
