package host

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/dialect"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/session"
)

// read is a request up to where its trajectory takes over.
func (h *Host) read(w http.ResponseWriter, r *http.Request, d dialect.Dialect) (*traj, chat.Request, error) {
	t, err := h.authorize(r)
	if err != nil {
		return nil, chat.Request{}, err
	}
	body, err := h.body(w, r)
	if err != nil {
		return nil, chat.Request{}, err
	}
	req, err := d.ParseRequest(body)
	return t, req, err
}

// authorize finds the trajectory of the path, if the token is its own.
func (h *Host) authorize(r *http.Request) (*traj, error) {
	t, err := h.find(r.PathValue("trajectory"))
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(bearer(r.Header)), []byte(t.o.Token)) != 1 {
		return nil, fault.New(fault.Unauthorized, "the token is not that of trajectory %s", t.o.Trajectory)
	}
	return t, nil
}

func bearer(h http.Header) string {
	const scheme = "Bearer "
	a := h.Get("Authorization")
	if len(a) > len(scheme) && strings.EqualFold(a[:len(scheme)], scheme) {
		return a[len(scheme):]
	}
	return h.Get("X-Api-Key")
}

// mostAtOnce is how much room a request gets on its word for its length; beyond that, as it comes.
const mostAtOnce = 8 << 20

func (h *Host) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	tooLarge := func() error {
		return fault.New(fault.RequestTooLarge, "the request is larger than %d bytes", h.c.MaxBody).WithFix("raise --max-body")
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, fault.New(fault.BadRequest, "the body is encoded as %q", enc).WithFix("send plain JSON")
	}
	if r.ContentLength > h.c.MaxBody {
		return nil, tooLarge()
	}
	var buf bytes.Buffer
	buf.Grow(int(min(max(r.ContentLength, 0), mostAtOnce)) + bytes.MinRead)
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, h.c.MaxBody))
	body := buf.Bytes()
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge()
	case err != nil:
		return nil, fault.Wrap(fault.ClientGone, err, "the request ended, or stood still, before it was whole")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the answer may take long
	return body, nil
}

// Header names by which harnesses say what a call belongs to; the first that is there counts.
var (
	sessionHeaders = []string{"X-Session-Id", "Session_id", "Session-Id", "X-Session-Affinity", "X-Claude-Code-Session-Id"}
	parentHeaders  = []string{"X-Parent-Session-Id"}
	keyHeaders     = []string{"Idempotency-Key", "X-Idempotency-Key"}
	retryHeaders   = []string{"X-Stainless-Retry-Count", "X-Retry-Count"}
)

// maxHint bounds a header that is recorded with each turn.
const maxHint = 1024

// arrival is a request as its session gets it. Keys and tokens stay behind.
func arrival(r *http.Request, req *chat.Request) (*session.CallArrived, error) {
	var hints [3]string
	for i, names := range [][]string{sessionHeaders, parentHeaders, keyHeaders} {
		name, v := first(r.Header, names)
		if len(v) > maxHint {
			return nil, fault.New(fault.BadRequest, "the header %s is longer than %d bytes", name, maxHint)
		}
		hints[i] = strings.ToValidUTF8(v, "\uFFFD")
	}
	_, n := first(r.Header, retryHeaders)
	retries, err := strconv.Atoi(n)
	if err != nil || retries < 0 {
		retries = 0
	}
	marks := make(map[string]string, len(r.Header))
	for k, v := range r.Header {
		switch k {
		case "Authorization", "Proxy-Authorization", "X-Api-Key", "Cookie":
		default:
			marks[strings.ToLower(k)] = strings.Join(v, ", ")
		}
	}
	return &session.CallArrived{Request: req, Session: hints[0], ParentSession: hints[1], Idempotency: hints[2],
		RetryCount: retries, Marks: marks}, nil
}

func first(h http.Header, names []string) (name, value string) {
	for _, n := range names {
		if v := h.Get(n); v != "" {
			return n, v
		}
	}
	return "", ""
}
