package store

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/tito-rl/tito/internal/fault"
)

// faulty is a file in memory whose next call fails as told.
type faulty struct {
	mu       sync.Mutex
	data     []byte
	writes   []error // of the next writes; half of the data is written before the error
	truncate error
	sync     error
	syncs    int
	hold     chan struct{} // a sync waits for it
	began    chan struct{} // told when a sync begins
}

func (f *faulty) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.writes) > 0 {
		err := f.writes[0]
		f.writes = f.writes[1:]
		if err != nil {
			f.data = append(f.data, b[:len(b)/2]...)
			return len(b) / 2, err
		}
	}
	f.data = append(f.data, b...)
	return len(b), nil
}

func (f *faulty) Truncate(n int64) error {
	if f.truncate != nil {
		return f.truncate
	}
	f.data = f.data[:n]
	return nil
}

func (f *faulty) Seek(n int64, _ int) (int64, error) { return n, nil }
func (f *faulty) Close() error                       { return nil }

func (f *faulty) Sync() error {
	if f.began != nil {
		f.began <- struct{}{}
		<-f.hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.syncs++
	return f.sync
}

func TestAFailedAppendLeavesNoHalfRecord(t *testing.T) {
	for err, code := range map[error]fault.Code{syscall.ENOSPC: fault.DiskFull, syscall.EDQUOT: fault.DiskFull,
		syscall.EFBIG: fault.DiskFull, syscall.EIO: fault.StoreFailed} {
		f := &faulty{writes: []error{nil, err}}
		j := &journal{name: "x", f: f}
		for i, want := range []fault.Code{"", code, ""} {
			if _, err := j.Append([]byte("record")); fault.CodeOf(err) != want {
				t.Errorf("append %d: %v", i, err)
			}
		}
		if string(f.data) != "recordrecord" {
			t.Errorf("%v: the file holds %q", err, f.data)
		}
	}
}

func TestAJournalThatCannotBeCutBackRefusesEverything(t *testing.T) {
	f := &faulty{writes: []error{syscall.ENOSPC}, truncate: syscall.EIO}
	j := &journal{name: "x", f: f}
	for range 2 {
		if _, err := j.Append([]byte("record")); fault.CodeOf(err) != fault.StoreFailed {
			t.Error(err)
		}
	}
	if err := j.Commit(context.Background(), 0); fault.CodeOf(err) != fault.StoreFailed {
		t.Error(err)
	}
	if string(f.data) != "rec" {
		t.Errorf("the file holds %q", f.data)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

func TestAFailedSyncIsNotForgotten(t *testing.T) {
	f := &faulty{sync: syscall.EIO}
	j := &journal{name: "x", power: true, f: f}
	if err := Put(context.Background(), j, []byte("record")); fault.CodeOf(err) != fault.StoreFailed {
		t.Error(err)
	}
	f.sync = nil
	if err := Put(context.Background(), j, []byte("record")); fault.CodeOf(err) != fault.StoreFailed {
		t.Errorf("the next one: %v", err)
	}
}

func TestCommitsThatWaitTogetherShareOneSync(t *testing.T) {
	f := &faulty{hold: make(chan struct{}), began: make(chan struct{})}
	j := &journal{name: "x", power: true, f: f}
	const n = 8
	errs := make(chan error, n+1)
	first, err := j.Append([]byte("r"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { errs <- j.Commit(context.Background(), first) }()
	<-f.began // the first sync is on its way; what is appended now waits for a second
	for range n {
		pos, err := j.Append([]byte("r"))
		if err != nil {
			t.Fatal(err)
		}
		go func() { errs <- j.Commit(context.Background(), pos) }()
	}
	f.hold <- struct{}{}
	<-f.began
	f.hold <- struct{}{}
	for range n + 1 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if f.syncs != 2 {
		t.Errorf("%d syncs for %d commits", f.syncs, n+1)
	}
}

func TestACancelledCommitSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	j := &journal{name: "x", f: &faulty{}}
	if err := j.Commit(ctx, 0); fault.CodeOf(err) != fault.Interrupted || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
