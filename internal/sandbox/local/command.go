package local

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/tito-rl/tito/internal/sandbox"
)

// How the wait for a command ended.
type ending int

const (
	endExit ending = iota
	endTimeout
	endCtx
	endGone
)

// await waits for a command's report. When its time is up or ctx ends, the group gets SIGTERM and after the grace
// SIGKILL.
func await(ctx context.Context, c sandbox.Cmd, done <-chan report, gone <-chan struct{}, signal func(syscall.Signal)) (report, ending) {
	var timeout <-chan time.Time
	if c.Timeout > 0 {
		t := time.NewTimer(c.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	how := endExit
	select {
	case r := <-done:
		return r, endExit
	case <-gone:
		return lastReport(done)
	case <-timeout:
		how = endTimeout
	case <-ctx.Done():
		how = endCtx
	}
	grace := c.Grace
	if grace <= 0 {
		grace = sandbox.DefaultGrace
	}
	signal(syscall.SIGTERM)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case r := <-done:
		signal(syscall.SIGKILL) // what the command left in its group
		return r, how
	case <-gone:
		return report{}, endGone
	case <-t.C:
	}
	signal(syscall.SIGKILL)
	select {
	case r := <-done:
		return r, how
	case <-gone:
		return report{}, endGone
	}
}

// lastReport prefers a report that came just before the end.
func lastReport(done <-chan report) (report, ending) {
	select {
	case r := <-done:
		return r, endExit
	default:
		return report{}, endGone
	}
}

// stdio is the three files of a command and the copies between them and the caller.
type stdio struct {
	files [3]*os.File // the command's ends
	ours  []*os.File  // files opened here, closed once the command has them
	reads []*os.File  // our ends of output pipes
	input *os.File    // our end of the input pipe
	wg    sync.WaitGroup
	copy  []func()
}

func openStdio(c sandbox.Cmd) (*stdio, error) {
	s := &stdio{}
	fail := func(err error) (*stdio, error) {
		s.started()
		s.abandon()
		return nil, err
	}
	if err := s.openInput(c.Stdin); err != nil {
		return fail(err)
	}
	var err error
	if s.files[1], err = s.openOutput(c.Stdout); err != nil {
		return fail(err)
	}
	if same(c.Stdout, c.Stderr) {
		s.files[2] = s.files[1]
		return s, nil
	}
	if s.files[2], err = s.openOutput(c.Stderr); err != nil {
		return fail(err)
	}
	return s, nil
}

// same is whether both outputs are one writer; writers that cannot be compared are two.
func same(a, b io.Writer) (eq bool) {
	defer func() { _ = recover() }()
	return a != nil && a == b
}

func (s *stdio) openInput(r io.Reader) error {
	if f, ok := r.(*os.File); ok {
		s.files[0] = f
		return nil
	}
	if r == nil {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		s.files[0], s.ours = f, append(s.ours, f)
		return nil
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	s.files[0], s.ours, s.input = pr, append(s.ours, pr), pw
	s.copy = append(s.copy, func() { // ends when r does, or when the command has stopped reading
		_, _ = io.Copy(pw, r)
		_ = pw.Close()
	})
	return nil
}

func (s *stdio) openOutput(w io.Writer) (*os.File, error) {
	if f, ok := w.(*os.File); ok {
		return f, nil
	}
	if w == nil {
		f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		s.ours = append(s.ours, f)
		return f, nil
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.ours, s.reads = append(s.ours, pw), append(s.reads, pr)
	s.wg.Add(1)
	s.copy = append(s.copy, func() {
		defer s.wg.Done()
		if _, err := io.Copy(w, pr); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			_, _ = io.Copy(io.Discard, pr) // a writer that fails must not block the command
		}
	})
	return pw, nil
}

func (s *stdio) fds() []int {
	fds := make([]int, 3)
	for i, f := range s.files {
		fds[i] = int(f.Fd())
	}
	return fds
}

// started closes the command's ends here and begins to copy.
func (s *stdio) started() {
	for _, f := range s.ours {
		_ = f.Close()
	}
	s.ours = nil
	for _, f := range s.copy {
		go f()
	}
	s.copy = nil
}

// drain reads what is left, and waits no longer than OutputGrace for processes that still hold the pipes.
func (s *stdio) drain() {
	for _, f := range s.reads {
		_ = f.SetReadDeadline(time.Now().Add(sandbox.OutputGrace))
	}
	s.wg.Wait()
	s.abandon()
}

func (s *stdio) abandon() {
	for _, f := range s.reads {
		_ = f.Close()
	}
	if s.input != nil {
		_ = s.input.Close()
	}
}
