package materialize

import (
	"slices"

	"github.com/tito-rl/tito/internal/trajectory"
)

// plan is a trajectory under a policy: which turns make which segments, and which turn trains where.
type plan struct {
	t      *trajectory.Tree
	turns  []turn  // turns[seq-1]
	chains [][]int // segments, as indexes into turns; in the order of their turns' numbers, compared turn by turn
}

// turn is one turn under the policy.
type turn struct {
	*trajectory.Turn
	cont  trajectory.Continuity
	fate  trajectory.Fate
	start int  // of its completion: the length of its prompt
	aside bool // in no segment
	goes  bool // some turn that is not set aside goes on from it
	owner int  // segment that owns its ids, -1 = none
	kept  int  // ids of its completion that its owner keeps
}

func planFor(t *trajectory.Tree, pol trajectory.Policy) *plan {
	p := &plan{t: t, turns: make([]turn, t.Len())}
	fates := trajectory.Fates(t, pol)
	for i, n := range t.Turns() {
		p.turns[i] = turn{Turn: n, cont: trajectory.Continue(t, n.Seq, pol), fate: fates[n.Seq], start: t.PromptLen(n.Seq), owner: -1}
		// A turn over the context limit has ended its segment.
		if c := &p.turns[i].cont; n.Parent != 0 && fates[n.Parent].Reason == trajectory.DropContextLimit && c.Kind != trajectory.Split {
			*c = trajectory.Continuity{Kind: trajectory.Split, Reason: trajectory.DropContextLimit, First: c.First}
		}
	}
	p.setAside()
	p.findChains()
	p.findOwners()
	return p
}

// continues is whether a turn goes on from its parent in one segment.
func (n *turn) continues() bool {
	return n.cont.Kind == trajectory.Extend || n.cont.Kind == trajectory.Realign
}

// setAside leaves out what is in no segment: discarded and auxiliary turns from which nothing goes on that is in one. Nothing
// goes on from a turn over the context limit. Children have higher numbers than their parents, so one pass from the end does.
func (p *plan) setAside() {
	for i := len(p.turns) - 1; i >= 0; i-- {
		n := &p.turns[i]
		if n.fate.Kind == trajectory.FateDiscarded || n.fate.Kind == trajectory.FateAuxiliary {
			n.aside = !n.goes
		}
		if !n.aside && n.continues() {
			p.turns[n.Parent-1].goes = true
		}
	}
}

// findChains runs back from each turn that ends a segment to where the segment began.
func (p *plan) findChains() {
	for i := range p.turns {
		if p.turns[i].aside || p.turns[i].goes {
			continue
		}
		chain := []int{i}
		for at := &p.turns[i]; at.continues(); at = &p.turns[at.Parent-1] {
			chain = append(chain, int(at.Parent)-1)
		}
		slices.Reverse(chain)
		p.chains = append(p.chains, chain)
	}
	slices.SortFunc(p.chains, slices.Compare[[]int])
}

// findOwners gives each turn to the segment that keeps most of its completion; among equals to the first, which is the one
// whose next turn came first.
func (p *plan) findOwners() {
	for i, chain := range p.chains {
		for k, at := range chain {
			n := &p.turns[at]
			if kept := p.keptIn(chain, k); n.owner < 0 || kept > n.kept {
				n.owner, n.kept = i, kept
			}
		}
	}
}

// keptIn counts the ids of the completion of a chain's k-th turn that the segment keeps: all, unless the next turn realigns.
func (p *plan) keptIn(chain []int, k int) int {
	n := &p.turns[chain[k]]
	if k+1 < len(chain) {
		if next := p.turns[chain[k+1]].cont; next.Kind == trajectory.Realign {
			return next.First - n.start
		}
	}
	return len(n.Completion)
}
