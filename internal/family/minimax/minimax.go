// Package minimax is the chat format of MiniMax M2 and its kin: messages between ]~b] and [e~[, reasoning between <think>
// tags, and one <minimax:tool_call> block that holds every call of a reply:
//
//	<minimax:tool_call>
//	<invoke name="name">
//	<parameter name="key">value</parameter>
//	</invoke>
//	</minimax:tool_call>
//
// Values carry no type; the declared schema gives it.
package minimax

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Name is the manifest's name of the format.
const Name = "minimax-m2"

const (
	callOpen  = "<minimax:tool_call>"
	callClose = "</minimax:tool_call>"
)

var grammar = family.Elements{
	Head: `<invoke name="`, HeadEnd: `">`, Key: `<parameter name="`, KeyEnd: `">`, ValueEnd: "</parameter>", Foot: "</invoke>",
	Many: true, Call: callOpen, Called: callClose,
}

var format = family.Format{
	Name:  Name,
	Turn:  "]~b]",
	Close: "[e~[",
	Stops: []family.StopToken{{Text: "[e~[", Kind: family.StopClose}},
	Think: "<think>", Thought: "</think>",
	Call: callOpen, Called: callClose,
	NewBlock:   grammar.NewBlock,
	WriteCalls: write,
	Layout:     family.Layout{ThinkOpen: "\n", ThinkClose: "\n", ThinkEnd: "\n\n", ThinkAlone: "\n\n"},
}

// New binds the format to a model's tokenizer and template. Where they are of another format the error is
// fault.UnknownFamily and says what is missing.
func New(tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	k, err := family.NewKit(format, tok, tpl, opts)
	if err != nil {
		return nil, err
	}
	calls := []chat.Call{{ID: "c", Name: "probe", Arguments: `{"k": true, "s": "v"}`}, {ID: "d", Name: "probe", Arguments: `{}`}}
	text, err := k.Text(family.Probe(calls...))
	if err != nil {
		return nil, k.Refuse("the template fails on a tool call: " + err.Error())
	}
	want, err := write(calls, k.Layout, func(s string) string { return s })
	if err != nil || !strings.Contains(text, want) {
		return nil, k.Refuse("the template writes calls in another form")
	}
	if err := k.Learn(calls...); err != nil {
		return nil, err
	}
	return k, nil
}

func write(calls []chat.Call, _ family.Layout, body func(string) string) (string, error) {
	var b strings.Builder
	b.WriteString(callOpen + "\n")
	for _, c := range calls {
		text, err := grammar.Write(c, false, body)
		if err != nil {
			return "", err
		}
		b.WriteString(text + "\n")
	}
	return b.String() + callClose, nil
}
