package host_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestWithoutToolsNothingIsACall(t *testing.T) {
	r := up(t, nil)
	q := ask(r.open("t1"), user("please count the files"), false)
	delete(q.body, "tools")
	h := r.say(q)
	if h.Status != http.StatusOK || len(h.Calls) != 0 || h.Finish != "stop" || !strings.Contains(h.Content, "<tool_call>") {
		t.Errorf("%+v", h)
	}
	r.seal("t1")
	r.recorded("t1", good)
}
