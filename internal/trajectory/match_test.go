package trajectory

import (
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/token"
)

// talk is a tree whose prompts are made up: an id for each message, by its bytes.
type talk struct {
	t *testing.T
	*Tree
}

func says(words ...string) []chat.Message {
	var out []chat.Message
	for i, w := range words {
		m := chat.Message{Role: chat.User, Content: chat.T(w), Raw: []byte(w)}
		if len(w) > 0 && w[0] == '>' {
			m.Role, m.Content = chat.Assistant, chat.T(w[1:])
		} else if i == 0 {
			m.Role = chat.System
		}
		out = append(out, m)
	}
	return out
}

func (x talk) prompt(msgs []chat.Message) []token.ID {
	var out []token.ID
	for _, m := range msgs {
		h := HashOf(m.Raw)
		out = append(out, token.ID(h[0])<<8|token.ID(h[1]))
	}
	return out
}

// answer adds the turn that answers a request; parent, if not 0, is what it is placed under.
func (x talk) answer(reply string, parent Seq, words ...string) Seq {
	x.t.Helper()
	msgs := says(words...)
	m := x.Match(msgs)
	prompt := x.prompt(msgs)
	n := base(Seq(x.Len() + 1))
	n.Parent, n.Base, n.MsgBase, n.MsgKeep, n.MsgNew = parent, parent, m.Base, m.Keep, m.Hashes[m.Keep:]
	if parent != 0 {
		n.Keep, n.Why = x.Shared(parent, prompt), WhyEcho
	}
	n.Suffix, n.Reply.Content = prompt[n.Keep:], chat.T(reply)
	if err := x.Add(n); err != nil {
		x.t.Fatal(err)
	}
	return n.Seq
}

func (x talk) echoes(want []Seq, words ...string) {
	x.t.Helper()
	m := x.Match(says(words...))
	if len(m.Echoes) != len(want) {
		x.t.Fatalf("%+v, want %v", m.Echoes, want)
	}
	for i, e := range m.Echoes {
		if e.Turn != want[i] {
			x.t.Errorf("message %d echoes turn %d, want %d", e.Message, e.Turn, want[i])
		}
	}
}

func TestOfTurnsThatSaidTheSameTheOneThatStoodThereWins(t *testing.T) {
	x := talk{t, New(Header{})}
	long := x.answer("yes", 0, "s", "u", "more")
	x.answer("yes", 0, "s", "u")
	x.echoes([]Seq{long}, "s", "u", "more", ">yes", "go on")
}

func TestAnAnswerThatIsNotKnownDoesNotBreakTheThread(t *testing.T) {
	x := talk{t, New(Header{})}
	a := x.answer("a", 0, "s", "u")
	b := x.answer("b", a, "s", "u", ">a", "v", ">nobody said this", "w")
	other := x.answer("c", 0, "s2", "u")
	x.answer("b", other, "s2", "u", ">c", "v", ">x", "w")
	x.echoes([]Seq{a, 0, b}, "s", "u", ">a", "v", ">nobody said this", "w", ">b", "go on")
}

func TestAnEchoIsOfTheTurnThatTheParentFollowed(t *testing.T) {
	x := talk{t, New(Header{})}
	first := x.answer("a", 0, "s", "u")
	x.answer("a", 0, "s", "u")
	child := x.answer("b", first, "s", "u", ">a", "v")
	x.echoes([]Seq{first, child}, "s", "u", ">a", "v", ">b", "go on")
}
