package family

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Format is what a chat format says about itself. Delimiters are given as they are spelled; each must be an added token of
// the model's tokenizer.
type Format struct {
	Name string
	// Turn opens the assistant's message, and is the token at which renders are cut to reuse what was encoded: it must be
	// isolating.
	Turn string
	// Cut is another token to cut at, where replies end more often than turns begin; "" is Turn. It too must be isolating.
	Cut string
	// Close and CloseCalls are said at the end of a reply without and with calls. "" as CloseCalls is Close.
	Close, CloseCalls string
	Stops             []StopToken // the first must exist, the others may be absent
	Think, Thought    string      // around reasoning; a tokenizer without them does not think
	// ThinkWord is said right behind Think: a channel\'s name, with what ends it.
	ThinkWord string
	// Call and Called stand around calls; "" where the format has none. With Call alone a call ends where the next begins,
	// or where the reply is stopped.
	Call, Called string
	// CallID is the id that the template is handed for a call that came with id; nil is as it came.
	CallID func(id string) string
	// Leading says that calls have no tags: a reply that begins with { is one block, up to its end.
	Leading bool
	// NewReader replaces the grammar of replies, where it is another; nil is the usual one.
	NewReader func(*Reply) Reader
	// WriteReply replaces the text of a whole reply, stop included; nil is the usual one.
	WriteReply func(r chat.Reply, body func(string) string) (string, error)
	// ReasoningKey is the message's key under which the template looks for reasoning; "" is reasoning_content.
	ReasoningKey string
	// NewBlock starts the reading of one block between Call and Called.
	NewBlock func() Block
	// WriteCalls gives the text of a reply's calls, from the first Call to the last Called. What the harness gave goes
	// through body, which keeps spellings of special tokens text. An error says why the format cannot hold them.
	WriteCalls func(calls []chat.Call, layout Layout, body func(string) string) (string, error)
	// TextArguments hands arguments to the template as the text that came, where others hand over an object.
	TextArguments bool
	Layout        Layout
}

// StopToken is a stop as a format spells it.
type StopToken struct {
	Text string
	Kind StopKind
}

// Layout is what a template writes around the parts of a reply: newlines, and nothing else. The zero value is none.
type Layout struct {
	Opening    string // what the prompt ends with, behind the header that history has too: "", or a think block's beginning
	Lead       string // before <think>
	ThinkOpen  string // behind <think>
	ThinkClose string // before </think>
	ThinkEnd   string // behind </think>, before content or calls
	ThinkAlone string // behind </think>, where neither follows
	First      string // between content and the first call
	Bare       string // before the first call, where there is no content
	Next       string // between calls
	Tail       string // between the last call and the stop
	Inner      string // between the parts of a call, where templates of one format differ in it
	AfterStop  string // between the stop and the next message
	PythonText bool   // true, false and null are written as True, False and None
}

// Kit is a Format bound to a model: everything that formats have in common. It is a [Family], a [Reuser] and an
// [Explainer]. It is immutable once its format has probed the template.
type Kit struct {
	Format
	tok       *tokenizer.Tokenizer
	tpl       *template.Template
	opts      Options
	added     map[token.ID]string // each added token's spelling, but for those that are ordinary text: runs of white space
	byText    map[string]tokenizer.AddedToken
	turn, cut tokenizer.AddedToken
	stops     []Stop
	thinks    bool // the think pair exists
	think     token.ID
	thought   token.ID
	calls     bool // the call pair exists
	open      token.ID
	close     token.ID
	spell     *speller
}

var (
	_ Family    = (*Kit)(nil)
	_ Reuser    = (*Kit)(nil)
	_ Explainer = (*Kit)(nil)
	_ Retainer  = (*Kit)(nil)
)

// noID is the id of no token.
const noID = ^token.ID(0)

// NewKit binds f to a model. Where the tokenizer lacks a token of the format the error is fault.UnknownFamily.
func NewKit(f Format, tok *tokenizer.Tokenizer, tpl *template.Template, opts Options) (*Kit, error) {
	k := &Kit{Format: f, tok: tok, tpl: tpl, opts: opts, added: map[token.ID]string{}, byText: map[string]tokenizer.AddedToken{}}
	all := isolatable(tok)
	for _, t := range all {
		if b, _ := tok.Bytes(t.ID); string(b) == t.Content && strings.TrimSpace(t.Content) != "" {
			k.added[t.ID] = t.Content
		}
		k.byText[t.Content] = t
	}
	if k.CloseCalls == "" {
		k.CloseCalls = k.Close
	}
	for _, want := range []string{f.Turn, f.Cut, k.Close, k.CloseCalls, f.Call, f.Called} {
		if t, ok := k.byText[want]; want != "" && (!ok || !Isolating(t, all)) {
			return nil, fault.New(fault.UnknownFamily, "%s: %s is no isolating added token of this tokenizer", f.Name, want)
		}
	}
	k.turn, k.cut, k.calls = k.byText[f.Turn], k.byText[f.Turn], f.Call != ""
	if f.Cut != "" {
		k.cut = k.byText[f.Cut]
	}
	k.open, k.close = k.byText[f.Call].ID, k.byText[f.Called].ID
	if f.Called == "" {
		k.close = noID
	}
	for _, s := range f.Stops {
		if t, ok := k.byText[s.Text]; ok {
			k.stops = append(k.stops, Stop{ID: t.ID, Text: s.Text, Kind: s.Kind})
		}
	}
	if len(k.stops) == 0 {
		return nil, fault.New(fault.UnknownFamily, "%s: the tokenizer has no token that ends a reply", f.Name)
	}
	a, okA := k.byText[f.Think]
	b, okB := k.byText[f.Thought]
	k.thinks, k.think, k.thought = okA && okB, a.ID, b.ID
	var err error
	k.spell, err = newSpeller(f.Name, all)
	return k, err
}

// isolatable are the added tokens. Where the tokenizer leaves text as it is, those that match in normalised text match in
// the text as it stands.
func isolatable(tok *tokenizer.Tokenizer) []tokenizer.AddedToken {
	// What normalisers change: white space, case, marks that compose with what is before them, compatible forms.
	const touchy = " A\u0301>\u0338 \u2581\ufb01\u2460\u00a0\uff5c\u3000\t\r\n\x00 "
	all := tok.Added()
	if strings.Join(tok.Pieces(touchy), "") != touchy {
		return all
	}
	for i := range all {
		all[i].Normalized = false
	}
	return all
}

// Name is the format's name.
func (k *Kit) Name() string { return k.Format.Name }

// Stops lists the ids that end a completion, the usual one first.
func (k *Kit) Stops() []Stop { return append([]Stop(nil), k.stops...) }

func (k *Kit) isStop(id token.ID) bool {
	for _, s := range k.stops {
		if s.ID == id {
			return true
		}
	}
	return false
}

// Decode gives the text of ids, delimiters included.
func (k *Kit) Decode(ids []token.ID) string {
	d := k.tok.NewDecoder()
	return d.Add(ids...) + d.Done()
}

// Text is the prompt that the template makes of c, before it is encoded: what a format probes.
func (k *Kit) Text(c Conversation) (string, error) {
	text, mark, err := k.text(c)
	if mark != 0 {
		text = strings.ReplaceAll(text, string(mark), "")
	}
	return text, err
}

// HasToken is whether spelled is an isolating added token.
func (k *Kit) HasToken(spelled string) bool {
	t, ok := k.byText[spelled]
	return ok && Isolating(t, isolatable(k.tok))
}

// FirstToken finds the first spelling of an added token in text; at is -1 where there is none.
func (k *Kit) FirstToken(text string) (spelled string, at int) {
	at, spelled = k.spell.next(text, 0)
	return spelled, at
}

// Refuse is the error for a model of another format.
func (k *Kit) Refuse(why string) error {
	return fault.New(fault.UnknownFamily, "%s: %s", k.Format.Name, why)
}

// Speak gives the ids that a policy would sample to say r after a prompt with the family's own settings: reasoning where
// it is present or the prompt has opened it, content, calls, the stop (left out where r was cut by length). Arguments are
// said as they are spelled; "" is {}. A text that spells a delimiter is said in ordinary tokens. What the format cannot
// hold is fault.BadRequest.
func (k *Kit) Speak(r chat.Reply) ([]token.ID, error) {
	texts := []string{r.Reasoning.S, r.Content.S}
	for _, c := range r.Calls {
		texts = append(texts, c.Name, c.Arguments)
	}
	mark, err := k.spell.mark(texts)
	if err != nil {
		return nil, err
	}
	body := func(s string) string { return k.spell.protect(s, mark, nil) }
	write := k.WriteReply
	if write == nil {
		write = k.write
	}
	text, err := write(r, body)
	if err != nil {
		return nil, err
	}
	if mark == 0 {
		return k.tok.Encode(text), nil
	}
	return k.tok.EncodeMarked(text, mark), nil
}

// write is a reply's text, with its bodies made by body.
func (k *Kit) write(r chat.Reply, body func(string) string) (string, error) {
	l := k.Layout
	var b strings.Builder
	opened := k.Think != "" && strings.HasPrefix(l.Opening, k.Think)
	closed := k.Thought != "" && strings.Contains(l.Opening, k.Thought)
	reasons := r.Reasoning.Presence == chat.Present
	switch {
	case reasons && !k.thinks:
		return "", fault.New(fault.BadModel, "%s: this tokenizer has no %s to reason in", k.Format.Name, k.Think)
	case closed && r.Reasoning.S != "":
		return "", fault.New(fault.BadRequest, "%s: this model's prompt ends with reasoning that is closed already", k.Format.Name)
	case closed:
	case opened || reasons:
		if !opened {
			b.WriteString(l.Lead + k.Think + k.ThinkWord + l.ThinkOpen)
		}
		b.WriteString(body(r.Reasoning.S) + l.ThinkClose + k.Thought)
		if r.Content.S == "" && len(r.Calls) == 0 {
			b.WriteString(l.ThinkAlone)
		} else {
			b.WriteString(l.ThinkEnd)
		}
	default:
		b.WriteString(l.Lead)
	}
	b.WriteString(body(r.Content.S))
	if len(r.Calls) > 0 {
		if k.WriteCalls == nil {
			return "", fault.New(fault.BadRequest, "%s: this format has no calls", k.Format.Name)
		}
		if r.Content.S == "" {
			b.WriteString(l.Bare)
		} else {
			b.WriteString(l.First)
		}
		if k.Leading && r.Content.S != "" {
			return "", fault.New(fault.BadRequest, "%s: this format has no content beside a call", k.Format.Name)
		}
		calls, err := k.WriteCalls(r.Calls, l, body)
		if err != nil {
			return "", err
		}
		b.WriteString(calls + l.Tail)
	}
	switch {
	case r.Finish == chat.FinishLength:
	case len(r.Calls) > 0:
		b.WriteString(k.CloseCalls)
	default:
		b.WriteString(k.Close)
	}
	return b.String(), nil
}

// Probe is a conversation that shows how a template writes a reply with reasoning, content and calls, and the result of
// each.
func Probe(calls ...chat.Call) Conversation {
	c := Conversation{
		Messages: []chat.Message{
			{Role: chat.User, Content: chat.T("u")},
			{Role: chat.Assistant, Content: chat.T("a"), Calls: calls},
		},
		Clock: template.Clock{Year: 2024, Month: 1, Day: 1, Weekday: 1, YearDay: 1},
	}
	for _, call := range calls {
		c.Messages = append(c.Messages, chat.Message{Role: chat.Tool, Content: chat.T("r"), CallID: call.ID})
	}
	return c
}
