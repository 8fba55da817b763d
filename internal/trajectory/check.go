package trajectory

import (
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// check is what Add demands of a turn: that its references, counts and ids fit the tree. It judges no policy.
func (t *Tree) check(n *Turn) error {
	broken := func(format string, args ...any) error {
		e := fault.New(fault.SessionInvariant, format, args...)
		e.Msg = "turn " + itoa(int(n.Seq)) + ": " + e.Msg
		return e
	}
	switch {
	case t.end != nil:
		return broken("it comes after the end")
	case int(n.Seq) != len(t.nodes)+1:
		return broken("its number should be %d", len(t.nodes)+1)
	case n.Parent >= n.Seq || n.Nearest >= n.Seq || n.Base >= n.Seq || n.MsgBase >= n.Seq:
		return broken("it refers to a turn that is not before it")
	case n.Parent != 0 && (n.Nearest != 0 || n.Base != n.Parent):
		return broken("a turn with a parent counts on its parent's checkpoint alone")
	case n.Parent == 0 && n.Base != 0 && n.Base != n.Nearest:
		return broken("a root counts on its nearest turn's checkpoint or on none")
	}
	if err := t.checkPrompt(n, broken); err != nil {
		return err
	}
	if err := checkWords(n, broken); err != nil {
		return err
	}
	if err := checkCompletion(t.header.VocabSize, n, broken); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, c := range n.Reply.Calls {
		if c.ID == "" {
			continue
		}
		if _, ok := t.calls[c.ID]; ok || seen[c.ID] {
			return broken("tool-call id %q is not unique", c.ID)
		}
		seen[c.ID] = true
	}
	for _, e := range n.Echoes {
		if e.Turn >= n.Seq || e.Message < 0 || e.Message >= n.MsgKeep+len(n.MsgNew) || (e.Turn == 0) != (e.Verdict == EchoForeign) {
			return broken("the echo at message %d does not fit", e.Message)
		}
	}
	return nil
}

type breaker func(format string, args ...any) error

func (t *Tree) checkPrompt(n *Turn, broken breaker) error {
	size := 0
	if n.Base != 0 {
		size = t.CheckpointLen(n.Base)
	}
	if n.Keep < 0 || n.Keep > size {
		return broken("it keeps %d of %d ids", n.Keep, size)
	}
	if n.Keep < size && len(n.Suffix) > 0 && t.idAt(n.Base, n.Keep) == n.Suffix[0] {
		return broken("it shares more than the %d ids that it keeps", n.Keep)
	}
	if vocab := t.header.VocabSize; vocab > 0 {
		if i := outside(n.Suffix, vocab); i >= 0 {
			return broken("prompt id %d is outside the vocabulary", n.Suffix[i])
		}
	}
	size = 0
	if n.MsgBase != 0 {
		size = t.node(n.MsgBase).messages
	}
	if n.MsgKeep < 0 || n.MsgKeep > size {
		return broken("it keeps %d of %d messages", n.MsgKeep, size)
	}
	return nil
}

func (t *Tree) idAt(seq Seq, i int) (id token.ID) {
	for {
		n := t.node(seq)
		switch {
		case i >= n.promptLen:
			return n.Completion[i-n.promptLen]
		case i >= n.Keep:
			return n.Suffix[i-n.Keep]
		}
		seq = n.Base
	}
}

func checkWords(n *Turn, broken breaker) error {
	switch n.Class {
	case ClassPolicy, ClassAuxiliary, ClassUnclassified:
	default:
		return broken("its class is %q", n.Class)
	}
	switch n.Finish {
	case FinishStop, FinishLength, FinishAbort, FinishError:
	default:
		return broken("its finish is %q", n.Finish)
	}
	switch n.Prompt {
	case PromptEchoed, PromptReported, PromptSent:
	default:
		return broken("how its prompt is known is %q", n.Prompt)
	}
	for _, e := range n.Echoes {
		switch e.Verdict {
		case EchoExact, EchoEquivalent, EchoRewritten, EchoForeign:
		default:
			return broken("an echo's verdict is %q", e.Verdict)
		}
	}
	return nil
}

func checkCompletion(vocab int, n *Turn, broken breaker) error {
	size := len(n.Completion)
	if vocab > 0 {
		if i := outside(n.Completion, vocab); i >= 0 {
			return broken("completion id %d is outside the vocabulary", n.Completion[i])
		}
	}
	if n.Stop < -1 || n.Stop >= 0 && (size == 0 || int64(n.Completion[size-1]) != n.Stop) {
		return broken("its last id is not the stop id %d", n.Stop)
	}
	at := 0
	for _, v := range n.Versions {
		if v.Start != at || v.End <= v.Start || v.End > size {
			return broken("its policy versions do not cover the completion in order")
		}
		at = v.End
	}
	if len(n.Versions) > 0 && at != size {
		return broken("its policy versions end at %d of %d", at, size)
	}
	for _, c := range n.Reply.Calls {
		if c.Span.Start < 0 || c.Span.End < c.Span.Start || c.Span.End > size {
			return broken("a tool call lies outside the completion")
		}
	}
	return nil
}

func outside(ids []token.ID, vocab int) int {
	for i, id := range ids {
		if uint64(id) >= uint64(vocab) {
			return i
		}
	}
	return -1
}
