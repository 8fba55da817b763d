package host

import (
	"context"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/session"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/trajectory"
)

// traj is one trajectory that is being served: its session, its journal, and the goroutines that sample for it.
type traj struct {
	h *Host
	o Open

	mu      sync.Mutex // one event at a time; guards all below
	s       *session.Session
	w       *artifact.Writer
	journal store.Journal
	calls   map[session.CallID]*call              // that have no answer yet
	cancels map[session.CallID]context.CancelFunc // of what is being sampled; it may outlive the call that began it
	queue   []session.Event
	busy    bool
	refused map[fault.Code]int
	last    fault.Code
	ending  bool  // the end is on its way to the journal
	over    bool  // ended is closed
	err     error // nothing is recorded or answered after it

	ended chan struct{}  // closed when the end is in the journal, or can never be
	work  sync.WaitGroup // goroutines that sample or commit; none starts once ended is closed
}

func newTraj(h *Host, o Open) *traj {
	return &traj{h: h, o: o, calls: map[session.CallID]*call{}, cancels: map[session.CallID]context.CancelFunc{},
		refused: map[fault.Code]int{}, ended: make(chan struct{})}
}

// begin opens a new journal. Its caller holds the lock.
func (t *traj) begin(ctx context.Context, header trajectory.Header) error {
	s := session.New(t.config(header))
	w := artifact.NewWriter()
	b, err := w.Header(s.Tree().Header())
	if err != nil {
		return err
	}
	j, err := t.h.c.Journals.Create(t.o.Journal)
	if err != nil {
		return err
	}
	if err := store.Put(ctx, j, b); err != nil {
		_ = j.Close() // the first error says more
		return err
	}
	t.journal, t.w, t.s = j, w, s
	return nil
}

// resume goes on with a journal that is there. Its caller holds the lock.
func (t *traj) resume() error {
	j, rec, err := t.h.c.Journals.Resume(t.o.Journal)
	if err != nil {
		return err
	}
	tree, err := t.recorded(rec.File)
	if err != nil {
		_ = j.Close() // the first error says more
		return err
	}
	if rec.Lost > 0 {
		t.h.c.Log.Warn("a cut record was dropped", "trajectory", t.o.Trajectory, "bytes", rec.Lost, "turns", rec.Turns)
	}
	t.journal, t.w, t.s = j, artifact.Resume(rec.File), session.Restore(t.config(rec.File.Header), tree)
	return nil
}

// recorded is the trajectory of a journal that this host can go on with.
func (t *traj) recorded(f *artifact.File) (*trajectory.Tree, error) {
	switch {
	case f == nil:
		return nil, fault.New(fault.ArtifactTruncated, "journal %s was cut before its header was whole", t.o.Journal).WithFix("begin anew")
	case f.Ended():
		return nil, fault.New(fault.SessionSealed, "trajectory %s is finished", t.o.Trajectory)
	case f.Header.Trajectory != t.o.Trajectory:
		return nil, fault.New(fault.ArtifactRecord, "journal %s is of trajectory %s, not %s", t.o.Journal, f.Header.Trajectory, t.o.Trajectory)
	case f.Header.Model != t.h.c.Model.Info:
		return nil, fault.New(fault.BadModel, "trajectory %s was recorded with another model than is served", t.o.Trajectory)
	}
	return artifact.ToTree(f)
}

func (t *traj) config(header trajectory.Header) session.Config {
	c := t.h.c
	return session.Config{
		Family: c.Model.Family, Header: header, Sampling: c.Sampling, Clock: clock(header.Created), Classify: t.o.Classify,
		MaxTurns: c.MaxTurns, MaxTokens: c.MaxTokens, Processed: c.Info.Processed, Live: c.Live,
	}
}

// clock is what templates see for the whole of a trajectory: the UTC time at which it began.
func clock(ms int64) template.Clock {
	at := time.UnixMilli(ms).UTC()
	return template.Clock{Year: at.Year(), Month: int(at.Month()), Day: at.Day(), Hour: at.Hour(), Minute: at.Minute(),
		Second: at.Second(), Weekday: int(at.Weekday()), YearDay: at.YearDay()}
}

func (t *traj) now() int64 { return t.h.c.Now().UnixMilli() }

// step gives the session an event and runs what comes of it. Effects may give events of their own: they queue.
func (t *traj) step(e session.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stepLocked(e)
}

func (t *traj) stepLocked(e session.Event) {
	t.queue = append(t.queue, e)
	if t.busy {
		return
	}
	t.busy = true
	for len(t.queue) > 0 {
		next := t.queue[0]
		t.queue = t.queue[1:]
		if err := t.advance(next); err != nil {
			t.fail(err)
		}
	}
	t.busy = false
	if t.err != nil { // also what the session does not know
		for id := range t.calls {
			t.reject(session.Reject{Call: id, Err: t.err})
		}
	}
}

// advance runs one event. An event that is refused, or a panic, is a bug of ours: the record cannot be trusted any further.
func (t *traj) advance(e session.Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			t.h.c.Log.Error("a step panicked", "trajectory", t.o.Trajectory, "panic", p, "stack", string(debug.Stack()))
			err = fault.New(fault.InternalError, "a step of trajectory %s panicked: %v", t.o.Trajectory, p)
		}
	}()
	effects, err := t.s.Step(e)
	for _, e := range effects {
		t.do(e)
	}
	return err
}

// fail ends the trajectory's service: what cannot be recorded is not answered.
func (t *traj) fail(err error) {
	if t.err != nil {
		return
	}
	t.err = err
	t.h.c.Log.Error("the trajectory failed", "trajectory", t.o.Trajectory, "code", fault.CodeOf(err), "err", err)
	t.stepLocked(session.PersistFailed{Err: err})
	for _, cancel := range t.cancels {
		cancel()
	}
	t.finish()
}

func (t *traj) finish() {
	if !t.over {
		t.over = true
		close(t.ended)
	}
}

func (t *traj) seal(ctx context.Context, reason string) (Sealed, error) {
	if !t.close(session.Seal{Reason: reason, At: t.now()}) {
		return Sealed{}, unknown(t.o.Trajectory)
	}
	patience := time.NewTimer(t.h.c.SealPatience)
	defer patience.Stop()
	select {
	case <-t.ended:
	case <-patience.C:
	case <-ctx.Done():
	}
	t.close(session.Seal{Reason: reason, Now: true, At: t.now()})
	<-t.ended
	t.work.Wait()

	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.err
	if cerr := t.journal.Close(); err == nil {
		err = cerr
	}
	out := Sealed{Journal: t.o.Journal, Turns: t.w.Turns(), Head: t.w.Head(), Refused: maps.Clone(t.refused), Last: t.last}
	tree := t.s.Tree()
	for _, n := range tree.Turns() {
		out.Usage.Prompt += tree.PromptLen(n.Seq)
		out.Usage.Completion += len(n.Completion)
		out.Usage.Cached += n.Cached
	}
	return out, err
}

// close gives the session its end. It is false where the trajectory never began.
func (t *traj) close(e session.Seal) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.s == nil {
		return false
	}
	t.stepLocked(e)
	if e.Now && !t.ending { // the session gave up on its record
		t.fail(fault.New(fault.SessionInvariant, "the end of trajectory %s cannot be recorded", t.o.Trajectory))
	}
	return true
}
