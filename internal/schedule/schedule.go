// Package schedule decides what a training run does next: which rollouts to start, what to train on, when to publish.
//
// It is a state machine, Step(event) -> effects, pure and serialisable. The host persists [Scheduler.State] after every
// Step and before it carries out the effects; [Restore] then goes on from any point: what was in flight is issued again,
// what was trained is not. The same events give the same effects, in the same order.
//
// Now the loop is synchronous: a step is Groups groups of Members rollouts under one policy version, then one trainer
// step, then one publication. Asynchrony comes behind the same events and effects. The package must not know what a
// rollout is made of, nor hold its samples: it knows rewards, and names attempts.
package schedule

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/tito-rl/tito/internal/fault"
)

// Config is what a run is scheduled by. It is part of the saved state; a resumed run keeps it.
type Config struct {
	Seed        uint64   `json:"seed"`
	Tasks       []string `json:"tasks"`       // rows; an epoch goes once over them
	Shuffle     bool     `json:"shuffle"`     // each epoch in an order of its own, derived from Seed
	Steps       int      `json:"steps"`       // trainer steps to make
	Groups      int      `json:"groups"`      // groups a step
	Members     int      `json:"members"`     // rollouts a group, at least 2
	MinGroup    int      `json:"min_group"`   // a group with fewer scored rollouts is rejected; 0 = 2
	MaxRetries  int      `json:"max_retries"` // tries after the first, for each member
	Concurrency int      `json:"concurrency"` // rollouts in flight; 0 = no limit
	// MaxRejected ends the run after so many rejected groups in a row: then the fault is not in the tasks. 0 = no limit.
	MaxRejected int `json:"max_rejected"`
}

func (c *Config) validate() error {
	if c.MinGroup == 0 {
		c.MinGroup = 2
	}
	bad := ""
	switch {
	case len(c.Tasks) == 0:
		bad = "no tasks"
	case c.Steps < 1:
		bad = "steps must be at least 1"
	case c.Groups < 1:
		bad = "groups must be at least 1"
	case c.Members < 2:
		bad = "members must be at least 2: an advantage needs rewards to compare"
	case c.MinGroup < 2 || c.MinGroup > c.Members:
		bad = "min_group must lie between 2 and members"
	case c.Steps > 1e9 || c.Groups > 1e6 || c.Members > 1e6 || c.Groups*c.Members > 1e6:
		bad = "more than 1e9 steps, or 1e6 rollouts a step"
	case c.MaxRetries < 0 || c.Concurrency < 0 || c.MaxRejected < 0:
		bad = "max_retries, concurrency and max_rejected must not be negative"
	default:
		return nil
	}
	return fault.New(fault.BadConfig, "schedule: %s", bad)
}

// Attempt names one try of one member. A retry renews everything derived from it but run, group and member; an issue
// above 0 is the same try started again after a restart, with the same seed.
type Attempt struct {
	Step   int `json:"step"`
	Group  int `json:"group"` // counts through the whole run: Step*Groups + place in the step
	Member int `json:"member"`
	Retry  int `json:"retry"`
	Issue  int `json:"issue"`
}

// EventKind says what happened.
type EventKind string

// The events.
const (
	Begin     EventKind = "begin"     // the host is ready, once after New or Restore: issues all that is owed
	Finished  EventKind = "finished"  // Attempt was scored with Reward
	Failed    EventKind = "failed"    // Attempt broke, with Code; Retryable
	Cancelled EventKind = "cancelled" // Attempt was stopped by the host
	Trained   EventKind = "trained"   // the trainer made step Step
	Published EventKind = "published" // the engine serves version Version
	Stop      EventKind = "stop"      // end soon: cancels what is in flight, keeps it for a resume
)

// Event is one thing that happened. An event about an attempt that is not in flight, or a step or version that is not
// awaited, changes nothing: events may be delivered twice.
type Event struct {
	Kind      EventKind
	Attempt   Attempt
	Reward    float64
	Trainable int // trained tokens of the run's samples; 0 = none came out
	Code      fault.Code
	Retryable bool
	Step      int
	Version   int
}

// EffectKind says what to do.
type EffectKind string

// The effects.
const (
	Start  EffectKind = "start"  // run Rollout
	Cancel EffectKind = "cancel" // stop Rollout, report Cancelled
	// Train hands Batch to the trainer. A trainer that has made this step before must not make it again: it answers
	// Trained at once. The step number is the key.
	Train   EffectKind = "train"
	Publish EffectKind = "publish" // publish Version, report Published
	Drop    EffectKind = "drop"    // group Group is not trained on, for Reason
	// Report says that step Report.Step is over. After a resume the last report comes again, as it may not have been
	// written down: know it by its step.
	Report  EffectKind = "report"
	Finish  EffectKind = "finish"  // the run is over, for Reason
	Ignored EffectKind = "ignored" // the event fits nothing; Reason says why
)

// Reasons of Drop and Finish.
const (
	DropMinGroup     = "min_group"     // too few scored rollouts
	DropZeroVariance = "zero_variance" // all rewards equal: nothing to learn
	DropNothing      = "no_trainable"  // no rollout of the group has a trained token
	DropNonFinite    = "non_finite"    // the rewards have no finite advantage

	FinishDone        = "done"
	FinishInterrupted = "interrupted"
	FinishFaults      = "faults" // MaxRejected was reached
)

// Rollout is what to run.
type Rollout struct {
	Attempt
	Task    string `json:"task"`
	Seed    uint64 `json:"seed"`
	Version int    `json:"version"` // policy version to sample under
}

// Run is one scored rollout of a group.
type Run struct {
	Attempt
	Reward    float64 `json:"reward"`
	Advantage float64 `json:"advantage"`
}

// Group is the runs that share a task and make one another's baseline.
type Group struct {
	Group int     `json:"group"`
	Task  string  `json:"task"`
	Mean  float64 `json:"mean"`
	Std   float64 `json:"std"` // sample standard deviation
	Runs  []Run   `json:"runs"`
}

// Batch is what one trainer step learns from.
type Batch struct {
	Step    int     `json:"step"`
	Version int     `json:"version"` // the version that sampled it
	Groups  []Group `json:"groups"`
}

// StepReport sums up a step.
type StepReport struct {
	Step    int            `json:"step"`
	Version int            `json:"version"` // after the step
	Scored  int            `json:"scored"`
	Reward  float64        `json:"reward"` // mean over the scored rollouts, 0 where there is none
	Groups  int            `json:"groups"` // trained on
	Dropped map[string]int `json:"dropped,omitempty"`
	Retries int            `json:"retries"`
	Failed  map[string]int `json:"failed,omitempty"` // tries that broke, by fault code
	Lost    map[string]int `json:"lost,omitempty"`   // members given up, by fault code
}

// Effect is one thing to do.
type Effect struct {
	Kind    EffectKind
	Rollout Rollout
	Batch   Batch
	Group   int
	Task    string
	Version int
	Reason  string
	Report  StepReport
	Scored  []Attempt // of a Report: the attempts that gave the step's rewards
}

// Scheduler is the state machine. It is not safe for concurrent use.
type Scheduler struct {
	s     state
	begun bool
}

// New makes a scheduler at the start of a run.
func New(c Config) (*Scheduler, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Scheduler{s: state{Format: stateFormat, Config: c, Phase: phaseRollout}}
	s.s.openStep()
	return s, nil
}

// State is the whole state as JSON, for [Restore].
func (s *Scheduler) State() ([]byte, error) { return json.Marshal(&s.s) }

// Restore takes a state back. Its next event is Begin.
func Restore(data []byte) (*Scheduler, error) {
	var st state
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&st); err != nil {
		return nil, fault.Wrap(fault.CheckpointBad, err, "schedule: the saved state cannot be read")
	}
	if err := st.check(); err != nil {
		return nil, err
	}
	st.Stopping = false
	if st.Phase == phaseDone && st.Reason == FinishFaults { // whoever resumes has mended the cause
		st.Phase, st.Reason, st.Rejected = phaseRollout, "", 0
	}
	for g := range st.Groups {
		for m := range st.Groups[g].Members {
			if mem := &st.Groups[g].Members[m]; mem.Status == flying {
				mem.Status = waiting
				mem.Issue++
			}
		}
	}
	return &Scheduler{s: st}, nil
}

// Config is the run's configuration.
func (s *Scheduler) Config() Config { return s.s.Config }

// Done says whether the run is over.
func (s *Scheduler) Done() bool { return s.s.Phase == phaseDone }

// Position is the step under way and the version published last.
func (s *Scheduler) Position() (step, version int) { return s.s.Step, s.s.Version }

// Settled is how many members of the step under way have been scored or given up, and how many there are.
func (s *Scheduler) Settled() (settled, total int) {
	for _, g := range s.s.Groups {
		for _, m := range g.Members {
			if m.Status == scored || m.Status == lost {
				settled++
			}
			total++
		}
	}
	return settled, total
}

// Step takes one event and says what to do.
func (s *Scheduler) Step(e Event) []Effect {
	st := &s.s
	if e.Kind == Finished && (math.IsNaN(e.Reward) || math.IsInf(e.Reward, 0)) {
		e = Event{Kind: Failed, Attempt: e.Attempt, Code: fault.RewardBad}
	}
	if !s.begun && e.Kind == Stop {
		return st.stopped()
	}
	if s.begun == (e.Kind == Begin) {
		return ignored("begin comes first, and once")
	}
	switch e.Kind {
	case Begin:
		s.begun = true
		return st.begin()
	case Stop:
		return st.stop()
	case Finished, Failed, Cancelled:
		return st.settle(e)
	case Trained:
		return st.trained(e.Step)
	case Published:
		return st.published(e.Version)
	}
	return ignored("unknown event " + string(e.Kind))
}

func ignored(why string) []Effect { return []Effect{{Kind: Ignored, Reason: why}} }
