// Package chatml is the chat format of Qwen3 and its kin: ChatML turns, reasoning between <think> tags, tool calls as one
// JSON object between <tool_call> tags (the Hermes form).
//
// Delimiters are structural by token id, never by text: a body that spells one is text, on the way in and on the way out.
// The package knows nothing of wire APIs, engines or trajectories.
package chatml

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Name is the manifest's name of the format.
const Name = "chatml-hermes"

// The format's delimiters. All must be added tokens; the think pair and the terminal stop may be absent.
const (
	turnOpen   = "<|im_start|>"
	turnClose  = "<|im_end|>"
	textEnd    = "<|endoftext|>"
	callOpen   = "<tool_call>"
	callClose  = "</tool_call>"
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// Family is the format bound to a model.
type Family struct {
	tok     *tokenizer.Tokenizer
	tpl     *template.Template
	opts    family.Options
	added   map[token.ID]string // every added token's spelling
	turn    tokenizer.AddedToken
	stops   []family.Stop
	open    token.ID // of a call
	close   token.ID
	thinks  bool // the think pair exists
	think   token.ID
	thought token.ID
	spell   *speller
}

var (
	_ family.Family    = (*Family)(nil)
	_ family.Reuser    = (*Family)(nil)
	_ family.Explainer = (*Family)(nil)
)

// New binds the format to a model's tokenizer and template. Where they are of another format the error is
// fault.UnknownFamily and says what is missing.
func New(tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	f := &Family{tok: tok, tpl: tpl, opts: opts, added: map[token.ID]string{}}
	all := tok.Added()
	byText := map[string]tokenizer.AddedToken{}
	for _, t := range all {
		f.added[t.ID] = t.Content
		byText[t.Content] = t
	}
	for _, want := range []string{turnOpen, turnClose, callOpen, callClose} {
		if t, ok := byText[want]; !ok || !family.Isolating(t, all) {
			return nil, fault.New(fault.UnknownFamily, "%s: %s is no isolating added token of this tokenizer", Name, want)
		}
	}
	f.turn, f.open, f.close = byText[turnOpen], byText[callOpen].ID, byText[callClose].ID
	f.stops = []family.Stop{{ID: byText[turnClose].ID, Text: turnClose, Kind: family.StopClose}}
	if t, ok := byText[textEnd]; ok {
		f.stops = append(f.stops, family.Stop{ID: t.ID, Text: textEnd, Kind: family.StopTerminal})
	}
	a, okA := byText[thinkOpen]
	b, okB := byText[thinkClose]
	f.thinks, f.think, f.thought = okA && okB, a.ID, b.ID
	var err error
	if f.spell, err = newSpeller(all); err != nil {
		return nil, err
	}
	if err := f.probe(); err != nil {
		return nil, err
	}
	return f, nil
}

// probe renders one call and the opening of a reply: other formats share these tokens.
func (f *Family) probe() error {
	args := `{"k": "v"}`
	text, _, err := f.text(family.Conversation{
		Messages: []chat.Message{
			{Role: chat.User, Content: chat.T("u")},
			{Role: chat.Assistant, Content: chat.T("a"), Calls: []chat.Call{{ID: "c", Name: "probe", Arguments: args}}},
			{Role: chat.Tool, Content: chat.T("r"), CallID: "c"},
		},
		Clock: template.Clock{Year: 2024, Month: 1, Day: 1, Weekday: 1, YearDay: 1},
	})
	if err != nil {
		return &fault.Error{Code: fault.UnknownFamily, Msg: Name + ": the template fails on a tool call", Err: err}
	}
	if !strings.Contains(text, hermes("probe", args)) || !strings.Contains(text[strings.LastIndex(text, turnOpen)+1:], "|im_start|>assistant\n") {
		return fault.New(fault.UnknownFamily, "%s: the template writes calls or turns in another form", Name)
	}
	return nil
}

// hermes is a call as the template writes it.
func hermes(name, args string) string {
	return callOpen + "\n{\"name\": \"" + name + "\", \"arguments\": " + args + "}\n" + callClose
}

// Name is the format's name.
func (f *Family) Name() string { return Name }

// Stops lists the ids that end a completion: the close of a turn, and the end of the text where the tokenizer has one.
func (f *Family) Stops() []family.Stop { return append([]family.Stop(nil), f.stops...) }

func (f *Family) isStop(id token.ID) bool {
	for _, s := range f.stops {
		if s.ID == id {
			return true
		}
	}
	return false
}

// Decode gives the text of ids, delimiters included.
func (f *Family) Decode(ids []token.ID) string {
	d := f.tok.NewDecoder()
	return d.Add(ids...) + d.Done()
}

// Speak gives the ids that a policy would sample to say r: reasoning where it is present, content, calls, the close of
// the turn (left out where r was cut by length). Arguments are said as they are spelled; "" is {}. A text that spells a
// delimiter is said in ordinary tokens.
func (f *Family) Speak(r chat.Reply) ([]token.ID, error) {
	if r.Reasoning.Presence == chat.Present && !f.thinks {
		return nil, fault.New(fault.BadModel, "%s: this tokenizer has no %s to reason in", Name, thinkOpen)
	}
	texts := []string{r.Reasoning.S, r.Content.S}
	for _, c := range r.Calls {
		texts = append(texts, c.Name, c.Arguments)
	}
	mark, err := f.spell.mark(texts)
	if err != nil {
		return nil, err
	}
	body := func(s string) string { return f.spell.protect(s, mark, nil) }
	var b strings.Builder
	if r.Reasoning.Presence == chat.Present {
		b.WriteString(thinkOpen + "\n" + body(r.Reasoning.S) + "\n" + thinkClose + "\n\n")
	}
	b.WriteString(body(r.Content.S))
	for i, c := range r.Calls {
		if i > 0 || r.Content.S != "" {
			b.WriteString("\n")
		}
		name := ojson.AppendString(nil, c.Name)
		args := c.Arguments
		if args == "" {
			args = "{}"
		}
		b.WriteString(hermes(body(string(name[1:len(name)-1])), body(args)))
	}
	if r.Finish != chat.FinishLength {
		b.WriteString(turnClose)
	}
	if mark == 0 {
		return f.tok.Encode(b.String()), nil
	}
	return f.tok.EncodeMarked(b.String(), mark), nil
}
