package trajectory

import (
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/token"
)

// Why a turn stands where it does in the tree. With a parent it is WhyEcho or WhyPrefix; the others are a root's.
const (
	WhyEcho           = "echo"            // the parent's echo is in the request
	WhyPrefix         = "prefix"          // no messages are known: the longest id prefix decided
	WhyFirst          = "first"           // there was no turn before, but auxiliary ones
	WhyAskedAgain     = "asked_again"     // the same messages as an earlier turn's
	WhyAuxiliary      = "auxiliary"       // an auxiliary call with its own prompt
	WhySubAgent       = "sub_agent"       // it names a parent session, or a session that was not there before
	WhyTruncatedFront = "truncated_front" // it answers a tool call whose message is gone
	WhyRewritten      = "rewritten"       // where an answer stood, there is another assistant message
	WhyAnswerMissing  = "answer_missing"  // an earlier request goes on without its answer
	WhyCompaction     = "compaction"      // it begins as an earlier conversation did, and the rest was replaced
	WhyNewPrompt      = "new_prompt"      // another conversation
)

// Hints are what a call says about itself beside its messages.
type Hints struct {
	Class         Class
	Session       string
	ParentSession string
}

// Placement is where a new turn stands in the tree, in the words of [Turn].
type Placement struct {
	Parent, Nearest Seq
	Why             string
	Base            Seq
	Keep            int
}

// Place finds the parent of a request, or for a root the nearest turn and the reason. m is settled.
func (t *Tree) Place(m *Match, msgs []chat.Message, prompt []token.ID, h Hints) Placement {
	var p Placement
	if p.Parent = m.parent(); p.Parent != 0 {
		p.Why, p.Base = WhyEcho, p.Parent
	} else {
		p.Nearest, p.Why = t.root(m, msgs, h)
		p.Base = p.Nearest
	}
	if p.Base != 0 {
		p.Keep = t.Shared(p.Base, prompt)
	}
	return p
}

func (t *Tree) root(m *Match, msgs []chat.Message, h Hints) (nearest Seq, why string) {
	nearest = m.Base
	if h.Class != ClassAuxiliary && !t.acted {
		return nearest, WhyFirst
	}
	if same := t.whole[m.last]; same != 0 {
		return same, WhyAskedAgain
	}
	if h.Class == ClassAuxiliary {
		return nearest, WhyAuxiliary
	}
	for i := range msgs {
		if at, ok := t.calls[msgs[i].CallID]; ok && msgs[i].Role == chat.Tool {
			return at.seq, WhyTruncatedFront
		}
	}
	_, known := t.sessions[h.Session]
	if h.ParentSession != "" || h.Session != "" && !known && len(t.sessions) > 0 {
		if nearest == 0 {
			nearest = t.sessions[h.ParentSession]
		}
		return nearest, WhySubAgent
	}
	switch {
	case nearest == 0:
		return 0, WhyNewPrompt
	case t.whole[t.chainAt(m.Base, m.Keep)] != 0: // and the request goes on, else it would be the same
		if msgs[m.Keep].Role == chat.Assistant {
			return nearest, WhyRewritten
		}
		return nearest, WhyAnswerMissing
	case len(m.steps) > 0 || len(t.node(nearest).children) > 0:
		return nearest, WhyCompaction
	}
	return nearest, WhyNewPrompt
}
