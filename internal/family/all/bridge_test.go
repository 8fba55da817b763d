package all

import (
	"slices"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/token"
)

// A bridge must give the ids that the whole render has: here for replies that the template writes as they were said.
func TestABridgeLeadsToTheWholePrompt(t *testing.T) { eachModel(t, leadsToTheWholePrompt) }

func leadsToTheWholePrompt(t *testing.T, m model, f *subject) {
	for what, reply := range map[string]chat.Reply{
		"results": f.canonical(m, chat.Reply{Finish: chat.FinishStop}),
		"a user":  {Content: chat.T("so"), Finish: chat.FinishStop},
	} {
		switch {
		case what == "results" && f.WriteCalls == nil:
			continue
		case what == "a user" && (f.reasons() || f.NewReader != nil):
			continue // the template strips reasoning, or closes the reply in another way
		}
		before := family.Conversation{Messages: []chat.Message{user("u")}, Tools: f.tools(t), Sampled: map[int][]token.ID{}}
		start, err := f.Render(before)
		if err != nil {
			t.Fatal(err)
		}
		said, err := f.Speak(reply)
		if err != nil {
			t.Fatal(err)
		}
		reply = f.withIDs(t, start.IDs, said, reply)
		before.Messages = append(before.Messages, echo(reply))
		before.Sampled[1] = said
		after := before
		after.Messages = append(slices.Clone(before.Messages), user("v"))
		if what == "results" {
			after.Messages[2] = chat.Message{Role: chat.Tool, CallID: reply.Calls[0].ID, Content: chat.T("r")}
		}
		b, err := f.Bridge(before, after, family.Ending{Stopped: true, Stop: said[len(said)-1]})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		whole, err := f.Render(after)
		if err != nil {
			t.Fatal(err)
		}
		check := slices.Concat(start.IDs, said)
		got := slices.Concat(check[:len(check)-b.Trim], b.Insert, b.Suffix)
		if !slices.Equal(got, whole.IDs) {
			t.Errorf("%s:\n got %s\nwant %s", what, show(f, got), show(f, whole.IDs))
		}
	}
}
