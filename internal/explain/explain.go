// Package explain says why the ids of a turn do not go on from its parent's: which id is the first that differs, whose text
// it is, what kind of change made it so, what it cost, and what would avoid it.
//
// It is a pure function of a trajectory and a policy, and it only explains: continuity is decided in trajectory. What it
// names is its best reading; the ids that it shows are the facts.
package explain

import (
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Class is the kind of change behind a realign, a split or a new root.
type Class string

// The classes: a closed list, in the order of the table in classes.go.
const (
	ThinkingStripped    Class = "thinking_stripped"
	NewlineOrEndToken   Class = "newline_or_end_token"
	BPEMerge            Class = "bpe_merge"
	ArgumentReserial    Class = "argument_reserialised"
	BooleanCase         Class = "boolean_case"
	VolatileHeader      Class = "volatile_header"
	ToolResultOrder     Class = "tool_result_order"
	Truncation          Class = "truncation"
	InjectedSpecial     Class = "injected_special_token"
	ToolsChanged        Class = "tools_changed"
	SettingsChanged     Class = "settings_changed"
	HistoryRewritten    Class = "history_rewritten"
	MessageEdited       Class = "message_edited"
	Compaction          Class = "compaction"
	SubAgent            Class = "sub_agent"
	AuxiliaryCall       Class = "auxiliary_call"
	AskedAgain          Class = "asked_again"
	NewConversation     Class = "new_conversation"
	RenderedDifferently Class = "rendered_differently" // the same messages gave other ids, for no reason above
)

// Options is what helps to explain. All of it is optional.
type Options struct {
	Decode func([]token.ID) string // ids to text; nil = ids only
	// Bodies gives the bodies of a turn's prompt, as its family rendered it; nil = messages are found by their text.
	Bodies func(trajectory.Seq) []family.Body
}

// Side is one side of a divergence.
type Side struct {
	IDs  []token.ID `json:"ids"`
	Text string     `json:"text"`
}

// Item explains one turn.
type Item struct {
	Turn   trajectory.Seq  `json:"turn"`
	Parent trajectory.Seq  `json:"parent"` // for a root the nearest earlier turn, or 0
	Kind   trajectory.Kind `json:"kind"`
	Reason string          `json:"reason"`
	Class  Class           `json:"class"`
	// First is the index at which prompt and checkpoint differ; Before, Was and Now are the ids around it.
	First  int  `json:"first"`
	Before Side `json:"before"`
	Was    Side `json:"was"` // of the parent's checkpoint
	Now    Side `json:"now"` // of the prompt
	// Message is the message of the request that the first differing id belongs to, -1 = unknown; Field is content,
	// reasoning, arguments, name, end (what closes a message), scaffold, or empty where unknown.
	Message int            `json:"message"`
	Role    string         `json:"role,omitempty"`
	Field   string         `json:"field,omitempty"`
	Sampled trajectory.Seq `json:"sampled_by"` // the turn that sampled the id that was there, or 0
	Note    string         `json:"note,omitempty"`
	// Lost counts the sampled ids that a realign leaves out, Cost those of them that would train and do so in no segment;
	// Repeated counts the prompt ids that a new segment starts from.
	Lost     int    `json:"lost"`
	Cost     int    `json:"cost"`
	Repeated int    `json:"repeated"`
	Avoid    string `json:"avoid"` // what would avoid it; empty where nothing is wrong
}

// Report explains a trajectory.
type Report struct {
	Trajectory string        `json:"trajectory"`
	Turns      int           `json:"turns"`
	Extends    int           `json:"extends"`
	Items      []Item        `json:"items"` // every realign, split and root after the first, in order
	Cost       int           `json:"cost"`
	Repeated   int           `json:"repeated"`
	Classes    map[Class]int `json:"classes"`
}

// Explain explains every realign, split and root after the first. The zero policy stands for the header's, in force while
// serving. decode may be nil.
func Explain(t *trajectory.Tree, p trajectory.Policy, decode func([]token.ID) string) Report {
	return With(t, p, Options{Decode: decode})
}

// With is Explain with more to go by.
func With(t *trajectory.Tree, p trajectory.Policy, o Options) Report {
	if o.Decode == nil {
		o.Decode = func([]token.ID) string { return "" }
	}
	if p == (trajectory.Policy{}) {
		p = t.Header().Policy
	}
	costs := costsOf(t, p)
	r := Report{Trajectory: t.Header().Trajectory, Turns: t.Len(), Items: []Item{}, Classes: map[Class]int{}}
	for _, n := range t.Turns() {
		c := trajectory.Continue(t, n.Seq, p)
		switch {
		case c.Kind == trajectory.Extend:
			r.Extends++
			continue
		case c.Kind == trajectory.Root && n.Why == trajectory.WhyFirst:
			continue
		}
		d := newDiff(t, p, o, n, c)
		it := d.item()
		it.Cost = costs[n.Seq]
		r.Items = append(r.Items, it)
		r.Classes[it.Class]++
		r.Cost += it.Cost
		r.Repeated += it.Repeated
	}
	return r
}

// costsOf counts, for each turn that realigns, the ids of its parent that would train but for it.
func costsOf(t *trajectory.Tree, p trajectory.Policy) map[trajectory.Seq]int {
	out := map[trajectory.Seq]int{}
	run, err := materialize.Run(t, materialize.Options{Policy: p})
	if err != nil {
		return out
	}
	for _, s := range run.Segments {
		for k, span := range s.Turns[:len(s.Turns)-1] {
			if span.Trains {
				out[s.Turns[k+1].Turn] = span.Sampled - span.Len()
			}
		}
	}
	return out
}

// windowIDs is how many ids are shown on each side of a divergence.
const windowIDs = 12

// diff is one divergence with what is needed to judge it.
type diff struct {
	t    *trajectory.Tree
	p    trajectory.Policy
	o    Options
	n    *trajectory.Turn
	base trajectory.Seq // whose checkpoint is compared: the parent, for a root the nearest turn, or 0
	c    trajectory.Continuity
	was  []token.ID // base's checkpoint
	now  []token.ID // the prompt
	at   int        // first difference

	owner    *trajectory.Turn // sampled was[at]; nil where it is no sampled id
	ownerAt  int              // index of was[at] in the owner's completion
	ownerEnd int              // where the owner's completion ends in was
	wasText  string           // text of was[at:], a stretch
	nowText  string           // text of now[at:], a stretch

	wasMsgs, nowMsgs []message
	edited           int // first message that differs between the two requests, -1 = none among those that both have
}

// stretchIDs bounds how much text after a divergence is looked at.
const stretchIDs = 512

func newDiff(t *trajectory.Tree, p trajectory.Policy, o Options, n *trajectory.Turn, c trajectory.Continuity) *diff {
	d := &diff{t: t, p: p, o: o, n: n, c: c, base: n.Parent, now: t.Prompt(n.Seq), edited: -1}
	if d.base == 0 {
		d.base = n.Nearest
	}
	d.nowMsgs = messagesOf(t, n.Seq)
	if d.base == 0 {
		return d
	}
	d.was = t.Checkpoint(d.base)
	d.at = token.CommonPrefix(d.was, d.now)
	d.wasMsgs = messagesOf(t, d.base)
	for i := range min(len(d.wasMsgs), len(d.nowMsgs)) {
		if d.wasMsgs[i].hash != d.nowMsgs[i].hash {
			d.edited = i
			break
		}
	}
	d.findOwner()
	end := len(d.was)
	if d.owner != nil {
		end = d.ownerEnd
	}
	d.wasText = o.Decode(stretch(d.was, d.at, end))
	d.nowText = o.Decode(stretch(d.now, d.at, len(d.now)))
	return d
}

func stretch(ids []token.ID, from, to int) []token.ID {
	to = min(to, from+stretchIDs, len(ids))
	if from >= to {
		return nil
	}
	return ids[from:to]
}

// findOwner finds the turn that sampled the id at the divergence: the deepest turn above whose completion covers it and
// whose checkpoint still stood there in the base's.
func (d *diff) findOwner() {
	for seq := d.base; seq != 0; seq = d.t.Turn(seq).Parent {
		start, end := d.t.PromptLen(seq), d.t.CheckpointLen(seq)
		if start <= d.at && d.at < end && d.t.Shared(seq, d.was[:min(len(d.was), d.at+1)]) > d.at {
			d.owner, d.ownerAt, d.ownerEnd = d.t.Turn(seq), d.at-start, end
			return
		}
	}
}

func (d *diff) item() Item {
	it := Item{Turn: d.n.Seq, Parent: d.base, Kind: d.c.Kind, Reason: d.c.Reason, First: d.at, Message: -1, Lost: d.c.Lost}
	window := func(ids []token.ID, from, to int) Side {
		from, to = max(from, 0), min(to, len(ids))
		if from >= to {
			return Side{IDs: []token.ID{}}
		}
		return Side{IDs: ids[from:to:to], Text: d.o.Decode(ids[from:to])}
	}
	it.Before = window(d.now, d.at-windowIDs, d.at)
	it.Was = window(d.was, d.at, d.at+windowIDs)
	it.Now = window(d.now, d.at, d.at+windowIDs)
	if d.owner != nil {
		it.Sampled = d.owner.Seq
	}
	if it.Kind != trajectory.Realign {
		it.Repeated = len(d.now)
	}
	it.Message, it.Field = d.place()
	if it.Message >= 0 && it.Message < len(d.nowMsgs) {
		it.Role = d.nowMsgs[it.Message].role
	}
	if it.Class, it.Note = d.classify(it); it.Class == ThinkingStripped {
		it.Field = fieldReasoning
	}
	if it.Class == BPEMerge && d.owner == nil {
		d.blameAnswer(&it)
	}
	it.Avoid = d.avoid(it.Class)
	return it
}

// blameAnswer names the answer whose first text joined with the prompt before it.
func (d *diff) blameAnswer(it *Item) {
	e := d.echoOf(d.base)
	if e == nil {
		return
	}
	it.Message, it.Role, it.Field, it.Sampled = e.Message, "assistant", fieldContent, d.base
	if d.t.Turn(d.base).Reply.Reasoning.S != "" {
		it.Field = fieldReasoning
	}
}

// avoid names the setting that would avoid the item.
func (d *diff) avoid(c Class) string {
	if d.c.Kind == trajectory.Split {
		wide := d.p
		wide.Realign, wide.RealignMax = "prefix", len(d.was)
		if w := trajectory.Continue(d.t, d.n.Seq, wide); w.Kind == trajectory.Realign {
			return "--realign prefix --realign-max " + itoa(w.Lost) + " would realign instead of splitting"
		}
	}
	return avoidBy[c]
}
