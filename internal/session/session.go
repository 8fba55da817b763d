// Package session is the state machine of one trajectory's calls: what arrives at a trajectory goes through [Session.Step],
// and what is to be done comes out as effects.
//
// The invariant: an answer is released only after its turn was persisted, and the ids of a turn are exactly those that were
// sent to and came back from the engine. A Session has no goroutine, lock, clock or randomness: times and results come in
// with events, and the same events give the same effects. It knows nothing of HTTP, files or engines. One caller at a time
// steps it. The written rules are in spec/session.md.
package session

import (
	"sort"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Config is what a session is made with. It is not changed afterwards.
type Config struct {
	Family family.Family
	// Header opens the trajectory. MaxContext bounds prompt plus completion (0 = no limit), VocabSize bounds ids (0 = not
	// checked), Policy is what continuity is reported under. Its Stops are the family's where none are given.
	Header   trajectory.Header
	Sampling chat.Sampling  // in force for every call; the zero value is chat.Neutral
	Clock    template.Clock // what templates see; one value for the whole trajectory, so that midnight changes no prompt
	Classify Classifier     // nil: no marks are declared, and every call is the policy's

	MaxTurns  int  // 0 = no limit; a call over it is refused
	MaxTokens int  // most completion ids of a call; 0 = what the context leaves, or 32,768 where that has no limit
	Processed bool // the engine's log probabilities are those of the distribution sampled from
	Live      bool // pieces of text are released while sampling goes on
}

// Classifier says whether a call is the policy acting on its task, from the marks of its harness, and why.
type Classifier func(*CallArrived) (class trajectory.Class, why string)

const defaultMaxTokens = 32768

// Session is the state of one trajectory. Make one with [New] or [Restore].
type Session struct {
	cfg   Config
	tree  *trajectory.Tree
	stops []token.ID

	calls    CallID                    // number of the last call
	works    map[CallID]*work          // by each call that waits
	appends  uint64                    // number of the last Append
	durable  uint64                    // appends up to here are persisted
	pending  map[trajectory.Seq]uint64 // the Append of each turn that is not persisted
	sealed   *Seal
	failed   error // the journal failed: nothing can be answered any more
	effects  []Effect
	memo     family.Memo // of the last prompt
	released bool        // End was emitted
}

// New opens a session on an empty trajectory. The host writes the header.
func New(cfg Config) *Session {
	if len(cfg.Header.Stops) == 0 {
		for _, s := range cfg.Family.Stops() {
			cfg.Header.Stops = append(cfg.Header.Stops, s.ID)
		}
	}
	return Restore(cfg, trajectory.New(cfg.Header))
}

// Restore opens a session on a trajectory that was recovered from its journal, and goes on as the one that wrote it. The
// tree's header is in force. Calls that were under way are forgotten; the deliveries that they left open are ambiguous.
func Restore(cfg Config, t *trajectory.Tree) *Session {
	cfg.Header = t.Header()
	if cfg.Sampling.Temperature == 0 && cfg.Sampling.TopP == 0 {
		cfg.Sampling = chat.Neutral()
	}
	s := &Session{cfg: cfg, tree: t, stops: cfg.Header.Stops, works: map[CallID]*work{}, pending: map[trajectory.Seq]uint64{}}
	for _, turn := range t.Turns() {
		n, err := strconv.ParseUint(turn.Call[strings.LastIndexByte(turn.Call, '.')+1:], 10, 64)
		if err == nil {
			s.calls = max(s.calls, CallID(n))
		}
	}
	if t.End() != nil {
		s.sealed, s.released = &Seal{Reason: t.End().Reason, At: t.End().At}, true
	}
	return s
}

// Tree is the trajectory so far. It changes with Step; of blobs it knows only the hashes, their bytes are in the journal.
func (s *Session) Tree() *trajectory.Tree { return s.tree }

// Next is the id that the next call will have.
func (s *Session) Next() CallID { return s.calls + 1 }

// Open counts the calls that are not settled: not answered, refused or gone.
func (s *Session) Open() int { return len(s.works) }

// Sealed is whether later calls are refused.
func (s *Session) Sealed() bool { return s.sealed != nil }

// Step takes one event and returns what is to be done, in order. The slice is valid until the next Step; what it refers to
// is not changed later. An event of a call that is already settled does nothing: such events cross on the way. An error
// means that the event itself is malformed; then nothing has changed.
func (s *Session) Step(e Event) ([]Effect, error) {
	s.effects = s.effects[:0]
	switch e := e.(type) {
	case *CallArrived:
		if e.Request == nil {
			return nil, fault.New(fault.InternalError, "a call without a request")
		}
		s.arrive(e)
	case EngineChunk:
		if w := s.sampling(e.Call); w != nil {
			s.chunk(w, e)
		}
	case EngineFinal:
		if w := s.sampling(e.Call); w != nil {
			s.final(w, e)
		}
	case EngineFailed:
		if w := s.sampling(e.Call); w != nil {
			s.fail(w, e.Err, e.At)
		}
	case Persisted:
		s.persisted(e.Through)
	case PersistFailed:
		s.persistFailed(e.Err)
	case ClientGone:
		s.gone(e.Call, e.At)
	case Delivered:
		s.delivered(e.Call, e.At)
	case Seal:
		s.seal(e)
	default:
		return nil, fault.New(fault.InternalError, "unknown event %T", e)
	}
	s.end()
	return s.effects, nil
}

func (s *Session) emit(e Effect) { s.effects = append(s.effects, e) }

func (s *Session) append(a Append) uint64 {
	s.appends++
	a.ID = s.appends
	s.emit(a)
	return a.ID
}

// callName is what a turn records as the id of its call.
func (s *Session) callName(id CallID) string {
	return s.cfg.Header.Trajectory + "." + strconv.FormatUint(uint64(id), 10)
}

// seal refuses later calls and cuts what is being sampled.
func (s *Session) seal(e Seal) {
	if s.released {
		return
	}
	if s.sealed == nil {
		s.sealed = &e
	}
	for _, w := range s.open() {
		switch {
		case w.phase == phaseSampling:
			s.emit(Cancel{Call: w.id})
			s.refuse(w, sealedError(s.sealed))
			s.cut(w, trajectory.FinishAbort, "", e.At)
		case e.Now && w.phase == phaseCommitted:
			s.refuse(w, sealedError(s.sealed))
			s.drop(w)
			s.settle(w.turn, trajectory.DeliveryUndelivered, e.At)
		case e.Now:
			s.drop(w)
		}
	}
}

// end emits the closing record once nothing is open.
func (s *Session) end() {
	if s.sealed == nil || s.released || s.failed != nil || len(s.works) > 0 {
		return
	}
	end := trajectory.End{Reason: s.sealed.Reason, At: s.sealed.At, Turns: s.tree.Len()}
	if err := s.tree.Finish(end); err != nil {
		s.broken(err)
		return
	}
	s.released = true
	s.memo = family.Memo{}
	s.append(Append{End: &end})
}

// open lists the works once each, in order of their calls.
func (s *Session) open() []*work {
	var out []*work
	for id, w := range s.works {
		if id == w.callers[0] {
			out = append(out, w)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].id < out[j].id })
	return out
}

// persistFailed ends the session's service: what cannot be recorded is not answered.
func (s *Session) persistFailed(err error) {
	s.broken(fault.Wrap(fault.StoreFailed, err, "the journal of trajectory %s failed", s.cfg.Header.Trajectory))
}

func (s *Session) broken(err error) {
	if s.failed == nil {
		s.failed = err
	}
	for _, w := range s.open() {
		switch w.phase {
		case phaseSampling:
			s.emit(Cancel{Call: w.id})
			s.refuse(w, s.failed)
			s.drop(w)
		case phaseCommitted:
			s.refuse(w, s.failed)
			s.drop(w)
		}
	}
}

func sealedError(e *Seal) error {
	return fault.New(fault.SessionSealed, "the trajectory is finished (%s) and takes no more calls", e.Reason).
		WithFix("start a new trajectory")
}
