package session

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
)

// named is a format whose calls have ids of the model's own. It keeps what it rendered last.
type named struct {
	family.Family
	seen *family.Conversation
}

func (f named) Render(c family.Conversation) (family.Rendered, error) {
	*f.seen = c
	return f.Family.Render(c)
}

func (f named) Parse(in family.ParseInput) family.Parser { return namedParser{f.Family.Parse(in)} }

type namedParser struct{ family.Parser }

func (p namedParser) Done(stopped bool) (family.Parsed, []family.Event) {
	out, es := p.Parser.Done(stopped)
	for i := range out.Calls {
		out.Calls[i].ModelID = fmt.Sprintf("functions.%s:%d", out.Calls[i].Name, i)
	}
	return out, es
}

func TestTheTemplateSeesTheModelsOwnCallIDs(t *testing.T) {
	m, err := bundle()
	if err != nil {
		t.Fatal(err)
	}
	var seen family.Conversation
	r := realOn(t, named{m.Family, &seen})
	msgs := []chat.Message{message(chat.User, "go")}
	reply := chat.Reply{Calls: []chat.Call{{Name: "bash", Arguments: `{"command": "a"}`}, {Name: "bash", Arguments: `{"command": "b"}`}}}
	got := r.ask(msgs, reply)
	if len(got.Reply.Calls) != 2 || got.Reply.Calls[0].ID == "functions.bash:0" {
		t.Fatalf("%+v", got.Reply.Calls)
	}
	msgs = append(msgs, echo(got, nil), result(got.Reply.Calls[1].ID, "two"), result(got.Reply.Calls[0].ID, "one"))
	r.ask(msgs, chat.Reply{Content: chat.T("done")})
	var ids []string
	for _, m := range seen.Messages {
		for _, c := range m.Calls {
			ids = append(ids, c.ID)
		}
		if m.CallID != "" {
			ids = append(ids, m.CallID)
		}
	}
	if d := cmp.Diff([]string{"functions.bash:0", "functions.bash:1", "functions.bash:1", "functions.bash:0"}, ids); d != "" {
		t.Error(d)
	}
	if own := r.s.tree.Turn(1).Reply.Calls[1].ModelID; own != "functions.bash:1" {
		t.Errorf("recorded as %q", own)
	}
}
