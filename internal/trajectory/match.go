package trajectory

import (
	"sort"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/token"
)

// Match is a request seen against the turns before it.
type Match struct {
	Hashes []Hash // of each message's raw bytes
	// The first Keep messages are the first ones of Base's request.
	Base Seq
	Keep int
	// Echoes judges every assistant message of the request, in order.
	Echoes []Echo

	last    Hash // rolling hash of all messages
	steps   []step
	deepest []Seq // turns that may be the parent, in order
}

// step is one assistant message and the turns that it may be the echo of.
type step struct {
	message int
	by      string
	turns   []Seq
}

// twins bounds how many turns of equal text are considered for one message.
const twins = 16

// Match finds the turns whose echoes are in msgs: by minted tool-call ids first, then by content. Of turns that said the
// same, those that follow the turn echoed before are preferred, then those whose request was as long as what stands before
// the echo. Its cost is linear in msgs.
func (t *Tree) Match(msgs []chat.Message) *Match {
	m := &Match{Hashes: make([]Hash, len(msgs))}
	chain := make([]Hash, len(msgs)+1)
	for i := range msgs {
		m.Hashes[i] = HashOf(msgs[i].Raw)
		chain[i+1] = roll(chain[i], m.Hashes[i])
	}
	m.last = chain[len(msgs)]
	m.Keep = sort.Search(len(msgs), func(i int) bool { _, ok := t.prefixes[chain[i+1]]; return !ok })
	if m.Keep > 0 {
		m.Base = t.prefixes[chain[m.Keep]]
	}
	var before []Seq // turns echoed by the last matched message
	depth := 0
	for i := range msgs {
		if msgs[i].Role != chat.Assistant {
			continue
		}
		s := step{message: i}
		s.turns, s.by = t.echoed(&msgs[i], i, m.Hashes[i], before)
		m.steps = append(m.steps, s)
		if len(s.turns) > 0 {
			before = s.turns
		}
		for _, seq := range s.turns {
			switch d := t.Depth(seq); {
			case d > depth:
				depth, m.deepest = d, append(m.deepest[:0:0], seq)
			case d == depth:
				m.deepest = append(m.deepest, seq)
			}
		}
	}
	sort.Slice(m.deepest, func(i, j int) bool { return m.deepest[i] < m.deepest[j] })
	if len(m.deepest) > 0 {
		t.trace(m, msgs, m.deepest[len(m.deepest)-1])
	} else {
		t.trace(m, msgs, 0)
	}
	return m
}

// echoed lists the turns that message i may be the echo of, in order, and how they were found.
func (t *Tree) echoed(msg *chat.Message, i int, hash Hash, before []Seq) (turns []Seq, by string) {
	for _, c := range msg.Calls {
		if at, ok := t.calls[c.ID]; ok {
			return []Seq{at.seq}, "ids"
		}
	}
	said := saidIn(msg)
	if len(before) == 0 {
		before = []Seq{0}
	}
	for _, parent := range before {
		turns = append(turns, t.fitting(t.texts[textKey{under: true, parent: parent, said: said}], msg, i, hash)...)
	}
	if len(turns) == 0 {
		turns = t.fitting(t.texts[textKey{said: said}], msg, i, hash)
	}
	sort.Slice(turns, func(i, j int) bool { return turns[i] < turns[j] })
	return turns, "content"
}

// fitting keeps the turns that message i can be the echo of.
func (t *Tree) fitting(from []Seq, msg *chat.Message, i int, hash Hash) []Seq {
	var inPlace, elsewhere []Seq
	for k := len(from) - 1; k >= max(0, len(from)-16*twins) && len(inPlace) < twins && len(elsewhere) < twins; k-- {
		n := t.node(from[k])
		if !sameCalls(msg, &n.Reply) {
			continue
		}
		if n.messages == i {
			inPlace = append(inPlace, from[k])
		} else if h, ok := t.message(from[k], i); !ok || h != hash { // not a message that its own request had there
			elsewhere = append(elsewhere, from[k])
		}
	}
	if len(inPlace) > 0 {
		return inPlace
	}
	return elsewhere
}

func sameCalls(msg *chat.Message, r *Reply) bool {
	calls := returned(r)
	if len(calls) != len(msg.Calls) {
		return false
	}
	for i, c := range calls {
		if _, ok := sameArguments(msg.Calls[i].Arguments, c.Arguments); !ok {
			return false
		}
	}
	return true
}

// trace fixes which turn each message echoes, given the deepest one: its ancestors where they are among those that a
// message may echo, else the latest.
func (t *Tree) trace(m *Match, msgs []chat.Message, deepest Seq) {
	m.Echoes = make([]Echo, len(m.steps))
	want := deepest
	for k := len(m.steps) - 1; k >= 0; k-- {
		s := &m.steps[k]
		e := Echo{Message: s.message, Verdict: EchoForeign}
		if len(s.turns) > 0 {
			e.By, e.Turn = s.by, s.turns[len(s.turns)-1]
			for _, seq := range s.turns {
				if seq == want {
					e.Turn = seq
				}
			}
			if e.Turn == want && want != 0 {
				want = t.node(want).Parent
			}
			e.Verdict, e.Which = compare(&msgs[s.message], &t.node(e.Turn).Reply, s.by)
		}
		m.Echoes[k] = e
	}
}

// Settle chooses among several deepest turns the one whose checkpoint shares most ids with prompt, then the latest. It
// reports whether Echoes changed: the prompt may then have to be rendered again.
func (t *Tree) Settle(m *Match, msgs []chat.Message, prompt []token.ID) (changed bool) {
	if len(m.deepest) < 2 {
		return false
	}
	best, most := Seq(0), -1
	for _, seq := range m.deepest {
		if n := t.Shared(seq, prompt); n >= most {
			best, most = seq, n
		}
	}
	had := m.parent()
	m.deepest = []Seq{best}
	if best == had {
		return false
	}
	t.trace(m, msgs, best)
	return true
}

// parent is the turn that Echoes was traced from.
func (m *Match) parent() Seq {
	if len(m.deepest) == 0 {
		return 0
	}
	return m.deepest[len(m.deepest)-1]
}

// Sampled gives, for each message that is an exact or equivalent echo, the ids that its turn sampled, as
// family.Conversation wants them.
func (t *Tree) Sampled(m *Match) map[int][]token.ID {
	out := map[int][]token.ID{}
	for _, e := range m.Echoes {
		if e.Verdict == EchoExact || e.Verdict == EchoEquivalent {
			out[e.Message] = t.node(e.Turn).Completion
		}
	}
	return out
}

// Request is the identity of a request: its messages, tools and settings.
func (m *Match) Request(tools, settings Hash) Hash { return requestOf(m.last, tools, settings) }

// Answers lists the turns that answered a request of this identity, in order. The slice is shared.
func (t *Tree) Answers(request Hash) []Seq { return t.requests[request] }
