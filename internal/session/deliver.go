package session

import (
	"slices"

	"github.com/tito-rl/tito/internal/trajectory"
)

// join lets call id wait for the answer that w makes.
func (s *Session) join(w *work, id CallID) {
	w.callers = append(w.callers, id)
	s.works[id] = w
	s.emit(Wait{id, w.id})
	if w.phase == phaseReleased {
		s.release(w, id, true)
	}
}

// replay answers w from the record of turn seq.
func (s *Session) replay(w *work, seq trajectory.Seq) {
	for _, other := range s.open() {
		if other.turn == seq {
			s.join(other, w.id)
			return
		}
	}
	*w = work{id: w.id, callers: w.callers, event: w.event, request: w.request, phase: phaseCommitted, turn: seq, replayed: true}
	s.works[w.id] = w
	s.persisted(s.durable)
}

// persisted releases the answers whose turns are in the journal now.
func (s *Session) persisted(through uint64) {
	s.durable = max(s.durable, min(through, s.appends))
	for seq, id := range s.pending {
		if id <= s.durable {
			delete(s.pending, seq)
		}
	}
	if s.failed != nil {
		return
	}
	for _, w := range s.open() {
		if w.phase == phaseCommitted && s.pending[w.turn] == 0 {
			w.phase = phaseReleased
			for _, id := range slices.Clone(w.callers) {
				s.release(w, id, w.replayed || id != w.id)
			}
		}
	}
}

func (s *Session) release(w *work, id CallID, replayed bool) {
	s.emit(Reply{
		Call: id, Turn: w.turn, Reply: s.replyOf(w.turn), Class: s.tree.Turn(w.turn).Class,
		Continuity: trajectory.Continue(s.tree, w.turn, s.cfg.Header.Policy), Replayed: replayed,
	})
}

// gone takes a call away. The last one to go leaves the answer undelivered, or stops its making.
func (s *Session) gone(id CallID, at int64) {
	w := s.works[id]
	if w == nil {
		return
	}
	if len(w.callers) > 1 {
		s.leave(w, id)
		return
	}
	if w.phase == phaseSampling {
		s.emit(Cancel{Call: w.id})
		s.cut(w, trajectory.FinishAbort, "", at)
		return
	}
	s.drop(w)
	s.settle(w.turn, trajectory.DeliveryUndelivered, at)
}

func (s *Session) delivered(id CallID, at int64) {
	w := s.works[id]
	if w == nil || w.phase != phaseReleased {
		return
	}
	s.settle(w.turn, trajectory.DeliveryDelivered, at)
	s.leave(w, id)
}

// settle records what became of an answer, where that is news.
func (s *Session) settle(seq trajectory.Seq, state trajectory.Delivery, at int64) {
	if had := s.tree.Delivery(seq).State; had == trajectory.DeliveryDelivered || had == state {
		return
	}
	if s.failed != nil {
		return
	}
	d := trajectory.DeliveryFact{Seq: seq, State: state, At: at}
	if err := s.tree.SetDelivery(d); err != nil {
		s.broken(err)
		return
	}
	s.append(Append{Delivery: &d})
}

// leave takes one call from w.
func (s *Session) leave(w *work, id CallID) {
	delete(s.works, id)
	w.callers = slices.DeleteFunc(w.callers, func(c CallID) bool { return c == id })
}

// drop closes w for all its calls.
func (s *Session) drop(w *work) {
	for _, id := range w.callers {
		delete(s.works, id)
	}
}

// refuse tells all calls of w.
func (s *Session) refuse(w *work, err error) {
	for _, id := range w.callers {
		s.emit(Reject{id, err})
	}
}
