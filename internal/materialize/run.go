// Package materialize makes training samples of a trajectory: tree + reward + policy -> RolloutRun.
//
// It is a pure function of facts and policy; spec/materialize.md states its rules. A segment's tokens are the checkpoint of
// its last turn, so that every id that trains stands behind exactly the ids that the engine consumed before it. The ledger
// accounts for every sampled id once. Both are checked on every run, and a run that breaks them is an error, never a sample.
// The package must not know trainers' formats, files or how a reward came about.
package materialize

import (
	"math"
	"slices"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Options is what a run is made of beside its tree.
type Options struct {
	Reward    *float64          // nil = not scored
	Advantage *float64          // nil = not known
	RunID     string            // "" = the header's
	Group     string            // "" = the header's
	Policy    trajectory.Policy // zero = the header's, in force while serving
}

// Run materializes a trajectory. The result owns its slices. The tree is only read. It fails with [fault.BadConfig] for a
// policy that is not known, [fault.RewardBad] for a reward or advantage that is not finite, and [fault.SessionInvariant]
// where a check of the result does not hold.
func Run(t *trajectory.Tree, o Options) (RolloutRun, error) {
	h := t.Header()
	r := RolloutRun{RunID: o.RunID, Trajectory: h.Trajectory, Group: o.Group, Reward: o.Reward, Advantage: o.Advantage}
	if r.RunID == "" {
		r.RunID = h.Run
	}
	if r.Group == "" {
		r.Group = h.Group
	}
	for _, v := range []*float64{o.Reward, o.Advantage} {
		if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
			return RolloutRun{}, fault.New(fault.RewardBad, "a reward or advantage of trajectory %s is %v", h.Trajectory, *v)
		}
	}
	pol := policyOf(t, o)
	if err := known(pol); err != nil {
		return RolloutRun{}, err
	}
	p := planFor(t, pol)
	if err := p.account(&r.Ledger); err != nil {
		return RolloutRun{}, err
	}
	for i := range p.chains {
		s, err := p.segment(i)
		switch {
		case err != nil:
			return RolloutRun{}, err
		case s.Trained == 0:
			r.Untrained++
		default:
			r.Segments = append(r.Segments, s)
		}
	}
	return r, r.close(len(p.turns))
}

func policyOf(t *trajectory.Tree, o Options) trajectory.Policy {
	if o.Policy == (trajectory.Policy{}) {
		return t.Header().Policy
	}
	return o.Policy
}

// known refuses a policy that this version does not follow: quietly doing something else would be worse.
func known(p trajectory.Policy) error {
	bad := ""
	switch {
	case p.Realign != "prefix" && p.Realign != "off":
		bad = "realign " + p.Realign
	case p.Refused != "train" && p.Refused != "discard":
		bad = "refused " + p.Refused
	case p.Subagents != "train" && p.Subagents != "context":
		bad = "subagents " + p.Subagents
	case p.KeepRewritten:
		bad = "keep_rewritten"
	case p.RealignMax < 0 || p.MaxContext < 0:
		bad = "a negative limit"
	default:
		return nil
	}
	return fault.New(fault.BadConfig, "the policy asks for %s, which this version does not follow", bad).
		WithFix("realign: prefix or off; refused: train or discard; subagents: train or context; keep_rewritten: false")
}

// close writes the run's totals into its segments and checks them against the ledger.
func (r *RolloutRun) close(turns int) error {
	trained := 0
	for i := range r.Segments {
		trained += r.Segments[i].Trained
	}
	if trained != r.Ledger.Trained {
		return fault.New(fault.SessionInvariant, "trajectory %s: the segments train %d ids, the ledger counts %d",
			r.Trajectory, trained, r.Ledger.Trained)
	}
	for i := range r.Segments {
		r.Segments[i].RunSamples, r.Segments[i].RunTrained = len(r.Segments), trained
	}
	switch {
	case len(r.Segments) > 0:
	case turns == 0:
		r.Nothing = NothingTurns
	case r.Ledger.Sampled == 0:
		r.Nothing = NothingSampled
	default:
		r.Nothing = NothingTrainable
	}
	return nil
}

// account fills the ledger: every sampled id once.
func (p *plan) account(l *Ledger) error {
	*l = Ledger{Masked: map[string]int{}, Discarded: map[string]int{}}
	family := p.t.Header().Model.Family
	for i := range p.turns {
		n := &p.turns[i]
		l.Sampled += len(n.Completion)
		switch n.fate.Kind {
		case trajectory.FateAuxiliary:
			l.Auxiliary += len(n.Completion)
			continue
		case trajectory.FateDiscarded:
			add(l.Discarded, n.fate.Reason, len(n.Completion))
			continue
		case trajectory.FateMasked:
			add(l.Masked, n.fate.Reason, n.kept)
		default:
			l.Trained += n.kept
		}
		for at := n.kept; at < len(n.Completion); at++ {
			add(l.Discarded, lostAs(n.Turn, at, family), 1)
		}
	}
	return l.Balance()
}

func add(m map[string]int, reason string, n int) {
	if n > 0 {
		m[reason] += n
	}
}

// lostAs says what kind of sampled id a realign lost.
func lostAs(n *trajectory.Turn, at int, family string) string {
	if family == "" {
		return trajectory.DropRealignOther
	}
	if n.Stop >= 0 && at == len(n.Completion)-1 {
		return trajectory.DropRealignStop
	}
	for _, c := range n.Reply.Calls {
		if c.Span.Start <= at && at < c.Span.End {
			return trajectory.DropRealignCall
		}
	}
	return trajectory.DropRealignOther
}

// segment builds segment i. Its tokens are its last turn's checkpoint.
func (p *plan) segment(i int) (Segment, error) {
	chain := p.chains[i]
	last := &p.turns[chain[len(chain)-1]]
	first := &p.turns[chain[0]]
	s := Segment{Tokens: p.t.Checkpoint(last.Seq), FinishReason: last.Finish, StartReason: first.cont.Reason}
	s.LossMask = make([]uint8, len(s.Tokens))
	s.Logprobs = make([]float32, len(s.Tokens))
	raw, haveRaw := make([]float32, len(s.Tokens)), true
	for k, at := range chain {
		n := &p.turns[at]
		kept := p.keptIn(chain, k)
		if !p.stands(s.Tokens, chain, k) {
			return s, fault.New(fault.SessionInvariant, "turn %d: its prompt is not what stands before it in its segment", n.Seq)
		}
		span := TurnSpan{Span: token.Span{Start: n.start, End: n.start + kept}, Turn: n.Seq, Kind: n.cont.Kind, Reason: n.cont.Reason,
			Sampled: len(n.Completion), Trains: n.owner == i && n.fate.Kind == trajectory.FateTrained, Truncated: n.TruncatedSupport()}
		switch {
		case span.Trains:
			if n.LogprobState() != trajectory.LogprobOK {
				return s, fault.New(fault.SessionInvariant, "turn %d would train with log probabilities that are %s", n.Seq, n.LogprobState())
			}
			for j := span.Start; j < span.End; j++ {
				s.LossMask[j] = 1
			}
			s.Trained += kept
			copy(s.Logprobs[span.Start:span.End], n.Logprobs)
			if haveRaw = haveRaw && trajectory.LogprobsOf(n.RawLogprobs, len(n.Completion)) == trajectory.LogprobOK; haveRaw {
				copy(raw[span.Start:span.End], n.RawLogprobs)
			}
		case n.fate.Kind == trajectory.FateAuxiliary:
			span.Why = string(trajectory.FateAuxiliary)
		case n.fate.Kind != trajectory.FateTrained:
			span.Why = n.fate.Reason
		default:
			span.Why = WhyShared
		}
		s.Turns = append(s.Turns, span)
		s.Versions = appendVersions(s.Versions, n.Versions, span.Span)
	}
	if haveRaw && s.Trained > 0 {
		s.RawLogprobs = raw
	}
	return s, nil
}

// stands is whether the prompt of a chain's k-th turn and the ids that are kept of its completion lie where they belong in
// tokens, given that those of the turn before it do. So a segment is checked in one pass.
func (p *plan) stands(tokens []token.ID, chain []int, k int) bool {
	n := &p.turns[chain[k]]
	kept := p.keptIn(chain, k)
	if n.start+kept > len(tokens) {
		return false
	}
	if k == 0 {
		return p.t.Shared(n.Seq, tokens) >= n.start+kept
	}
	before := &p.turns[chain[k-1]]
	return n.Base == before.Seq && n.Keep == before.start+p.keptIn(chain, k-1) &&
		slices.Equal(n.Suffix, tokens[n.Keep:n.start]) && slices.Equal(n.Completion[:kept], tokens[n.start:n.start+kept])
}

// appendVersions adds a completion's version spans, cut to what is kept of it, by position in the segment.
func appendVersions(out, versions []token.VersionSpan, kept token.Span) []token.VersionSpan {
	for _, v := range versions {
		v.Start, v.End = v.Start+kept.Start, min(v.End+kept.Start, kept.End)
		if v.Start < v.End {
			out = append(out, v)
		}
	}
	return out
}
