package artifact

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// build writes an artifact record by record and fails the test on the first error.
type build struct {
	t   testing.TB
	w   *Writer
	out []byte
	cut []int // where each record ends
}

func newBuild(t testing.TB, h trajectory.Header) *build {
	b := &build{t: t, w: NewWriter()}
	b.add(b.w.Header(h))
	return b
}

func (b *build) add(rec []byte, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	b.out = append(b.out, rec...)
	b.cut = append(b.cut, len(b.out))
}

func (b *build) blob(s string) trajectory.Hash {
	b.t.Helper()
	rec, h, err := b.w.Blob([]byte(s))
	if err != nil {
		b.t.Fatal(err)
	}
	if len(rec) > 0 {
		b.add(rec, nil)
	}
	return h
}

func (b *build) turn(t trajectory.Turn) { b.t.Helper(); b.add(b.w.Turn(&t)) }

func (b *build) delivery(s trajectory.Seq, d trajectory.Delivery) {
	b.t.Helper()
	b.add(b.w.Delivery(trajectory.DeliveryFact{Seq: s, State: d, At: 1700000000000 + int64(s)}))
}

func (b *build) end() []byte {
	b.t.Helper()
	b.add(b.w.End(trajectory.End{Reason: "finished", At: 1700000009000}))
	return b.out
}

func header() trajectory.Header {
	return trajectory.Header{
		Identities: trajectory.Identities{Trajectory: "trj_1", Trial: "fix-script.0", Run: "run_1", Group: "g_7", Member: 2},
		Tito:       "0.1.0", Created: 1700000000000, Custody: "host", Prompt: "full_history", RenderBy: "tito",
		Model:  trajectory.ModelInfo{Name: "builtin", Family: "tito", Tokenizer: "aa", Template: "bb"},
		Engine: "rehearsal", Policy: trajectory.DefaultPolicy(), VocabSize: 100000, Stops: []token.ID{2},
	}
}

func ids(v ...token.ID) []token.ID { return v }

// turnOf is a plain policy turn.
func turnOf(seq trajectory.Seq, suffix, completion []token.ID) trajectory.Turn {
	lp := make([]float32, len(completion))
	for i := range lp {
		lp[i] = -float32(i) / 7
	}
	return trajectory.Turn{
		Seq: seq, Call: fmt.Sprintf("trj_1.%d", seq), Class: trajectory.ClassPolicy, Why: "first", Suffix: suffix,
		Completion: completion, Logprobs: lp, Prompt: trajectory.PromptEchoed, Sampling: chat.Neutral(), Processed: true,
		MaxTokens: 512, Finish: trajectory.FinishStop, Stop: int64(completion[len(completion)-1]),
		Reply:   trajectory.Reply{Content: chat.T("ok"), End: "stop"},
		Started: 1700000001000, FirstToken: 1700000001050, Ended: 1700000001200,
	}
}

// sampleFile has a branch, a root that counts on an earlier turn, a realigned turn and every kind of column.
func sampleFile(t testing.TB) *build {
	b := newBuild(t, header())
	user, tools := b.blob(`{"role":"user","content":"café 1.0"}`), b.blob(`[{"type":"function"}]`)

	one := turnOf(1, ids(10, 11, 12), ids(20, 21, 2))
	one.MsgNew, one.Tools = []trajectory.Hash{user}, tools
	one.Versions = []token.VersionSpan{{Span: token.Span{Start: 0, End: 1}, Version: "v1"}, {Span: token.Span{Start: 1, End: 3}, Version: "v2"}}
	one.Reply.Calls = []trajectory.CallFact{{ID: "call_a", Name: "bash", Arguments: `{"cmd": "ls"}`, Status: "ok", Span: token.Span{Start: 0, End: 2}}}
	b.turn(one)
	b.delivery(1, trajectory.DeliveryDelivered)

	two := turnOf(2, ids(30, 31), ids(40, 2)) // extends
	two.Parent, two.Base, two.Keep, two.Why, two.MsgBase, two.MsgKeep = 1, 1, 6, "echo", 1, 1
	two.MsgNew, two.Tools = []trajectory.Hash{b.blob(`{"role":"assistant"}`), b.blob(`{"role":"tool"}`)}, tools
	two.Echoes = []trajectory.Echo{{Message: 1, Turn: 1, Verdict: trajectory.EchoExact, By: "ids"}}
	two.RawLogprobs = []float32{-0.5, -0.25}
	b.turn(two)

	three := turnOf(3, ids(50), ids(60, 61, 2)) // realigns: loses the parent's stop id
	three.Parent, three.Base, three.Keep, three.Why, three.MsgBase, three.MsgKeep = 2, 2, 9, "echo", 2, 3
	three.Logprobs = nil
	b.turn(three)
	b.delivery(2, trajectory.DeliveryUndelivered)

	four := turnOf(4, ids(70), ids(2)) // a root near turn 1
	four.Nearest, four.Base, four.Keep, four.Why = 1, 1, 2, "sub_agent"
	four.Logprobs = []float32{math.Float32frombits(0x7fc00123)}
	b.turn(four)

	five := turnOf(5, nil, ids(2)) // a list of log probabilities that is there and empty
	five.Parent, five.Base, five.Keep, five.Why = 4, 4, 4, "prefix"
	five.Logprobs = []float32{}
	b.turn(five)
	return b
}

// randomFile is a tree of n turns with about size new ids each.
func randomFile(t testing.TB, r *rand.Rand, n, size int) *build {
	b := newBuild(t, header())
	zipf := rand.NewZipf(r, 1.1, 20, 99999)
	draw := func(n int) []token.ID {
		out := make([]token.ID, n)
		for i := range out {
			out[i] = token.ID(zipf.Uint64())
		}
		return out
	}
	lens := []int{0}
	for s := 1; s <= n; s++ {
		turn := turnOf(trajectory.Seq(s), draw(r.IntN(size+1)), draw(1+r.IntN(size+1)))
		for i := range turn.Logprobs {
			turn.Logprobs[i] = float32(-r.ExpFloat64() * math.Pow(10, -4*r.Float64()))
		}
		switch r.IntN(12) {
		case 0:
			turn.Logprobs = nil
		case 1:
			turn.Logprobs = append(turn.Logprobs, float32(math.Inf(-1)), math.Float32frombits(r.Uint32()))
		case 2:
			turn.RawLogprobs = append([]float32{}, turn.Logprobs...)
		}
		if s > 1 && r.IntN(8) > 0 {
			p := s - 1 - r.IntN(min(3, s-1))
			turn.Parent, turn.Base, turn.Why = trajectory.Seq(p), trajectory.Seq(p), "echo"
			turn.Keep = lens[p] - r.IntN(min(lens[p], 3))
		}
		turn.MsgNew = []trajectory.Hash{b.blob(fmt.Sprintf(`{"role":"tool","content":"%d %d"}`, s, r.Uint64()))}
		lens = append(lens, turn.Keep+len(turn.Suffix)+len(turn.Completion))
		b.turn(turn)
		if r.IntN(5) > 0 {
			b.delivery(turn.Seq, trajectory.DeliveryDelivered)
		}
	}
	return b
}
