package host_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/host"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/trajectory"
)

func TestAToolLoopGivesTheSameTurnsWhateverTheWireAndTheEnginesPlace(t *testing.T) {
	var turns []*trajectory.Turn
	for _, over := range []bool{false, true} {
		var first []byte
		for _, way := range []string{"json", "sse", "live"} {
			t.Run(fmt.Sprintf("%s/http=%v", way, over), func(t *testing.T) {
				r := up(t, func(r *rig) { r.overNet, r.c.Live = over, way == "live" })
				answers := r.loop(r.open("t1"), way != "json")
				if len(answers) != 4 || len(answers[1].Calls) != 2 || answers[3].Finish != "stop" || answers[0].Finish != "tool_calls" {
					t.Fatalf("%+v", answers)
				}
				s := r.seal("t1")
				tree := r.proved("t1")
				prompt, completion := 0, 0
				for i, h := range answers {
					prompt, completion = prompt+h.Prompt, completion+h.Tokens
					if n := tree.Turns()[i]; h.Prompt != tree.PromptLen(n.Seq) || h.Tokens != len(n.Completion) {
						t.Errorf("turn %d: usage %d and %d", i+1, h.Prompt, h.Tokens)
					}
				}
				if s.Turns != 4 || s.Usage.Prompt != prompt || s.Usage.Completion != completion || len(s.Refused) != 0 || s.Last != "" {
					t.Errorf("%+v", s)
				}
				if first == nil {
					first = r.journal("t1")
				}
				if !bytes.Equal(first, r.journal("t1")) {
					t.Error("another journal than with JSON")
				}
				if turns == nil {
					turns = tree.Turns()
				}
				if d := cmp.Diff(turns, tree.Turns()); d != "" {
					t.Errorf("(-json +now):\n%s", d)
				}
				for _, n := range tree.Turns()[1:] {
					if c := trajectory.Continue(tree, n.Seq, trajectory.DefaultPolicy()); n.Parent != n.Seq-1 || c.Kind == trajectory.Split {
						t.Errorf("turn %d after %d: %+v", n.Seq, n.Parent, c)
					}
				}
			})
		}
	}
}

// A journal cut at any byte is gone on with. Who asks again for an answer that is recorded gets it; what is not is sampled as
// it was; and where no call was made twice the journal becomes, byte for byte, that of a trajectory that nothing happened to.
func TestAfterAKillAtAnyByteTheTrajectoryGoesOnToTheSameJournal(t *testing.T) {
	whole := up(t, nil)
	answers := whole.loop(whole.open("t1"), false)
	whole.seal("t1")
	want := whole.journal("t1")
	f, err := artifact.Decode(want)
	if err != nil {
		t.Fatal(err)
	}
	header := f.Records[0].Offset + f.Records[0].Size
	cuts := []int{header}
	for _, rec := range f.Records[1 : len(f.Records)-1] {
		cuts = append(cuts, rec.Offset+rec.Size-1, rec.Offset+rec.Size)
	}
	r := up(t, func(r *rig) { r.c.Engine = whole.calls.Engine })
	path := filepath.Join(r.dir, "t1", store.JournalName)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	open := host.Open{Identities: trajectory.Identities{Trajectory: "t1", Affinity: "a"}, Token: "key"}
	for _, cut := range cuts {
		if err := os.WriteFile(path, want[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := r.host.Reopen(t.Context(), open)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		talk, calls := user("please count the files"), r.calls.count()
		turns, heardOf := recordedBy(t, want[:cut])
		for i, h := range answers {
			if i >= heardOf && (i < turns || turns == heardOf) {
				if got := r.say(ask(e, talk, i%2 == 0)); cmp.Diff(h, got) != "" {
					t.Fatalf("cut at %d, turn %d: %s", cut, i+1, cmp.Diff(h, got))
				}
			}
			talk = append(talk, h.echo()...)
		}
		r.seal("t1")
		if turns > heardOf { // the answer was asked for twice
			if r.calls.count() != calls || r.proved("t1").Len() != turns {
				t.Fatalf("cut at %d: what was recorded was sampled again", cut)
			}
		} else if got := r.journal("t1"); !bytes.Equal(got, want) {
			t.Fatalf("cut at %d of %d: went on to another journal", cut, len(want))
		}
	}
	for cut, code := range map[int]fault.Code{0: fault.ArtifactTruncated, header - 1: fault.ArtifactTruncated, len(want): fault.SessionSealed} {
		if err := os.WriteFile(path, want[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := r.host.Reopen(t.Context(), open); fault.CodeOf(err) != code {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	if err := os.WriteFile(path, want[:header], 0o600); err != nil {
		t.Fatal(err)
	}
	open.Journal, open.Trajectory = "t1/"+store.JournalName, "t2"
	if _, err := r.host.Reopen(t.Context(), open); fault.CodeOf(err) != fault.ArtifactRecord {
		t.Errorf("another trajectory's journal: %v", err)
	}
}

// recordedBy counts the turns and the deliveries of a journal that may be cut.
func recordedBy(t *testing.T, b []byte) (turns, deliveries int) {
	t.Helper()
	rec, err := artifact.Recover(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range rec.File.Records {
		if x.Delivery != nil {
			deliveries++
		}
	}
	return rec.Turns, deliveries
}

func TestTrajectoriesThatRunAtTheSameTimeNeverMix(t *testing.T) {
	r := up(t, nil)
	const n = 8
	alone := up(t, nil)
	var all sync.WaitGroup
	for i := range n {
		id := fmt.Sprint("t", i)
		e := r.open(id)
		all.Go(func() { r.loop(e, i%2 == 0) })
	}
	all.Wait()
	for i := range n {
		id := fmt.Sprint("t", i)
		r.seal(id)
		alone.loop(alone.open(id), false)
		alone.seal(id)
		if d := cmp.Diff(alone.proved(id).Turns(), r.proved(id).Turns()); d != "" {
			t.Errorf("%s is another than alone (-alone +together):\n%s", id, d)
		}
	}
	a, b := r.open("a"), r.open("b")
	h := r.say(ask(a, user("please count the files"), false))
	if h = r.say(ask(b, append(user("please count the files"), h.echo()...), false)); h.Status != http.StatusOK {
		t.Fatal(h)
	}
	r.seal("b")
	tree := r.proved("b")
	if e := tree.Echoes(1); len(e) != 1 || e[0].Verdict != trajectory.EchoForeign || tree.Turns()[0].Parent != 0 {
		t.Errorf("what another trajectory sampled is %+v", e)
	}
	q := ask(b, user("hi"), false)
	q.path = a.Path + "/chat/completions"
	if h := r.say(q); h.Status != http.StatusUnauthorized || h.Code != string(fault.Unauthorized) {
		t.Errorf("with another trajectory's token: %+v", h)
	}
}

func TestCallsOfOneTrajectoryThatOverlapAreSiblings(t *testing.T) {
	r := up(t, nil)
	e := r.open("t1")
	var all sync.WaitGroup
	const n = 12
	for i := range n {
		all.Go(func() {
			if h := r.say(ask(e, user(fmt.Sprint("hello ", i%4)), i%2 == 0)); h.Status != http.StatusOK || h.Cut {
				t.Error(h)
			}
		})
	}
	all.Wait()
	if s := r.seal("t1"); s.Turns < 4 {
		t.Errorf("%d turns", s.Turns)
	}
	for _, n := range r.proved("t1").Turns() {
		if n.Parent != 0 {
			t.Errorf("turn %d after %d", n.Seq, n.Parent)
		}
	}
}

func TestLogProbabilitiesAreShownToWhoAsks(t *testing.T) {
	r := up(t, nil)
	e := r.open("t1")
	for i, stream := range []bool{false, true} {
		q := ask(e, user(fmt.Sprint("hello ", i)), stream)
		if h := r.say(q); h.Logprobs != 0 {
			t.Errorf("not asked for: %+v", h)
		}
		q.body["logprobs"] = true
		q.header = map[string]string{"Idempotency-Key": "k"}
		if h := r.say(q); h.Logprobs != h.Tokens || h.Tokens == 0 {
			t.Errorf("%+v", h)
		}
	}
}

func TestWithoutToolsNothingIsACall(t *testing.T) {
	r := up(t, nil)
	q := ask(r.open("t1"), user("please count the files"), false)
	delete(q.body, "tools")
	h := r.say(q)
	if h.Status != http.StatusOK || len(h.Calls) != 0 || h.Finish != "stop" || !strings.Contains(h.Content, "<tool_call>") {
		t.Errorf("%+v", h)
	}
	r.seal("t1")
	r.recorded("t1", good)
}
