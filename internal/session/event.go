package session

import (
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// CallID numbers the calls of a trajectory from 1, in order of arrival.
type CallID uint64

// Event is something that happened. Times are Unix milliseconds.
type Event interface{ event() }

// CallArrived is a request of the harness. The first effect of the Step names its call, and [Session.Next] gave it before.
type CallArrived struct {
	Request       *chat.Request     // kept until the call is settled
	Session       string            // the harness's session header: a hint
	ParentSession string            // a sub-agent's parent, where the harness says
	Idempotency   string            // idempotency key; "" = none
	RetryCount    int               // as the client counts; 0 = first try or not said
	Marks         map[string]string // what else the classifier looks at, such as headers by lower-case name
	At            int64
}

// EngineChunk is a stretch of a completion. Columns are nil where the engine gives none; they are judged, never repaired.
type EngineChunk struct {
	Call        CallID
	IDs         []token.ID
	Logprobs    []float32
	RawLogprobs []float32
	Version     string
	At          int64
}

// EngineFinal ends a completion that was not cut.
type EngineFinal struct {
	Call   CallID
	Finish string     // stop, length
	Prompt []token.ID // as the engine reports them; nil = it does not
	Cached int
	At     int64
}

// EngineFailed ends a completion that is not whole.
type EngineFailed struct {
	Call CallID
	Err  error
	At   int64
}

// Persisted says that all appends up to Through are in the journal.
type Persisted struct{ Through uint64 }

// PersistFailed says that an append failed. Nothing is answered after it.
type PersistFailed struct{ Err error }

// ClientGone says that a call's client went away before it had the whole answer.
type ClientGone struct {
	Call CallID
	At   int64
}

// Delivered says that the whole answer was written to the call's client. Each Reply is followed by Delivered or ClientGone.
type Delivered struct {
	Call CallID
	At   int64
}

// Seal finishes the trajectory. Sampling is cut at once; the end is recorded when the answers under way are delivered or
// lost, or at once with Now.
type Seal struct {
	Reason string
	Now    bool
	At     int64
}

func (*CallArrived) event()  {}
func (EngineChunk) event()   {}
func (EngineFinal) event()   {}
func (EngineFailed) event()  {}
func (Persisted) event()     {}
func (PersistFailed) event() {}
func (ClientGone) event()    {}
func (Delivered) event()     {}
func (Seal) event()          {}

// Effect is something to do.
type Effect interface{ effect() }

// Generate starts a completion of exactly these ids. EngineChunk, EngineFinal and EngineFailed of the call answer it.
type Generate struct {
	Call      CallID
	IDs       []token.ID // not to be changed
	MaxTokens int
	Sampling  chat.Sampling
	Stops     []token.ID
	Key       string // idempotency key upstream: the same for the same call and request
}

// Cancel stops the call's completion. What still comes of it is ignored.
type Cancel struct{ Call CallID }

// Append adds to the journal: the blobs, then the one record that is set. Appends are written in order; [Persisted] answers
// them.
type Append struct {
	ID       uint64 // from 1, without gaps
	Blobs    []Blob // that no earlier Append had
	Turn     *trajectory.Turn
	Delivery *trajectory.DeliveryFact
	End      *trajectory.End
}

// Blob is what a hash of a turn refers to.
type Blob struct {
	Hash  trajectory.Hash
	Bytes []byte
}

// Piece releases text while sampling goes on, in live streaming. Calls are released with the Reply.
type Piece struct {
	Call CallID
	Kind family.EventKind // reasoning or content
	Text string
}

// Reply releases a whole answer: its turn is in the journal.
type Reply struct {
	Call       CallID
	Turn       trajectory.Seq
	Reply      chat.Reply
	Class      trajectory.Class
	Continuity trajectory.Continuity // under the policy of the header
	Replayed   bool                  // recorded for an earlier call and given again: nothing was sampled
}

// Reject refuses a call, or tells it that its answer failed.
type Reject struct {
	Call CallID
	Err  error
}

// Wait tells that a call shares the answer of another with the same idempotency key, which is under way.
type Wait struct{ Call, For CallID }

func (Generate) effect() {}
func (Cancel) effect()   {}
func (Append) effect()   {}
func (Piece) effect()    {}
func (Reply) effect()    {}
func (Reject) effect()   {}
func (Wait) effect()     {}
