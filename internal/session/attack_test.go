package session

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/text/unicode/norm"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
	"github.com/tito-rl/tito/internal/verify"
)

var (
	attackSeeds = flag.Uint64("attack.seeds", 0, "random trajectories of the attack; 0 = as many as fit into an ordinary run")
	attackFirst = flag.Uint64("attack.first", 0, "the first seed")
)

// attack drives everything between the wire and a training row: random harnesses send real request bodies, an engine
// answers in every way, clients leave, the host dies at any byte of its journal. The account of what was really sent and
// sampled is kept apart, and everything is held against it.
type attack struct {
	t    *testing.T
	seed uint64
	r    *rand.Rand
	m    *model.Model
	cfg  Config
	s    *Session
	now  int64

	w       *artifact.Writer
	file    []byte
	at      []int // length of the file after each append of this life
	durable uint64

	agents  []*agent
	flights map[CallID]*flight
	callers map[CallID]*agent
	truth   map[string]*flight // by the name that a turn records
	later   []Event
	seen    map[string]int // what happened, over all seeds
}

// flight is a completion under way and what was really sampled.
type flight struct {
	id       CallID
	prompt   []token.ID
	chunks   []EngineChunk
	last     Event
	ids      []token.ID
	logprobs []float32
	shifted  bool // a chunk had not as many log probabilities as ids
}

func (x *attack) chance(n, of int) bool { return x.r.IntN(of) < n }

func pick[T any](x *attack, of ...T) T { return of[x.r.IntN(len(of))] }

func newAttack(t *testing.T, m *model.Model, seed uint64, seen map[string]int) *attack {
	x := &attack{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 77)), m: m, seen: seen, now: 1000,
		flights: map[CallID]*flight{}, callers: map[CallID]*agent{}, truth: map[string]*flight{}, w: artifact.NewWriter()}
	h := trajectory.Header{Tito: "test", Custody: "host", Prompt: "full_history", RenderBy: "tito", Model: m.Info, VocabSize: m.VocabSize,
		Policy: trajectory.DefaultPolicy(), Stops: m.Stops}
	h.Trajectory = fmt.Sprint("trj_", seed)
	if x.chance(1, 4) {
		h.MaxContext = 1500
	}
	x.cfg = Config{Family: m.Family, Header: h, Processed: x.chance(7, 8), MaxTokens: 120, Live: x.chance(1, 3),
		Clock: template.Clock{Year: 2026, Month: 1, Day: 2, Weekday: 5, YearDay: 2}}
	if x.chance(1, 8) {
		x.cfg.Sampling = chat.Sampling{Temperature: 0.7, TopP: 1}
	}
	if x.chance(1, 2) {
		x.cfg.Classify = func(e *CallArrived) (trajectory.Class, string) {
			return trajectory.Class(e.Marks["class"]), "header"
		}
	}
	x.s = New(x.cfg)
	x.put(x.w.Header(x.s.Tree().Header()))
	for range 1 + x.r.IntN(2) {
		x.agents = append(x.agents, newAgent(x, ""))
	}
	return x
}

func (x *attack) put(b []byte, err error) {
	x.t.Helper()
	if err != nil {
		x.fatalf("append: %v", err)
	}
	x.file = append(x.file, b...)
}

func (x *attack) fatalf(format string, args ...any) {
	x.t.Helper()
	x.t.Fatalf("seed %d: %s", x.seed, fmt.Sprintf(format, args...))
}

func (x *attack) step(e Event) {
	x.t.Helper()
	x.now++
	effects, err := x.s.Step(e)
	if err != nil {
		x.fatalf("%v", err)
	}
	for _, e := range slices.Clone(effects) {
		x.effect(e)
	}
}

func (x *attack) effect(e Effect) {
	x.t.Helper()
	switch e := e.(type) {
	case Generate:
		x.rendered(e)
		f := &flight{id: e.Call, prompt: slices.Clone(e.IDs)}
		x.script(f, e)
		x.flights[e.Call], x.truth[x.s.callName(e.Call)] = f, f
	case Cancel:
		delete(x.flights, e.Call)
	case Append:
		for _, b := range e.Blobs {
			out, _, err := x.w.Blob(b.Bytes)
			x.put(out, err)
		}
		switch {
		case e.Turn != nil:
			x.put(x.w.Turn(e.Turn))
			x.committed(e.Turn)
		case e.Delivery != nil:
			x.put(x.w.Delivery(*e.Delivery))
		case e.End != nil:
			x.put(x.w.End(*e.End))
		}
		x.at = append(x.at, len(x.file))
	case Reply:
		x.seen["reply "+string(e.Continuity.Kind)]++
		if a := x.callers[e.Call]; a != nil {
			a.answered(x, e)
		}
		switch x.r.IntN(12) {
		case 0:
			x.later = append(x.later, ClientGone{e.Call, x.now})
		case 1: // nobody says
		default:
			x.later = append(x.later, Delivered{e.Call, x.now})
		}
	case Reject:
		x.seen["reject "+string(fault.CodeOf(e.Err))]++
		if a := x.callers[e.Call]; a != nil {
			a.failed(x, e.Call)
		}
	}
}

// rendered holds a prompt against a fresh render: what is taken over from an earlier one changes nothing, and no body of
// the harness becomes a special id.
func (x *attack) rendered(g Generate) {
	x.t.Helper()
	w := x.s.works[g.Call]
	r := w.event.Request
	out, err := x.m.Family.Render(family.Conversation{Messages: r.Messages, Tools: r.Tools, Kwargs: r.TemplateKwargs, Clock: x.cfg.Clock,
		Sampled: x.s.tree.Sampled(w.match)})
	if err != nil || !slices.Equal(out.IDs, g.IDs) {
		x.fatalf("call %d: a fresh render gives other ids: %v %s", g.Call, err, cmp.Diff(out.IDs, g.IDs))
	}
	if text, want := x.m.Family.Decode(g.IDs), norm.NFC.String(strings.ToValidUTF8(out.Text, "\uFFFD")); norm.NFC.String(text) != want {
		x.fatalf("call %d: the prompt decodes to\n%q, not\n%q", g.Call, text, want)
	}
	sampled := 0
	for _, ids := range x.s.tree.Sampled(w.match) {
		sampled += countIDs(ids, g.IDs[0])
	}
	if n := countIDs(g.IDs, g.IDs[0]); n > len(r.Messages)+2+sampled {
		x.fatalf("call %d: %d messages open in a prompt of %d", g.Call, n, len(r.Messages))
	}
}

func countIDs(ids []token.ID, id token.ID) (n int) {
	for _, i := range ids {
		if i == id {
			n++
		}
	}
	return n
}

// committed holds a turn against the account: invariant 1, and that nothing is shifted.
func (x *attack) committed(n *trajectory.Turn) {
	x.t.Helper()
	f := x.truth[n.Call]
	tree := x.s.Tree()
	switch {
	case f == nil:
		x.fatalf("turn %d is of an unknown call %s", n.Seq, n.Call)
	case !slices.Equal(tree.Prompt(n.Seq), f.prompt):
		x.fatalf("turn %d: its prompt is not what was sent", n.Seq)
	case !slices.Equal(n.Completion, f.ids):
		x.fatalf("turn %d: completion %v, sampled %v", n.Seq, n.Completion, f.ids)
	case n.LogprobState() == trajectory.LogprobOK && (f.shifted || !slices.Equal(n.Logprobs, f.logprobs)):
		x.fatalf("turn %d: log probabilities %v count as right, they were %v", n.Seq, n.Logprobs, f.logprobs)
	}
	if n.Base != 0 {
		c := tree.Checkpoint(n.Base)
		if keep := token.CommonPrefix(f.prompt, c); keep != n.Keep || !slices.Equal(f.prompt, append(c[:keep:keep], n.Suffix...)) {
			x.fatalf("turn %d keeps %d of %d shared ids", n.Seq, n.Keep, keep)
		}
	}
	delete(x.flights, f.id)
	x.seen["turn "+string(trajectory.Continue(tree, n.Seq, trajectory.DefaultPolicy()).Kind)+" "+n.Why]++
	for _, e := range n.Echoes {
		x.seen["echo "+string(e.Verdict)]++
		for _, w := range e.Which {
			x.seen["echo "+w]++
		}
	}
}

// act does one random thing.
func (x *attack) act() {
	ids := make([]CallID, 0, len(x.flights))
	for id := range x.flights {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	switch n := x.r.IntN(40); {
	case n < 12 || len(ids) == 0:
		if a := pick(x, x.agents...); !a.waiting {
			a.ask(x)
		}
	case n < 36:
		x.sample(x.flights[pick(x, ids...)])
	case n < 37:
		x.step(ClientGone{pick(x, ids...), x.now})
	case n < 38 && x.chance(1, 2):
		x.crash()
	}
	if x.chance(5, 6) {
		x.durable = uint64(len(x.at))
		x.step(Persisted{x.durable})
	}
	for len(x.later) > 0 && x.chance(7, 8) {
		e := x.later[0]
		x.later = x.later[1:]
		x.step(e)
		if gone, ok := e.(ClientGone); ok {
			if a := x.callers[gone.Call]; a != nil {
				a.failed(x, gone.Call)
			}
		}
	}
}

func (x *attack) sample(f *flight) {
	n := 1 + x.r.IntN(len(f.chunks)+1)
	for ; n > 0 && x.flights[f.id] == f; n-- {
		if len(f.chunks) == 0 {
			delete(x.flights, f.id)
			x.step(f.last)
			return
		}
		c := f.chunks[0]
		f.chunks = f.chunks[1:]
		c.At = x.now
		f.ids, f.logprobs, f.shifted = append(f.ids, c.IDs...), append(f.logprobs, c.Logprobs...), f.shifted || len(c.IDs) != len(c.Logprobs)
		x.step(c)
	}
}

// crash ends the host. Its journal is cut at a byte, mostly behind what was promised, and another host goes on.
func (x *attack) crash() {
	x.t.Helper()
	from := 0
	if n := min(x.durable, uint64(len(x.at))); n > 0 && x.chance(5, 6) {
		from = x.at[n-1]
	}
	cut := x.file[:from+x.r.IntN(len(x.file)-from+1)]
	rec, err := artifact.Recover(cut)
	if err != nil {
		x.fatalf("a file cut at %d: %v", len(cut), err)
	}
	if rec.File == nil {
		rec, _ = artifact.Recover(x.file)
	}
	x.file = bytes.Clone(x.file[:rec.Valid])
	tree, err := artifact.ToTree(rec.File)
	if err != nil {
		x.fatalf("%v", err)
	}
	x.w, x.s = artifact.Resume(rec.File), Restore(x.cfg, tree)
	x.at, x.durable, x.later, x.flights = nil, 0, nil, map[CallID]*flight{}
	for _, a := range x.agents {
		a.waiting = false
	}
	x.callers = map[CallID]*agent{}
	x.seen["crash"]++
}

// restored is the session that another host would make of the file as it is.
func (x *attack) restored() *Session {
	x.t.Helper()
	f, err := artifact.Decode(x.file)
	if err != nil {
		x.fatalf("%v", err)
	}
	tree, err := artifact.ToTree(f)
	if err != nil {
		x.fatalf("%v", err)
	}
	return Restore(x.cfg, tree)
}

// check proves the file: it holds what the live tree holds, verifies, and its rows are what the engine consumed.
func (x *attack) check() {
	x.t.Helper()
	other, live := x.restored().Tree(), x.s.Tree()
	if live.Len() != other.Len() {
		x.fatalf("the journal has %d turns, the live tree %d", other.Len(), live.Len())
	}
	for _, n := range live.Turns() {
		if m := other.Turn(n.Seq); !sameTurn(n, m) || live.Delivery(n.Seq) != other.Delivery(n.Seq) {
			x.fatalf("turn %d of the journal is not the live one:\n%s", n.Seq, cmp.Diff(n, m, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()))
		}
	}
	pol := x.policy()
	run, err := materialize.Run(live, materialize.Options{Policy: pol})
	if err != nil {
		x.fatalf("%+v: %v", pol, err)
	}
	rows := run.AppendJSON(nil)
	for range 2 { // the same bytes, wherever the tree comes from, and however often
		again, err := materialize.Run(other, materialize.Options{Policy: pol})
		if err != nil || !bytes.Equal(again.AppendJSON(nil), rows) {
			x.fatalf("%+v: samples from the journal differ: %v", pol, err)
		}
	}
	if _, err := verify.Verify(x.file, verify.Options{Policy: &pol, Runs: rows, Open: true}); err != nil {
		x.fatalf("%+v: %v", pol, err)
	}
	x.rows(&run)
}

// sameTurn compares all that two turns hold, NaNs by their bits.
func sameTurn(a, b *trajectory.Turn) bool {
	bits := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y) && slices.Equal(a.Suffix, b.Suffix) && slices.Equal(a.Completion, b.Completion) &&
		(a.Logprobs == nil) == (b.Logprobs == nil) && slices.EqualFunc(a.Logprobs, b.Logprobs, bits) &&
		(a.RawLogprobs == nil) == (b.RawLogprobs == nil) && slices.EqualFunc(a.RawLogprobs, b.RawLogprobs, bits) &&
		slices.Equal(a.MsgNew, b.MsgNew) && a.Tools == b.Tools && a.Settings == b.Settings
}

func (x *attack) policy() trajectory.Policy {
	p := trajectory.DefaultPolicy()
	switch x.r.IntN(4) {
	case 0:
		p.Realign = "off"
	case 1:
		p.RealignMax, p.Refused, p.Subagents, p.MaxContext = 2, "discard", "context", pick(x, 0, 300, 700)
	}
	return p
}

// rows holds every trained token against the account: it stands behind exactly the ids that the engine consumed.
func (x *attack) rows(run *materialize.RolloutRun) {
	x.t.Helper()
	sampled, trained := 0, map[trajectory.Seq]bool{}
	for _, n := range x.s.Tree().Turns() {
		sampled += len(x.truth[n.Call].ids)
	}
	if err := run.Ledger.Balance(); err != nil || run.Ledger.Sampled != sampled {
		x.fatalf("%d ids were sampled: %+v %v", sampled, run.Ledger, err)
	}
	for i := range run.Segments {
		s := &run.Segments[i]
		ones := 0
		for _, m := range s.LossMask {
			ones += int(m)
		}
		for _, span := range s.Turns {
			f := x.truth[x.s.Tree().Turn(span.Turn).Call]
			if !slices.Equal(s.Tokens[:span.Start], f.prompt) || !slices.Equal(s.Tokens[span.Start:span.End], f.ids[:span.Len()]) {
				x.fatalf("turn %d: its row is not what the engine consumed and sampled", span.Turn)
			}
			if !span.Trains {
				continue
			}
			ones -= span.Len()
			if trained[span.Turn] || !slices.Equal(s.Logprobs[span.Start:span.End], f.logprobs[:span.Len()]) || bytes.IndexByte(s.LossMask[span.Start:span.End], 0) >= 0 {
				x.fatalf("turn %d trains twice, or with what is not its own", span.Turn)
			}
			trained[span.Turn] = true
			x.seen["trains"]++
		}
		if ones != 0 {
			x.fatalf("segment %d trains %d ids of no turn", i, ones)
		}
	}
}

func playAttack(t *testing.T, m *model.Model, seed uint64, acts int, seen map[string]int) {
	x := newAttack(t, m, seed, seen)
	for range acts {
		x.act()
		if x.chance(1, 100) {
			x.check()
		}
	}
	x.step(Seal{Reason: "finished", Now: true, At: x.now})
	x.check()
	f, err := artifact.Decode(x.file)
	if err != nil || !f.Ended() {
		x.fatalf("the file has no end: %v", err)
	}
	if again, err := artifact.Encode(f); err != nil || !bytes.Equal(again, x.file) {
		x.fatalf("decoded and encoded again, the file differs: %v", err)
	}
	for _, f := range trajectory.Fates(x.s.Tree(), trajectory.DefaultPolicy())[1:] {
		seen["fate "+string(f.Kind)+" "+f.Reason]++
	}
}

func TestNothingAHarnessEngineOrCrashDoesBreaksTheTruth(t *testing.T) {
	m, err := bundle()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	n, acts := uint64(150), 50
	switch {
	case *attackSeeds > 0:
		n, acts = *attackSeeds, 120
	case os.Getenv("TITO_LONG") != "":
		n, acts = 3000, 120
	}
	for seed := *attackFirst; seed < *attackFirst+n; seed++ {
		playAttack(t, m, seed, acts, seen)
	}
	if testing.Verbose() {
		for _, k := range slices.Sorted(maps.Keys(seen)) {
			t.Logf("%6d %s", seen[k], k)
		}
	}
	if n < 150 {
		return
	}
	for _, k := range []string{"turn extend echo", "turn realign echo", "turn split echo", "turn root sub_agent", "turn root compaction",
		"turn root asked_again", "turn root answer_missing", "echo exact", "echo equivalent", "echo rewritten", "echo foreign", "crash", "trains",
		"fate discarded retry_transport", "fate discarded aborted", "fate discarded undelivered", "fate masked ambiguous",
		"fate masked logprob_missing", "fate masked logprob_count", "fate masked logprob_invalid", "fate auxiliary ", "fate trained "} {
		if seen[k] == 0 {
			t.Errorf("the attack never led to %q", k)
		}
	}
}

// script decides what the engine will do.
func (x *attack) script(f *flight, g Generate) {
	ids, finish := x.completion(), "stop"
	switch x.r.IntN(14) {
	case 0: // cut by its length
		ids = ids[:1+x.r.IntN(len(ids))]
		finish = "length"
	case 1: // the stop is not among the ids
		if len(ids) > 1 {
			ids = ids[:len(ids)-1]
		}
	case 2:
		ids = append(slices.Clone(ids), ids...)
	}
	if len(ids) > g.MaxTokens && x.chance(9, 10) {
		ids, finish = ids[:g.MaxTokens], "length"
	}
	f.last = EngineFinal{Call: g.Call, Finish: finish, Prompt: pick(x, nil, g.IDs), At: x.now}
	switch x.r.IntN(24) {
	case 0:
		ids = nil
	case 1:
		f.last = EngineFinal{Call: g.Call, Finish: pick(x, "", "abort"), At: x.now}
	case 2, 3:
		f.last = EngineFailed{g.Call, fault.New(fault.EngineCut, "scripted"), x.now}
		ids = ids[:x.r.IntN(len(ids)+1)]
	case 4:
		f.last = EngineFinal{Call: g.Call, Finish: finish, Prompt: g.IDs[1:], At: x.now}
	case 5:
		ids = append(slices.Clone(ids), token.ID(x.m.VocabSize))
	}
	x.cut(f, ids)
}

// cut makes chunks of ids, with the log probabilities that an engine gives or fails to give.
func (x *attack) cut(f *flight, ids []token.ID) {
	bad, version := x.r.IntN(40), pick(x, "", "v1")
	for len(ids) > 0 {
		n := 1 + x.r.IntN(min(len(ids), 16))
		c := EngineChunk{Call: f.id, IDs: ids[:n], Version: version}
		for range n {
			c.Logprobs = append(c.Logprobs, -x.r.Float32())
		}
		switch {
		case bad == 0:
			c.Logprobs = nil
		case bad == 1:
			c.Logprobs = c.Logprobs[1:]
		case bad == 2:
			c.Logprobs[0] = pick(x, float32(math.NaN()), float32(math.Inf(-1)), 0.5)
		case bad == 3 && len(f.chunks) == 0: // one too few here, one too many in the next
			c.Logprobs = c.Logprobs[1:]
		case bad == 3 && len(f.chunks) == 1:
			c.Logprobs = append(c.Logprobs, -1)
		case bad == 4:
			c.RawLogprobs = c.Logprobs[:x.r.IntN(n+1)]
		case bad < 9:
			c.RawLogprobs = slices.Clone(c.Logprobs)
		}
		if x.chance(1, 30) {
			version = "v2"
		}
		f.chunks, ids = append(f.chunks, c), ids[n:]
	}
}
