package host

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/dialect"
	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/session"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/trajectory"
)

// This file is the life of a turn, in order: a request is read and arrives at its session; the session's effects are run,
// sampling and appending among them; the answer is written; what became of it is recorded.

// serve is one request from its first byte to the last of its answer.
func (h *Host) serve(w http.ResponseWriter, r *http.Request, d dialect.Dialect) {
	t, req, err := h.read(w, r, d)
	if err != nil {
		h.failure(w, d, err)
		return
	}
	arrived, err := arrival(r, &req)
	if err != nil {
		h.failure(w, d, err)
		return
	}
	c, err := t.arrive(arrived)
	if err != nil {
		h.failure(w, d, err)
		return
	}
	a := newAnswer(h, w, d, req, "chatcmpl-"+t.o.Trajectory+"-"+strconv.FormatUint(uint64(c.id), 10))
	whole := false
	defer func() { t.settle(c.id, whole) }() // where writing panics too: no call is left open
	whole = a.run(r.Context(), c.out)
	if !whole && a.begun {
		panic(http.ErrAbortHandler) // a stream that is not whole must not look like one
	}
}

// call is one request that waits for its answer.
type call struct {
	id       session.CallID
	out      *mailbox
	logprobs bool // the client wants them
}

func (t *traj) arrive(e *session.CallArrived) (*call, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.s == nil {
		return nil, unknown(t.o.Trajectory)
	}
	e.At = t.now()
	c := &call{id: t.s.Next(), out: newMailbox(), logprobs: e.Request.WantLogprobs}
	t.calls[c.id] = c
	t.stepLocked(e)
	return c, nil
}

// do runs one effect. What comes of it are events, some of them at once: those queue.
func (t *traj) do(e session.Effect) {
	switch e := e.(type) {
	case session.Generate:
		t.start(e)
	case session.Cancel:
		if cancel := t.cancels[e.Call]; cancel != nil {
			cancel()
		}
	case session.Append:
		t.ending = t.ending || e.End != nil
		t.write(e)
	case session.Piece:
		if c := t.calls[e.Call]; c != nil {
			c.out.put(e)
		}
	case session.Reply:
		t.reply(e)
	case session.Reject:
		t.reject(e)
	}
}

func (t *traj) start(g session.Generate) {
	if t.err != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.cancels[g.Call] = cancel
	t.work.Go(func() {
		err := t.generate(ctx, g)
		cancel()
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.cancels, g.Call)
		if err != nil {
			t.stepLocked(session.EngineFailed{Call: g.Call, Err: err, At: t.now()})
		}
	})
}

// longestPause is how long an engine that is busy is waited for; one that asks for more is busy to the client too.
const longestPause = 10 * time.Second

// generate asks the engine for one completion. While nothing was sampled a failure that may pass is tried again; once an id
// came never, or ids would be sampled that nobody records.
func (t *traj) generate(ctx context.Context, g session.Generate) error {
	req := engine.Request{
		IDs: g.IDs, MaxTokens: g.MaxTokens, Sampling: g.Sampling, Stops: g.Stops, Model: t.h.c.Info.Model,
		Affinity: t.o.Affinity, Key: g.Key,
	}
	if t.h.c.Salt != nil {
		req.Salt = t.h.c.Salt()
	}
	pause := t.h.c.EnginePause
	for try := 1; ; try++ {
		sampled, err := t.sample(ctx, g.Call, req)
		if err == nil {
			return nil
		}
		wait := max(pause, busyFor(err))
		if sampled || ctx.Err() != nil || !fault.CodeOf(err).Info().Retry || try >= t.h.c.EngineTries || wait > longestPause {
			return err
		}
		t.h.c.Log.Debug("the engine is asked again", "trajectory", t.o.Trajectory, "call", g.Call, "try", try+1, "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
		pause *= 2
	}
}

// busyFor is when the engine asked to be tried again.
func busyFor(err error) time.Duration {
	var b *engine.Busy
	if errors.As(err, &b) {
		return b.After
	}
	return 0
}

// sample runs one stream to its end. sampled is whether anything of a completion came.
func (t *traj) sample(ctx context.Context, id session.CallID, req engine.Request) (sampled bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			t.h.c.Log.Error("the engine's client panicked", "trajectory", t.o.Trajectory, "panic", p, "stack", string(debug.Stack()))
			err = fault.New(fault.InternalError, "the engine's client panicked: %v", p)
		}
	}()
	stream, err := t.h.c.Engine.Generate(ctx, req)
	if err != nil {
		return false, err
	}
	defer func() { _ = stream.Close() }() // what it says comes from Next
	for {
		c, err := stream.Next()
		if errors.Is(err, io.EOF) {
			f := stream.Final()
			t.step(session.EngineFinal{Call: id, Finish: f.Finish, Prompt: f.Prompt, Cached: f.Cached, At: t.now()})
			return true, nil
		}
		if len(c.IDs) > 0 || c.Logprobs != nil || c.RawLogprobs != nil {
			sampled = true
			t.step(session.EngineChunk{Call: id, IDs: c.IDs, Logprobs: c.Logprobs, RawLogprobs: c.RawLogprobs, Version: c.Version, At: t.now()})
		}
		if err != nil {
			return sampled, err
		}
	}
}

// write appends records and tells the session when they are safe. In process durability that is at once; in power
// durability commits that wait together share one fsync.
func (t *traj) write(a session.Append) {
	if t.err != nil {
		return
	}
	pos, err := t.append(a)
	if err != nil {
		t.fail(err)
		return
	}
	if t.h.c.Durability != store.Power {
		t.commit(a, t.journal.Commit(context.Background(), pos))
		return
	}
	t.work.Go(func() {
		err := t.journal.Commit(context.Background(), pos)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.commit(a, err)
	})
}

func (t *traj) append(a session.Append) (pos int64, err error) {
	mark := t.w.Mark()
	b, err := encode(t.w, a)
	if err == nil {
		pos, err = t.journal.Append(b)
	}
	if err != nil {
		t.w.Rewind(mark)
	}
	return pos, err
}

func encode(w *artifact.Writer, a session.Append) ([]byte, error) {
	var out, b []byte
	var err error
	for _, blob := range a.Blobs {
		if b, _, err = w.Blob(blob.Bytes); err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	switch {
	case a.Turn != nil:
		b, err = w.Turn(a.Turn)
	case a.Delivery != nil:
		b, err = w.Delivery(*a.Delivery)
	case a.End != nil:
		b, err = w.End(*a.End)
	}
	return append(out, b...), err
}

func (t *traj) commit(a session.Append, err error) {
	if err != nil {
		t.fail(err)
		return
	}
	t.stepLocked(session.Persisted{Through: a.ID})
	if a.End != nil {
		t.finish()
	}
}

// reply releases an answer: its turn is in the journal.
func (t *traj) reply(e session.Reply) {
	t.last = ""
	if r := t.h.c.OnTurn; r != nil {
		r(TurnReport{t.o.Trajectory, e.Turn, e.Class, e.Continuity, e.Reply.Usage, e.Replayed})
	}
	c := t.calls[e.Call]
	if c == nil {
		return
	}
	if c.logprobs {
		e.Reply.Logprobs = t.logprobs(e.Turn)
	}
	delete(t.calls, e.Call)
	c.out.put(e)
}

// logprobs shows a turn's tokens, where each has its log probability.
func (t *traj) logprobs(seq trajectory.Seq) []chat.TokenLogprob {
	turn := t.s.Tree().Turn(seq)
	if turn.LogprobState() != trajectory.LogprobOK {
		return nil
	}
	out := make([]chat.TokenLogprob, len(turn.Completion))
	for i, id := range turn.Completion {
		b, _ := t.h.c.Model.Tokenizer.Bytes(id)
		out[i] = chat.TokenLogprob{Bytes: b, Logprob: turn.Logprobs[i]}
	}
	return out
}

func (t *traj) reject(e session.Reject) {
	c := t.calls[e.Call]
	if c == nil {
		return
	}
	t.last = fault.CodeOf(e.Err)
	t.refused[t.last]++
	delete(t.calls, e.Call)
	c.out.put(e)
}

// settle tells the session what became of an answer.
func (t *traj) settle(id session.CallID, whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.calls, id)
	if whole {
		t.stepLocked(session.Delivered{Call: id, At: t.now()})
	} else {
		t.stepLocked(session.ClientGone{Call: id, At: t.now()})
	}
}
