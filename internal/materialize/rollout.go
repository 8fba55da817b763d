package materialize

import (
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// RolloutRun is one logical rollout: one reward, one member of a group. Its segments are its samples.
type RolloutRun struct {
	RunID      string
	Trajectory string
	Group      string
	Advantage  *float64 // nil = not known yet; JSON null
	Reward     *float64 // nil = not scored; JSON null
	Segments   []Segment
	Ledger     Ledger
	// Nothing says why there is no segment; empty where there is one: no_turns, nothing_sampled, nothing_trainable.
	Nothing string
	// Untrained counts segments that were left out because no token of theirs trains. Their ids are in the ledger.
	Untrained int
}

// The reasons of RolloutRun.Nothing.
const (
	NothingTurns     = "no_turns"          // the trajectory has no turn
	NothingSampled   = "nothing_sampled"   // its turns have no sampled ids
	NothingTrainable = "nothing_trainable" // all that was sampled is masked, discarded or auxiliary
)

// Segment is a chain of turns that trains as one sequence. Tokens, LossMask, Logprobs and, where there are any,
// RawLogprobs have one entry a token. All slices belong to the run.
type Segment struct {
	Tokens       []token.ID
	LossMask     []uint8   // 1 on the ids that train
	Logprobs     []float32 // the behaviour policy's; 0 where the mask is 0, never to be read there
	RawLogprobs  []float32 // before temperature and truncation; nil unless every trained turn has them
	FinishReason trajectory.Finish
	StartReason  string // why it begins where it does: a root's or split's reason
	Turns        []TurnSpan
	Versions     []token.VersionSpan // by position in Tokens, over all sampled ids whose version is known
	Trained      int                 // number of ones in LossMask
	RunSamples   int                 // segments of the run, in each of them, so that a trainer can weight by run
	RunTrained   int                 // trained tokens of the run, likewise
}

// TurnSpan is what one turn gave to a segment. Span is its kept completion, by position in Tokens.
type TurnSpan struct {
	token.Span
	Turn    trajectory.Seq
	Kind    trajectory.Kind // how the segment goes on into this turn; root or split only for its first
	Reason  string
	Sampled int // ids of the whole completion
	Trains  bool
	// Truncated says that its sampling settings kept some ids from being sampled.
	Truncated bool
	Why       string // where it does not train: a reason of the ledger, or shared (it trains in another segment)
}

// WhyShared marks a turn that trains in another segment of its run.
const WhyShared = "shared"

// Ledger says what became of every sampled id, each counted once, by the turn that owns it.
type Ledger struct {
	Sampled   int            `json:"sampled"`
	Trained   int            `json:"trained"`
	Masked    map[string]int `json:"masked"`
	Discarded map[string]int `json:"discarded"`
	Auxiliary int            `json:"auxiliary"`
}

var (
	maskedReasons = []string{string(trajectory.LogprobMissing), string(trajectory.LogprobCount), string(trajectory.LogprobInvalid),
		trajectory.MaskUnclassified, trajectory.MaskAmbiguous, trajectory.MaskRealignPolicy}
	discardedReasons = []string{trajectory.DropRealignStop, trajectory.DropRealignCall, trajectory.DropRealignOther,
		trajectory.DropTrimmedStop, trajectory.DropRetry, trajectory.DropRefused, trajectory.DropAborted,
		trajectory.DropUndelivered, trajectory.DropContextOnly, trajectory.DropContextLimit}
)

// Balance checks that sampled = trained + masked + discarded + auxiliary and that every reason is of the closed list.
func (l Ledger) Balance() error {
	sum := l.Trained + l.Auxiliary
	for _, col := range []struct {
		counts map[string]int
		known  []string
	}{{l.Masked, maskedReasons}, {l.Discarded, discardedReasons}} {
		left := len(col.counts)
		for _, r := range col.known {
			n, ok := col.counts[r]
			if ok {
				left--
			}
			if n < 0 {
				return fault.New(fault.SessionInvariant, "the ledger counts %d ids as %s", n, r)
			}
			sum += n
		}
		if left != 0 {
			return fault.New(fault.SessionInvariant, "the ledger has a reason outside the closed list: %v", col.counts)
		}
	}
	if sum != l.Sampled || l.Trained < 0 || l.Auxiliary < 0 {
		return fault.New(fault.SessionInvariant, "the ledger does not balance: %d ids sampled, %d accounted for", l.Sampled, sum)
	}
	return nil
}

// LostToRealign counts sampled ids that realigns lost. What is lost so is systematic: more than 1 % of the sampled ids is
// worth a warning.
func (l Ledger) LostToRealign() int {
	return l.Discarded[trajectory.DropRealignStop] + l.Discarded[trajectory.DropRealignCall] + l.Discarded[trajectory.DropRealignOther]
}
