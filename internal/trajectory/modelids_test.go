package trajectory

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/token"
)

func TestATemplateIsGivenTheIDsThatTheModelSaid(t *testing.T) {
	tree := New(Header{VocabSize: 100})
	first := base(1)
	span := token.Span{Start: 0, End: 1}
	first.Reply.Calls = []CallFact{
		{ID: "minted_a", ModelID: "functions.a:0", Name: "a", Arguments: "{}", Span: span},
		{Name: "no call", Span: span},
		{ID: "minted_b", ModelID: "functions.b:1", Name: "b", Arguments: "{}", Span: span},
	}
	if err := tree.Add(first); err != nil {
		t.Fatal(err)
	}
	call := func(id, name string) chat.Call { return chat.Call{ID: id, Name: name, Arguments: "{}"} }
	said := func(calls ...chat.Call) chat.Message { return chat.Message{Role: chat.Assistant, Calls: calls} }
	result := func(id string) chat.Message { return chat.Message{Role: chat.Tool, CallID: id} }
	ours := []Echo{{Message: 0, Turn: 1, Verdict: EchoExact}}
	for what, c := range map[string]struct {
		echoes    []Echo
		msgs, out []chat.Message
	}{
		"minted ids": {ours,
			[]chat.Message{said(call("minted_a", "a"), call("minted_b", "b")), result("minted_b"), result("minted_a"), result("x")},
			[]chat.Message{said(call("functions.a:0", "a"), call("functions.b:1", "b")), result("functions.b:1"), result("functions.a:0"), result("x")}},
		"the harness's own ids": {ours,
			[]chat.Message{said(call("1", "a"), call("2", "b")), result("2")},
			[]chat.Message{said(call("functions.a:0", "a"), call("functions.b:1", "b")), result("functions.b:1")}},
		"a call left out": {ours,
			[]chat.Message{said(call("minted_b", "b")), result("minted_b")},
			[]chat.Message{said(call("functions.b:1", "b")), result("functions.b:1")}},
		"a call renamed": {ours,
			[]chat.Message{said(call("minted_a", "z"), call("minted_b", "b")), result("minted_a")},
			[]chat.Message{said(call("minted_a", "z"), call("functions.b:1", "b")), result("minted_a")}},
		"nobody's message": {[]Echo{{Message: 0, Verdict: EchoForeign}},
			[]chat.Message{said(call("1", "a")), result("1")},
			[]chat.Message{said(call("1", "a")), result("1")}},
		"an id used again": {ours,
			[]chat.Message{said(call("1", "a"), call("2", "b")), result("1"), said(call("1", "a")), result("1")},
			[]chat.Message{said(call("functions.a:0", "a"), call("functions.b:1", "b")), result("functions.a:0"), said(call("1", "a")), result("1")}},
	} {
		if d := cmp.Diff(c.out, tree.ModelIDs(&Match{Echoes: c.echoes}, c.msgs)); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	plain := New(Header{VocabSize: 100})
	msgs := []chat.Message{said(call("1", "a"))}
	if got := plain.ModelIDs(&Match{}, msgs); &got[0] != &msgs[0] {
		t.Error("copied for nothing")
	}
}
