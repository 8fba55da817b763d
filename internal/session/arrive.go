package session

import (
	"encoding/hex"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// arrive admits a call: refused, joined to one under way, answered from the record, or sampled.
func (s *Session) arrive(e *CallArrived) {
	s.calls++
	id := s.calls
	hints := *e // the caller's event stays as it is
	e = &hints
	e.Session, e.ParentSession, e.Idempotency = unicode(e.Session), unicode(e.ParentSession), unicode(e.Idempotency)
	if err := s.admit(e); err != nil {
		s.emit(Reject{id, err})
		return
	}
	w := &work{id: id, callers: []CallID{id}, event: e}
	w.class, w.classWhy = trajectory.ClassPolicy, ""
	if s.cfg.Classify != nil {
		w.class, w.classWhy = s.cfg.Classify(e)
	}
	w.tools, w.settings = contract(e.Request)
	w.match = s.tree.Match(e.Request.Messages)
	w.request = w.match.Request(w.tools.Hash, w.settings.Hash)
	if other := s.sameKey(w); other != nil {
		s.join(other, id)
		return
	}
	if err := s.render(w); err != nil {
		s.emit(Reject{id, err})
		return
	}
	w.place = s.tree.Place(w.match, e.Request.Messages, w.prompt,
		trajectory.Hints{Class: w.class, Session: e.Session, ParentSession: e.ParentSession})
	if err := s.budget(w); err != nil {
		s.emit(Reject{id, err})
		return
	}
	if seq := s.lost(w); seq != 0 {
		s.replay(w, seq)
		return
	}
	s.works[id] = w
	w.parser = s.cfg.Family.Parse(family.ParseInput{Prompt: w.prompt, Tools: e.Request.Tools, NoCalls: len(e.Request.Tools) == 0})
	s.emit(Generate{Call: id, IDs: w.prompt, MaxTokens: w.maxTokens, Sampling: s.cfg.Sampling, Stops: s.stops, Key: s.key(w)})
}

// key names the work upstream. It holds the request too: after a restart another request may have the same number.
func (s *Session) key(w *work) string {
	return s.callName(w.id) + "-" + hex.EncodeToString(w.request[:8])
}

func (s *Session) admit(e *CallArrived) error {
	switch {
	case s.failed != nil:
		return s.failed
	case s.sealed != nil:
		return sealedError(s.sealed)
	case e.Request.N > 1:
		return fault.New(fault.UnsupportedField, "n is %d: one call gives one completion", e.Request.N).WithFix("send n calls")
	case s.cfg.MaxTurns > 0 && s.tree.Len()+s.underway() >= s.cfg.MaxTurns:
		return fault.New(fault.SessionSealed, "the trajectory has used its %d turns", s.cfg.MaxTurns)
	}
	return nil
}

// underway counts the works that will become turns.
func (s *Session) underway() int {
	n := 0
	for _, w := range s.open() {
		if w.phase == phaseSampling {
			n++
		}
	}
	return n
}

// contract gives the tools and the template settings of a request as blobs, for their hashes. Absent ones have hash zero.
func contract(r *chat.Request) (tools, settings Blob) {
	if len(r.ToolsRaw) > 0 {
		tools = Blob{trajectory.HashOf(r.ToolsRaw), r.ToolsRaw}
	}
	if r.TemplateKwargs.IsValid() {
		raw := r.TemplateKwargs.Raw()
		settings = Blob{trajectory.HashOf(raw), raw}
	}
	return tools, settings
}

// render makes the prompt. Where turns of equal text make the parent uncertain, the ids decide it, and the prompt is made
// again if the echoes are then another turn's.
func (s *Session) render(w *work) error {
	r := w.event.Request
	for range 2 {
		c := family.Conversation{
			Messages: s.tree.ModelIDs(w.match, r.Messages), Tools: r.Tools, Kwargs: r.TemplateKwargs, Clock: s.cfg.Clock, Sampled: s.tree.Sampled(w.match),
		}
		var out family.Rendered
		var err error
		if f, ok := s.cfg.Family.(family.Reuser); ok {
			out, err = f.RenderWith(&s.memo, c)
		} else {
			out, err = s.cfg.Family.Render(c)
		}
		if err != nil {
			return fault.Wrap(fault.TemplateRefused, err, "the conversation of %d messages cannot be rendered", len(r.Messages))
		}
		if i := outside(out.IDs, s.cfg.Header.VocabSize); i >= 0 {
			return fault.New(fault.BadModel, "the family rendered id %d, outside the vocabulary of %d", out.IDs[i], s.cfg.Header.VocabSize)
		}
		w.prompt = out.IDs
		if !s.tree.Settle(w.match, r.Messages, w.prompt) {
			return nil
		}
	}
	return nil
}

// budget sets how many ids the call may sample.
func (s *Session) budget(w *work) error {
	limit, asked := s.cfg.Header.MaxContext, w.event.Request.MaxTokens
	w.maxTokens = s.cfg.MaxTokens
	if asked > 0 && (w.maxTokens == 0 || asked < w.maxTokens) {
		w.maxTokens = asked
	}
	if limit == 0 {
		if w.maxTokens == 0 {
			w.maxTokens = defaultMaxTokens
		}
		return nil
	}
	left := limit - len(w.prompt)
	if left < 1 {
		return fault.New(fault.ContextLength, "This model's maximum context length is %d tokens. However, your messages resulted in "+
			"%d tokens. Please reduce the length of the messages.", limit, len(w.prompt))
	}
	if w.maxTokens == 0 || w.maxTokens > left {
		w.maxTokens = left
	}
	return nil
}

// sameKey is a work under way that answers the same request under the same idempotency key.
func (s *Session) sameKey(w *work) *work {
	if w.event.Idempotency == "" {
		return nil
	}
	for _, other := range s.open() {
		if other.event.Idempotency == w.event.Idempotency && other.request == w.request {
			return other
		}
	}
	return nil
}

// lost is an earlier turn whose whole answer w asks for again: a transport retry.
func (s *Session) lost(w *work) trajectory.Seq {
	again := &trajectory.Turn{Idempotency: w.event.Idempotency, RetryCount: w.event.RetryCount, Started: w.event.At}
	answers := s.tree.Answers(w.request)
	for i := len(answers) - 1; i >= 0; i-- {
		turn := s.tree.Turn(answers[i])
		whole := turn.Finish == trajectory.FinishStop || turn.Finish == trajectory.FinishLength && turn.MaxTokens >= w.maxTokens
		if !whole || turn.Parent != w.place.Parent || turn.Class != w.class || !s.tree.Retries(turn.Seq, again) {
			continue
		}
		if s.writing(turn.Seq) && again.RetryCount == 0 && (again.Idempotency == "" || again.Idempotency != turn.Idempotency) {
			continue // its answer is being written: the two overlap
		}
		return turn.Seq
	}
	return 0
}

// writing is whether some call still waits for the delivery of seq.
func (s *Session) writing(seq trajectory.Seq) bool {
	for _, w := range s.works {
		if w.turn == seq {
			return true
		}
	}
	return false
}

// asked is the JSON object of what the harness asked for and did not get, "" for nothing.
func asked(r *chat.Request, maxTokens int) string {
	members := append(append([]ojson.Member{}, r.Asked...), r.Ignored...)
	if r.MaxTokens > maxTokens {
		members = append(members, ojson.Member{Key: "max_tokens", Value: ojson.IntOf(int64(r.MaxTokens))})
	}
	if len(members) == 0 {
		return ""
	}
	return string(ojson.ObjectOf(members...).Raw())
}

// outside is the index of the first id that is not in a vocabulary of n ids, or -1; n 0 is not checked.
func outside(ids []token.ID, n int) int {
	for i, id := range ids {
		if n > 0 && uint64(id) >= uint64(n) {
			return i
		}
	}
	return -1
}
