package materialize

import "github.com/tito-rl/tito/internal/trajectory"

// Summary is what happened to continuity, for people and metrics. Counts of several trajectories add up with [Summary.Add].
// Every turn is an extend, a realign, a split or a root, those in no segment included.
type Summary struct {
	Turns    int            `json:"turns"`
	Segments int            `json:"segments"`
	Extends  int            `json:"extends"`
	Realigns int            `json:"realigns"`
	Splits   map[string]int `json:"splits"` // by reason
	Roots    map[string]int `json:"roots"`  // by reason; one of each trajectory's is its first
	Ledger   Ledger         `json:"ledger"`
}

// Summarize sums up a trajectory and the run that [Run] made of it with the same options.
func Summarize(t *trajectory.Tree, o Options, r *RolloutRun) Summary {
	s := Summary{Turns: t.Len(), Segments: len(r.Segments), Splits: map[string]int{}, Roots: map[string]int{}, Ledger: r.Ledger.clone()}
	p := planFor(t, policyOf(t, o))
	for i := range p.turns {
		switch c := p.turns[i].cont; c.Kind {
		case trajectory.Extend:
			s.Extends++
		case trajectory.Realign:
			s.Realigns++
		case trajectory.Split:
			s.Splits[c.Reason]++
		case trajectory.Root:
			s.Roots[c.Reason]++
		}
	}
	return s
}

// Add adds another summary to s. The zero Summary is a valid start.
func (s *Summary) Add(o Summary) {
	s.Turns += o.Turns
	s.Segments += o.Segments
	s.Extends += o.Extends
	s.Realigns += o.Realigns
	s.Splits = sum(s.Splits, o.Splits)
	s.Roots = sum(s.Roots, o.Roots)
	s.Ledger.Sampled += o.Ledger.Sampled
	s.Ledger.Trained += o.Ledger.Trained
	s.Ledger.Auxiliary += o.Ledger.Auxiliary
	s.Ledger.Masked = sum(s.Ledger.Masked, o.Ledger.Masked)
	s.Ledger.Discarded = sum(s.Ledger.Discarded, o.Ledger.Discarded)
}

// SplitCount is the number of splits, whatever their reason.
func (s *Summary) SplitCount() int {
	n := 0
	for _, c := range s.Splits {
		n += c
	}
	return n
}

// TrainableShare is trained ids per sampled id, 0 where nothing was sampled.
func (s *Summary) TrainableShare() float64 {
	if s.Ledger.Sampled == 0 {
		return 0
	}
	return float64(s.Ledger.Trained) / float64(s.Ledger.Sampled)
}

func (l Ledger) clone() Ledger {
	l.Masked, l.Discarded = sum(nil, l.Masked), sum(nil, l.Discarded)
	return l
}

func sum(a, b map[string]int) map[string]int {
	out := make(map[string]int, len(a)+len(b))
	for k, n := range a {
		out[k] = n
	}
	for k, n := range b {
		out[k] += n
	}
	return out
}
