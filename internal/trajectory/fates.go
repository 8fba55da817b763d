package trajectory

// FateKind is what a turn's sampled ids come to, as far as facts and policy alone decide it. Which ids a realign loses, and
// in which segment a turn trains, is decided when segments are made.
type FateKind string

// The fates.
const (
	FateTrained   FateKind = "trained"
	FateMasked    FateKind = "masked"    // in its own segment with mask 0
	FateDiscarded FateKind = "discarded" // in no segment
	FateAuxiliary FateKind = "auxiliary"
)

// The closed list of reasons for masked and discarded ids. The logprob reasons are the values of [LogprobState]. Those
// below the line are decided by whoever makes segments.
const (
	MaskUnclassified  = "unclassified"
	MaskAmbiguous     = "ambiguous"
	DropRetry         = "retry_transport"
	DropRefused       = "refused"
	DropAborted       = "aborted"
	DropUndelivered   = "undelivered"
	DropContextOnly   = "context_only"
	DropContextLimit  = "context_limit"
	MaskRealignPolicy = "realign_policy" // ------
	DropRealignStop   = "realign_stop"
	DropRealignCall   = "realign_call"
	DropRealignOther  = "realign_other"
	DropTrimmedStop   = "trimmed_stop"
)

// Fate is one turn's.
type Fate struct {
	Kind   FateKind `json:"kind"`
	Reason string   `json:"reason,omitempty"`
	// Again is the turn that answered the same request again and went on instead of this one, or 0. A delivered answer that
	// was refused so trains by default.
	Again Seq `json:"again,omitempty"`
}

// Fates judges every turn under p; the result is indexed by Seq, entry 0 is unused. What discards a turn wins over what
// masks it. The cost is linear in the turns, and quadratic only in how often one and the same request was answered.
func Fates(t *Tree, p Policy) []Fate {
	lost, refused := t.askedAgain()
	fates := make([]Fate, len(t.nodes)+1)
	sub := t.subagents()
	for i := range t.nodes {
		n := &t.nodes[i]
		heard := n.echoed || len(n.children) > 0 // a child may be known by its ids alone
		f := Fate{Kind: FateDiscarded, Again: lost[n.Seq]}
		switch state := t.Delivery(n.Seq).State; {
		case n.Class == ClassAuxiliary:
			f.Kind = FateAuxiliary
		case lost[n.Seq] != 0:
			f.Reason = DropRetry
		case refused[n.Seq] != 0 && p.Refused == "discard":
			f.Reason, f.Again = DropRefused, refused[n.Seq]
		case !heard && state == DeliveryAborted:
			f.Reason = DropAborted
		case !heard && state == DeliveryUndelivered:
			f.Reason = DropUndelivered
		case sub[n.Seq] && p.Subagents == "context":
			f.Reason = DropContextOnly
		case p.MaxContext > 0 && n.promptLen+len(n.Completion) > p.MaxContext:
			f.Reason = DropContextLimit
		default:
			f.Again = refused[n.Seq]
			f.Kind, f.Reason = n.mask(heard, state)
		}
		fates[n.Seq] = f
	}
	return fates
}

// subagents says of each turn whether a sub-agent took it, by Seq. A sub-agent's conversation may begin again, when its first
// request is retried or its history compacted: then its session, or the parent session that it names, tells.
func (t *Tree) subagents() []bool {
	sub := make([]bool, len(t.nodes)+1)
	sessions := map[string]bool{"": false} // whether a session began as a sub-agent's
	for i := range t.nodes {
		n := &t.nodes[i]
		if n.Parent != 0 {
			sub[n.Seq] = sub[n.Parent]
		} else {
			sub[n.Seq] = n.Why == WhySubAgent || n.ParentSession != "" || sessions[n.Session]
		}
		if _, known := sessions[n.Session]; !known {
			sessions[n.Session] = sub[n.Seq]
		}
	}
	return sub
}

// mask is the fate of a turn that is not discarded.
func (n *node) mask(heard bool, state Delivery) (FateKind, string) {
	if s := n.LogprobState(); s != LogprobOK {
		return FateMasked, string(s)
	}
	switch {
	case n.Class == ClassUnclassified:
		return FateMasked, MaskUnclassified
	case !heard && state == DeliveryAmbiguous:
		return FateMasked, MaskAmbiguous
	}
	return FateTrained, ""
}

// LogprobState judges the turn's log probabilities. Under settings other than neutral ones, columns that are not those of
// the distribution sampled from do not count as the behaviour policy's.
func (n *Turn) LogprobState() LogprobState {
	if !n.Processed && !neutral(n) {
		return LogprobMissing
	}
	return LogprobsOf(n.Logprobs, len(n.Completion))
}

// TruncatedSupport is whether the settings kept some ids from being sampled, so that other weights may give ids a probability
// that these could not.
func (n *Turn) TruncatedSupport() bool {
	s := n.Sampling
	return s.TopP != 1 && s.TopP != 0 || s.TopK > 0 || s.MinP != 0
}

func neutral(n *Turn) bool {
	s := n.Sampling
	return s.Temperature == 1 && (s.TopP == 1 || s.TopP == 0) && s.TopK <= 0 && s.MinP == 0 &&
		s.PresencePenalty == 0 && s.FrequencyPenalty == 0 && (s.RepetitionPenalty == 1 || s.RepetitionPenalty == 0)
}

// askedAgain finds the turns that lost to another answer of the same request. lost: a transport retry, discarded.
// refused: the answer was delivered, and yet the same request came again and the later answer went on.
func (t *Tree) askedAgain() (lost, refused map[Seq]Seq) {
	lost, refused = map[Seq]Seq{}, map[Seq]Seq{}
	for i := range t.nodes {
		b := &t.nodes[i]
		for _, seq := range t.requests[b.request] {
			if seq >= b.Seq {
				break
			}
			a := t.node(seq)
			if a.Parent != b.Parent || lost[a.Seq] != 0 || a.Class != b.Class {
				continue
			}
			switch {
			case t.Retries(a.Seq, b.Turn):
				switch {
				case a.echoed && b.echoed: // both went on
				case a.echoed:
					lost[b.Seq] = a.Seq
				default:
					lost[a.Seq] = b.Seq
				}
			case !overlap(a.Turn, b.Turn) && !a.echoed && b.echoed:
				refused[a.Seq] = b.Seq
			}
			if lost[b.Seq] != 0 {
				break
			}
		}
	}
	return lost, refused
}

// Retries is whether turn b, which answers the same request under the same parent, is a transport retry of the earlier
// turn a: they share an idempotency key, or b's request counts its retries, or a's answer was not fully delivered and the
// two did not overlap in time.
func (t *Tree) Retries(a Seq, b *Turn) bool {
	was := t.node(a)
	if was.Idempotency != "" && was.Idempotency == b.Idempotency {
		return true
	}
	if overlap(was.Turn, b) {
		return false
	}
	return b.RetryCount > 0 || !was.echoed && t.Delivery(a).State != DeliveryDelivered
}

// overlap is whether b's request was there before a's answer was. Times that are unknown do not overlap.
func overlap(a, b *Turn) bool { return a.Ended != 0 && b.Started != 0 && b.Started < a.Ended }
