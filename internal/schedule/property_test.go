package schedule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/fault"
)

// world is a host, trainer and engine in miniature. What becomes of an attempt follows from its seed alone.
type world struct {
	t       *testing.T
	s       *Scheduler
	rng     *rand.Rand
	flying  []Rollout
	owed    []Effect // train and publish effects not answered yet
	trained map[int]Batch
	served  int
	reports map[int]StepReport
	dropped map[int]string
	settled map[[2]int]bool
	finish  string
}

func (w *world) fate(r Rollout) Event {
	x := rand.New(rand.NewPCG(r.Seed, 1))
	switch p := x.Float64(); {
	case p < 0.15:
		return Event{Kind: Failed, Attempt: r.Attempt, Code: fault.SandboxFailed, Retryable: true}
	case p < 0.2:
		return Event{Kind: Failed, Attempt: r.Attempt, Code: fault.BadTask}
	}
	return Event{Kind: Finished, Attempt: r.Attempt, Reward: float64(x.IntN(2)), Trainable: x.IntN(4)}
}

// step takes an event and carries out its effects, unless the process dies in between.
func (w *world) step(e Event, dies bool) {
	effects := w.s.Step(e)
	if dies {
		w.restart()
		return
	}
	for _, f := range effects {
		w.do(f)
	}
	if c := w.s.Config().Concurrency; c > 0 && len(w.flying) > c {
		w.t.Fatalf("%d rollouts in flight, limit %d", len(w.flying), c)
	}
}

func (w *world) do(f Effect) {
	switch f.Kind {
	case Start:
		if f.Rollout.Version != w.served {
			w.t.Fatalf("rollout %+v under version %d is started while %d is served", f.Rollout.Attempt, f.Rollout.Version, w.served)
		}
		if _, ok := w.trained[f.Rollout.Step]; ok {
			w.t.Fatalf("rollout of step %d is started after the step was trained", f.Rollout.Step)
		}
		w.flying = append(w.flying, f.Rollout)
	case Train, Publish:
		w.owed = append(w.owed, f)
	case Report:
		if had, ok := w.reports[f.Report.Step]; ok && cmp.Diff(had, f.Report) != "" {
			w.t.Fatalf("step %d is reported in two ways", f.Report.Step)
		}
		w.reports[f.Report.Step] = f.Report
	case Drop:
		if w.dropped[f.Group] != "" {
			w.t.Fatalf("group %d is dropped twice", f.Group)
		}
		w.dropped[f.Group] = f.Reason
	case Finish:
		w.finish = f.Reason
	}
}

func (w *world) restart() {
	data, err := w.s.State()
	if err != nil {
		w.t.Fatal(err)
	}
	if w.s, err = Restore(data); err != nil {
		w.t.Fatal(err)
	}
	w.flying, w.owed, w.finish = nil, nil, ""
	w.step(Event{Kind: Begin}, false)
}

// next delivers one random thing that is under way.
func (w *world) next(dies bool) {
	if n := len(w.flying); n > 0 {
		i := w.rng.IntN(n)
		r := w.flying[i]
		w.flying = append(w.flying[:i:i], w.flying[i+1:]...)
		e := w.fate(r)
		if e.Kind == Finished {
			key := [2]int{r.Group, r.Member}
			if w.settled[key] {
				w.t.Fatalf("member %v is scored twice", key)
			}
			w.settled[key] = true
		}
		w.step(e, dies)
		return
	}
	if len(w.owed) == 0 {
		w.t.Fatal("nothing is under way and the run is not over")
	}
	f := w.owed[0]
	w.owed = w.owed[1:]
	if f.Kind == Publish {
		w.served = f.Version
		w.step(Event{Kind: Published, Version: f.Version}, dies)
		return
	}
	if _, ok := w.trained[f.Batch.Step]; !ok {
		w.trained[f.Batch.Step] = f.Batch
	}
	w.step(Event{Kind: Trained, Step: f.Batch.Step}, dies)
}

func play(t *testing.T, c Config, order uint64, crash float64) *world {
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, s: s, rng: rand.New(rand.NewPCG(order, 2)), trained: map[int]Batch{},
		reports: map[int]StepReport{}, dropped: map[int]string{}, settled: map[[2]int]bool{}}
	w.step(Event{Kind: Begin}, false)
	for i := 0; w.finish == ""; i++ {
		if i > 100000 {
			t.Fatal("the run does not end")
		}
		switch p := w.rng.Float64(); {
		case p < crash/2:
			w.restart()
		default:
			w.next(w.rng.Float64() < crash)
		}
	}
	return w
}

// batches forgets how often an attempt was issued, which is all that a restart may change.
func (w *world) batches() map[int]Batch {
	out := map[int]Batch{}
	for k, b := range w.trained {
		groups := make([]Group, len(b.Groups))
		for i, g := range b.Groups {
			runs := append([]Run(nil), g.Runs...)
			for j := range runs {
				runs[j].Issue = 0
			}
			g.Runs = runs
			groups[i] = g
		}
		b.Groups = groups
		out[k] = b
	}
	return out
}

func TestAnyOrderAndAnyRestartsGiveTheSameRun(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 3))
		c := Config{Seed: seed, Steps: 1 + r.IntN(4), Groups: 1 + r.IntN(3), Members: 2 + r.IntN(4), MaxRetries: r.IntN(3),
			Concurrency: r.IntN(5), Shuffle: r.IntN(2) == 0}
		for i := range 1 + r.IntN(4) {
			c.Tasks = append(c.Tasks, fmt.Sprint("t", i))
		}
		plain := play(t, c, seed, 0)
		rough := play(t, c, seed+1000, 0.1)
		if d := cmp.Diff(plain.batches(), rough.batches()); d != "" {
			t.Fatalf("seed %d: restarts changed what was trained:\n%s", seed, d)
		}
		if d := cmp.Diff(plain.reports[c.Steps-1], rough.reports[c.Steps-1]); d != "" {
			t.Fatalf("seed %d: restarts changed the last report:\n%s", seed, d)
		}
		checkWhole(t, plain, c)
	}
}

// checkWhole: each group is in one batch or dropped with a reason; a batch's advantages balance.
func checkWhole(t *testing.T, w *world, c Config) {
	t.Helper()
	seen := map[int]int{}
	for step, b := range w.trained {
		for _, g := range b.Groups {
			seen[g.Group]++
			if g.Group/c.Groups != step {
				t.Fatalf("group %d is in the batch of step %d", g.Group, step)
			}
			sum := 0.0
			for _, r := range g.Runs {
				sum += r.Advantage
			}
			if math.Abs(sum) > 1e-9 || len(g.Runs) < 2 {
				t.Fatalf("group %d: %d runs, advantages sum to %g", g.Group, len(g.Runs), sum)
			}
		}
	}
	for g := range w.dropped {
		seen[g]++
	}
	for g := range c.Steps * c.Groups {
		if seen[g] != 1 {
			t.Fatalf("group %d is accounted for %d times", g, seen[g])
		}
	}
	if len(w.reports) != c.Steps || w.finish != FinishDone {
		t.Fatalf("%d reports of %d steps, finish %q", len(w.reports), c.Steps, w.finish)
	}
}

func TestAdvantagesUseTheSampleDeviation(t *testing.T) {
	a, err := Advantages([]float64{1, 0, 0, 1})
	if err != nil || a.Mean != 0.5 || math.Abs(a.Std-math.Sqrt(1.0/3)) > 1e-15 || a.Uniform {
		t.Fatalf("%+v, %v", a, err)
	}
	if want := 0.5 / (a.Std + 1e-8); a.Values[0] != want || a.Values[1] != -want {
		t.Errorf("values %v, want ±%v", a.Values, want)
	}
	for _, same := range [][]float64{nil, {1}, {0.1, 0.1, 0.1}, {1, 1 + 1e-9}} {
		if a, err := Advantages(same); err != nil || !a.Uniform || len(a.Values) != len(same) {
			t.Errorf("%v: %+v, %v; want uniform", same, a, err)
		}
	}
	for _, bad := range [][]float64{{1, math.NaN()}, {math.Inf(1), 0}, {1e308, -1e308}} {
		if _, err := Advantages(bad); fault.CodeOf(err) != fault.RewardBad {
			t.Errorf("%v: %v; want %s", bad, err, fault.RewardBad)
		}
	}
}

func TestSeedsDifferByEveryPartOfTheNameButTheIssue(t *testing.T) {
	base := Attempt{Step: 1, Group: 2, Member: 3, Retry: 4}
	seen := map[uint64]bool{Seed(9, base): true, Seed(8, base): true}
	for _, a := range []Attempt{{2, 2, 3, 4, 0}, {1, 3, 3, 4, 0}, {1, 2, 4, 4, 0}, {1, 2, 3, 5, 0}} {
		seen[Seed(9, a)] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d different seeds of 6", len(seen))
	}
	again := base
	again.Issue = 7
	if Seed(9, again) != Seed(9, base) {
		t.Error("another issue of the same try draws another seed")
	}
	if Seed(9, base)>>63 != 0 {
		t.Error("a seed must fit an int64")
	}
}

func TestShuffledEpochsVisitEachTaskOnce(t *testing.T) {
	c := Config{Seed: 5, Shuffle: true, Tasks: []string{"a", "b", "c", "d", "e"}}
	for epoch := range 4 {
		seen := map[string]bool{}
		for i := range 5 {
			seen[c.task(epoch*5+i)] = true
		}
		if len(seen) != 5 {
			t.Errorf("epoch %d visits %d tasks of 5", epoch, len(seen))
		}
	}
}

func TestASavedStateThatIsNoneIsRefused(t *testing.T) {
	for _, bad := range []string{``, `{}`, `null`, `{"format":"tito-schedule/2"}`, `[1]`, `{"format":"tito-schedule/1","extra":1}`} {
		if _, err := Restore([]byte(bad)); fault.CodeOf(err) != fault.CheckpointBad {
			t.Errorf("%q: %v; want %s", bad, err, fault.CheckpointBad)
		}
	}
}

func FuzzRestore(f *testing.F) {
	s, err := New(Config{Tasks: []string{"a", "b"}, Steps: 2, Groups: 2, Members: 2})
	if err != nil {
		f.Fatal(err)
	}
	s.Step(Event{Kind: Begin})
	s.Step(Event{Kind: Finished, Reward: 1, Trainable: 1})
	data, _ := s.State()
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Restore(data)
		if err != nil {
			return
		}
		for _, e := range s.Step(Event{Kind: Begin}) {
			if e.Kind == Start {
				s.Step(Event{Kind: Finished, Attempt: e.Rollout.Attempt, Reward: 1})
			}
		}
		s.Step(Event{Kind: Trained, Step: s.s.Step})
		s.Step(Event{Kind: Published, Version: s.s.Version + 1})
		s.Step(Event{Kind: Stop})
	})
}
