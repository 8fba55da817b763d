// Package certify proves, by bounded-exhaustive probing, what a chat template and a tokenizer allow: which messages may be
// appended to a checkpoint, how, and what a render loses. Each claim is proved over its cases, or refuted with the shortest
// counter-example.
//
// It is pure, and the same model gives the same result. It knows nothing of files, engines, or of who asks.
package certify

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"strconv"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Model is what is certified.
type Model struct {
	Family    family.Family
	Tokenizer *tokenizer.Tokenizer
	Kwargs    ojson.Value // template settings of every conversation
	BOS       string      // the tokenizer's bos_token, or ""
}

// Verdict is what became of a claim or a level.
type Verdict string

// The verdicts.
const (
	Proved       Verdict = "proved"
	Refuted      Verdict = "refuted"
	Partly       Verdict = "partly"        // a level of which some claims that bind are refuted and some proved
	Refused      Verdict = "refused"       // the template refuses every case
	NotAttempted Verdict = "not_attempted" // Why says what for
)

// Level is one step of the proof.
type Level struct {
	Level   string  `json:"level"` // L0 … L5
	About   string  `json:"about"`
	Verdict Verdict `json:"verdict"` // refuted where a claim that binds is
	Why     string  `json:"why,omitempty"`
	Claims  []Claim `json:"claims"`
}

// Claim is one property and what became of it.
type Claim struct {
	Claim   string   `json:"claim"`
	Verdict Verdict  `json:"verdict"`
	Binds   bool     `json:"binds"`             // refuted, it takes something away; else it is told for information
	Cases   int      `json:"cases"`             // that were looked at
	Refuted int      `json:"refuted"`           // of the cases
	Refused int      `json:"refused"`           // by the template; they count as no case
	Why     string   `json:"why,omitempty"`     // in one sentence, where refuted
	Known   string   `json:"known,omitempty"`   // why it is known to be refuted
	Counter *Counter `json:"counter,omitempty"` // the shortest, where refuted
}

// Counter is a counter-example.
type Counter struct {
	Messages []Wire `json:"messages"`
	Appended []Wire `json:"appended,omitempty"`
	Settings string `json:"settings,omitempty"` // what else matters: no tools, …
	At       int    `json:"at"`                 // byte at which the two differ
	Wanted   string `json:"wanted"`             // around it
	Got      string `json:"got"`
	size     int
}

// Wire is a message as harnesses send it.
type Wire struct {
	Role      chat.Role  `json:"role"`
	Content   *string    `json:"content"`
	Reasoning *string    `json:"reasoning_content,omitempty"`
	Calls     []WireCall `json:"tool_calls,omitempty"`
	CallID    string     `json:"tool_call_id,omitempty"`
}

// WireCall is a tool call as harnesses send it.
type WireCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function WireFunction `json:"function"`
}

// WireFunction is what a call calls.
type WireFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Wires turns messages into their form on the wire.
func Wires(ms []chat.Message) []Wire {
	out := make([]Wire, len(ms))
	for i, m := range ms {
		w := Wire{Role: m.Role, CallID: m.CallID}
		if m.Content.Presence == chat.Present {
			w.Content = &ms[i].Content.S
		}
		if m.Reasoning.Presence == chat.Present {
			w.Reasoning = &ms[i].Reasoning.S
		}
		for _, c := range m.Calls {
			w.Calls = append(w.Calls, WireCall{c.ID, "function", WireFunction{c.Name, c.Arguments}})
		}
		out[i] = w
	}
	return out
}

// Result is what the pure levels gave.
type Result struct {
	Levels []Level // L1's own claims, L2, L3, L4
	// Branches says how much of the template the probes reached; nil where it is not known.
	Branches *Branches
	Digest   string // of every text and id that the probes gave: another render or encoding gives another digest
}

// Branches counts the outcomes of the template's if and elif tags.
type Branches struct {
	Outcomes int                `json:"outcomes"`
	Missed   []template.Outcome `json:"missed"` // those that no probe reached
}

// The kinds of append that a bridge may make, in the order in which they are told.
const (
	AppendTool     = "tool"
	AppendUser     = "user"
	AppendToolUser = "tool+user"
	AppendSystem   = "system"
	// told for information: never bridged
	appendSplit     = "split_batch"
	appendAssistant = "assistant"
)

// Kinds are the kinds of append that a bridge may make.
func Kinds() []string { return []string{AppendTool, AppendUser, AppendToolUser, AppendSystem} }

// Prove runs every pure level.
func Prove(m Model) *Result {
	k, ok := m.Family.(*family.Kit)
	if !ok {
		return newProver(m).prove()
	}
	var c template.Coverage
	seen, tpl := k.Observed(&c)
	m.Family = seen
	r := newProver(m).prove()
	all, missed := tpl.Outcomes(&c)
	r.Branches = &Branches{all, append([]template.Outcome{}, missed...)}
	return r
}

func newProver(m Model) *prover {
	p := &prover{Model: m, sum: sha256.New(), histories: corpus(m.Family)}
	p.bridger, _ = m.Family.(family.Bridger)
	return p
}

func (p *prover) prove() *Result {
	levels := []Level{p.fidelity(), p.appends(), p.junctions(), p.splices()}
	return &Result{Levels: levels, Digest: hex.EncodeToString(p.sum.Sum(nil))}
}

// prover is one certification.
type prover struct {
	Model
	bridger   family.Bridger
	histories []history
	sum       hash.Hash
	byID      map[token.ID]tokenizer.AddedToken
}

// clock is what every template sees; later is another time.
var (
	clock = template.Clock{Year: 2024, Month: 3, Day: 7, Hour: 11, Minute: 21, Second: 31, Weekday: 4, YearDay: 67}
	later = template.Clock{Year: 2031, Month: 12, Day: 28, Hour: 23, Minute: 58, Second: 59, Weekday: 0, YearDay: 362}
)

// kwargs are the model's settings, and whether a prompt for a reply is wanted.
func (p *prover) kwargs(gen bool) ojson.Value {
	ms := append([]ojson.Member(nil), p.Kwargs.Members()...)
	if !gen {
		ms = append(ms, ojson.Member{Key: "add_generation_prompt", Value: ojson.BoolOf(false)})
	}
	return ojson.ObjectOf(ms...)
}

// conversation is messages under a history's context.
func (p *prover) conversation(h history, ms []chat.Message, gen bool) family.Conversation {
	return family.Conversation{Messages: ms, Tools: h.tools, Kwargs: p.kwargs(gen), Clock: clock}
}

// text is the template's text of c.
func (p *prover) text(c family.Conversation) (string, error) {
	text, err := textOf(p.Family, c)
	if err != nil {
		text = "refused"
	}
	p.sum.Write([]byte(strconv.Itoa(len(text)) + ":" + text))
	return text, err
}

// texter is a family that can render without encoding.
type texter interface {
	Text(family.Conversation) (string, error)
}

func textOf(f family.Family, c family.Conversation) (string, error) {
	if t, ok := f.(texter); ok {
		return t.Text(c)
	}
	r, err := f.Render(c)
	return r.Text, err
}

// tally counts the cases of one claim.
type tally struct{ Claim }

func claim(name string, binds bool) *tally { return &tally{Claim{Claim: name, Binds: binds}} }

func (t *tally) refuse() { t.Refused++ }

// ok is one case that holds.
func (t *tally) ok() { t.Cases++ }

// fail is one case that does not. c is kept if it is the shortest so far.
func (t *tally) fail(why string, c Counter) {
	t.Cases++
	t.Refuted++
	c.size = size(c)
	if t.Counter == nil || c.size < t.Counter.size {
		t.Why, t.Counter = why, &c
	}
}

func size(c Counter) (n int) {
	for _, ms := range [][]Wire{c.Messages, c.Appended} {
		for _, m := range ms {
			n += 1000
			for _, s := range []*string{m.Content, m.Reasoning} {
				if s != nil {
					n += 1 + len(*s)
				}
			}
			for _, call := range m.Calls {
				n += 20 + len(call.Function.Arguments)
			}
		}
	}
	return n + len(c.Settings)
}

func (t *tally) done() Claim {
	switch {
	case t.Refuted > 0:
		t.Verdict = Refuted
	case t.Cases > 0:
		t.Verdict = Proved
	case t.Refused > 0:
		t.Verdict = Refused
	default:
		t.Verdict, t.Why = NotAttempted, cmp.Or(t.Why, "there is no case of it")
	}
	return t.Claim
}

// level sums up its claims. parts: each of its claims stands for itself.
func level(name, about string, parts bool, ts ...*tally) Level {
	l := Level{Level: name, About: about, Verdict: NotAttempted}
	good, bad := 0, 0
	for _, t := range ts {
		c := t.done()
		l.Claims = append(l.Claims, c)
		if c.Binds && c.Verdict == Refuted {
			bad++
		} else if c.Binds && c.Verdict == Proved {
			good++
		}
	}
	switch {
	case bad > 0 && good > 0 && parts:
		l.Verdict = Partly
	case bad > 0:
		l.Verdict = Refuted
	case good > 0:
		l.Verdict = Proved
	}
	return l
}

// differ is a counter-example whose two texts part.
func differ(h history, appended []chat.Message, want, got string) Counter {
	n := 0
	for n < len(want) && n < len(got) && want[n] == got[n] {
		n++
	}
	return Counter{Messages: Wires(h.messages), Appended: Wires(appended), Settings: h.settings, At: n, Wanted: around(want, n), Got: around(got, n)}
}

// around is the text near byte n.
func around(s string, n int) string {
	const before, behind = 40, 40
	from, to := max(0, n-before), min(len(s), n+behind)
	for from > 0 && !utf8.RuneStart(s[from]) {
		from--
	}
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to++
	}
	out := s[from:to]
	if from > 0 {
		out = "…" + out
	}
	if to < len(s) {
		out += "…"
	}
	return out
}

func diverged(err error) (*family.Diverged, bool) {
	var d *family.Diverged
	ok := errors.As(err, &d)
	return d, ok
}
