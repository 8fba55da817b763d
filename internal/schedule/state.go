package schedule

import (
	"github.com/tito-rl/tito/internal/fault"
)

const stateFormat = "tito-schedule/1"

type phase string

const (
	phaseRollout phase = "rollout" // rollouts run
	phaseTrain   phase = "train"   // a batch is with the trainer
	phasePublish phase = "publish" // a version is with the engine
	phaseDone    phase = "done"
)

type status string

const (
	waiting status = "waiting" // to be started
	flying  status = "flying"
	scored  status = "scored"
	lost    status = "lost" // given up
)

type member struct {
	Status    status     `json:"status"`
	Retry     int        `json:"retry"`
	Issue     int        `json:"issue"`
	Reward    float64    `json:"reward"`
	Trainable int        `json:"trainable"`
	Code      fault.Code `json:"code,omitempty"` // of the last failure
}

type group struct {
	Task    string   `json:"task"`
	Members []member `json:"members"`
	Settled bool     `json:"settled"`        // no member waits or flies
	Drop    string   `json:"drop,omitempty"` // why it is not trained on
}

type state struct {
	Format   string  `json:"format"`
	Config   Config  `json:"config"`
	Phase    phase   `json:"phase"`
	Step     int     `json:"step"`
	Version  int     `json:"version"`
	Groups   []group `json:"groups"`
	Rejected int     `json:"rejected"` // in a row
	Stopping bool    `json:"stopping"`
	Reason   string  `json:"reason,omitempty"` // of Finish

	Failed map[string]int `json:"failed,omitempty"` // tries of this step that broke, by fault code

	Last       *StepReport `json:"last,omitempty"` // the last step's
	LastScored []Attempt   `json:"last_scored,omitempty"`
}

func (st *state) check() error {
	bad := func(what string) error {
		return fault.New(fault.CheckpointBad, "schedule: the saved state is no state of this version: %s", what)
	}
	if st.Format != stateFormat {
		return bad("format " + st.Format)
	}
	if err := st.Config.validate(); err != nil {
		return bad(err.Error())
	}
	switch st.Phase {
	case phaseRollout, phaseTrain, phasePublish, phaseDone:
	default:
		return bad("phase " + string(st.Phase))
	}
	if st.Step < 0 || st.Step > st.Config.Steps || st.Version < 0 || len(st.Groups) != st.Config.Groups {
		return bad("step, version or number of groups")
	}
	for _, g := range st.Groups {
		if len(g.Members) != st.Config.Members {
			return bad("number of members")
		}
		for _, m := range g.Members {
			switch m.Status {
			case waiting, flying, scored, lost:
			default:
				return bad("status " + string(m.Status))
			}
		}
	}
	return nil
}

func (st *state) openStep() {
	c := st.Config
	st.Failed = nil
	st.Groups = make([]group, c.Groups)
	for i := range st.Groups {
		st.Groups[i] = group{Task: c.task(st.Step*c.Groups + i), Members: make([]member, c.Members)}
		for m := range st.Groups[i].Members {
			st.Groups[i].Members[m].Status = waiting
		}
	}
}

func (st *state) begin() []Effect {
	var out []Effect
	if st.Last != nil {
		out = append(out, Effect{Kind: Report, Report: *st.Last, Scored: st.LastScored})
	}
	switch st.Phase {
	case phaseRollout:
		return st.advance(out)
	case phaseTrain:
		return append(out, Effect{Kind: Train, Batch: st.batch()})
	case phasePublish:
		return append(out, Effect{Kind: Publish, Version: st.Version + 1})
	}
	return append(out, Effect{Kind: Finish, Reason: st.Reason})
}

// advance starts what may start; once every group has settled it goes on to the trainer, or past it where no group is
// left to train on.
func (st *state) advance(out []Effect) []Effect {
	if out = st.fill(out); !st.allSettled() {
		return out
	}
	if b := st.batch(); len(b.Groups) > 0 {
		st.Phase = phaseTrain
		return append(out, Effect{Kind: Train, Batch: b})
	}
	return st.closeStep(out)
}

// fill starts waiting members in order while the limit allows.
func (st *state) fill(out []Effect) []Effect {
	free := st.Config.Concurrency - st.flying()
	if st.Config.Concurrency == 0 {
		free = st.Config.Groups * st.Config.Members
	}
	for g := range st.Groups {
		for m := range st.Groups[g].Members {
			if free <= 0 {
				return out
			}
			mem := &st.Groups[g].Members[m]
			if mem.Status != waiting {
				continue
			}
			mem.Status = flying
			free--
			out = append(out, Effect{Kind: Start, Rollout: st.rollout(g, m)})
		}
	}
	return out
}

func (st *state) flying() int {
	n := 0
	for _, g := range st.Groups {
		for _, m := range g.Members {
			if m.Status == flying {
				n++
			}
		}
	}
	return n
}

func (st *state) attempt(g, m int) Attempt {
	mem := st.Groups[g].Members[m]
	return Attempt{Step: st.Step, Group: st.Step*st.Config.Groups + g, Member: m, Retry: mem.Retry, Issue: mem.Issue}
}

func (st *state) rollout(g, m int) Rollout {
	a := st.attempt(g, m)
	return Rollout{Attempt: a, Task: st.Groups[g].Task, Seed: Seed(st.Config.Seed, a), Version: st.Version}
}

// settle takes the end of one attempt.
func (st *state) settle(e Event) []Effect {
	g, m := e.Attempt.Group-st.Step*st.Config.Groups, e.Attempt.Member
	if st.Phase != phaseRollout || g < 0 || g >= len(st.Groups) || m < 0 || m >= st.Config.Members ||
		st.Groups[g].Members[m].Status != flying || st.attempt(g, m) != e.Attempt {
		return ignored("the attempt is not in flight")
	}
	mem := &st.Groups[g].Members[m]
	if e.Kind == Failed {
		count(&st.Failed, string(e.Code))
	}
	switch {
	case e.Kind == Finished:
		mem.Status, mem.Reward, mem.Trainable = scored, e.Reward, max(e.Trainable, 0)
	case e.Kind == Cancelled && st.Stopping: // it waits for the resume, as the same try
		mem.Status = waiting
		mem.Issue++
		return st.stopped()
	case e.Kind == Failed && e.Retryable && mem.Retry < st.Config.MaxRetries:
		mem.Status, mem.Code = waiting, e.Code
		mem.Retry++
		mem.Issue = 0
	default:
		mem.Status, mem.Code = lost, e.Code
		if e.Kind == Cancelled {
			mem.Code = fault.Interrupted
		}
	}
	out := st.closeGroup(g)
	if st.Phase == phaseDone {
		return out
	}
	if st.Stopping {
		return append(out, st.stopped()...)
	}
	return st.advance(out)
}

// closeGroup judges a group once its last member has settled.
func (st *state) closeGroup(g int) []Effect {
	gr := &st.Groups[g]
	for _, m := range gr.Members {
		if m.Status == waiting || m.Status == flying {
			return nil
		}
	}
	gr.Settled = true
	rewards, trainable := gr.rewards()
	switch adv, err := Advantages(rewards); {
	case len(rewards) < st.Config.MinGroup:
		gr.Drop = DropMinGroup
	case err != nil:
		gr.Drop = DropNonFinite
	case adv.Uniform:
		gr.Drop = DropZeroVariance
	case trainable == 0:
		gr.Drop = DropNothing
	}
	if gr.Drop != DropMinGroup {
		st.Rejected = 0
	} else {
		st.Rejected++
	}
	if gr.Drop == "" {
		return nil
	}
	out := []Effect{{Kind: Drop, Group: st.Step*st.Config.Groups + g, Task: gr.Task, Reason: gr.Drop}}
	if st.Config.MaxRejected > 0 && st.Rejected >= st.Config.MaxRejected {
		return append(append(out, st.cancelAll()...), st.finish(FinishFaults)...)
	}
	return out
}

func (gr *group) rewards() (rewards []float64, trainable int) {
	for _, m := range gr.Members {
		if m.Status == scored {
			rewards = append(rewards, m.Reward)
			trainable += m.Trainable
		}
	}
	return rewards, trainable
}

func (st *state) allSettled() bool {
	for _, g := range st.Groups {
		if !g.Settled {
			return false
		}
	}
	return true
}

// batch is the step's batch; it is a function of the state alone, so that a resume gives the same one.
func (st *state) batch() Batch {
	b := Batch{Step: st.Step, Version: st.Version}
	for g, gr := range st.Groups {
		if !gr.Settled || gr.Drop != "" {
			continue
		}
		rewards, _ := gr.rewards()
		adv, err := Advantages(rewards)
		if err != nil {
			continue // closeGroup dropped such a group
		}
		out := Group{Group: st.Step*st.Config.Groups + g, Task: gr.Task, Mean: adv.Mean, Std: adv.Std}
		for m, mem := range gr.Members {
			if mem.Status == scored {
				out.Runs = append(out.Runs, Run{st.attempt(g, m), mem.Reward, adv.Values[len(out.Runs)]})
			}
		}
		b.Groups = append(b.Groups, out)
	}
	return b
}

func (st *state) trained(step int) []Effect {
	if st.Phase != phaseTrain || step != st.Step {
		return ignored("the step is not with the trainer")
	}
	st.Phase = phasePublish
	if st.Stopping {
		return st.stopped() // the resume publishes
	}
	return []Effect{{Kind: Publish, Version: st.Version + 1}}
}

func (st *state) published(version int) []Effect {
	if st.Phase != phasePublish || version != st.Version+1 {
		return ignored("the version is not being published")
	}
	st.Version = version
	return st.closeStep(nil)
}

// closeStep reports the step and opens the next one.
func (st *state) closeStep(out []Effect) []Effect {
	r := st.report()
	st.Last, st.LastScored = &r, st.scored()
	out = append(out, Effect{Kind: Report, Report: r, Scored: st.LastScored})
	st.Step++
	if st.Step >= st.Config.Steps {
		return append(out, st.finish(FinishDone)...)
	}
	st.Phase = phaseRollout
	st.openStep()
	if st.Stopping {
		return append(out, st.stopped()...)
	}
	return st.fill(out)
}

func (st *state) report() StepReport {
	r := StepReport{Step: st.Step, Version: st.Version, Failed: st.Failed}
	sum := 0.0
	for _, g := range st.Groups {
		if g.Drop == "" {
			r.Groups++
		} else {
			count(&r.Dropped, g.Drop)
		}
		for _, m := range g.Members {
			r.Retries += m.Retry
			if m.Status == scored {
				r.Scored++
				sum += m.Reward
			} else {
				count(&r.Lost, string(m.Code))
			}
		}
	}
	if r.Scored > 0 {
		r.Reward = sum / float64(r.Scored)
	}
	return r
}

func (st *state) scored() []Attempt {
	var out []Attempt
	for g := range st.Groups {
		for m := range st.Groups[g].Members {
			if st.Groups[g].Members[m].Status == scored {
				out = append(out, st.attempt(g, m))
			}
		}
	}
	return out
}

func count(m *map[string]int, key string) {
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[key]++
}

// stop asks for an early end. What flies is cancelled and kept for a resume; a trainer step or publication under way is
// let finish.
func (st *state) stop() []Effect {
	if st.Stopping || st.Phase == phaseDone {
		return ignored("already stopping or over")
	}
	st.Stopping = true
	if st.Phase != phaseRollout {
		return nil
	}
	return append(st.cancelAll(), st.stopped()...)
}

// stopped tells the end of an interrupted run once nothing flies. The state stays one to resume from.
func (st *state) stopped() []Effect {
	if st.Phase == phaseDone || st.flying() > 0 {
		return nil
	}
	return []Effect{{Kind: Finish, Reason: FinishInterrupted}}
}

func (st *state) cancelAll() []Effect {
	var out []Effect
	for g := range st.Groups {
		for m := range st.Groups[g].Members {
			if st.Groups[g].Members[m].Status == flying {
				out = append(out, Effect{Kind: Cancel, Rollout: st.rollout(g, m)})
			}
		}
	}
	return out
}

func (st *state) finish(reason string) []Effect {
	st.Phase, st.Reason = phaseDone, reason
	return []Effect{{Kind: Finish, Reason: reason}}
}
