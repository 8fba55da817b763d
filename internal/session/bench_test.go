package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// flat renders each message as one id for every four bytes, and an echo as what was sampled: next to no work of its own,
// so that a benchmark sees the session.
type flat struct{ *toy }

func (f flat) Render(c family.Conversation) (family.Rendered, error) {
	n := 0
	for i := range c.Messages {
		n += 2 + max(len(c.Messages[i].Content.S)/4, len(c.Sampled[i]))
	}
	ids := make([]token.ID, 0, n)
	for i := range c.Messages {
		m := &c.Messages[i]
		ids = append(ids, f.id(toyRoles[m.Role]))
		if s := c.Sampled[i]; s != nil {
			ids = append(ids, s...)
			continue
		}
		for k := 0; k+4 <= len(m.Content.S); k += 4 {
			ids = append(ids, token.ID(m.Content.S[k])<<8+token.ID(m.Content.S[k+1]))
		}
		ids = append(ids, f.id(toyStop))
	}
	return family.Rendered{IDs: append(ids, f.id(toyAssistant))}, nil
}

// grown plays a tool loop of n turns and returns the request that comes next.
func grown(tb testing.TB, n int) (*Session, *chat.Request) {
	f := flat{newToy()}
	s := New(Config{Family: f, Header: trajectory.Header{Policy: trajectory.DefaultPolicy()}, MaxTokens: 100, Processed: true})
	out := strings.Repeat("some output of a tool, ", 40) // 230 ids
	r := &chat.Request{N: 1, Messages: []chat.Message{{Role: chat.User, Content: chat.T(out), Raw: []byte(out)}}}
	for i := range n {
		loop(tb, s, r, f)
		reply := s.replyOf(trajectory.Seq(i + 1))
		echo := chat.Message{Role: chat.Assistant, Content: reply.Content, Calls: reply.Calls, Raw: fmt.Appendf(nil, "%v", reply.Calls)}
		tool := fmt.Sprint(i, out)
		r = &chat.Request{N: 1, Messages: append(r.Messages[:len(r.Messages):len(r.Messages)], echo,
			chat.Message{Role: chat.Tool, Content: chat.T(tool), CallID: reply.Calls[0].ID, Raw: []byte(tool)})}
	}
	return s, r
}

// loop is one call from arrival to delivery.
func loop(tb testing.TB, s *Session, r *chat.Request, f flat) {
	id := s.Next()
	must := func(e Event) []Effect {
		effects, err := s.Step(e)
		if err != nil {
			tb.Fatal(err)
		}
		return effects
	}
	if _, ok := must(&CallArrived{Request: r})[0].(Generate); !ok {
		tb.Fatal("nothing is generated")
	}
	ids := f.encode(toyCall + ` bash {"cmd":"ls"} ` + toyCallEnd + " " + toyStop)
	must(EngineChunk{Call: id, IDs: ids, Logprobs: make([]float32, len(ids))})
	must(EngineFinal{Call: id, Finish: "stop"})
	must(Persisted{s.appends})
	must(Delivered{Call: id})
}

// What one more turn costs, after n of them. The request holds all of the history, so time grows with it; what a turn
// leaves behind must not.
func BenchmarkStepOneMoreTurn(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		s, r := grown(b, n)
		f := flat{newToy()}
		size := 0
		for i := range r.Messages {
			size += len(r.Messages[i].Raw)
		}
		b.Run(fmt.Sprintf("turns=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				loop(b, s, r, f)
			}
		})
	}
}

func TestWhatATurnLeavesBehindDoesNotGrow(t *testing.T) {
	s, _ := grown(t, 400)
	tree := s.Tree()
	for _, turn := range tree.Turns()[1:] {
		if len(turn.Suffix) > 300 || len(turn.MsgNew) != 2 || len(turn.Echoes) != 1 {
			t.Fatalf("turn %d keeps %d ids, %d messages, %d echoes of its own", turn.Seq, len(turn.Suffix), len(turn.MsgNew), len(turn.Echoes))
		}
	}
	if n := tree.CheckpointLen(400); n < 400*230 {
		t.Fatalf("the last checkpoint has %d ids", n)
	}
}
