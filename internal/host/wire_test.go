package host_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/host"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/trajectory"
)

func TestARequestThatCannotBeServedIsRefusedByName(t *testing.T) {
	r := up(t, func(r *rig) { r.c.MaxBody = 4096 })
	e := r.open("t1")
	plain := func(change func(*request)) request {
		q := ask(e, user("one"), false)
		change(&q)
		return q
	}
	field := func(name string, v any) request { return plain(func(q *request) { q.body[name] = v }) }
	for name, c := range map[string]struct {
		q      request
		status int
		code   fault.Code
	}{
		"n":                     {field("n", 2), 400, fault.UnsupportedField},
		"stop":                  {field("stop", []string{"x"}), 400, fault.UnsupportedField},
		"logit_bias":            {field("logit_bias", map[string]int{"1": 2}), 400, fault.UnsupportedField},
		"response_format":       {field("response_format", map[string]string{"type": "json_object"}), 400, fault.UnsupportedField},
		"tool_choice":           {field("tool_choice", "required"), 400, fault.UnsupportedField},
		"top_logprobs":          {field("top_logprobs", 3), 400, fault.UnsupportedField},
		"no messages":           {field("messages", []any{}), 400, fault.BadRequest},
		"an image":              {field("messages", []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "image_url", "image_url": map[string]string{"url": "data:"}}}}}), 400, fault.UnsupportedPart},
		"no JSON":               {plain(func(q *request) { q.raw = []byte("{") }), 400, fault.BadRequest},
		"nothing":               {plain(func(q *request) { q.raw = []byte{} }), 400, fault.BadRequest},
		"bad UTF-8":             {plain(func(q *request) { q.raw = []byte("{\"model\":\"\xff\"}") }), 400, fault.BadRequest},
		"a body over the limit": {plain(func(q *request) { q.raw = []byte(`{"messages":"` + strings.Repeat("x", 5000) + `"}`) }), 413, fault.RequestTooLarge},
		"a compressed body":     {plain(func(q *request) { q.header = map[string]string{"Content-Encoding": "gzip"} }), 400, fault.BadRequest},
		"a long session id":     {plain(func(q *request) { q.header = map[string]string{"X-Session-Id": strings.Repeat("s", 2000)} }), 400, fault.BadRequest},
		"another trajectory":    {plain(func(q *request) { q.path = "/t/t2/v1/chat/completions" }), 404, fault.UnknownRoute},
		"no such path":          {plain(func(q *request) { q.path = e.Path + "/completions" }), 404, fault.UnknownRoute},
		"an escaped path":       {plain(func(q *request) { q.path = "/t/%2e%2e%2ft1/v1/chat/completions" }), 404, fault.UnknownRoute},
		"a wrong token":         {plain(func(q *request) { q.token = "key-t2" }), 401, fault.Unauthorized},
		"a part of the token":   {plain(func(q *request) { q.token = e.Token[:3] }), 401, fault.Unauthorized},
		"no token":              {plain(func(q *request) { q.token = "" }), 401, fault.Unauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			if h := r.say(c.q); h.Status != c.status || h.Code != string(c.code) || h.Message == "" || h.RetryIn != "" {
				t.Errorf("%+v", h)
			}
		})
	}
	if h := r.say(plain(func(q *request) { q.token, q.header = "", map[string]string{"X-Api-Key": e.Token} })); h.Status != http.StatusOK {
		t.Error("by x-api-key:", h)
	}
	if s := r.seal("t1"); s.Turns != 1 || r.calls.count() != 1 {
		t.Errorf("%+v", s)
	}
	r.proved("t1")
}

func TestHintsOfHeadersAreRecordedAsTextAndKeysAreNot(t *testing.T) {
	r := up(t, nil)
	e := r.open("t1")
	q := ask(e, user("one"), false)
	q.header = map[string]string{"X-Session-Id": "ses\xff1", "X-Parent-Session-Id": "p", "Idempotency-Key": "k", "X-Stainless-Retry-Count": "-3"}
	if h := r.say(q); h.Status != http.StatusOK {
		t.Fatal(h)
	}
	r.seal("t1")
	n := r.proved("t1").Turns()[0]
	if n.Session != "ses\uFFFD1" || n.ParentSession != "p" || n.Idempotency != "k" || n.RetryCount != 0 {
		t.Errorf("%+v", n)
	}
	if strings.Contains(string(r.journal("t1")), e.Token) {
		t.Error("the token is in the journal")
	}
}

func TestIdsOfTrajectoriesMayHoldWhatPathsMayNot(t *testing.T) {
	r := up(t, nil)
	for _, id := range []string{"a b", "run/1", "ü?x=1#y", "%2e"} {
		e := r.open(id)
		if h := r.say(ask(e, user("one"), false)); h.Status != http.StatusOK {
			t.Errorf("%q: %+v", id, h)
		}
		r.seal(id)
		r.proved(id)
	}
}

func TestModelsAndHealthAreServed(t *testing.T) {
	r := up(t, nil)
	e := r.open("t1")
	for _, c := range []struct {
		path, token string
		status      int
		want        string
	}{{"/health", "", 200, `"ok"`}, {e.Path + "/models", e.Token, 200, `"rehearsal"`}, {e.Path + "/models", "x", 401, `"unauthorized"`}, {"/", "", 404, `"unknown_route"`}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.base+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "bearer "+c.token)
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.status || !strings.Contains(string(b), c.want) {
			t.Errorf("%s: %d %s %v", c.path, res.StatusCode, b, err)
		}
	}
}

// by sends bytes on a connection of its own.
func (r *rig) by(send string) net.Conn {
	r.t.Helper()
	u, err := url.Parse(r.base)
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, send); err != nil {
		r.t.Fatal(err)
	}
	return c
}

func TestABodyThatStandsStillIsNotWaitedForForEver(t *testing.T) {
	r := up(t, func(r *rig) { r.c.Patience = 10 * time.Millisecond })
	e := r.open("t1")
	c := r.by(fmt.Sprintf("POST %s/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{", e.Path, e.Token))
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := r.hear(res, nil)
	<-r.served
	if h.Code != string(fault.ClientGone) {
		t.Error(h)
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection is still open")
	}
	// A client that is patient itself is not hurried: the deadlines end with the body.
	for i := range 3 {
		if h := r.say(ask(e, user(fmt.Sprint(i)), false)); h.Status != http.StatusOK {
			t.Error(h)
		}
	}
}

func TestAClientThatTakesNothingIsNotWaitedForForEver(t *testing.T) {
	long := strings.Repeat("word ", 1<<20)
	r := up(t, func(r *rig) {
		r.c.Patience = 20 * time.Millisecond
		r.c.Dialects[0] = wordy{r.c.Dialects[0], long}
	})
	e := r.open("t1")
	body, err := json.Marshal(ask(e, user("one"), false).body)
	if err != nil {
		t.Fatal(err)
	}
	r.by(fmt.Sprintf("POST %s/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", e.Path, e.Token, len(body), body))
	<-r.served
	r.seal("t1")
	r.recorded("t1", fact{trajectory.FinishStop, "", trajectory.LogprobOK, trajectory.DeliveryUndelivered})
}

func TestAPortInUseIsSaidAndAnAbandonedSocketIsTaken(t *testing.T) {
	l := listenAt(t, "127.0.0.1:0")
	if _, err := host.Listen(l.Addr().String()); fault.CodeOf(err) != fault.PortInUse {
		t.Error(err)
	}
	if _, err := host.Listen("nonsense"); fault.CodeOf(err) != fault.BadFlag {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	u := listenAt(t, "unix:"+path)
	if _, err := host.Listen("unix:" + path); fault.CodeOf(err) != fault.PortInUse {
		t.Error(err)
	}
	u.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	again := listenAt(t, "unix:"+path)
	s := host.Serve(again, http.NotFoundHandler())
	for range 2 {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if d := cmp.Diff("http+unix://"+path, host.URL(again)); d != "" {
		t.Error(d)
	}
	if err := store.WriteFile(path, []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Listen("unix:" + path); fault.CodeOf(err) != fault.PortInUse {
		t.Errorf("over a file that is no socket: %v", err)
	}
}
