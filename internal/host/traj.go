package host

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/engine"
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
	calls   map[session.CallID]*call
	queue   []session.Event
	busy    bool
	refused map[fault.Code]int
	last    fault.Code
	ended   chan struct{} // closed when the end is in the journal, or can never be
	endOnce sync.Once
	err     error // of the journal

	work sync.WaitGroup // goroutines that sample or commit
}

// call is one request that waits for its answer.
type call struct {
	out    mailbox
	cancel context.CancelFunc // of its sampling; nil where it joined another
}

func newTraj(h *Host, o Open) *traj {
	return &traj{h: h, o: o, calls: map[session.CallID]*call{}, refused: map[fault.Code]int{}, ended: make(chan struct{})}
}

func (t *traj) begin(ctx context.Context, header trajectory.Header) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.s = session.New(t.config(header))
	header = t.s.Tree().Header()
	j, err := t.h.c.Journals.Create(t.o.Journal)
	if err != nil {
		return err
	}
	t.journal, t.w = j, artifact.NewWriter()
	b, err := t.w.Header(header)
	if err == nil {
		err = store.Put(ctx, j, b)
	}
	if err != nil {
		j.Close()
	}
	return err
}

func (t *traj) resume() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	j, rec, err := t.h.c.Journals.Resume(t.o.Journal)
	if err != nil {
		return err
	}
	f, tree, err := t.load(rec.Valid)
	if err != nil {
		j.Close()
		return err
	}
	if f.Ended() {
		j.Close()
		return fault.New(fault.SessionSealed, "trajectory %s is finished", t.o.Trajectory)
	}
	if f.Header.Trajectory != t.o.Trajectory {
		j.Close()
		return fault.New(fault.ArtifactRecord, "journal %s is of trajectory %s, not %s", t.o.Journal, f.Header.Trajectory, t.o.Trajectory)
	}
	if f.Header.Model != t.h.c.Model.Info {
		j.Close()
		return fault.New(fault.BadModel, "trajectory %s was recorded with another model than is served", t.o.Trajectory)
	}
	t.journal, t.w, t.s = j, artifact.Resume(f), session.Restore(t.config(f.Header), tree)
	return nil
}

func (t *traj) load(valid int) (*artifact.File, *trajectory.Tree, error) {
	b, err := t.h.c.Journals.Read(t.o.Journal)
	if err != nil {
		return nil, nil, err
	}
	f, err := artifact.Decode(b[:min(valid, len(b))])
	if err != nil && fault.CodeOf(err) != fault.ArtifactTruncated { // an open journal has no end
		return nil, nil, err
	}
	tree, err := artifact.ToTree(f)
	return f, tree, err
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
		effects, err := t.s.Step(next)
		if err != nil {
			t.h.c.Log.Error("session refused an event", "trajectory", t.o.Trajectory, "err", err)
			continue
		}
		for _, e := range effects {
			t.do(e)
		}
	}
	t.busy = false
}

func (t *traj) do(e session.Effect) {
	switch e := e.(type) {
	case session.Generate:
		ctx, cancel := context.WithCancel(context.Background())
		t.call(e.Call).cancel = cancel
		t.work.Add(1)
		go func() {
			defer t.work.Done()
			defer cancel()
			t.generate(ctx, e)
		}()
	case session.Cancel:
		if c := t.calls[e.Call]; c != nil && c.cancel != nil {
			c.cancel()
		}
	case session.Append:
		if err := t.write(e); err != nil {
			t.fail(err)
		}
	case session.Reply:
		if r := t.h.c.OnTurn; r != nil {
			r(TurnReport{t.o.Trajectory, e.Turn, e.Class, e.Continuity, e.Reply.Usage, e.Replayed})
		}
		t.last = ""
		t.call(e.Call).out.put(e)
	case session.Reject:
		t.last = fault.CodeOf(e.Err)
		t.refused[t.last]++
		t.call(e.Call).out.put(e)
	case session.Piece:
		t.call(e.Call).out.put(e)
	}
}

func (t *traj) call(id session.CallID) *call {
	c := t.calls[id]
	if c == nil {
		c = &call{out: newMailbox()}
		t.calls[id] = c
	}
	return c
}

// write appends records and tells the session when they are safe. In process durability that is at once; in power
// durability commits that wait together share one fsync.
func (t *traj) write(a session.Append) error {
	if t.err != nil {
		return t.err
	}
	mark := t.w.Mark()
	b, err := t.encode(a)
	if err != nil {
		t.w.Rewind(mark)
		return err
	}
	pos, err := t.journal.Append(b)
	if err != nil {
		t.w.Rewind(mark)
		return err
	}
	t.work.Add(1)
	commit := func() error { defer t.work.Done(); return t.journal.Commit(context.Background(), pos) }
	if t.h.c.Durability != store.Power {
		if err := commit(); err != nil {
			return err
		}
		t.persisted(a)
		return nil
	}
	go func() {
		err := commit()
		t.mu.Lock()
		defer t.mu.Unlock()
		if err != nil {
			t.fail(err)
			return
		}
		t.persisted(a)
	}()
	return nil
}

func (t *traj) encode(a session.Append) ([]byte, error) {
	var out []byte
	for _, blob := range a.Blobs {
		b, _, err := t.w.Blob(blob.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	var b []byte
	var err error
	switch {
	case a.Turn != nil:
		b, err = t.w.Turn(a.Turn)
	case a.Delivery != nil:
		b, err = t.w.Delivery(*a.Delivery)
	case a.End != nil:
		b, err = t.w.End(*a.End)
	}
	return append(out, b...), err
}

func (t *traj) persisted(a session.Append) {
	t.stepLocked(session.Persisted{Through: a.ID})
	if a.End != nil {
		t.end()
	}
}

func (t *traj) end() { t.endOnce.Do(func() { close(t.ended) }) }

// fail ends the trajectory's service: what cannot be recorded is not answered.
func (t *traj) fail(err error) {
	if t.err != nil {
		return
	}
	t.err = err
	t.h.c.Log.Error("the journal failed", "trajectory", t.o.Trajectory, "code", fault.CodeOf(err), "err", err)
	t.stepLocked(session.PersistFailed{Err: err})
	t.end()
}

// generate asks the engine for one completion. While nothing was sampled a failure that may pass is tried again.
func (t *traj) generate(ctx context.Context, g session.Generate) {
	req := engine.Request{
		IDs: g.IDs, MaxTokens: g.MaxTokens, Sampling: g.Sampling, Stops: g.Stops, Model: t.h.c.Info.Model,
		Affinity: t.o.Affinity, Key: g.Key,
	}
	if t.h.c.Salt != nil {
		req.Salt = t.h.c.Salt()
	}
	for try := 1; ; try++ {
		sampled, err := t.sample(ctx, g.Call, req)
		switch {
		case err == nil:
			return
		case sampled || ctx.Err() != nil || !fault.CodeOf(err).Info().Retry || try >= t.h.c.EngineTries:
			t.step(session.EngineFailed{Call: g.Call, Err: err, At: t.now()})
			return
		}
		select {
		case <-time.After(defaultEnginePause << (try - 1)):
		case <-ctx.Done():
		}
	}
}

// sample runs one stream to its end. sampled is whether any id came.
func (t *traj) sample(ctx context.Context, id session.CallID, req engine.Request) (sampled bool, err error) {
	stream, err := t.h.c.Engine.Generate(ctx, req)
	if err != nil {
		return false, err
	}
	defer stream.Close()
	for {
		c, err := stream.Next()
		if errors.Is(err, io.EOF) {
			f := stream.Final()
			t.step(session.EngineFinal{Call: id, Finish: f.Finish, Prompt: f.Prompt, Cached: f.Cached, At: t.now()})
			return true, nil
		}
		if len(c.IDs) > 0 || c.Logprobs != nil {
			sampled = true
			t.step(session.EngineChunk{Call: id, IDs: c.IDs, Logprobs: c.Logprobs, RawLogprobs: c.RawLogprobs, Version: c.Version, At: t.now()})
		}
		if err != nil {
			return sampled, err
		}
	}
}

func (t *traj) seal(ctx context.Context, reason string) (Sealed, error) {
	t.step(session.Seal{Reason: reason, At: t.now()})
	patience := time.NewTimer(t.h.c.SealPatience)
	defer patience.Stop()
	select {
	case <-t.ended:
	case <-patience.C:
		t.step(session.Seal{Reason: reason, Now: true, At: t.now()})
	case <-ctx.Done():
		t.step(session.Seal{Reason: reason, Now: true, At: t.now()})
	}
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
