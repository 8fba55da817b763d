package verify_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

const stopID = 2

// world makes random trajectories with every behaviour that changes what a run is: branches, rewrites, retries, faults.
type world struct {
	t testing.TB
	r *rand.Rand
	w *artifact.Writer

	out   []byte
	turns []*trajectory.Turn
	full  [][]token.ID // checkpoints
	plen  []int
	ended int64
}

func randomArtifact(t testing.TB, seed uint64) (*world, []byte) {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 42)), w: artifact.NewWriter()}
	h := trajectory.Header{Identities: trajectory.Identities{Trajectory: fmt.Sprint("trj_", seed), Run: "run", Group: "g"},
		Custody: "host", Prompt: "full_history", RenderBy: "tito", Policy: w.policy(), VocabSize: 50, Stops: []token.ID{stopID}}
	if w.chance(5, 6) {
		h.Model.Family = "tito"
	}
	w.add(w.w.Header(h))
	for range 1 + w.r.IntN(14) {
		w.turn()
	}
	w.add(w.w.End(trajectory.End{Reason: "finished", At: 1}))
	return w, w.out
}

func (w *world) chance(n, of int) bool { return w.r.IntN(of) < n }

func (w *world) policy() trajectory.Policy {
	p := trajectory.DefaultPolicy()
	p.RealignMax = []int{0, 2, 128}[w.r.IntN(3)]
	p.Realign = []string{"prefix", "prefix", "off"}[w.r.IntN(3)]
	p.Refused = []string{"train", "discard"}[w.r.IntN(2)]
	p.Subagents = []string{"train", "context"}[w.r.IntN(2)]
	p.MaxContext = []int{0, 0, 25, 40}[w.r.IntN(4)]
	return p
}

func (w *world) add(b []byte, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	w.out = append(w.out, b...)
}

func (w *world) blob(s string) trajectory.Hash {
	b, h, err := w.w.Blob([]byte(s))
	w.add(b, err)
	return h
}

func (w *world) ids(n int) []token.ID {
	out := make([]token.ID, n)
	for i := range out {
		out[i] = token.ID(3 + w.r.IntN(47))
	}
	return out
}

func (w *world) turn() {
	n := &trajectory.Turn{Seq: trajectory.Seq(len(w.turns) + 1), Prompt: trajectory.PromptEchoed, Sampling: chat.Neutral(), Processed: true,
		Finish: trajectory.FinishStop, Stop: -1, Class: trajectory.ClassPolicy, Why: "first"}
	n.Call = fmt.Sprint("call", n.Seq)
	if w.chance(1, 2) {
		n.Idempotency = fmt.Sprint("key", n.Seq)
	}
	if w.chance(1, 8) {
		n.Class = []trajectory.Class{trajectory.ClassAuxiliary, trajectory.ClassUnclassified}[w.r.IntN(2)]
	}
	prompt := w.prompt(n)
	n.Completion = w.ids(1 + w.r.IntN(5))
	if w.chance(3, 4) {
		n.Completion = append(n.Completion, stopID)
		n.Stop = stopID
	} else {
		n.Finish = []trajectory.Finish{trajectory.FinishLength, trajectory.FinishAbort, trajectory.FinishError}[w.r.IntN(3)]
	}
	w.columns(n)
	if w.chance(1, 3) {
		c := trajectory.CallFact{Name: "bash", Span: token.Span{Start: w.r.IntN(len(n.Completion)), End: len(n.Completion)}}
		if w.chance(1, 2) {
			c.ID = fmt.Sprint("call_", n.Seq)
		}
		n.Reply.Calls = []trajectory.CallFact{c}
	}
	w.add(w.w.Turn(n))
	w.turns, w.full, w.plen = append(w.turns, n), append(w.full, append(prompt, n.Completion...)), append(w.plen, len(prompt))
	w.deliver(n)
}

func (w *world) deliver(n *trajectory.Turn) {
	if w.chance(1, 8) {
		return
	}
	for again := true; again; again = w.chance(1, 6) {
		d := trajectory.DeliveryFact{Seq: n.Seq, State: trajectory.DeliveryDelivered}
		if w.chance(1, 3) {
			d.State = []trajectory.Delivery{"undelivered", "ambiguous", "aborted"}[w.r.IntN(3)]
		}
		w.add(w.w.Delivery(d))
	}
}

func (w *world) columns(n *trajectory.Turn) {
	n.Logprobs = make([]float32, len(n.Completion))
	for i := range n.Logprobs {
		n.Logprobs[i] = -w.r.Float32()
	}
	switch w.r.IntN(14) {
	case 0:
		n.Logprobs = nil
	case 1:
		n.Logprobs = n.Logprobs[1:]
	case 2:
		bad := []float32{float32(math.NaN()), float32(math.Inf(-1)), 0.5}
		n.Logprobs[w.r.IntN(len(n.Logprobs))] = bad[w.r.IntN(3)]
	case 3:
		[]func(*chat.Sampling){
			func(s *chat.Sampling) { s.Temperature = 0.7 }, func(s *chat.Sampling) { s.TopP = 0.9 }, func(s *chat.Sampling) { s.TopK = 20 },
			func(s *chat.Sampling) { s.MinP = 0.1 }, func(s *chat.Sampling) { s.PresencePenalty = 1 },
			func(s *chat.Sampling) { s.FrequencyPenalty = 1 }, func(s *chat.Sampling) { s.RepetitionPenalty = 1.1 },
		}[w.r.IntN(7)](&n.Sampling)
		n.Processed = w.chance(1, 2)
	case 4:
		n.RawLogprobs = slices.Clone(n.Logprobs)
	case 5:
		cut := 1 + w.r.IntN(len(n.Completion))
		n.Versions = []token.VersionSpan{{Span: token.Span{End: cut}, Version: "1"}, {Span: token.Span{Start: cut, End: len(n.Completion)}, Version: "2"}}
		if cut == len(n.Completion) {
			n.Versions = n.Versions[:1]
		}
	}
	n.Started = w.ended + int64(w.r.IntN(4)) - 1
	n.Ended = n.Started + int64(w.r.IntN(5))
	w.ended = max(w.ended, n.Ended)
}

// prompt chooses where n goes on and fills in its references; it returns its prompt ids.
func (w *world) prompt(n *trajectory.Turn) []token.ID {
	var prompt []token.ID
	switch {
	case len(w.turns) > 0 && w.chance(1, 5):
		return w.again(n)
	case len(w.turns) > 0 && w.chance(5, 6):
		p := w.turns[len(w.turns)-1-w.r.IntN(min(3, len(w.turns)))]
		n.Parent, n.Why = p.Seq, "echo"
		n.MsgBase, n.MsgKeep = p.Seq, w.messages(p)
		n.MsgNew = []trajectory.Hash{w.blob(fmt.Sprint("reply ", n.Seq)), w.blob(fmt.Sprint("result ", n.Seq))}
		e := trajectory.Echo{Message: n.MsgKeep, Turn: p.Seq, Verdict: trajectory.EchoExact, By: "ids"}
		if w.chance(1, 4) {
			e.Verdict = []trajectory.Verdict{"equivalent", "rewritten"}[w.r.IntN(2)]
		}
		n.Echoes = []trajectory.Echo{e}
		if w.chance(1, 6) { // a copy, before its place or behind it
			c := e
			c.Verdict = []trajectory.Verdict{"exact", "equivalent", "rewritten"}[w.r.IntN(3)]
			if c.Message++; w.chance(1, 2) {
				c.Message = w.r.IntN(n.MsgKeep)
			}
			n.Echoes = append(n.Echoes, c)
			slices.SortFunc(n.Echoes, func(a, b trajectory.Echo) int { return a.Message - b.Message })
		}
		if w.chance(1, 10) {
			n.Echoes, n.Why = nil, "prefix"
		}
		prompt = w.leave(p)
	default:
		n.MsgNew = []trajectory.Hash{w.blob(fmt.Sprint("start ", n.Seq))}
		if len(w.turns) > 0 {
			n.Nearest = trajectory.Seq(1 + w.r.IntN(len(w.turns)))
			n.Why = []string{"sub_agent", "compaction"}[w.r.IntN(2)]
			if w.chance(1, 2) {
				prompt = w.leave(w.turns[n.Nearest-1])
			}
		}
	}
	prompt = append(prompt, w.ids(w.r.IntN(5))...)
	w.base(n, prompt)
	return prompt
}

// leave is a beginning of p's checkpoint: all of it, all but its last ids, or any part.
func (w *world) leave(p *trajectory.Turn) []token.ID {
	c := w.full[p.Seq-1]
	switch w.r.IntN(4) {
	case 0:
		c = c[:len(c)-w.r.IntN(min(4, len(c)))]
	case 1:
		if w.chance(1, 3) {
			c = c[:w.r.IntN(len(c)+1)]
		}
	}
	return slices.Clone(c)
}

func (w *world) base(n *trajectory.Turn, prompt []token.ID) {
	if n.Base = n.Parent; n.Parent == 0 && w.chance(1, 2) {
		n.Base = n.Nearest
	}
	if n.Base > 0 {
		n.Keep = token.CommonPrefix(prompt, w.full[n.Base-1])
	}
	n.Suffix = slices.Clone(prompt[n.Keep:])
}

func (w *world) messages(n *trajectory.Turn) int { return n.MsgKeep + len(n.MsgNew) }

// again asks the same as an earlier turn did.
func (w *world) again(n *trajectory.Turn) []token.ID {
	was := w.turns[len(w.turns)-1-w.r.IntN(min(2, len(w.turns)))]
	if was.Parent == 0 && was.Seq > 1 {
		n.Nearest = was.Nearest
	}
	n.Parent, n.Why, n.Echoes, n.Tools = was.Parent, was.Why, was.Echoes, was.Tools
	n.MsgBase, n.MsgKeep, n.MsgNew = was.Seq, w.messages(was), nil
	n.Echoes = nil
	if was.Parent > 0 && was.Why == "echo" {
		n.MsgBase, n.MsgKeep, n.MsgNew, n.Echoes = was.MsgBase, was.MsgKeep, was.MsgNew, was.Echoes
	}
	if w.chance(1, 3) {
		n.RetryCount = 1
	}
	if w.chance(1, 3) {
		n.Idempotency = was.Idempotency
	}
	prompt := slices.Clone(w.full[was.Seq-1][:w.plen[was.Seq-1]])
	n.Base = n.Parent
	if n.Base > 0 {
		n.Keep = token.CommonPrefix(prompt, w.full[n.Base-1])
	}
	n.Suffix = slices.Clone(prompt[n.Keep:])
	return prompt
}
