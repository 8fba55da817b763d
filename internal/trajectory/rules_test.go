package trajectory

import (
	"slices"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
)

func TestEchoVerdicts(t *testing.T) {
	said := Reply{Content: chat.T("look"), Reasoning: chat.T("hm"), Calls: []CallFact{
		{Status: "in_reasoning"}, // no call
		{ID: "id1", Name: "bash", Arguments: `{"n": 60000.0, "t": true, "s": "é"}`},
		{ID: "id2", Name: "now", Arguments: ""},
	}}
	same := func() chat.Message {
		return chat.Message{Role: chat.Assistant, Content: said.Content, Reasoning: said.Reasoning, Calls: []chat.Call{
			{ID: "id1", Name: "bash", Arguments: said.Calls[1].Arguments}, {ID: "id2", Name: "now"},
		}}
	}
	for _, c := range []struct {
		name   string
		change func(*chat.Message)
		want   Verdict
		which  []string
	}{
		{"same", func(m *chat.Message) {}, EchoExact, nil},
		{"spaces and numbers", func(m *chat.Message) { m.Calls[0].Arguments = `{"s":"\u00e9","t":true,"n":60000}` }, EchoEquivalent, []string{SameArguments}},
		{"true is not 1", func(m *chat.Message) { m.Calls[0].Arguments = `{"n": 60000.0, "t": 1, "s": "é"}` }, EchoRewritten, []string{EditArguments}},
		{"empty arguments", func(m *chat.Message) { m.Calls[1].Arguments = "{}" }, EchoEquivalent, []string{SameArgumentsNone}},
		{"bad arguments", func(m *chat.Message) { m.Calls[0].Arguments = `{"n"` }, EchoRewritten, []string{EditArguments}},
		{"name", func(m *chat.Message) { m.Calls[0].Name = "invalid" }, EchoRewritten, []string{EditName}},
		{"call left out", func(m *chat.Message) { m.Calls = m.Calls[:1] }, EchoRewritten, []string{EditCalls}},
		{"calls swapped", func(m *chat.Message) { slices.Reverse(m.Calls) }, EchoRewritten, []string{EditCalls}},
		{"text", func(m *chat.Message) { m.Content = chat.T("Look") }, EchoRewritten, []string{EditContent}},
		{"text left out", func(m *chat.Message) { m.Content = chat.Text{} }, EchoRewritten, []string{EditContent}},
		{"reasoning dropped", func(m *chat.Message) { m.Reasoning = chat.Text{} }, EchoEquivalent, []string{SameReasoning}},
		{"reasoning changed", func(m *chat.Message) { m.Reasoning = chat.T("hmm") }, EchoRewritten, []string{EditReasoning}},
		{"parts", func(m *chat.Message) { m.Parts = true }, EchoEquivalent, []string{SameParts}},
		{"two at once", func(m *chat.Message) { m.Parts = true; m.Reasoning = chat.T("") }, EchoEquivalent, []string{SameReasoning, SameParts}},
	} {
		m := same()
		c.change(&m)
		if got, which := compare(&m, &said, "ids"); got != c.want || !slices.Equal(which, c.which) {
			t.Errorf("%s: %s %v, want %s %v", c.name, got, which, c.want, c.which)
		}
	}
	for _, c := range []struct {
		was, now chat.Text
		want     []string
	}{
		{chat.Text{Presence: chat.Null}, chat.Text{}, []string{SameContentEmpty}},
		{chat.Text{}, chat.T(""), []string{SameContentEmpty}},
		{chat.T(" \n"), chat.Text{Presence: chat.Null}, []string{SameContentBlank}},
		{chat.T(""), chat.T("  "), []string{SameContentBlank}},
	} {
		m := chat.Message{Role: chat.Assistant, Content: c.now}
		if got, which := compare(&m, &Reply{Content: c.was}, "content"); got != EchoEquivalent || !slices.Equal(which, c.want) {
			t.Errorf("%v as %v: %s %v", c.was, c.now, got, which)
		}
	}
}

// pair makes a trajectory of one root and one child that keeps n of the root's checkpoint of 10 prompt and 6 sampled ids.
func pair(t *testing.T, keep int, change func(parent, child *Turn)) *Tree {
	t.Helper()
	tree := New(Header{})
	a, b := base(1), child(2)
	a.Suffix = ids(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	a.Completion, a.Stop = ids(10, 11, 12, 13, 14, 15), 15
	b.Keep, b.Suffix = keep, ids(99)
	if change != nil {
		change(a, b)
	}
	for _, n := range []*Turn{a, b} {
		if err := tree.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

func TestContinuityIsAFunctionOfFactsAndPolicy(t *testing.T) {
	prefix, off := DefaultPolicy(), DefaultPolicy()
	off.Realign = "off"
	limit := func(n int) Policy { p := prefix; p.RealignMax = n; return p }
	verdict := func(v Verdict) func(_, b *Turn) { return func(_, b *Turn) { b.Echoes[0].Verdict = v } }
	for _, c := range []struct {
		name   string
		keep   int
		policy Policy
		change func(a, b *Turn)
		want   Continuity
	}{
		{"all kept", 16, off, nil, Continuity{Extend, "", 16, 0}},
		{"all kept, tools changed", 16, off, func(_, b *Turn) { b.Tools = Hash{1} }, Continuity{Extend, ReasonContractChanged, 16, 0}},
		{"all kept, cut turn", 16, off, func(a, _ *Turn) { a.Finish = FinishLength }, Continuity{Extend, ReasonTruncatedTurn, 16, 0}},
		{"all kept, rewritten", 16, prefix, verdict(EchoRewritten), Continuity{Extend, ReasonHistoryRewritten, 16, 0}},
		{"the stop is lost", 15, prefix, nil, Continuity{Realign, "", 15, 1}},
		{"one is kept", 11, prefix, nil, Continuity{Realign, "", 11, 5}},
		{"none is kept", 10, prefix, nil, Continuity{Split, ReasonTokenDrift, 10, 0}},
		{"as many lost as allowed", 12, limit(4), nil, Continuity{Realign, "", 12, 4}},
		{"one more", 12, limit(3), nil, Continuity{Split, ReasonTokenDrift, 12, 0}},
		{"off", 15, off, nil, Continuity{Split, ReasonTokenDrift, 15, 0}},
		{"equivalent", 13, prefix, verdict(EchoEquivalent), Continuity{Realign, "", 13, 3}},
		{"rewritten", 13, prefix, verdict(EchoRewritten), Continuity{Split, ReasonHistoryRewritten, 13, 0}},
		{"cut and beyond the limit", 12, limit(1), func(a, _ *Turn) { a.Finish = FinishLength }, Continuity{Split, ReasonTruncatedTurn, 12, 0}},
		{"in the prompt", 9, prefix, nil, Continuity{Split, ReasonTokenDrift, 9, 0}},
		{"in the prompt, settings", 2, prefix, func(_, b *Turn) { b.Settings = Hash{1} }, Continuity{Split, ReasonContractChanged, 2, 0}},
		{"in the prompt, message", 2, prefix, func(_, b *Turn) {
			b.MsgBase, b.MsgKeep, b.MsgNew = 0, 0, []Hash{{9}, {2}, {3}}
		}, Continuity{Split, ReasonPrefixEdited, 2, 0}},
		{"a copy of the answer comes later, rewritten", 13, prefix, func(_, b *Turn) {
			b.Echoes = append(b.Echoes, Echo{Message: 2, Turn: 1, Verdict: EchoRewritten, By: "ids"})
		}, Continuity{Realign, "", 13, 3}},
		{"rewritten, and a true copy comes later", 13, prefix, func(_, b *Turn) {
			b.Echoes[0].Verdict = EchoRewritten
			b.Echoes = append(b.Echoes, Echo{Message: 2, Turn: 1, Verdict: EchoExact, By: "ids"})
		}, Continuity{Split, ReasonHistoryRewritten, 13, 0}},
		{"a rewritten copy before its place", 13, prefix, func(_, b *Turn) {
			b.Echoes = append([]Echo{{Message: 0, Turn: 1, Verdict: EchoRewritten, By: "ids"}}, b.Echoes...)
		}, Continuity{Realign, "", 13, 3}},
		{"by ids alone", 13, prefix, func(_, b *Turn) { b.Echoes, b.Why = nil, WhyPrefix }, Continuity{Realign, "", 13, 3}},
	} {
		if got := Continue(pair(t, c.keep, c.change), 2, c.policy); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if got, want := Continue(pair(t, 16, nil), 1, prefix), (Continuity{Kind: Root, Reason: WhyFirst}); got != want {
		t.Errorf("%+v", got)
	}
}

func TestFates(t *testing.T) {
	// Turn 1 is a root that a child may follow; 2 answers its request again.
	twin := func(change func(a, b *Turn)) func(t *testing.T) *Tree {
		return func(t *testing.T) *Tree {
			t.Helper()
			tree := New(Header{})
			a, b := base(1), base(2)
			b.MsgBase, b.MsgKeep, b.MsgNew = 1, 1, nil
			a.Started, a.Ended, b.Started, b.Ended = 10, 20, 30, 40
			change(a, b)
			for _, n := range []*Turn{a, b} {
				if err := tree.Add(n); err != nil {
					t.Fatal(err)
				}
			}
			return tree
		}
	}
	follow := func(tree *Tree, seq Seq) {
		c := child(Seq(tree.Len() + 1))
		c.Parent, c.Base, c.Echoes[0].Turn = seq, seq, seq
		if err := tree.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	deliver := func(tree *Tree, states ...Delivery) {
		for i, s := range states {
			if s == "" {
				continue
			}
			if err := tree.SetDelivery(DeliveryFact{Seq: Seq(i + 1), State: s}); err != nil {
				t.Fatal(err)
			}
		}
	}
	plain := func(a, b *Turn) {}
	discard, context, tight := DefaultPolicy(), DefaultPolicy(), DefaultPolicy()
	discard.Refused, context.Subagents, tight.MaxContext = "discard", "context", 5
	for _, c := range []struct {
		name   string
		tree   func(*testing.T) *Tree
		then   func(*Tree)
		policy Policy
		want   []Fate
	}{
		{"undelivered, asked again", twin(plain), func(x *Tree) { deliver(x, DeliveryUndelivered, DeliveryDelivered) }, DefaultPolicy(),
			[]Fate{{FateDiscarded, DropRetry, 2}, {FateTrained, "", 0}}},
		{"unknown, asked again", twin(plain), func(x *Tree) { deliver(x, "", DeliveryDelivered) }, DefaultPolicy(),
			[]Fate{{FateDiscarded, DropRetry, 2}, {FateTrained, "", 0}}},
		{"the first went on", twin(plain), func(x *Tree) { deliver(x, DeliveryUndelivered, DeliveryDelivered); follow(x, 1) }, DefaultPolicy(),
			[]Fate{{FateTrained, "", 0}, {FateTrained, "", 0}, {FateMasked, MaskAmbiguous, 0}}},
		{"same key, the first went on", twin(func(a, b *Turn) { a.Idempotency, b.Idempotency = "k", "k" }),
			func(x *Tree) { deliver(x, DeliveryDelivered, DeliveryDelivered); follow(x, 1) }, DefaultPolicy(),
			[]Fate{{FateTrained, "", 0}, {FateDiscarded, DropRetry, 1}, {FateMasked, MaskAmbiguous, 0}}},
		{"same key, both went on", twin(func(a, b *Turn) { a.Idempotency, b.Idempotency = "k", "k" }), func(x *Tree) { follow(x, 1); follow(x, 2) }, DefaultPolicy(),
			[]Fate{{FateTrained, "", 0}, {FateTrained, "", 0}, {FateMasked, MaskAmbiguous, 0}, {FateMasked, MaskAmbiguous, 0}}},
		{"same key although they overlap", twin(func(a, b *Turn) { a.Idempotency, b.Idempotency, b.Started = "k", "k", 15 }),
			func(x *Tree) { deliver(x, DeliveryDelivered, DeliveryDelivered) }, DefaultPolicy(),
			[]Fate{{FateDiscarded, DropRetry, 2}, {FateTrained, "", 0}}},
		{"retry count", twin(func(a, b *Turn) { b.RetryCount = 1 }), func(x *Tree) { deliver(x, DeliveryDelivered, DeliveryDelivered) }, DefaultPolicy(),
			[]Fate{{FateDiscarded, DropRetry, 2}, {FateTrained, "", 0}}},
		{"overlap without a key", twin(func(a, b *Turn) { b.Started = 15 }), func(x *Tree) { deliver(x, DeliveryUndelivered, DeliveryDelivered) }, DefaultPolicy(),
			[]Fate{{FateDiscarded, DropUndelivered, 0}, {FateTrained, "", 0}}},
		{"other tools", twin(func(a, b *Turn) { b.Tools = Hash{1} }), func(x *Tree) { deliver(x, DeliveryAborted, DeliveryDelivered) }, DefaultPolicy(),
			[]Fate{{FateDiscarded, DropAborted, 0}, {FateTrained, "", 0}}},
		{"refused trains", twin(plain), func(x *Tree) { deliver(x, DeliveryDelivered, DeliveryDelivered); follow(x, 2) }, DefaultPolicy(),
			[]Fate{{FateTrained, "", 2}, {FateTrained, "", 0}, {FateMasked, MaskAmbiguous, 0}}},
		{"refused is discarded", twin(plain), func(x *Tree) { deliver(x, DeliveryDelivered, DeliveryDelivered); follow(x, 2) }, discard,
			[]Fate{{FateDiscarded, DropRefused, 2}, {FateTrained, "", 0}, {FateMasked, MaskAmbiguous, 0}}},
		{"asked again, nobody went on", twin(plain), func(x *Tree) { deliver(x, DeliveryDelivered, DeliveryDelivered) }, discard,
			[]Fate{{FateTrained, "", 0}, {FateTrained, "", 0}}},
		{"auxiliary, unclassified", twin(func(a, b *Turn) { a.Class, b.Class = ClassAuxiliary, ClassUnclassified }),
			func(x *Tree) { deliver(x, DeliveryUndelivered, DeliveryDelivered) }, DefaultPolicy(),
			[]Fate{{FateAuxiliary, "", 0}, {FateMasked, MaskUnclassified, 0}}},
		{"sub-agent as context", twin(func(a, b *Turn) { b.Why, b.Tools = WhySubAgent, Hash{1} }),
			func(x *Tree) { deliver(x, DeliveryDelivered, DeliveryDelivered); follow(x, 2) }, context,
			[]Fate{{FateTrained, "", 0}, {FateDiscarded, DropContextOnly, 0}, {FateDiscarded, DropContextOnly, 0}}},
		{"a sub-agent asked again, by its session", twin(func(a, b *Turn) { a.Why, b.Why = WhySubAgent, WhyAskedAgain; a.Session, b.Session = "sub", "sub" }),
			func(x *Tree) { deliver(x, DeliveryAborted, DeliveryDelivered) }, context,
			[]Fate{{FateDiscarded, DropRetry, 2}, {FateDiscarded, DropContextOnly, 0}}},
		{"a sub-agent by the parent session that it names", twin(func(a, b *Turn) { a.Tools, b.Why, b.ParentSession = Hash{1}, WhyCompaction, "main" }),
			func(x *Tree) { deliver(x, DeliveryDelivered, DeliveryDelivered) }, context,
			[]Fate{{FateTrained, "", 0}, {FateDiscarded, DropContextOnly, 0}}},
		{"a session that did not begin as a sub-agent's", twin(func(a, b *Turn) {
			a.Tools, b.Why, a.Session, b.Session = Hash{1}, WhyCompaction, "main", "main"
		}), func(x *Tree) { deliver(x, DeliveryDelivered, DeliveryDelivered) }, context,
			[]Fate{{FateTrained, "", 0}, {FateTrained, "", 0}}},
		{"context limit", twin(func(a, b *Turn) { b.Tools, b.Completion = Hash{1}, ids(4, 4, 5); b.Logprobs = []float32{-1, -1, -1} }),
			func(x *Tree) { deliver(x, DeliveryDelivered, DeliveryDelivered) }, tight,
			[]Fate{{FateTrained, "", 0}, {FateDiscarded, DropContextLimit, 0}}},
		{"bad columns", twin(func(a, b *Turn) { b.Tools = Hash{1}; a.Logprobs, b.Logprobs = nil, []float32{-1} }),
			func(x *Tree) { deliver(x, DeliveryDelivered, DeliveryDelivered) }, DefaultPolicy(),
			[]Fate{{FateMasked, "logprob_missing", 0}, {FateMasked, "logprob_count", 0}}},
	} {
		tree := c.tree(t)
		c.then(tree)
		if got := Fates(tree, c.policy)[1:]; !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %v\nwant %v", c.name, got, c.want)
		}
	}
}

func TestEchoesOfSharedMessagesAreFoundAgain(t *testing.T) {
	tree := pair(t, 16, nil)
	c := child(3)
	c.Parent, c.Base, c.Keep, c.Suffix = 1, 1, 16, ids(98)
	c.MsgBase, c.MsgKeep, c.MsgNew = 2, 3, []Hash{{4}, {5}}
	c.Echoes = append(c.Echoes, Echo{Message: 3, Verdict: EchoForeign})
	if err := tree.Add(c); err != nil {
		t.Fatal(err)
	}
	want := []Echo{{Message: 1, Turn: 1, Verdict: EchoExact, By: "content"}, {Message: 3, Verdict: EchoForeign}}
	got := tree.Echoes(3)
	if !slices.EqualFunc(got, want, func(a, b Echo) bool { return a.Message == b.Message && a.Turn == b.Turn && a.Verdict == b.Verdict }) {
		t.Errorf("%+v", got)
	}
}
