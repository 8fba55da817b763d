package host

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/dialect"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/session"
)

// Handler serves every open trajectory below /t/{trajectory}/v1, and /health.
func (h *Host) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, d := range h.c.Dialects {
		mux.HandleFunc("POST /t/{trajectory}/v1"+d.Path(), func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, d) })
	}
	mux.HandleFunc("GET /t/{trajectory}/v1/models", h.models)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		_ = h.write(w, http.StatusOK, []byte(`{"status":"ok"}`)) // who asks and leaves does not need it
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.failure(w, h.c.Dialects[0], fault.New(fault.UnknownRoute, "there is no %s %s here", r.Method, r.URL.Path))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer h.caught()
		// Until the body is read, or what is left of a refused one: the server reads that too.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.c.Patience))
		mux.ServeHTTP(w, r)
	})
}

// caught turns a panic into a logged error and a cut connection: the client tries again, the process goes on.
func (h *Host) caught() {
	p := recover()
	if p == nil {
		return
	}
	if p != http.ErrAbortHandler { //nolint:errorlint // it is panicked with as it is
		h.c.Log.Error("a request panicked", "panic", p, "stack", string(debug.Stack()))
	}
	panic(http.ErrAbortHandler)
}

// answer writes one call's answer as its effects come.
type answer struct {
	h      *Host
	w      http.ResponseWriter
	d      dialect.Dialect
	meta   dialect.Meta
	req    chat.Request
	stream dialect.Stream // nil where one JSON document is asked for
	begun  bool           // the head of a stream was sent
}

func newAnswer(h *Host, w http.ResponseWriter, d dialect.Dialect, req chat.Request, id string) *answer {
	a := &answer{h: h, w: w, d: d, req: req, meta: dialect.Meta{ID: id, Created: h.c.Now().Unix(), Model: req.Model}}
	if req.Model == "" {
		a.meta.Model = h.c.Info.Model
	}
	if req.Stream {
		a.stream = d.Stream(a.meta, req)
	}
	return a
}

// run returns whether the client has the whole of its answer.
func (a *answer) run(ctx context.Context, in *mailbox) (whole bool) {
	var tick <-chan time.Time
	if a.stream != nil {
		t := time.NewTicker(a.h.c.KeepAlive)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			if a.send(a.stream.KeepAlive()) != nil {
				return false
			}
		case <-in.ready:
			for _, e := range in.take() {
				if done, whole := a.effect(ctx, e); done {
					return whole
				}
			}
		}
	}
}

func (a *answer) effect(ctx context.Context, e session.Effect) (done, whole bool) {
	switch e := e.(type) {
	case session.Piece:
		if a.stream == nil {
			return false, false
		}
		b := a.stream.Content
		if e.Kind == family.EventReasoning {
			b = a.stream.Reasoning
		}
		err := a.send(b(e.Text))
		return err != nil, false
	case session.Reply:
		if ctx.Err() != nil {
			return true, false
		}
		// A client that has all of its answer may hang up at once: from here on only a failed write counts against it.
		if a.stream != nil {
			return true, a.send(a.stream.Finish(e.Reply)) == nil
		}
		return true, a.h.write(a.w, http.StatusOK, a.d.Reply(a.meta, a.req, e.Reply)) == nil
	case session.Reject:
		if !a.begun {
			a.h.failure(a.w, a.d, e.Err)
		}
		return true, false
	}
	return false, false
}

// send writes a piece of the stream and flushes it, after the head if it is the first.
func (a *answer) send(b []byte) error {
	if !a.begun {
		a.begun = true
		h := a.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		a.w.WriteHeader(http.StatusOK)
	}
	return a.h.push(a.w, b)
}

// push writes and flushes, and waits for a slow client only so long.
func (h *Host) push(w http.ResponseWriter, b []byte) error {
	c := http.NewResponseController(w)
	if err := c.SetWriteDeadline(time.Now().Add(h.c.Patience)); err == nil {
		defer func() { _ = c.SetWriteDeadline(time.Time{}) }()
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	return c.Flush()
}

// write answers one JSON document.
func (h *Host) write(w http.ResponseWriter, status int, body []byte) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	return h.push(w, body)
}

// failure answers an error with its own status.
func (h *Host) failure(w http.ResponseWriter, d dialect.Dialect, err error) {
	f := d.Failure(err)
	h.c.Log.Info("refused", "code", fault.CodeOf(err), "status", f.Status, "err", err)
	if f.Retry {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(busyFor(err).Seconds())))))
	}
	_ = h.write(w, f.Status, f.Body) // a client that is gone needs no answer
}

func (h *Host) models(w http.ResponseWriter, r *http.Request) {
	if _, err := h.authorize(r); err != nil {
		h.failure(w, h.c.Dialects[0], err)
		return
	}
	b, err := json.Marshal(map[string]any{"object": "list", "data": []any{map[string]any{
		"id": h.c.Name, "object": "model", "owned_by": "tito", "created": 0, "max_model_len": h.c.MaxContext,
	}}})
	if err != nil {
		h.failure(w, h.c.Dialects[0], err)
		return
	}
	_ = h.write(w, http.StatusOK, b)
}
