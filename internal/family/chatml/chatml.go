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
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Name is the manifest's name of the format.
const Name = "chatml-hermes"

const (
	turnOpen  = "<|im_start|>"
	callOpen  = "<tool_call>"
	callClose = "</tool_call>"
)

var format = family.Format{
	Name:  Name,
	Turn:  turnOpen,
	Close: "<|im_end|>",
	Stops: []family.StopToken{{Text: "<|im_end|>", Kind: family.StopClose}, {Text: "<|endoftext|>", Kind: family.StopTerminal}},
	Think: "<think>", Thought: "</think>",
	Call: callOpen, Called: callClose,
	NewBlock:   func() family.Block { return &scanner{} },
	WriteCalls: write,
	Layout:     family.Layout{ThinkOpen: "\n", ThinkClose: "\n", ThinkEnd: "\n\n", ThinkAlone: "\n\n", First: "\n", Next: "\n", AfterStop: "\n"},
}

// New binds the format to a model's tokenizer and template. Where they are of another format the error is
// fault.UnknownFamily and says what is missing.
func New(tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	k, err := family.NewKit(format, tok, tpl, opts)
	if err != nil {
		return nil, err
	}
	text, err := k.Text(family.Probe(chat.Call{ID: "c", Name: "probe", Arguments: `{"k": "v"}`}))
	if err != nil {
		return nil, k.Refuse("the template fails on a tool call: " + err.Error())
	}
	if !strings.Contains(text, hermes("probe", `{"k": "v"}`)) || !strings.Contains(text[strings.LastIndex(text, turnOpen)+1:], "|im_start|>assistant\n") {
		return nil, k.Refuse("the template writes calls or turns in another form")
	}
	return k, nil
}

// hermes is a call as the template writes it.
func hermes(name, args string) string {
	return callOpen + "\n{\"name\": \"" + name + "\", \"arguments\": " + args + "}\n" + callClose
}

func write(calls []chat.Call, layout family.Layout, body func(string) string) (string, error) {
	var b strings.Builder
	for i, c := range calls {
		if i > 0 {
			b.WriteString(layout.Next)
		}
		name := ojson.AppendString(nil, c.Name)
		args := c.Arguments
		if args == "" {
			args = "{}"
		}
		b.WriteString(hermes(body(string(name[1:len(name)-1])), body(args)))
	}
	return b.String(), nil
}
