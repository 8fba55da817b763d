package materialize_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// forest is a random trajectory with its prompts written out in full, as the engine consumed them.
type forest struct {
	tree    *trajectory.Tree
	prompts [][]token.ID
	turns   []*trajectory.Turn
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomIDs(r *rand.Rand, n int) []token.ID {
	out := make([]token.ID, n)
	for i := range out {
		out[i] = token.ID(r.IntN(4))
	}
	return out
}

func randomPolicy(r *rand.Rand) trajectory.Policy {
	return trajectory.Policy{Realign: pick(r, "prefix", "prefix", "prefix", "off"), RealignMax: r.IntN(6),
		Refused: pick(r, "train", "discard"), Subagents: pick(r, "train", "context"), MaxContext: pick(r, 0, 0, 25, 40)}
}

func randomForest(t *testing.T, r *rand.Rand) *forest {
	f := &forest{tree: trajectory.New(trajectory.Header{Identities: trajectory.Identities{Trajectory: "t", Run: "r", Group: "g"},
		Model: trajectory.ModelInfo{Family: pick(r, "", "test")}, Custody: "host", Prompt: "full_history", RenderBy: "tito",
		Policy: trajectory.DefaultPolicy(), VocabSize: 4, Stops: []token.ID{0, 1, 2, 3}})}
	for seq := range trajectory.Seq(1 + r.IntN(14)) {
		f.grow(t, r, seq+1)
	}
	return f
}

// messageKinds is how many different requests there are: few, so that the same thing is asked again.
const messageKinds = 6

// grow adds a turn: a root, or one that extends, cuts into or leaves an earlier turn's checkpoint.
func (f *forest) grow(t *testing.T, r *rand.Rand, seq trajectory.Seq) {
	n := &trajectory.Turn{Seq: seq, Stop: -1, Completion: randomIDs(r, r.IntN(6)), Prompt: trajectory.PromptEchoed,
		Class:    pick(r, trajectory.ClassPolicy, trajectory.ClassPolicy, trajectory.ClassPolicy, trajectory.ClassAuxiliary, trajectory.ClassUnclassified),
		Finish:   pick(r, trajectory.FinishStop, trajectory.FinishStop, trajectory.FinishLength, trajectory.FinishError),
		Sampling: chat.Neutral(), Processed: true, Why: pick(r, trajectory.WhyNewPrompt, trajectory.WhySubAgent),
		MsgNew: []trajectory.Hash{trajectory.HashOf(fmt.Append(nil, r.IntN(messageKinds)))}}
	if k := len(n.Completion); k > 0 && n.Finish == trajectory.FinishStop {
		n.Stop = int64(n.Completion[k-1])
	}
	if k := len(n.Completion); k > 2 && r.IntN(2) == 0 {
		n.Reply.Calls = []trajectory.CallFact{{Status: "ok", Span: token.Span{Start: 1, End: k - 1}}}
	}
	for i := range n.Completion {
		n.Logprobs = append(n.Logprobs, -float32(r.IntN(1000))/7-float32(i))
	}
	switch r.IntN(12) {
	case 0:
		n.Logprobs = nil
	case 1:
		n.Logprobs = append(n.Logprobs, -1)
	case 2:
		if len(n.Logprobs) > 0 {
			n.Logprobs[0] = pick(r, float32(math.NaN()), 0.5, float32(math.Inf(-1)))
		}
	}
	prompt := randomIDs(r, 1+r.IntN(5))
	if seq > 1 && r.IntN(8) > 0 {
		n.Parent = seq - 1 - trajectory.Seq(min(int(seq)-2, r.IntN(3)*r.IntN(2)))
		n.Base, n.Why = n.Parent, pick(r, trajectory.WhyEcho, trajectory.WhyEcho, trajectory.WhyPrefix)
		if n.Why == trajectory.WhyEcho {
			verdict := pick(r, trajectory.EchoExact, trajectory.EchoEquivalent, trajectory.EchoRewritten)
			n.Echoes = []trajectory.Echo{{Turn: n.Parent, Verdict: verdict}}
		}
		was := slices.Concat(f.prompts[n.Parent-1], f.turns[n.Parent-1].Completion)
		if r.IntN(3) == 0 {
			was = was[:max(0, len(was)-r.IntN(7))]
		}
		prompt = slices.Concat(was, randomIDs(r, 1+r.IntN(4)))
		n.Keep = f.tree.Shared(n.Parent, prompt)
	}
	n.Suffix = prompt[n.Keep:]
	if err := f.tree.Add(n); err != nil {
		t.Fatal(err)
	}
	state := pick(r, trajectory.DeliveryDelivered, trajectory.DeliveryDelivered, trajectory.DeliveryDelivered,
		trajectory.DeliveryUndelivered, trajectory.DeliveryAborted, trajectory.DeliveryAmbiguous)
	if err := f.tree.SetDelivery(trajectory.DeliveryFact{Seq: seq, State: state}); err != nil {
		t.Fatal(err)
	}
	f.prompts, f.turns = append(f.prompts, prompt), append(f.turns, n)
}

func TestOnRandomForestsEverySampledIdIsAccountedForOnceAndTrainsBehindItsPrompt(t *testing.T) {
	trained, realigned, shared := 0, 0, 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 7))
		f := randomForest(t, r)
		o := materialize.Options{Policy: randomPolicy(r)}
		run, err := materialize.Run(f.tree, o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		fates := trajectory.Fates(f.tree, o.Policy)
		times := make([]int, len(f.turns)) // segments in which a turn trains
		best := make([]int, len(f.turns))  // most ids of it that a segment keeps
		own := make([]int, len(f.turns))   // ids of it that train
		for _, s := range run.Segments {
			f.checkSegment(t, seed, s)
			for _, span := range s.Turns {
				i := span.Turn - 1
				best[i] = max(best[i], span.Len())
				if span.Trains {
					times[i]++
					own[i] = span.Len()
				}
				if span.Why == materialize.WhyShared {
					shared++
				}
			}
		}
		sum := 0
		for i, n := range f.turns {
			if trains := fates[i+1].Kind == trajectory.FateTrained; times[i] > 1 || times[i] > 0 && !trains || own[i] < best[i]*times[i] {
				t.Fatalf("seed %d: turn %d trains %d times with %d of %d ids, its fate is %v", seed, i+1, times[i], own[i], best[i], fates[i+1])
			}
			sum += own[i]
			if o.Policy.Realign == "off" && fates[i+1].Kind == trajectory.FateTrained && own[i] != len(n.Completion) {
				t.Fatalf("seed %d: turn %d trains %d of %d ids with realign off", seed, i+1, own[i], len(n.Completion))
			}
		}
		if sum != run.Ledger.Trained || run.Ledger.Balance() != nil {
			t.Fatalf("seed %d: %d ids train, ledger %+v", seed, sum, run.Ledger)
		}
		checkJSON(t, f, o, &run)
		trained, realigned = trained+sum, realigned+run.Ledger.LostToRealign()
	}
	if trained == 0 || realigned == 0 || shared == 0 {
		t.Fatalf("the forests are too plain: %d ids trained, %d lost to realign, %d turns shared", trained, realigned, shared)
	}
}

func (f *forest) checkSegment(t *testing.T, seed uint64, s materialize.Segment) {
	t.Helper()
	covered := make([]bool, len(s.Tokens))
	ones := 0
	for _, span := range s.Turns {
		n, prompt := f.turns[span.Turn-1], f.prompts[span.Turn-1]
		if span.Start != len(prompt) || !slices.Equal(s.Tokens[:span.Start], prompt) {
			t.Fatalf("seed %d: turn %d does not stand behind its prompt", seed, span.Turn)
		}
		if !slices.Equal(s.Tokens[span.Start:span.End], n.Completion[:span.Len()]) {
			t.Fatalf("seed %d: turn %d does not hold what was sampled", seed, span.Turn)
		}
		for i := span.Start; i < span.End; i++ {
			if s.LossMask[i] == 1 {
				ones++
				covered[i] = true
				if !span.Trains || s.Logprobs[i] != n.Logprobs[i-span.Start] {
					t.Fatalf("seed %d: turn %d, id %d: log probability %v, trains %v", seed, span.Turn, i-span.Start, s.Logprobs[i], span.Trains)
				}
			}
		}
	}
	for i := range s.Tokens {
		if !covered[i] && (s.LossMask[i] != 0 || math.Float32bits(s.Logprobs[i]) != 0) {
			t.Fatalf("seed %d: position %d trains and nobody sampled it", seed, i)
		}
	}
	if ones != s.Trained || ones == 0 || len(s.Tokens) != len(s.LossMask) || len(s.Tokens) != len(s.Logprobs) {
		t.Fatalf("seed %d: %d ones, %d trained, columns %d %d %d", seed, ones, s.Trained, len(s.Tokens), len(s.LossMask), len(s.Logprobs))
	}
}

// checkJSON: the bytes are the same each time, and what they hold reads back to the same bits.
func checkJSON(t *testing.T, f *forest, o materialize.Options, run *materialize.RolloutRun) {
	t.Helper()
	text := run.AppendJSON(nil)
	again, err := materialize.Run(f.tree, o)
	if err != nil || !bytes.Equal(text, again.AppendJSON(nil)) {
		t.Fatalf("the same run gives other bytes (%v)", err)
	}
	var back struct {
		Segments []struct {
			Tokens   []token.ID `json:"tokens"`
			LossMask []int      `json:"loss_mask"`
			Logprobs []float32  `json:"logprobs"`
		} `json:"segments"`
		Ledger materialize.Ledger `json:"ledger"`
	}
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Segments) != len(run.Segments) || back.Ledger.Sampled != run.Ledger.Sampled {
		t.Fatalf("%d segments read back of %d", len(back.Segments), len(run.Segments))
	}
	for i, s := range back.Segments {
		if !slices.Equal(s.Tokens, run.Segments[i].Tokens) || !slices.Equal(s.Logprobs, run.Segments[i].Logprobs) {
			t.Fatalf("segment %d reads back differently", i)
		}
	}
}

func TestLogprobsAreSpelledAsRealsThatReadBackExactly(t *testing.T) {
	vals := []float32{0, float32(math.Copysign(0, -1)), -1, -0.1, -1e-7, -16777216, -3.4028235e38, -1.4e-45, -0.33333334, -1e16}
	n := &trajectory.Turn{Seq: 1, Why: trajectory.WhyFirst, Stop: -1, Class: trajectory.ClassPolicy, Finish: trajectory.FinishStop,
		Prompt: trajectory.PromptSent, Sampling: chat.Neutral(), Completion: make([]token.ID, len(vals)), Logprobs: vals}
	tree := trajectory.New(trajectory.Header{Policy: trajectory.DefaultPolicy()})
	if err := tree.Add(n); err != nil {
		t.Fatal(err)
	}
	if err := tree.SetDelivery(trajectory.DeliveryFact{Seq: 1, State: trajectory.DeliveryDelivered}); err != nil {
		t.Fatal(err)
	}
	run, err := materialize.Run(tree, materialize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Segments []struct{ Logprobs []json.Number }
	}
	if err := json.Unmarshal(run.AppendJSON(nil), &back); err != nil {
		t.Fatal(err)
	}
	for i, text := range back.Segments[0].Logprobs {
		var v float32
		if err := json.Unmarshal([]byte(text), &v); err != nil || math.Float32bits(v) != math.Float32bits(vals[i]) {
			t.Errorf("%v is spelled %s, which reads back as %v", vals[i], text, v)
		}
		if !bytes.ContainsAny([]byte(text), ".e") {
			t.Errorf("%v is spelled %s, as an integer", vals[i], text)
		}
	}
}

func TestARewardThatIsNotFiniteIsRefused(t *testing.T) {
	bad := math.NaN()
	for _, o := range []materialize.Options{{Reward: &bad}, {Advantage: &bad}} {
		if _, err := materialize.Run(trajectory.New(trajectory.Header{}), o); fault.CodeOf(err) != fault.RewardBad {
			t.Errorf("%v; want %s", err, fault.RewardBad)
		}
	}
}

func TestAPolicyThatIsNotFollowedIsRefused(t *testing.T) {
	for _, change := range []func(*trajectory.Policy){
		func(p *trajectory.Policy) { p.Realign = "cookbook" },
		func(p *trajectory.Policy) { p.Refused = "" },
		func(p *trajectory.Policy) { p.Subagents = "drop" },
		func(p *trajectory.Policy) { p.KeepRewritten = true },
		func(p *trajectory.Policy) { p.RealignMax = -1 },
		func(p *trajectory.Policy) { p.MaxContext = -1 },
	} {
		p := trajectory.DefaultPolicy()
		change(&p)
		if _, err := materialize.Run(trajectory.New(trajectory.Header{}), materialize.Options{Policy: p}); fault.CodeOf(err) != fault.BadConfig {
			t.Errorf("%+v: %v; want %s", p, err, fault.BadConfig)
		}
	}
}

func TestALedgerThatDoesNotBalanceIsRefused(t *testing.T) {
	for _, l := range []materialize.Ledger{
		{Sampled: 3, Trained: 2},
		{Sampled: 3, Trained: 2, Masked: map[string]int{"bad_luck": 1}},
		{Sampled: 3, Trained: 2, Masked: map[string]int{trajectory.DropRetry: 1}},
		{Sampled: 1, Trained: 2, Discarded: map[string]int{trajectory.DropRefused: -1}},
	} {
		if err := l.Balance(); fault.CodeOf(err) != fault.SessionInvariant {
			t.Errorf("%+v: %v; want %s", l, err, fault.SessionInvariant)
		}
	}
}

func TestSummariesAddUp(t *testing.T) {
	var all materialize.Summary
	turns := 0
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 8))
		f := randomForest(t, r)
		o := materialize.Options{Policy: randomPolicy(r)}
		run, err := materialize.Run(f.tree, o)
		if err != nil {
			t.Fatal(err)
		}
		all.Add(materialize.Summarize(f.tree, o, &run))
		turns += len(f.turns)
	}
	roots := 0
	for _, n := range all.Roots {
		roots += n
	}
	if all.Turns != turns || all.Extends+all.Realigns+all.SplitCount()+roots != turns {
		t.Errorf("%d turns: %+v", turns, all)
	}
	if err := all.Ledger.Balance(); err != nil {
		t.Error(err)
	}
	if s := all.TrainableShare(); s <= 0 || s >= 1 || (&materialize.Summary{}).TrainableShare() != 0 {
		t.Errorf("trainable share %v", s)
	}
}
