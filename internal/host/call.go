package host

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
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
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, []byte(`{"status":"ok"}`)) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.failure(w, h.c.Dialects[0], fault.New(fault.UnknownRoute, "there is no %s %s here", r.Method, r.URL.Path))
	})
	return mux
}

// serve is the life of one call.
func (h *Host) serve(w http.ResponseWriter, r *http.Request, d dialect.Dialect) {
	t, err := h.authorize(r)
	if err != nil {
		h.failure(w, d, err)
		return
	}
	body, err := readBody(w, r, h.c.MaxBody)
	if err != nil {
		h.failure(w, d, err)
		return
	}
	req, err := d.ParseRequest(body)
	if err != nil {
		h.failure(w, d, err)
		return
	}
	id, c := t.arrive(r, &req)
	meta := dialect.Meta{ID: "chatcmpl-" + t.o.Trajectory + "-" + strconv.FormatUint(uint64(id), 10), Created: h.c.Now().Unix(), Model: req.Model}
	a := answer{h: h, w: w, d: d, meta: meta, req: req}
	whole := a.run(r.Context(), c)
	t.settle(id, whole)
	if !whole && a.begun {
		panic(http.ErrAbortHandler) // a stream that is not whole must not look like one
	}
}

// authorize finds the trajectory of the path, if the token is its own.
func (h *Host) authorize(r *http.Request) (*traj, error) {
	id := r.PathValue("trajectory")
	t := h.find(id)
	if t == nil {
		return nil, fault.New(fault.UnknownRoute, "trajectory %q is not open here", id)
	}
	got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if got == "" {
		got = r.Header.Get("X-Api-Key")
	}
	if subtle.ConstantTimeCompare([]byte(got), []byte(t.o.Token)) != 1 {
		return nil, fault.New(fault.Unauthorized, "the token is not that of trajectory %s", id)
	}
	return t, nil
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, fault.New(fault.BadRequest, "the body is encoded as %q", enc).WithFix("send plain JSON")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, fault.New(fault.RequestTooLarge, "the request is larger than %d bytes", limit).WithFix("raise --max-body")
	case err != nil:
		return nil, fault.Wrap(fault.BadRequest, err, "reading the request")
	}
	return body, nil
}

// Header names by which harnesses say what a call belongs to; the first that is there counts.
var (
	sessionHeaders = []string{"X-Session-Id", "Session_id", "Session-Id", "X-Session-Affinity", "X-Claude-Code-Session-Id"}
	parentHeaders  = []string{"X-Parent-Session-Id"}
	keyHeaders     = []string{"Idempotency-Key", "X-Idempotency-Key"}
	retryHeaders   = []string{"X-Stainless-Retry-Count", "X-Retry-Count"}
)

func first(r *http.Request, names []string) string {
	for _, n := range names {
		if v := r.Header.Get(n); v != "" {
			return v
		}
	}
	return ""
}

// arrive hands the request to the session and returns the call's number and mailbox.
func (t *traj) arrive(r *http.Request, req *chat.Request) (session.CallID, *call) {
	retries, _ := strconv.Atoi(first(r, retryHeaders))
	marks := make(map[string]string, len(r.Header))
	for k, v := range r.Header {
		if k != "Authorization" && k != "X-Api-Key" {
			marks[strings.ToLower(k)] = strings.Join(v, ", ")
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id := t.s.Next()
	c := t.call(id)
	t.stepLocked(&session.CallArrived{
		Request: req, Session: first(r, sessionHeaders), ParentSession: first(r, parentHeaders), Idempotency: first(r, keyHeaders),
		RetryCount: retries, Marks: marks, At: t.now(),
	})
	return id, c
}

// settle tells the session what became of the answer, and frees the call.
func (t *traj) settle(id session.CallID, whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if whole {
		t.stepLocked(session.Delivered{Call: id, At: t.now()})
	} else {
		t.stepLocked(session.ClientGone{Call: id, At: t.now()})
	}
	delete(t.calls, id)
}

// answer writes one call's answer as its effects come.
type answer struct {
	h      *Host
	w      http.ResponseWriter
	d      dialect.Dialect
	meta   dialect.Meta
	req    chat.Request
	stream dialect.Stream
	begun  bool // a status was sent
}

// run returns whether the client has the whole of its answer, or of its refusal.
func (a *answer) run(ctx context.Context, c *call) (whole bool) {
	var tick <-chan time.Time
	if a.req.Stream {
		a.stream = a.d.Stream(a.meta, a.req)
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
		case <-c.out.ready:
			for _, e := range c.out.take() {
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
		writeJSON(a.w, http.StatusOK, a.d.Reply(a.meta, a.req, e.Reply))
		return true, http.NewResponseController(a.w).Flush() == nil
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
	if _, err := a.w.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}

func (h *Host) models(w http.ResponseWriter, r *http.Request) {
	if _, err := h.authorize(r); err != nil {
		h.failure(w, h.c.Dialects[0], err)
		return
	}
	b, _ := json.Marshal(map[string]any{"object": "list", "data": []any{map[string]any{
		"id": h.c.Info.Model, "object": "model", "owned_by": "tito", "created": 0, "max_model_len": h.c.MaxContext,
	}}})
	writeJSON(w, http.StatusOK, b)
}

// failure answers an error with its own status.
func (h *Host) failure(w http.ResponseWriter, d dialect.Dialect, err error) {
	f := d.Failure(err)
	h.c.Log.Info("refused", "code", fault.CodeOf(err), "status", f.Status, "err", err)
	if f.Retry {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, f.Status, f.Body)
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}
