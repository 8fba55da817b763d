package verify

import (
	"slices"

	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// derived is what facts and policy make of a turn.
type derived struct {
	follows   string // extend, realign, or "" where a segment must begin
	outcome   string // "" = it may train, else a column of the ledger
	reason    string
	delegated bool // a sub-agent's
	in        bool // in a segment
	last      bool // of a segment
	home      int  // segment that it trains in, -1 = none
	kept      int  // ids of its completion that its home keeps
}

// The columns of the ledger that a turn's outcome can be.
const (
	masked    = "masked"
	discarded = "discarded"
	auxiliary = "auxiliary"
)

// sample is one segment, with one entry a token.
type sample struct {
	number   int // in order
	turns    []*turn
	tokens   []token.ID
	mask     []bool
	logprobs []float32
	trained  int
}

// derive makes the run from the facts and proves what must hold of it.
func (v *verifier) derive() error {
	v.outcomes()
	v.follow()
	v.samples = v.segments()
	v.homes()
	for i := range v.samples {
		if err := v.fillSample(i); err != nil {
			return err
		}
	}
	if err := v.once(); err != nil {
		return err
	}
	return v.ledger()
}

// follow decides for each turn with a parent whether a segment goes on from the parent into it.
func (v *verifier) follow() {
	for _, t := range v.turns {
		t.home = -1
		if t.Parent == 0 {
			continue
		}
		p := v.get(t.Parent)
		if p.reason == "context_limit" {
			continue // its segment has ended
		}
		lost := p.size - t.Keep
		switch {
		case lost == 0:
			t.follows = "extend"
		case v.pol.Realign == "prefix" && t.Keep > p.prompt && lost <= v.pol.RealignMax && v.faithful(t):
			t.follows = "realign"
		}
	}
}

// faithful is whether the harness sent the parent's answer back unchanged in meaning. Where no message led to the parent but
// its ids alone, nothing says otherwise.
func (v *verifier) faithful(t *turn) bool {
	if t.Why == "prefix" {
		return true
	}
	verdict, due := trajectory.EchoForeign, v.list[v.get(t.Parent).request].length
	for i := len(t.Echoes) - 1; i >= 0; i-- { // the first that is not before its due place; the last of those that all are
		if e := t.Echoes[i]; e.Turn == t.Parent && (e.Message >= due || verdict == trajectory.EchoForeign) {
			verdict = e.Verdict
		}
	}
	return verdict == trajectory.EchoExact || verdict == trajectory.EchoEquivalent
}

// outcomes decides what becomes of each turn's ids as far as the turn alone decides it.
func (v *verifier) outcomes() {
	v.again()
	opened := map[string]*turn{} // session -> the turn that it began with
	for _, t := range v.turns {
		first := opened[t.Session]
		switch {
		case t.Parent > 0:
			t.delegated = v.get(t.Parent).delegated
		case t.Why == "sub_agent", t.ParentSession != "":
			t.delegated = true
		case first != nil:
			t.delegated = first.delegated
		}
		if first == nil && t.Session != "" {
			opened[t.Session] = t
		}
		unheard := !t.echoed && !t.children
		switch {
		case t.Class == trajectory.ClassAuxiliary:
			t.outcome, t.reason = auxiliary, ""
		case t.outcome != "": // asked again
		case unheard && t.delivery == trajectory.DeliveryAborted:
			t.outcome, t.reason = discarded, "aborted"
		case unheard && t.delivery == trajectory.DeliveryUndelivered:
			t.outcome, t.reason = discarded, "undelivered"
		case t.delegated && v.pol.Subagents == "context":
			t.outcome, t.reason = discarded, "context_only"
		case v.pol.MaxContext > 0 && t.size > v.pol.MaxContext:
			t.outcome, t.reason = discarded, "context_limit"
		case t.logprobs != "":
			t.outcome, t.reason = masked, t.logprobs
		case t.Class == trajectory.ClassUnclassified:
			t.outcome, t.reason = masked, "unclassified"
		case unheard && (t.delivery == "" || t.delivery == trajectory.DeliveryAmbiguous):
			t.outcome, t.reason = masked, "ambiguous"
		}
	}
}

// again finds requests that came twice, and which answer lost.
func (v *verifier) again() {
	type request struct {
		parent          trajectory.Seq
		messages        int
		tools, settings trajectory.Hash
		class           trajectory.Class
	}
	answers := map[request][]*turn{}
	for _, b := range v.turns {
		k := request{b.Parent, b.request, b.Tools, b.Settings, b.Class}
		for _, a := range answers[k] {
			if a.reason == "retry_transport" {
				continue
			}
			switch {
			case retried(a, b):
				switch {
				case a.echoed && b.echoed:
				case a.echoed:
					b.outcome, b.reason = discarded, "retry_transport"
				default:
					a.outcome, a.reason = discarded, "retry_transport"
				}
			case v.pol.Refused == "discard" && !overlapped(a, b) && b.echoed && !a.echoed:
				a.outcome, a.reason = discarded, "refused"
			}
			if b.reason == "retry_transport" {
				break
			}
		}
		answers[k] = append(answers[k], b)
	}
}

// retried is whether b is another answer to the request that a answered because a was lost on the way.
func retried(a, b *turn) bool {
	if a.Idempotency != "" && a.Idempotency == b.Idempotency {
		return true
	}
	arrived := a.echoed || a.delivery == trajectory.DeliveryDelivered
	return !overlapped(a, b) && (b.RetryCount > 0 || !arrived)
}

// overlapped is whether b was asked for before a was answered, where both times are known.
func overlapped(a, b *turn) bool { return b.Started != 0 && a.Ended != 0 && a.Ended > b.Started }

// segments lists the chains of turns that train as one sequence, in the order of their turns.
func (v *verifier) segments() []*sample {
	goesOn := make([]bool, len(v.turns))
	for i := len(v.turns) - 1; i >= 0; i-- {
		t := v.turns[i]
		aside := t.outcome == discarded || t.outcome == auxiliary
		t.in = t.reason != "context_limit" && (goesOn[i] || !aside)
		t.last = t.in && !goesOn[i]
		if t.in && t.follows != "" {
			goesOn[t.Parent-1] = true
		}
	}
	var out []*sample
	for _, t := range v.turns {
		if !t.last {
			continue
		}
		s := &sample{turns: []*turn{t}}
		for t.follows != "" {
			t = v.get(t.Parent)
			s.turns = append(s.turns, t)
		}
		slices.Reverse(s.turns)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *sample) int {
		return slices.CompareFunc(a.turns, b.turns, func(x, y *turn) int { return int(x.Seq) - int(y.Seq) })
	})
	return out
}

// keeps is how many ids of the completion of its k-th turn a sample keeps.
func (s *sample) keeps(k int) int {
	t := s.turns[k]
	if k+1 < len(s.turns) {
		return min(s.turns[k+1].Keep-t.prompt, len(t.Completion))
	}
	return len(t.Completion)
}

// homes chooses for each turn the one segment that it trains in.
func (v *verifier) homes() {
	for i, s := range v.samples {
		s.number = i
		for k, t := range s.turns {
			if n := s.keeps(k); t.home < 0 || n > t.kept {
				t.home, t.kept = i, n
			}
		}
	}
}

// fillSample builds a sample turn by turn, as a trainer would see it grow, and compares it with the ids that the engine
// consumed and sampled for its last turn.
func (v *verifier) fillSample(i int) error {
	v.begin(ClaimSegments)
	s := v.samples[i]
	for k, t := range s.turns {
		if k == 0 {
			s.add(v.promptOf(t), nil)
		} else {
			if t.Base != s.turns[k-1].Seq || t.Keep > len(s.tokens) {
				return v.fail(t.Seq, t.Keep, "segment %d: it does not go on from turn %d", i, s.turns[k-1].Seq)
			}
			s.cut(t.Keep)
			s.add(t.Suffix, nil)
		}
		var logprobs []float32
		if t.home == i && t.outcome == "" {
			logprobs = t.Logprobs
			if len(logprobs) != len(t.Completion) {
				return v.fail(t.Seq, -1, "segment %d: %d ids would train with %d log probabilities", i, len(t.Completion), len(logprobs))
			}
		}
		s.add(t.Completion, logprobs)
		v.count(1)
	}
	if !slices.Equal(s.tokens, v.checkpoint(s.turns[len(s.turns)-1])) {
		return v.fail(s.turns[len(s.turns)-1].Seq, -1, "segment %d is not its last turn's checkpoint", i)
	}
	for _, m := range s.mask {
		if m {
			s.trained++
		}
	}
	if s.trained > 0 {
		v.rep.Segments++
	}
	return nil
}

// add appends ids that train with their log probabilities, or, where there are none, that do not.
func (s *sample) add(ids []token.ID, logprobs []float32) {
	n := len(s.tokens) + len(ids)
	s.tokens = append(s.tokens, ids...)
	s.logprobs = append(s.logprobs, logprobs...)
	for range len(ids) {
		s.mask = append(s.mask, logprobs != nil)
	}
	for len(s.logprobs) < n {
		s.logprobs = append(s.logprobs, 0)
	}
}

func (s *sample) cut(n int) {
	n = min(n, len(s.tokens))
	s.tokens, s.mask, s.logprobs = s.tokens[:n], s.mask[:n], s.logprobs[:n]
}

// once proves that no sampled id trains twice: the trained ids of all samples, by owner, are those of the turns' homes.
func (v *verifier) once() error {
	v.begin(ClaimOnce)
	trained := make(map[trajectory.Seq]int)
	for i, s := range v.samples {
		for k, t := range s.turns {
			n := 0
			for at := t.prompt; at < t.prompt+s.keeps(k); at++ {
				if s.mask[at] {
					n++
				}
			}
			if n > 0 && trained[t.Seq] > 0 {
				return v.fail(t.Seq, i, "its ids train in two segments")
			}
			trained[t.Seq] += n
		}
		v.count(s.trained)
	}
	for _, t := range v.turns {
		v.rep.Ledger.Trained += trained[t.Seq]
	}
	return nil
}

// ledger counts what became of each sampled id, one by one, and proves that the columns add up.
func (v *verifier) ledger() error {
	v.begin(ClaimLedger)
	l := &v.rep.Ledger
	family := v.file.Header.Model.Family
	for _, t := range v.turns {
		l.Sampled += len(t.Completion)
		for at := range t.Completion {
			switch {
			case t.outcome == auxiliary:
				l.Auxiliary++
			case t.outcome == discarded:
				l.Discarded[t.reason]++
			case at >= t.kept:
				l.Discarded[lostTo(t, at, family)]++
			case t.outcome == masked:
				l.Masked[t.reason]++
			}
		}
	}
	if sum := l.Trained + l.Auxiliary + total(l.Masked) + total(l.Discarded); sum != l.Sampled {
		return v.fail(0, -1, "%d ids were sampled and %d are accounted for", l.Sampled, sum)
	}
	v.count(l.Sampled)
	return nil
}

// lostTo names the kind of an id that a realign left out.
func lostTo(t *turn, at int, family string) string {
	if family != "" {
		if t.Stop != -1 && at+1 == len(t.Completion) {
			return "realign_stop"
		}
		for _, c := range t.Reply.Calls {
			if at >= c.Span.Start && at < c.Span.End {
				return "realign_call"
			}
		}
	}
	return "realign_other"
}

func total(m map[string]int) (n int) {
	for _, c := range m {
		n += c
	}
	return n
}

// owner is the turn whose prompt or completion holds position at.
func (s *sample) owner(at int) trajectory.Seq {
	for _, t := range s.turns {
		if at < t.size {
			return t.Seq
		}
	}
	return 0
}
