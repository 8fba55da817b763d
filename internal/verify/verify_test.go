package verify_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
	"github.com/tito-rl/tito/internal/verify"
)

func tree(t testing.TB, b []byte) *trajectory.Tree {
	t.Helper()
	f, err := artifact.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := artifact.ToTree(f)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func runOf(t testing.TB, b []byte, p trajectory.Policy) ([]byte, materialize.RolloutRun) {
	t.Helper()
	reward := 1.0
	r, err := materialize.Run(tree(t, b), materialize.Options{Reward: &reward, Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	js, err := r.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return append(js, '\n'), r
}

func TestTheDerivedRunIsTheMaterializedOneOnRandomTrees(t *testing.T) {
	segments, seen := 0, map[string]int{}
	trees := uint64(150)
	if os.Getenv("TITO_LONG") != "" {
		trees = 3000
	}
	for seed := range trees {
		w, b := randomArtifact(t, seed)
		for range 2 {
			p := w.policy()
			js, run := runOf(t, b, p)
			rep, err := verify.Verify(b, verify.Options{Policy: &p, Runs: js})
			if err != nil {
				t.Fatalf("seed %d, policy %+v: %v", seed, p, err)
			}
			if rep.Runs != 1 || rep.Segments != len(run.Segments) {
				t.Fatalf("seed %d: %+v", seed, rep)
			}
			segments += len(run.Segments)
			for _, m := range []map[string]int{rep.Ledger.Masked, rep.Ledger.Discarded} {
				for k, n := range m {
					seen[k] += n
				}
			}
		}
	}
	t.Logf("%d segments; %v", segments, seen)
	for _, reason := range []string{"logprob_missing", "logprob_count", "logprob_invalid", "unclassified", "ambiguous", "realign_stop",
		"realign_call", "realign_other", "retry_transport", "refused", "aborted", "undelivered", "context_only", "context_limit"} {
		if seen[reason] == 0 {
			t.Errorf("no id was ever %s: the trees are too tame", reason)
		}
	}
}

func code(t *testing.T, b []byte, o verify.Options) fault.Code {
	t.Helper()
	rep, err := verify.Verify(b, o)
	if (err == nil) != (rep.Failed == nil) {
		t.Fatalf("error %v, report %+v", err, rep.Failed)
	}
	return fault.CodeOf(err)
}

func TestNoFlippedByteAndNoCutPasses(t *testing.T) {
	_, b := randomArtifact(t, 5)
	for i := range b {
		c := bytes.Clone(b)
		c[i] ^= 1 << (i % 8)
		if got := code(t, c, verify.Options{}); got == "" || got == fault.InternalError {
			t.Fatalf("byte %d changed: %q", i, got)
		}
		if got := code(t, b[:i], verify.Options{}); got != fault.ArtifactTruncated {
			t.Fatalf("cut at %d: %q", i, got)
		}
	}
}

func TestRecordsOutOfPlaceDoNotPass(t *testing.T) {
	_, b := randomArtifact(t, 6)
	f, err := artifact.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	rec := func(i int) []byte { return b[f.Records[i].Offset:][:f.Records[i].Size] }
	build := func(order []int) []byte {
		out := []byte(artifact.Preamble)
		for _, i := range order {
			out = append(out, rec(i)...)
		}
		return out
	}
	n := len(f.Records)
	for i := range n {
		for j := range i {
			order := seq(n)
			order[i], order[j] = order[j], order[i]
			if got := code(t, build(order), verify.Options{}); got != fault.ArtifactChain {
				t.Fatalf("%d and %d swapped: %q", i, j, got)
			}
		}
		if got := code(t, build(append(seq(i), seq(n)[i+1:]...)), verify.Options{}); got == "" {
			t.Fatalf("%d dropped, and it passed", i)
		}
		if got := code(t, build(append(append(seq(i+1), i), seq(n)[i+1:]...)), verify.Options{}); got == "" {
			t.Fatalf("%d doubled, and it passed", i)
		}
	}
}

func seq(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// TestALieInsideAWholeFileIsNamed re-writes an artifact with one changed fact, so that frames and chain are right.
func TestALieInsideAWholeFileIsNamed(t *testing.T) {
	_, b := randomArtifact(t, 9)
	for name, c := range map[string]struct {
		claim string
		lie   func(*artifact.Record) bool // whether it lied
	}{
		"custody": {verify.ClaimHeader, onHeader(func(h *trajectory.Header) { h.Custody = "moon" })},
		"a parent that is not the base": {verify.ClaimParents, onTurn(func(n *trajectory.Turn) bool {
			ok := n.Parent > 1
			if ok {
				n.Parent = 1
			}
			return ok
		})},
		"a shorter keep": {verify.ClaimKeep, onTurn(func(n *trajectory.Turn) bool {
			ok := n.Keep > 1
			if ok {
				n.Keep--
				n.Suffix = append(tree(t, b).Checkpoint(n.Base)[n.Keep:n.Keep+1:n.Keep+1], n.Suffix...)
			}
			return ok
		})},
		"an id past the vocabulary": {verify.ClaimVocabulary, onTurn(func(n *trajectory.Turn) bool { n.Completion[0] = 50; return n.Stop < 0 || len(n.Completion) > 1 })},
		"a class":                   {verify.ClaimWords, onTurn(func(n *trajectory.Turn) bool { n.Class = "boss"; return true })},
		"a finish":                  {verify.ClaimWords, onTurn(func(n *trajectory.Turn) bool { n.Finish = "eos"; return true })},
		"a stop that was not sampled": {verify.ClaimStop, onTurn(func(n *trajectory.Turn) bool {
			ok := n.Stop >= 0
			n.Stop = 7
			return ok
		})},
		"the same call id twice": {verify.ClaimCalls, onTurn(func(n *trajectory.Turn) bool {
			n.Reply.Calls = []trajectory.CallFact{{ID: "x"}, {ID: "x"}}
			return true
		})},
		"an echo past the request": {verify.ClaimEchoes, onTurn(func(n *trajectory.Turn) bool {
			ok := len(n.Echoes) > 0
			if ok {
				n.Echoes[0].Message += 100
			}
			return ok
		})},
		"a verdict": {verify.ClaimEchoes, onTurn(func(n *trajectory.Turn) bool {
			ok := len(n.Echoes) > 0
			if ok {
				n.Echoes[0].Verdict = "fine"
			}
			return ok
		})},
		"a delivery": {verify.ClaimDelivery, func(r *artifact.Record) bool {
			if r.Delivery != nil {
				r.Delivery.State = "lost"
			}
			return r.Delivery != nil
		}},
	} {
		f, err := artifact.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		lied := false
		for i := range f.Records {
			if lied = lied || c.lie(&f.Records[i]); lied {
				break
			}
		}
		if !lied {
			t.Errorf("%s: nothing to change; choose another seed", name)
			continue
		}
		out, err := artifact.Encode(f)
		if err != nil {
			t.Fatal(name, err)
		}
		rep, err := verify.Verify(out, verify.Options{})
		if fault.CodeOf(err) != fault.VerifyFailed || rep.Failed.Claim != c.claim {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func onHeader(f func(*trajectory.Header)) func(*artifact.Record) bool {
	return func(r *artifact.Record) bool {
		if r.Header != nil {
			f(r.Header)
		}
		return r.Header != nil
	}
}

func onTurn(f func(*trajectory.Turn) bool) func(*artifact.Record) bool {
	return func(r *artifact.Record) bool { return r.Turn != nil && f(r.Turn) }
}

func TestARunThatWasTamperedWithDoesNotPass(t *testing.T) {
	_, b := randomArtifact(t, 11)
	p := trajectory.DefaultPolicy()
	js, run := runOf(t, b, p)
	if len(run.Segments) == 0 || run.Segments[0].Trained == 0 {
		t.Fatal("no segment; choose another seed")
	}
	first := -1
	for i, m := range run.Segments[0].LossMask {
		if m == 1 {
			first = i
			break
		}
	}
	check := func(name string, change func(*materialize.RolloutRun)) {
		t.Helper()
		_, r := runOf(t, b, p)
		change(&r)
		js, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		rep, err := verify.Verify(b, verify.Options{Policy: &p, Runs: js})
		if fault.CodeOf(err) != fault.VerifyFailed || rep.Failed.Claim != verify.ClaimRuns {
			t.Errorf("%s: %v", name, err)
		}
	}
	check("a token", func(r *materialize.RolloutRun) { r.Segments[0].Tokens[first]++ })
	check("a mask", func(r *materialize.RolloutRun) { r.Segments[0].LossMask[first] = 0 })
	check("a mask on the prompt", func(r *materialize.RolloutRun) { r.Segments[0].LossMask[0] = 1 - r.Segments[0].LossMask[0] })
	check("a log probability", func(r *materialize.RolloutRun) { r.Segments[0].Logprobs[first] -= 0.001 })
	check("a log probability too few", func(r *materialize.RolloutRun) { r.Segments[0].Logprobs = r.Segments[0].Logprobs[1:] })
	check("a segment too few", func(r *materialize.RolloutRun) { r.Segments = r.Segments[1:] })
	check("a finish", func(r *materialize.RolloutRun) { r.Segments[0].FinishReason = "eos" })
	check("a weight", func(r *materialize.RolloutRun) { r.Segments[0].RunTrained++ })
	check("a turn's end", func(r *materialize.RolloutRun) { r.Segments[0].Turns[0].End-- })
	check("a turn's length", func(r *materialize.RolloutRun) { r.Segments[0].Turns[0].Sampled++ })
	check("which turn trains", func(r *materialize.RolloutRun) { r.Segments[0].Turns[0].Trains = !r.Segments[0].Turns[0].Trains })
	check("a policy version", func(r *materialize.RolloutRun) {
		r.Segments[0].Versions = append(r.Segments[0].Versions, token.VersionSpan{Span: token.Span{Start: 0, End: 1}, Version: "v9"})
	})
	check("what it trains", func(r *materialize.RolloutRun) { r.Segments[0].Trained++ })
	check("raw log probabilities that nobody recorded", func(r *materialize.RolloutRun) {
		r.Segments[0].RawLogprobs = make([]float32, len(r.Segments[0].Tokens))
	})
	check("raw log probabilities too few", func(r *materialize.RolloutRun) { r.Segments[0].RawLogprobs = []float32{-1} })
	check("the ledger", func(r *materialize.RolloutRun) { r.Ledger.Trained-- })
	check("another trajectory", func(r *materialize.RolloutRun) { r.Trajectory = "other" })
	for _, bad := range []string{"", "{", "[1]", string(js) + `{"trajectory":1}`, string(bytes.Replace(js, []byte(`"logprobs":[0.0`), []byte(`"logprobs":[null`), 1))} {
		if got := code(t, b, verify.Options{Policy: &p, Runs: []byte(bad)}); got != fault.VerifyFailed {
			t.Errorf("%.40s: %q", bad, got)
		}
	}
	if got := code(t, b, verify.Options{Policy: &p, Runs: append(js, js...)}); got != "" {
		t.Errorf("the true run: %q", got)
	}
}

func TestAnOpenTrajectoryPassesOnlyWhereThatIsAccepted(t *testing.T) {
	_, b := randomArtifact(t, 3)
	f, err := artifact.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	open := b[:f.Records[len(f.Records)-1].Offset]
	if got := code(t, open, verify.Options{}); got != fault.ArtifactTruncated {
		t.Errorf("%q", got)
	}
	if got := code(t, open, verify.Options{Open: true}); got != "" {
		t.Errorf("%q", got)
	}
}

func TestTheHeadThatWasKeptElsewhereIsCompared(t *testing.T) {
	_, b := randomArtifact(t, 3)
	rep, err := verify.Verify(b, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := code(t, b, verify.Options{Head: rep.Head}); got != "" {
		t.Errorf("%q", got)
	}
	_, other := randomArtifact(t, 4)
	if got := code(t, other, verify.Options{Head: rep.Head}); got != fault.VerifyFailed {
		t.Errorf("%q", got)
	}
}

func TestAnUnknownPolicyIsRefused(t *testing.T) {
	_, b := randomArtifact(t, 3)
	if got := code(t, b, verify.Options{Policy: &trajectory.Policy{Realign: "maybe"}}); got != fault.BadConfig {
		t.Errorf("%q", got)
	}
}

func TestTheReportListsWhatWasProved(t *testing.T) {
	_, b := randomArtifact(t, 1)
	rep, err := verify.Verify(b, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range rep.Claims {
		names = append(names, c.Name)
	}
	want := "[frames end header messages parents keep vocabulary words stop logprobs versions calls echoes delivery segments once ledger]"
	if d := cmp.Diff(want, fmt.Sprint(names)); d != "" {
		t.Error(d)
	}
}

// FuzzFacts changes recorded facts at will, within what the format allows, and reads a run beside them: whatever comes of it,
// nothing panics, and the report and the error agree.
func FuzzFacts(f *testing.F) {
	_, seedFile := randomArtifact(f, 1)
	js, _ := runOf(f, seedFile, trajectory.DefaultPolicy())
	f.Add(uint64(1), uint8(3), uint8(2), int64(7), js)
	f.Add(uint64(2), uint8(9), uint8(5), int64(-1), []byte(`{"trajectory":"trj_2","segments":[{}]}`))
	f.Fuzz(func(t *testing.T, seed uint64, record, field uint8, value int64, runs []byte) {
		_, b := randomArtifact(t, seed%64)
		file, err := artifact.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if n := file.Records[int(record)%len(file.Records)].Turn; n != nil {
			change(n, field, value)
		}
		out, err := artifact.Encode(file)
		if err != nil {
			return
		}
		rep, err := verify.Verify(out, verify.Options{Runs: runs})
		if (err == nil) != (rep.Failed == nil) || fault.CodeOf(err) == fault.InternalError {
			t.Fatal(err, rep.Failed)
		}
	})
}

func change(n *trajectory.Turn, field uint8, v int64) {
	switch field % 12 {
	case 0:
		n.Parent = trajectory.Seq(v)
	case 1:
		n.Base = trajectory.Seq(v)
	case 2:
		n.Keep = int(v)
	case 3:
		n.Nearest = trajectory.Seq(v)
	case 4:
		n.MsgBase = trajectory.Seq(v)
	case 5:
		n.MsgKeep = int(v)
	case 6:
		n.Stop = v
	case 7:
		n.Completion = nil
	case 8:
		n.Suffix = nil
	case 9:
		n.Logprobs = nil
	case 10:
		n.Echoes = []trajectory.Echo{{Message: int(v), Turn: trajectory.Seq(v), Verdict: trajectory.EchoExact}}
	case 11:
		n.Completion = append(n.Completion, token.ID(v))
	}
}
