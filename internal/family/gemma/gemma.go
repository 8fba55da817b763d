// Package gemma is the chat format of Gemma 4: <|turn> and <turn|> around messages, reasoning in a channel named thought,
// calls in a notation of their own with strings between <|"|> tokens.
//
// A call's results stand in the turn that made it, so a reply with calls ends in <|tool_response>, the opening of the
// first result. The template writes content behind the results, and the arguments' keys in order: a reply with content
// beside calls, or with keys in another order, is not rendered as it was sampled. Gemma 3 has no calls; [generic] reads it.
// Facts are those of the published templates.
package gemma

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Name is the manifest's name of the format.
const Name = "gemma-4"

const (
	callOpen  = "<|tool_call>"
	callClose = "<tool_call|>"
	quote     = `<|"|>`
)

var format = family.Format{
	Name:  Name,
	Turn:  "<|turn>",
	Cut:   "<tool_response|>",
	Close: "<turn|>", CloseCalls: "<|tool_response>",
	Stops: []family.StopToken{{Text: "<turn|>", Kind: family.StopClose}, {Text: "<|tool_response>", Kind: family.StopNextRole},
		{Text: "<eos>", Kind: family.StopTerminal}},
	Think: "<|channel>", Thought: "<channel|>", ThinkWord: "thought\n",
	Call: callOpen, Called: callClose,
	NewBlock:   func() family.Block { return &block{} },
	WriteCalls: write,
	Layout:     family.Layout{ThinkClose: "\n"},
}

// New binds the format to a model's tokenizer and template. Where they are of another format the error is
// fault.UnknownFamily and says what is missing.
func New(tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	k, err := family.NewKit(format, tok, tpl, opts)
	if err != nil {
		return nil, err
	}
	if !k.HasToken(quote) {
		return nil, k.Refuse(quote + " is no isolating added token of this tokenizer")
	}
	text, err := k.Text(family.Probe(chat.Call{ID: "c", Name: "probe", Arguments: `{"b": true, "k": ["v", 1], "z": null}`}))
	if err != nil {
		return nil, k.Refuse("the template fails on a tool call: " + err.Error())
	}
	const call = callOpen + "call:probe{b:true,k:[" + quote + "v" + quote + ",1],z:"
	switch {
	case strings.Contains(text, call+"None}"+callClose):
		k.Layout.PythonText = true
	case !strings.Contains(text, call+"null}"+callClose):
		return nil, k.Refuse("the template writes calls in another form")
	}
	if err := k.Learn(); err != nil {
		return nil, err
	}
	return k, nil
}

func write(calls []chat.Call, layout family.Layout, body func(string) string) (string, error) {
	var b strings.Builder
	for _, c := range calls {
		v, ok := family.ArgumentsObject(c.Arguments)
		if !ok {
			return "", fault.New(fault.BadRequest, "the arguments of a call to %q are no JSON object: this model's calls cannot hold them", c.Name)
		}
		if c.Name == "" || strings.ContainsAny(c.Name, "{"+blanks) {
			return "", fault.New(fault.BadRequest, "the name %q cannot stand in this model's calls", c.Name)
		}
		w := writer{body: body, none: "null"}
		if layout.PythonText {
			w.none = "None"
		}
		w.value(v)
		if w.bad != "" {
			return "", fault.New(fault.BadRequest, "the key %q of a call to %q cannot stand in this model's calls", w.bad, c.Name)
		}
		b.WriteString(callOpen + "call:" + body(c.Name) + w.String() + callClose)
	}
	return b.String(), nil
}

// writer spells a value: keys are bare, strings stand between <|"|>.
type writer struct {
	strings.Builder
	body func(string) string
	none string
	bad  string // a key that could not be read again
}

func (w *writer) value(v ojson.Value) {
	switch v.Kind() {
	case ojson.String:
		w.WriteString(quote + w.body(v.Str()) + quote)
	case ojson.Null:
		w.WriteString(w.none)
	case ojson.Array:
		w.WriteByte('[')
		for i, e := range v.Elems() {
			w.comma(i)
			w.value(e)
		}
		w.WriteByte(']')
	case ojson.Object:
		w.WriteByte('{')
		for i, m := range v.Members() {
			w.comma(i)
			if !isKey(m.Key) {
				w.bad = m.Key
			}
			w.WriteString(w.body(m.Key) + ":")
			w.value(m.Value)
		}
		w.WriteByte('}')
	default:
		w.Write(v.Raw())
	}
}

func (w *writer) comma(i int) {
	if i > 0 {
		w.WriteByte(',')
	}
}

// isKey is whether s can be told from what stands around it.
func isKey(s string) bool {
	return s != "" && strings.Trim(s, blanks) == s && !strings.ContainsAny(s, "{}[],:\n")
}
