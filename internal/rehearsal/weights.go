package rehearsal

import (
	"math"
	"slices"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// Weights is the policy at one version of its parameters.
type Weights struct {
	policy  *Policy
	version string
	theta   []float64
}

// At binds the policy to parameters. They must be those of this policy's book: the same names in the same order, each
// finite; else it is a [fault.CheckpointBad].
func (p *Policy) At(params Params) (*Weights, error) {
	if !slices.Equal(params.Names, p.names) || len(params.Theta) != len(p.names) {
		return nil, fault.New(fault.CheckpointBad, "the parameters %q are of another rehearsal book", params.Version).
			WithFix("start from the book's own parameters, or restore the book")
	}
	for i, t := range params.Theta {
		if math.IsNaN(t) || math.IsInf(t, 0) {
			return nil, fault.New(fault.CheckpointBad, "parameter %s of %q is %v", p.names[i], params.Version, t)
		}
	}
	return &Weights{policy: p, version: params.Version, theta: slices.Clone(params.Theta)}, nil
}

// Version is the label of the parameters.
func (w *Weights) Version() string { return w.version }

// Policy is what the parameters belong to.
func (w *Weights) Policy() *Policy { return w.policy }

// Params gives a copy of the parameters.
func (w *Weights) Params() Params {
	return Params{Version: w.version, Names: w.policy.names, Theta: slices.Clone(w.theta)}
}

// Next samples the id after sofar with u, uniform in [0, 1). The last result is false where the completion is whole, and
// the error a [fault.TrainerMismatch] where sofar is not a completion's beginning.
func (w *Weights) Next(prompt, sofar []token.ID, u float64) (token.ID, float64, bool, error) {
	c := w.Start(w.policy.State(prompt))
	if err := c.follow(sofar, nil); err != nil {
		return 0, 0, false, err
	}
	id, lp, ok := c.Next(u)
	return id, lp, ok, nil
}

// Logprobs gives the log probability of each id of a completion, or of its beginning. Ids that the policy cannot sample
// are a [fault.TrainerMismatch].
func (w *Weights) Logprobs(prompt, completion []token.ID) ([]float64, error) {
	return w.LogprobsIn(w.policy.State(prompt), completion)
}

// LogprobsIn is Logprobs for a state already read.
func (w *Weights) LogprobsIn(s State, completion []token.ID) ([]float64, error) {
	out := make([]float64, 0, len(completion))
	c := w.Start(s)
	err := c.follow(completion, func(lp float64) { out = append(out, lp) })
	return out, err
}

// Check recomputes the log probabilities of the ids of span and compares them, bit for bit, with those that an engine
// reported, one an id of the completion. A difference is a [fault.TrainerMismatch] that names the id.
func (w *Weights) Check(prompt, completion []token.ID, reported []float32, span token.Span) error {
	if len(reported) != len(completion) || span.Start < 0 || span.Start > span.End || span.End > len(completion) {
		return fault.New(fault.TrainerMismatch, "%d log probabilities for %d ids, span %d to %d", len(reported), len(completion), span.Start, span.End)
	}
	lps, err := w.Logprobs(prompt, completion[:span.End])
	if err != nil {
		return err
	}
	for i := span.Start; i < span.End; i++ {
		if math.Float32bits(float32(lps[i])) != math.Float32bits(reported[i]) {
			return fault.New(fault.TrainerMismatch, "id %d of the completion, %d: log probability %v reported, %v under version %q",
				i, completion[i], reported[i], float32(lps[i]), w.version)
		}
	}
	return nil
}

// Grad adds to into the gradient of Σ scale[t]·log p(completion[t]) by the parameters. Scale has one entry an id; into has
// one a parameter.
func (w *Weights) Grad(prompt, completion []token.ID, scale, into []float64) error {
	return w.GradIn(w.policy.State(prompt), completion, scale, into)
}

// GradIn is Grad for a state already read.
func (w *Weights) GradIn(s State, completion []token.ID, scale, into []float64) error {
	if len(scale) != len(completion) || len(into) != len(w.theta) {
		return fault.New(fault.TrainerFailed, "gradient of %d ids by %d parameters: got %d scales and room for %d",
			len(completion), len(w.theta), len(scale), len(into))
	}
	c := w.Start(s)
	for t, id := range completion {
		lo, hi := c.lo, c.hi
		if _, ok := c.Take(id); !ok {
			return offPath(t, id)
		}
		if scale[t] == 0 || (lo == c.lo && hi == c.hi) {
			continue
		}
		c.addShare(c.lo, c.hi, scale[t], into)
		c.addShare(lo, hi, -scale[t], into)
	}
	return nil
}

// addShare adds scale times the softmax of the paths [lo, hi) to their parameters.
func (c *Cursor) addShare(lo, hi int, scale float64, into []float64) {
	top, sum := c.mass(lo, hi)
	for _, q := range c.paths[lo:hi] {
		into[q.theta] += scale * math.Exp(c.w.theta[q.theta]-top) / sum
	}
}

// Share is the probability of one reply of a state.
type Share struct {
	Reply string // name of its parameter
	P     float64
}

// Shares lists the replies of a state with their probabilities, in the book's order.
func (w *Weights) Shares(s State) []Share {
	c := w.Start(s)
	top, sum := c.mass(0, len(c.paths))
	out := make([]Share, 0, len(c.paths))
	paths := slices.Clone(c.paths)
	slices.SortFunc(paths, func(a, b path) int { return a.theta - b.theta })
	for _, q := range paths {
		out = append(out, Share{w.policy.names[q.theta], math.Exp(w.theta[q.theta]-top) / sum})
	}
	return out
}

// Cursor walks one completion id by id. It is not safe for concurrent use.
type Cursor struct {
	w      *Weights
	paths  []path
	lo, hi int // the replies that are still possible
	depth  int
}

// Start begins a completion in a state.
func (w *Weights) Start(s State) Cursor {
	paths := w.policy.nodes[s.node].paths
	return Cursor{w: w, paths: paths, hi: len(paths)}
}

// Swap goes on under other weights of the same policy.
func (c *Cursor) Swap(w *Weights) { c.w = w }

// Done is whether the completion is whole; cut says that it ended by length instead of by a stop.
func (c *Cursor) Done() (done, cut bool) {
	q := &c.paths[c.lo]
	return c.depth == len(q.ids), q.cut
}

// Next samples the next id with u, uniform in [0, 1), and its natural log probability. It is false where the completion is
// whole.
func (c *Cursor) Next(u float64) (token.ID, float64, bool) {
	if done, _ := c.Done(); done {
		return 0, 0, false
	}
	if c.sure() {
		c.depth++
		return c.paths[c.lo].ids[c.depth-1], 0, true
	}
	top, total := c.mass(c.lo, c.hi)
	goal, seen := u*total, 0.0
	var from, to int
	for from = c.lo; ; from = to {
		to = c.child(from)
		for _, q := range c.paths[from:to] {
			seen += math.Exp(c.w.theta[q.theta] - top)
		}
		if seen > goal || to == c.hi {
			break
		}
	}
	id := c.paths[from].ids[c.depth]
	return id, c.enter(from, to), true
}

// Take follows an id that was sampled and gives its log probability. It is false where the policy cannot sample id here.
func (c *Cursor) Take(id token.ID) (float64, bool) {
	if done, _ := c.Done(); done {
		return 0, false
	}
	if c.sure() {
		if c.paths[c.lo].ids[c.depth] != id {
			return 0, false
		}
		c.depth++
		return 0, true
	}
	for from := c.lo; from < c.hi; {
		to := c.child(from)
		if c.paths[from].ids[c.depth] == id {
			return c.enter(from, to), true
		}
		from = to
	}
	return 0, false
}

// sure is whether one id alone can follow. The paths are sorted, so the first and the last decide.
func (c *Cursor) sure() bool { return c.paths[c.lo].ids[c.depth] == c.paths[c.hi-1].ids[c.depth] }

// child is the end of the paths that share the next id of path from.
func (c *Cursor) child(from int) int {
	id := c.paths[from].ids[c.depth]
	to := from + 1
	for to < c.hi && c.paths[to].ids[c.depth] == id {
		to++
	}
	return to
}

// enter goes down to the child [from, to) and gives the log of its share.
func (c *Cursor) enter(from, to int) float64 {
	lo, hi := c.lo, c.hi
	c.lo, c.hi, c.depth = from, to, c.depth+1
	topC, sumC := c.mass(from, to)
	topN, sumN := c.mass(lo, hi)
	return min(0, (topC-topN)+(math.Log(sumC)-math.Log(sumN)))
}

// mass gives the highest logit of the paths [lo, hi) and the sum of exp(logit - highest), which is at least 1.
func (c *Cursor) mass(lo, hi int) (top, sum float64) {
	top = math.Inf(-1)
	for _, q := range c.paths[lo:hi] {
		top = max(top, c.w.theta[q.theta])
	}
	for _, q := range c.paths[lo:hi] {
		sum += math.Exp(c.w.theta[q.theta] - top)
	}
	return top, sum
}

func (c *Cursor) follow(ids []token.ID, each func(float64)) error {
	for t, id := range ids {
		lp, ok := c.Take(id)
		if !ok {
			return offPath(t, id)
		}
		if each != nil {
			each(lp)
		}
	}
	return nil
}

func offPath(t int, id token.ID) error {
	return fault.New(fault.TrainerMismatch, "id %d of the completion, %d, is not one that the rehearsal policy can sample there", t, id)
}
