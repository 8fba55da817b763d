package trajectory

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

func ids(n ...token.ID) []token.ID { return n }

// base is a valid root; tests change it.
func base(seq Seq) *Turn {
	return &Turn{
		Seq: seq, Call: "t.1", Class: ClassPolicy, Why: WhyFirst, Suffix: ids(1, 2, 3), Completion: ids(4, 5), Logprobs: []float32{-1, -2},
		Prompt: PromptSent, Finish: FinishStop, Stop: 5, MsgNew: []Hash{{1}}, Sampling: chat.Neutral(), Reply: Reply{Content: chat.T("hi")},
	}
}

// child extends turn 1 of a tree that holds base(1).
func child(seq Seq) *Turn {
	t := base(seq)
	t.Parent, t.Base, t.Keep, t.Suffix, t.Why = 1, 1, 5, ids(6), WhyEcho
	t.MsgBase, t.MsgKeep, t.MsgNew = 1, 1, []Hash{{2}, {3}}
	t.Echoes = []Echo{{Message: 1, Turn: 1, Verdict: EchoExact, By: "content"}}
	return t
}

func TestWhatDoesNotFitTheTreeIsRefusedAndChangesNothing(t *testing.T) {
	call := func(id string, start, end int) []CallFact {
		return []CallFact{{ID: id, Name: "a", Span: token.Span{Start: start, End: end}}}
	}
	cases := map[string]func(*Turn){
		"number":             func(n *Turn) { n.Seq = 3 },
		"parent later":       func(n *Turn) { n.Parent = 2 },
		"msg base later":     func(n *Turn) { n.MsgBase = 7 },
		"base not parent":    func(n *Turn) { n.Base = 0; n.Keep = 0 },
		"parent and nearest": func(n *Turn) { n.Nearest = 1 },
		"keep too long":      func(n *Turn) { n.Keep = 6 },
		"keep negative":      func(n *Turn) { n.Keep = -1 },
		"keep not longest":   func(n *Turn) { n.Keep, n.Suffix = 4, ids(5, 6) },
		"messages too many":  func(n *Turn) { n.MsgKeep = 2 },
		"prompt id":          func(n *Turn) { n.Suffix = ids(100) },
		"completion id":      func(n *Turn) { n.Completion, n.Stop = ids(100), -1 },
		"class":              func(n *Turn) { n.Class = "" },
		"finish":             func(n *Turn) { n.Finish = "done" },
		"prompt known":       func(n *Turn) { n.Prompt = "" },
		"verdict":            func(n *Turn) { n.Echoes[0].Verdict = "maybe" },
		"echo of later":      func(n *Turn) { n.Echoes[0].Turn = 2 },
		"echo of nothing":    func(n *Turn) { n.Echoes[0].Turn = 0 },
		"echo out of range":  func(n *Turn) { n.Echoes[0].Message = 3 },
		"stop not last":      func(n *Turn) { n.Stop = 4 },
		"stop of nothing":    func(n *Turn) { n.Completion = nil },
		"version gap":        func(n *Turn) { n.Versions = []token.VersionSpan{{Span: token.Span{Start: 1, End: 2}}} },
		"version short":      func(n *Turn) { n.Versions = []token.VersionSpan{{Span: token.Span{Start: 0, End: 1}}} },
		"call id twice":      func(n *Turn) { n.Reply.Calls = append(call("x", 0, 1), call("x", 1, 2)...) },
		"call id known":      func(n *Turn) { n.Reply.Calls = call("known", 0, 1) },
		"call outside":       func(n *Turn) { n.Reply.Calls = call("x", 1, 3) },
	}
	for name, change := range cases {
		tree := New(Header{VocabSize: 100})
		first := base(1)
		first.Reply.Calls = call("known", 0, 2)
		if err := tree.Add(first); err != nil {
			t.Fatal(err)
		}
		bad := child(2)
		change(bad)
		if code := fault.CodeOf(tree.Add(bad)); code != fault.SessionInvariant {
			t.Errorf("%s: %q", name, code)
		}
		if err := tree.Add(child(2)); err != nil {
			t.Errorf("%s: the tree is changed: %v", name, err)
		}
	}
}

func TestNothingFollowsTheEnd(t *testing.T) {
	tree := New(Header{})
	if err := tree.Add(base(1)); err != nil {
		t.Fatal(err)
	}
	if fault.CodeOf(tree.Finish(End{Turns: 2})) != fault.SessionInvariant {
		t.Error("an end that miscounts is taken")
	}
	if err := tree.Finish(End{Reason: "finished", Turns: 1}); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"turn": tree.Add(base(2)), "delivery": tree.SetDelivery(DeliveryFact{Seq: 1, State: DeliveryDelivered}), "end": tree.Finish(End{Turns: 1}),
	} {
		if fault.CodeOf(err) != fault.SessionInvariant {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatWasDeliveredStaysSo(t *testing.T) {
	tree := New(Header{})
	if err := tree.Add(base(1)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		seq       Seq
		set, want Delivery
		code      fault.Code
	}{
		{1, DeliveryUndelivered, DeliveryUndelivered, ""},
		{1, DeliveryDelivered, DeliveryDelivered, ""},
		{1, DeliveryAborted, DeliveryDelivered, ""},
		{1, "lost", DeliveryDelivered, fault.SessionInvariant},
		{2, DeliveryDelivered, DeliveryDelivered, fault.SessionInvariant},
	} {
		if code := fault.CodeOf(tree.SetDelivery(DeliveryFact{Seq: c.seq, State: c.set})); code != c.code {
			t.Errorf("%s: %q", c.set, code)
		}
		if got := tree.Delivery(1).State; got != c.want {
			t.Errorf("after %s: %s", c.set, got)
		}
	}
}

// The dumb twin keeps every prompt and message list whole.
func TestReadersAgreeWithWholeCopies(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 2))
		tree := New(Header{})
		var prompts, checkpoints [][]token.ID
		var messages [][]Hash
		for seq := Seq(1); seq <= 60; seq++ {
			n := base(seq)
			n.Suffix, n.MsgNew, n.Stop = nil, nil, -1
			var prompt []token.ID
			var msgs []Hash
			if seq > 1 && rng.IntN(5) > 0 {
				n.Parent = Seq(1 + rng.IntN(int(seq)-1))
				n.Base, n.MsgBase = n.Parent, Seq(1+rng.IntN(int(seq)-1))
				ckpt := checkpoints[n.Parent-1]
				prompt = slices.Clone(ckpt[:rng.IntN(len(ckpt)+1)])
				msgs = slices.Clone(messages[n.MsgBase-1][:rng.IntN(len(messages[n.MsgBase-1])+1)])
			}
			n.MsgKeep = len(msgs)
			for range rng.IntN(4) {
				prompt = append(prompt, token.ID(rng.IntN(3)))
			}
			for range rng.IntN(3) {
				n.MsgNew = append(n.MsgNew, Hash{byte(rng.IntN(4))})
			}
			if n.Base != 0 {
				n.Keep = token.CommonPrefix(prompt, checkpoints[n.Base-1])
				if got := tree.Shared(n.Base, prompt); got != n.Keep {
					t.Fatalf("seed %d turn %d: shares %d, want %d", seed, seq, got, n.Keep)
				}
			}
			n.Suffix = slices.Clone(prompt[n.Keep:])
			n.Completion = ids(token.ID(rng.IntN(3)), token.ID(rng.IntN(3)))
			if err := tree.Add(n); err != nil {
				t.Fatal(err)
			}
			prompts, messages = append(prompts, prompt), append(messages, append(msgs, n.MsgNew...))
			checkpoints = append(checkpoints, append(slices.Clone(prompt), n.Completion...))
		}
		for i := range prompts {
			seq := Seq(i + 1)
			if !slices.Equal(tree.Prompt(seq), prompts[i]) || !slices.Equal(tree.Checkpoint(seq), checkpoints[i]) {
				t.Fatalf("seed %d turn %d: ids", seed, seq)
			}
			if !slices.Equal(tree.Messages(seq), messages[i]) {
				t.Fatalf("seed %d turn %d: messages", seed, seq)
			}
			for k := range messages[i] {
				if h, ok := tree.message(seq, k); !ok || h != messages[i][k] {
					t.Fatalf("seed %d turn %d: message %d", seed, seq, k)
				}
			}
			var chain Hash
			for _, h := range messages[i] {
				chain = roll(chain, h)
			}
			if tree.chainAt(seq, len(messages[i])) != chain {
				t.Fatalf("seed %d turn %d: rolling hash", seed, seq)
			}
		}
	}
}

func TestMintedIDsAreDerivedAndDiffer(t *testing.T) {
	if got, want := MintCallID("traj", 1, 0), "call_"; got[:5] != want || len(got) != 21 {
		t.Errorf("%q", got)
	}
	seen := map[string]bool{}
	for _, traj := range []string{"a", "b"} {
		for seq := range Seq(50) {
			for i := range 4 {
				seen[MintCallID(traj, seq, i)] = true
			}
		}
	}
	if !seen[MintCallID("a", 1, 0)] || len(seen) != 400 {
		t.Errorf("%d ids", len(seen))
	}
}

func TestLogprobsAreJudgedAndNeverRepaired(t *testing.T) {
	nan, inf := float32(0), float32(0)
	nan /= nan
	inf = -1 / inf
	for _, c := range []struct {
		col  []float32
		want LogprobState
	}{
		{nil, LogprobMissing}, {[]float32{-1}, LogprobCount}, {[]float32{-1, -1, -1}, LogprobCount}, {[]float32{}, LogprobCount},
		{[]float32{-1, nan}, LogprobInvalid}, {[]float32{-1, inf}, LogprobInvalid}, {[]float32{0.1, -1}, LogprobInvalid}, {[]float32{0, -1}, LogprobOK},
	} {
		if got := LogprobsOf(c.col, 2); got != c.want {
			t.Errorf("%v: %s, want %s", c.col, got, c.want)
		}
	}
	n := base(1)
	n.Sampling.Temperature = 0.7
	if n.LogprobState() != LogprobMissing {
		t.Error("raw columns count under another temperature")
	}
	if n.Processed = true; n.LogprobState() != LogprobOK {
		t.Error("processed columns do not count")
	}
	for i, change := range []func(*chat.Sampling){
		func(s *chat.Sampling) { s.TopP = 0.9 }, func(s *chat.Sampling) { s.TopK = 20 }, func(s *chat.Sampling) { s.MinP = 0.1 },
		func(s *chat.Sampling) { s.PresencePenalty = 1 }, func(s *chat.Sampling) { s.FrequencyPenalty = 1 },
		func(s *chat.Sampling) { s.RepetitionPenalty = 1.1 }, func(s *chat.Sampling) { s.Temperature = 0 },
	} {
		n := base(1)
		n.Processed, n.Sampling = false, chat.Neutral()
		change(&n.Sampling)
		if n.LogprobState() != LogprobMissing || n.TruncatedSupport() != (i < 3) {
			t.Errorf("%+v: %s, truncated %v", n.Sampling, n.LogprobState(), n.TruncatedSupport())
		}
	}
}
