package session

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// world plays a harness with several conversations, an engine, a journal and a network that lose, delay and repeat, and
// keeps a dumb account of what was really sent and sampled.
type world struct {
	t    *testing.T
	rng  *rand.Rand
	d    *driver
	toy  *toy
	log  strings.Builder
	open map[CallID]*truth
	all  map[string]*truth // by the name that a turn records
	// requests that were sent, and the conversations that came of them
	requests []*chat.Request
	appended uint64
	durable  uint64
	turnAt   map[trajectory.Seq]uint64 // the append of each turn
	told     map[trajectory.Seq]chat.Reply
	later    []Event // that follow from effects
}

// truth is what really happened to a call.
type truth struct {
	id       CallID
	prompt   []token.ID
	max      int
	ids      []token.ID
	logprobs []float32
}

func newWorld(t *testing.T, seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{t: t, rng: rng, d: &driver{t: t}, open: map[CallID]*truth{}, all: map[string]*truth{}, turnAt: map[trajectory.Seq]uint64{},
		told: map[trajectory.Seq]chat.Reply{}}
	think := []string{"keep", "strip", "lean"}[rng.IntN(3)]
	w.d.open(args{named: map[string]string{"think": think, "max_tokens": "6", "max_context": "400"}})
	w.toy = w.d.toy
	return w
}

func (w *world) step(e Event) {
	w.t.Helper()
	w.d.now++
	effects, err := w.d.s.Step(e)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range effects {
		w.effect(e)
	}
}

func (w *world) effect(e Effect) {
	w.t.Helper()
	switch e := e.(type) {
	case Generate:
		t := &truth{id: e.Call, prompt: slices.Clone(e.IDs), max: e.MaxTokens}
		w.open[e.Call], w.all[w.d.s.callName(e.Call)] = t, t
		fmt.Fprintf(&w.log, "generate %d %v\n", e.Call, e.IDs)
	case Cancel:
		delete(w.open, e.Call)
		fmt.Fprintf(&w.log, "cancel %d\n", e.Call)
	case Append:
		w.appended++
		if e.ID != w.appended {
			w.t.Fatalf("append %d follows %d", e.ID, w.appended-1)
		}
		w.d.append(e)
		if e.Turn != nil {
			w.committed(e.Turn)
			w.turnAt[e.Turn.Seq] = e.ID
		}
	case Reply:
		if w.turnAt[e.Turn] > w.durable {
			w.t.Fatalf("turn %d is told before it is recorded", e.Turn)
		}
		if had, ok := w.told[e.Turn]; ok && !cmp.Equal(had, e.Reply) {
			w.t.Fatalf("turn %d is told again, otherwise", e.Turn)
		}
		w.told[e.Turn] = e.Reply
		w.d.out.Reset()
		fmt.Fprintf(&w.log, "reply %d %d %v %v\n", e.Call, e.Turn, e.Continuity, e.Replayed)
		switch w.rng.IntN(4) {
		case 0:
			w.later = append(w.later, ClientGone{e.Call, w.d.now})
		case 1: // nobody says
		default:
			w.later = append(w.later, Delivered{e.Call, w.d.now})
		}
	case Reject:
		fmt.Fprintf(&w.log, "reject %d %s\n", e.Call, fault.CodeOf(e.Err))
	}
}

// committed holds the turn against what really happened.
func (w *world) committed(t *trajectory.Turn) {
	w.t.Helper()
	was := w.all[t.Call]
	if was == nil {
		w.t.Fatalf("turn %d is of an unknown call %s", t.Seq, t.Call)
	}
	tree := w.d.s.Tree()
	if got := tree.Prompt(t.Seq); !slices.Equal(got, was.prompt) {
		w.t.Fatalf("turn %d: prompt %v, sent %v", t.Seq, got, was.prompt)
	}
	if !slices.Equal(t.Completion, was.ids) || !slices.Equal(t.Logprobs, was.logprobs) {
		w.t.Fatalf("turn %d: completion %v, sampled %v", t.Seq, t.Completion, was.ids)
	}
	delete(w.open, was.id)
	if t.Base != 0 {
		if n := token.CommonPrefix(was.prompt, tree.Checkpoint(t.Base)); n != t.Keep {
			w.t.Fatalf("turn %d keeps %d of the %d ids that it shares", t.Seq, t.Keep, n)
		}
	}
	c := trajectory.Continue(tree, t.Seq, tree.Header().Policy)
	if (c.Kind == trajectory.Root) != (t.Parent == 0) || c.Reason == "" && (c.Kind == trajectory.Root || c.Kind == trajectory.Split) {
		w.t.Fatalf("turn %d: %+v", t.Seq, c)
	}
	if t.Parent != 0 {
		whole := token.CommonPrefix(was.prompt, tree.Checkpoint(t.Parent)) == tree.CheckpointLen(t.Parent)
		if whole != (c.Kind == trajectory.Extend) {
			w.t.Fatalf("turn %d: %+v, whole %v", t.Seq, c, whole)
		}
	}
	fmt.Fprintf(&w.log, "turn %d %s", t.Seq, w.d.facts(t))
}

// act does one random thing.
func (w *world) act() {
	var ids []CallID
	for id := range w.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	n := w.rng.IntN(12)
	switch {
	case n < 3 || len(ids) == 0:
		w.ask()
	case n < 7:
		w.sample(w.open[ids[w.rng.IntN(len(ids))]])
	case n < 9:
		t := w.open[ids[w.rng.IntN(len(ids))]]
		for range 9 {
			w.sample(t)
		}
	case n == 9:
		w.step(ClientGone{ids[w.rng.IntN(len(ids))], w.d.now})
	case n == 10 && w.rng.IntN(3) == 0:
		w.restore()
	default:
		if w.rng.IntN(3) > 0 {
			w.durable = w.appended
			w.step(Persisted{w.durable})
		}
	}
	for len(w.later) > 0 {
		e := w.later[0]
		w.later = w.later[1:]
		w.step(e)
	}
}

// sample lets the engine give one more id, end, or fail.
func (w *world) sample(t *truth) {
	if w.open[t.id] != t {
		return
	}
	stop := w.toy.id(toyStop)
	switch n := w.rng.IntN(20); {
	case n == 0:
		delete(w.open, t.id)
		w.step(EngineFailed{t.id, fault.New(fault.EngineCut, "scripted"), w.d.now})
		return
	case len(t.ids) > 0 && t.ids[len(t.ids)-1] == stop:
		delete(w.open, t.id)
		w.step(EngineFinal{Call: t.id, Finish: "stop", Prompt: t.prompt, At: w.d.now})
		return
	case len(t.ids) == t.max:
		delete(w.open, t.id)
		w.step(EngineFinal{Call: t.id, Finish: "length", At: w.d.now})
		return
	}
	word := []string{"yes", "no", toyThink, toyThinkEnd, toyCall, toyCallEnd, "a", `{"x":`, "1}", toyStop, toyStop}[w.rng.IntN(11)]
	id := w.toy.id(word)
	t.ids, t.logprobs = append(t.ids, id), append(t.logprobs, -float32(w.rng.Float64()))
	w.step(EngineChunk{Call: t.id, IDs: []token.ID{id}, Logprobs: t.logprobs[len(t.logprobs)-1:], At: w.d.now})
}

// ask sends a request: a new one, an old one again, or one that goes on from a turn.
func (w *world) ask() {
	e := &CallArrived{At: w.d.now}
	turns := w.d.s.Tree().Turns()
	switch n := w.rng.IntN(6); {
	case n == 0 || len(turns) == 0:
		e.Request = w.lines([]string{"system: one", "system: two"}[w.rng.IntN(2)], []string{"user: a", "user: b"}[w.rng.IntN(2)])
	case n == 1 && len(w.requests) > 0:
		e.Request = w.requests[w.rng.IntN(len(w.requests))]
		e.RetryCount = w.rng.IntN(2)
	default:
		turn := turns[len(turns)-1-w.rng.IntN(min(3, len(turns)))]
		e.Request = w.goOn(turn)
	}
	e.Idempotency = []string{"", "", "", "k1", "k2"}[w.rng.IntN(5)]
	w.requests = append(w.requests, e.Request)
	if len(w.d.s.works) == 0 && len(w.later) == 0 {
		w.sameRestored(e)
	}
	w.step(e)
}

func (w *world) lines(ls ...string) *chat.Request {
	r := &chat.Request{N: 1}
	for _, l := range ls {
		w.d.message(r, l)
	}
	return r
}

// goOn is the request that a harness sends after a turn, with what harnesses do to a history.
func (w *world) goOn(turn *trajectory.Turn) *chat.Request {
	var before []chat.Message
	for _, r := range w.requests {
		if hashes := w.d.s.Tree().Messages(turn.Seq); len(r.Messages) == len(hashes) && trajectory.HashOf(r.Messages[len(hashes)-1].Raw) == hashes[len(hashes)-1] {
			before = r.Messages
		}
	}
	r := &chat.Request{N: 1, Messages: slices.Clone(before)}
	if w.rng.IntN(10) == 0 && len(r.Messages) > 1 {
		r.Messages = r.Messages[1:] // the front is gone
	}
	w.d.message(r, fmt.Sprintf("echo %d", turn.Seq))
	m := &r.Messages[len(r.Messages)-1]
	switch w.rng.IntN(8) {
	case 0:
		m.Reasoning = chat.Text{}
	case 1:
		m.Content = chat.T(m.Content.S + " edited")
	case 2:
		m.Calls = slices.Clone(m.Calls)
		for i := range m.Calls {
			m.Calls[i].Arguments = strings.ReplaceAll(m.Calls[i].Arguments, " ", "")
		}
	case 3:
		m.Content.Presence = chat.Present
	}
	m.Raw = fmt.Appendf(nil, "echo %v %v %v", m.Content, m.Reasoning, m.Calls)
	for _, c := range m.Calls {
		r.Messages = append(r.Messages, chat.Message{Role: chat.Tool, CallID: c.ID, Content: chat.T("out"), Raw: []byte("tool " + c.ID)})
	}
	if len(m.Calls) == 0 {
		w.d.message(r, []string{"user: go on", "user: and"}[w.rng.IntN(2)])
	}
	return r
}

// sameRestored asks a session that was restored from the journal the same: it must do the same.
func (w *world) sameRestored(e *CallArrived) {
	w.t.Helper()
	other := &driver{t: w.t, toy: w.toy, cfg: w.d.cfg, journal: w.d.journal, s: w.d.s}
	other.restore()
	other.s.calls = w.d.s.calls // calls that left no turn are not in the journal
	want := w.planOf(w.d.s, e)
	if got := w.planOf(other.s, e); got != want {
		w.t.Fatalf("restored session:\n%s\nlive one:\n%s", got, want)
	}
}

// planOf is what a session would do with a call, without doing it: the tree is only read until something is committed.
func (w *world) planOf(s *Session, e *CallArrived) string {
	c := *s
	c.works, c.pending, c.effects = map[CallID]*work{}, map[trajectory.Seq]uint64{}, nil
	effects, err := c.Step(e)
	if err != nil {
		w.t.Fatal(err)
	}
	var out strings.Builder
	for _, e := range effects {
		switch e := e.(type) {
		case Generate:
			p := c.works[e.Call].place
			fmt.Fprintf(&out, "generate %v max %d %+v %+v", e.IDs, e.MaxTokens, p, c.works[e.Call].match.Echoes)
		case Reply:
			fmt.Fprintf(&out, "reply %d %+v %+v", e.Turn, e.Reply, e.Continuity)
		case Reject:
			fmt.Fprintf(&out, "reject %s", fault.CodeOf(e.Err))
		}
	}
	return out.String()
}

// restore kills the host: what was not persisted is lost with the calls under way.
func (w *world) restore() {
	w.durable = w.appended
	w.step(Persisted{w.durable})
	w.later = nil
	w.open = map[CallID]*truth{}
	calls := w.d.s.calls
	w.d.restore()
	w.d.s.calls = calls
	w.appended, w.durable = 0, 0
	for seq := range w.turnAt {
		w.turnAt[seq] = 0
	}
	w.log.WriteString("restored\n")
}

func play(t *testing.T, seed uint64, events int) *world {
	w := newWorld(t, seed)
	for range events {
		w.act()
	}
	w.step(Seal{Reason: "finished", Now: true, At: w.d.now})
	for _, tr := range w.all {
		w.d.prompts[tr.id] = tr.prompt
	}
	w.d.checkAll()
	fates := trajectory.Fates(w.d.journal, trajectory.DefaultPolicy())
	if again := trajectory.Fates(w.d.s.Tree(), trajectory.DefaultPolicy()); !slices.Equal(fates, again) {
		t.Fatalf("seed %d: fates differ", seed)
	}
	return w
}

func TestRandomSchedulesKeepEveryInvariant(t *testing.T) {
	kinds := map[trajectory.Kind]int{}
	fates := map[string]int{}
	seeds := uint64(100)
	if os.Getenv("TITO_LONG") != "" {
		seeds = 2000
	}
	for seed := range seeds {
		w := play(t, seed, 150)
		tree := w.d.s.Tree()
		for _, turn := range tree.Turns() {
			kinds[trajectory.Continue(tree, turn.Seq, trajectory.DefaultPolicy()).Kind]++
		}
		for _, f := range trajectory.Fates(tree, trajectory.DefaultPolicy())[1:] {
			fates[string(f.Kind)+" "+f.Reason]++
		}
	}
	for _, k := range []trajectory.Kind{trajectory.Root, trajectory.Extend, trajectory.Realign, trajectory.Split} {
		if kinds[k] < 20 {
			t.Errorf("only %d turns %s: the schedules are too tame (%v)", kinds[k], k, kinds)
		}
	}
	for _, f := range []string{"trained ", "discarded retry_transport", "discarded aborted", "discarded undelivered", "masked ambiguous"} {
		if fates[f] < 20 {
			t.Errorf("only %d turns %s (%v)", fates[f], f, fates)
		}
	}
}

func TestTheSameEventsGiveTheSameEffects(t *testing.T) {
	for seed := range uint64(20) {
		if a, b := play(t, seed, 100), play(t, seed, 100); a.log.String() != b.log.String() {
			t.Fatalf("seed %d: %s", seed, cmp.Diff(a.log.String(), b.log.String()))
		}
	}
}
