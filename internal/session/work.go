package session

import (
	"slices"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// work is one answer in the making, and the calls that wait for it.
type work struct {
	id      CallID   // that started it; engine events name it
	callers []CallID // at least one while it is open
	phase   phase
	event   *CallArrived

	class           trajectory.Class
	classWhy        string
	tools, settings Blob
	match           *trajectory.Match
	place           trajectory.Placement
	request         trajectory.Hash
	prompt          []token.ID
	maxTokens       int

	parser     family.Parser
	ids        []token.ID
	logprobs   column
	raw        column
	versions   []token.VersionSpan
	firstToken int64

	turn     trajectory.Seq // once committed
	replayed bool
}

// column gathers the log probabilities of a completion.
type column struct {
	all   []float32
	right int // values before the first chunk whose number was wrong
	wrong bool
}

// add takes a chunk's values; n is the number of its ids.
func (c *column) add(values []float32, n int) {
	c.wrong = c.wrong || len(values) != n
	c.all = append(c.all, values...)
	if !c.wrong {
		c.right = len(c.all)
	}
}

// as is the column of n ids. Chunks with too many and too few values can add up to n although none stands beside its id:
// then only what stood right is left, so that the count is wrong too.
func (c *column) as(n int) []float32 {
	if c.wrong && len(c.all) == n {
		return c.all[:c.right]
	}
	return c.all
}

type phase uint8

const (
	phaseSampling  phase = iota
	phaseCommitted       // the turn waits to be persisted
	phaseReleased        // replies are out
)

// sampling is the work that engine events of a call belong to, or nil.
func (s *Session) sampling(id CallID) *work {
	if w := s.works[id]; w != nil && w.id == id {
		if w.phase == phaseSampling {
			return w
		}
		return nil
	}
	for _, w := range s.works { // its first call may be gone while others wait for it
		if w.id == id && w.phase == phaseSampling {
			return w
		}
	}
	return nil
}

func (s *Session) chunk(w *work, e EngineChunk) {
	if len(e.IDs) > 0 && w.firstToken == 0 {
		w.firstToken = e.At
	}
	start := len(w.ids)
	w.ids = append(w.ids, e.IDs...)
	w.logprobs.add(e.Logprobs, len(e.IDs))
	w.raw.add(e.RawLogprobs, len(e.IDs))
	if n := len(w.versions); len(e.IDs) > 0 && n > 0 && w.versions[n-1].Version == e.Version {
		w.versions[n-1].End = len(w.ids)
	} else if len(e.IDs) > 0 {
		w.versions = append(w.versions, token.VersionSpan{Span: token.Span{Start: start, End: len(w.ids)}, Version: e.Version})
	}
	if outside(e.IDs, s.cfg.Header.VocabSize) >= 0 {
		return // not to be parsed; final refuses it
	}
	for _, ev := range w.parser.Add(e.IDs) {
		if s.cfg.Live && ev.Kind != family.EventCall && w.callers[0] == w.id {
			s.emit(Piece{w.id, ev.Kind, ev.Text})
		}
	}
}

// final judges a completion that the engine calls whole, and commits it.
func (s *Session) final(w *work, e EngineFinal) {
	if e.Prompt != nil && !slices.Equal(e.Prompt, w.prompt) {
		at := token.CommonPrefix(e.Prompt, w.prompt)
		s.lose(w, fault.New(fault.EnginePrompt, "call %s: the engine reports %d prompt ids, %d were sent; they differ at %d",
			s.callName(w.id), len(e.Prompt), len(w.prompt), at))
		return
	}
	if i := outside(w.ids, s.cfg.Header.VocabSize); i >= 0 {
		s.lose(w, fault.New(fault.EngineIDs, "call %s: id %d at %d is outside the vocabulary of %d", s.callName(w.id), w.ids[i], i,
			s.cfg.Header.VocabSize))
		return
	}
	switch {
	case len(w.ids) == 0:
		s.lose(w, fault.New(fault.EngineIDs, "call %s: the engine returned no ids", s.callName(w.id)))
	case e.Finish != string(trajectory.FinishStop) && e.Finish != string(trajectory.FinishLength):
		s.fail(w, fault.New(fault.EngineFinish, "call %s: the engine's finish reason is %q", s.callName(w.id), e.Finish), e.At)
	case len(w.ids) > w.maxTokens:
		s.fail(w, fault.New(fault.EngineProtocol, "call %s: the engine returned %d ids, %d were allowed", s.callName(w.id), len(w.ids),
			w.maxTokens), e.At)
	case s.stopInside(w.ids) >= 0:
		s.fail(w, fault.New(fault.EngineProtocol, "call %s: ids follow the stop id at %d", s.callName(w.id), s.stopInside(w.ids)), e.At)
	default:
		known := trajectory.PromptSent
		if e.Prompt != nil {
			known = trajectory.PromptEchoed
		}
		s.commit(w, ending{finish: trajectory.Finish(e.Finish), known: known, cached: e.Cached, at: e.At})
	}
}

func (s *Session) stopInside(ids []token.ID) int {
	return slices.IndexFunc(ids[:len(ids)-1], func(id token.ID) bool { return slices.Contains(s.stops, id) })
}

// fail ends a call whose answer is not whole: what was sampled is kept as a fact.
func (s *Session) fail(w *work, err error, at int64) {
	err = fault.Wrap(fault.EngineCut, err, "call %s", s.callName(w.id))
	if outside(w.ids, s.cfg.Header.VocabSize) >= 0 {
		s.lose(w, err)
		return
	}
	s.refuse(w, err)
	s.cut(w, trajectory.FinishError, string(fault.CodeOf(err)), at)
}

// lose ends a call of which nothing can be kept: its ids, or what they followed, are not known.
func (s *Session) lose(w *work, err error) {
	s.refuse(w, err)
	s.drop(w)
}

// cut keeps a part of a completion, if there is any, and closes the work. Nobody gets it as an answer.
func (s *Session) cut(w *work, finish trajectory.Finish, code string, at int64) {
	s.drop(w)
	if len(w.ids) == 0 || outside(w.ids, s.cfg.Header.VocabSize) >= 0 {
		return
	}
	if !s.record(w, ending{finish: finish, known: trajectory.PromptSent, code: code, at: at}) {
		return
	}
	state := trajectory.DeliveryUndelivered
	if finish == trajectory.FinishAbort {
		state = trajectory.DeliveryAborted
	}
	s.settle(w.turn, state, at)
}

// ending is how a completion ended.
type ending struct {
	finish trajectory.Finish
	known  trajectory.PromptKnown
	code   string
	cached int
	at     int64
}

// commit records a whole completion. Its answer is released when the record is persisted.
func (s *Session) commit(w *work, end ending) {
	if s.record(w, end) {
		w.phase = phaseCommitted
	}
}

// record adds the turn to the tree and the journal.
func (s *Session) record(w *work, end ending) bool {
	turn := s.turn(w, end)
	if err := s.tree.Add(turn); err != nil { // the call fails, the trajectory stays whole
		if s.works[w.callers[0]] == w {
			s.lose(w, err)
		}
		return false
	}
	a := Append{Turn: turn}
	for i := turn.MsgKeep; i < len(w.match.Hashes); i++ {
		a.Blobs = s.blob(a.Blobs, Blob{w.match.Hashes[i], w.event.Request.Messages[i].Raw})
	}
	a.Blobs = s.blob(a.Blobs, w.tools)
	a.Blobs = s.blob(a.Blobs, w.settings)
	w.turn = turn.Seq
	s.pending[turn.Seq] = s.append(a)
	w.prompt, w.ids, w.match, w.parser = nil, nil, nil, nil
	return true
}

func (s *Session) blob(list []Blob, b Blob) []Blob {
	if _, ok := s.tree.Blob(b.Hash); ok || b.Bytes == nil {
		return list
	}
	s.tree.AddBlob(b.Hash, nil)
	return append(list, b)
}

// turn states the facts.
func (s *Session) turn(w *work, end ending) *trajectory.Turn {
	e, p := w.event, w.place
	t := &trajectory.Turn{
		Seq: trajectory.Seq(s.tree.Len() + 1), Call: s.callName(w.id), Class: w.class, ClassWhy: w.classWhy,
		Parent: p.Parent, Nearest: p.Nearest, Why: p.Why, Base: p.Base, Keep: p.Keep, Suffix: slices.Clone(w.prompt[p.Keep:]),
		Completion: w.ids, Logprobs: w.logprobs.as(len(w.ids)), RawLogprobs: w.raw.as(len(w.ids)), Prompt: end.known,
		Sampling: s.cfg.Sampling, Processed: s.cfg.Processed, Asked: asked(e.Request, w.maxTokens), MaxTokens: w.maxTokens,
		Finish: end.finish, Stop: -1, Error: end.code,
		MsgBase: w.match.Base, MsgKeep: w.match.Keep, MsgNew: slices.Clone(w.match.Hashes[w.match.Keep:]),
		Tools: w.tools.Hash, Settings: w.settings.Hash,
		Session: e.Session, ParentSession: e.ParentSession, Idempotency: e.Idempotency, RetryCount: e.RetryCount,
		Started: e.At, FirstToken: w.firstToken, Ended: end.at, Cached: end.cached,
	}
	if len(w.versions) > 1 || len(w.versions) == 1 && w.versions[0].Version != "" {
		t.Versions = w.versions
	}
	for _, echo := range w.match.Echoes {
		if echo.Message >= t.MsgKeep || echo.Turn != 0 && echo.Turn == t.Parent {
			t.Echoes = append(t.Echoes, echo)
		}
	}
	if last := w.ids[len(w.ids)-1]; slices.Contains(s.stops, last) {
		t.Stop = int64(last)
	}
	whole := end.finish == trajectory.FinishStop || end.finish == trajectory.FinishLength
	parsed, _ := w.parser.Done(end.finish == trajectory.FinishStop || t.Stop >= 0)
	t.Reply = trajectory.Reply{End: string(parsed.End), Issues: parsed.Issues,
		Content:   chat.Text{Presence: parsed.Content.Presence, S: unicode(parsed.Content.S)},
		Reasoning: chat.Text{Presence: parsed.Reasoning.Presence, S: unicode(parsed.Reasoning.S)}}
	for i, a := range parsed.Calls {
		c := trajectory.CallFact{ModelID: unicode(a.ModelID), Name: unicode(a.Name), Arguments: unicode(a.Arguments), Status: string(a.Status), Span: a.Span}
		if a.IsCall && whole {
			c.ID = trajectory.MintCallID(s.cfg.Header.Trajectory, t.Seq, i)
		}
		t.Reply.Calls = append(t.Reply.Calls, c)
	}
	return t
}

// unicode is s as the journal, which holds Unicode text, gives it back: a half of a surrogate pair is none.
func unicode(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// replyOf is the answer that a turn gives, the first time and again.
func (s *Session) replyOf(seq trajectory.Seq) chat.Reply {
	t := s.tree.Turn(seq)
	r := chat.Reply{
		Content: t.Reply.Content, Reasoning: t.Reply.Reasoning, Finish: chat.FinishStop,
		Usage: chat.Usage{Prompt: s.tree.PromptLen(seq), Completion: len(t.Completion), Cached: t.Cached},
	}
	for _, c := range t.Reply.Calls {
		if c.ID != "" {
			r.Calls = append(r.Calls, chat.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
		}
	}
	switch {
	case t.Finish == trajectory.FinishLength:
		r.Finish = chat.FinishLength
	case len(r.Calls) > 0:
		r.Finish = chat.FinishToolCalls
	}
	return r
}
