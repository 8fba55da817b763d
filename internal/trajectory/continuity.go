package trajectory

// Reasons of a continuity; for a root the reason is the turn's Why. For split they decide nothing, they explain; an extend
// may carry one too, where something changed that the ids did not show.
const (
	ReasonHistoryRewritten = "history_rewritten" // the echo of the parent, or an earlier one, was changed in meaning
	ReasonContractChanged  = "contract_changed"  // tools or template settings
	ReasonTokenDrift       = "token_drift"       // the same messages, rendered to other ids than were sampled
	ReasonPrefixEdited     = "prefix_edited"     // an earlier system, user or tool message was changed
	ReasonTruncatedFront   = "truncated_front"   // earlier messages were left out
	ReasonTruncatedTurn    = "truncated_turn"    // the parent's completion was cut
)

// Continue says how turn seq follows its parent under p. It reads facts and policy only. Where the ids decide the cost is
// constant; the reason for a split may cost as much as the two requests have messages.
func Continue(t *Tree, seq Seq, p Policy) Continuity {
	n := t.node(seq)
	if n.Parent == 0 {
		return Continuity{Kind: Root, Reason: n.Why}
	}
	parent := t.node(n.Parent)
	size := t.CheckpointLen(n.Parent)
	c := Continuity{First: n.Keep}
	echo, found := n.parentEcho(parent)
	kept := n.Why == WhyPrefix || found && (echo.Verdict == EchoExact || echo.Verdict == EchoEquivalent)
	switch {
	case n.Keep == size:
		c.Kind, c.Reason = Extend, t.explain(n, parent, kept)
	case kept && realigns(p, n.Keep-parent.promptLen, size-n.Keep):
		c.Kind, c.Lost, c.Reason = Realign, size-n.Keep, t.explain(n, parent, kept)
	default:
		c.Kind, c.Reason = Split, t.whySplit(n, parent, kept)
	}
	return c
}

// realigns is the one decision that a named policy makes: whether a prompt that leaves its parent's last completion after
// kept sampled ids, so that lost ones go, still belongs to the same segment.
func realigns(p Policy, kept, lost int) bool {
	switch p.Realign {
	case "prefix":
		return kept >= 1 && lost <= p.RealignMax
	}
	return false // off
}

// parentEcho is the echo of the parent, which a turn always records. Where the request holds several, it is the one that
// stands where the parent's request ended, or the next after that: the others are no part of the parent's checkpoint.
func (n *node) parentEcho(parent *node) (echo Echo, found bool) {
	for _, e := range n.Echoes {
		if e.Turn == n.Parent {
			echo, found = e, true
			if e.Message >= parent.messages {
				break
			}
		}
	}
	return echo, found
}

// explain names what changed although the ids go on.
func (t *Tree) explain(n, parent *node, kept bool) string {
	switch {
	case !kept:
		return ReasonHistoryRewritten
	case contractChanged(n, parent):
		return ReasonContractChanged
	case cut(parent):
		return ReasonTruncatedTurn
	}
	return ""
}

func (t *Tree) whySplit(n, parent *node, kept bool) string {
	if n.Keep >= parent.promptLen { // in the parent's completion
		switch {
		case !kept:
			return ReasonHistoryRewritten
		case cut(parent):
			return ReasonTruncatedTurn
		}
		return ReasonTokenDrift
	}
	if contractChanged(n, parent) {
		return ReasonContractChanged
	}
	return t.whyPrompt(n, parent)
}

// whyPrompt compares the messages of the two requests: which was the first that differs?
func (t *Tree) whyPrompt(n, parent *node) string {
	now, was := t.Messages(n.Seq), t.Messages(parent.Seq)
	verdicts := map[int]Verdict{}
	for _, e := range t.Echoes(n.Seq) {
		verdicts[e.Message] = e.Verdict
	}
	for i := range was {
		if i < len(now) && now[i] == was[i] {
			continue
		}
		if i < len(now) {
			switch verdicts[i] {
			case EchoExact, EchoEquivalent:
				if e, ok := t.echoAt(parent.Seq, i); ok && (e.Verdict == EchoExact || e.Verdict == EchoEquivalent) {
					continue // another spelling of the same
				}
			case EchoRewritten:
				return ReasonHistoryRewritten
			case EchoForeign:
				if _, ok := t.echoAt(parent.Seq, i); ok {
					return ReasonHistoryRewritten
				}
			}
		}
		if echo, ok := n.parentEcho(parent); ok && echo.Message == i || frontCut(now, was, i) {
			return ReasonTruncatedFront
		}
		return ReasonPrefixEdited
	}
	return ReasonTokenDrift
}

// frontCut is whether message i of was and some after it were left out, and the rest follows.
func frontCut(now, was []Hash, i int) bool {
	if i >= len(now) {
		return true
	}
	for j := i + 1; j < len(was); j++ {
		if was[j] == now[i] {
			return true
		}
	}
	return false
}

// Echoes lists the echoes of all assistant messages of seq's request, those of the messages that it shares with earlier
// requests included, in order of messages.
func (t *Tree) Echoes(seq Seq) []Echo {
	var parts [][]Echo
	limit := t.node(seq).messages
	for limit > 0 {
		n := t.node(seq)
		var own []Echo
		for _, e := range n.Echoes {
			if e.Message >= n.MsgKeep && e.Message < limit {
				own = append(own, e)
			}
		}
		parts = append(parts, own)
		limit, seq = min(limit, n.MsgKeep), n.MsgBase
	}
	var out []Echo
	for i := len(parts) - 1; i >= 0; i-- {
		out = append(out, parts[i]...)
	}
	return out
}

func (t *Tree) echoAt(seq Seq, message int) (Echo, bool) {
	for {
		n := t.node(seq)
		if message >= n.MsgKeep {
			for _, e := range n.Echoes {
				if e.Message == message {
					return e, true
				}
			}
			return Echo{}, false
		}
		seq = n.MsgBase
	}
}

func contractChanged(n, parent *node) bool {
	return n.Tools != parent.Tools || n.Settings != parent.Settings
}

func cut(n *node) bool { return n.Finish != FinishStop }
