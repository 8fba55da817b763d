// Package qwenxml is the chat format of Qwen3-Coder, Qwen3.5 and later, and Nemotron 3: ChatML turns, reasoning between
// <think> tags, and tool calls as tags with bare values between them:
//
//	<tool_call>
//	<function=name>
//	<parameter=key>
//	value
//	</parameter>
//	</function>
//	</tool_call>
//
// Values carry no type; the declared schema gives it. What the templates of these models write around the parts of a
// reply differs, and is read from the template.
package qwenxml

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Name is the manifest's name of the format.
const Name = "qwen-xml"

const (
	callOpen  = "<tool_call>"
	callClose = "</tool_call>"
)

var grammar = family.Elements{
	Head: "<function=", HeadEnd: ">", Key: "<parameter=", KeyEnd: ">", ValueEnd: "</parameter>", Foot: "</function>",
	Frame: "\n", Call: callOpen, Called: callClose,
}

var format = family.Format{
	Name:  Name,
	Turn:  "<|im_start|>",
	Close: "<|im_end|>",
	Stops: []family.StopToken{{Text: "<|im_end|>", Kind: family.StopClose}, {Text: "<|endoftext|>", Kind: family.StopTerminal}},
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
	found := false
	for _, python := range []bool{false, true} {
		call, err := grammar.Write(calls[0], python, func(s string) string { return s })
		if err == nil && strings.Contains(text, callOpen+"\n"+call+"\n"+callClose) {
			found, k.Layout.PythonText = true, python
		}
	}
	if !found {
		return nil, k.Refuse("the template writes calls in another form")
	}
	if err := k.Learn(calls...); err != nil {
		return nil, err
	}
	return k, nil
}

func write(calls []chat.Call, layout family.Layout, body func(string) string) (string, error) {
	var out []string
	for _, c := range calls {
		text, err := grammar.Write(c, layout.PythonText, body)
		if err != nil {
			return "", err
		}
		out = append(out, callOpen+"\n"+text+"\n"+callClose)
	}
	return strings.Join(out, layout.Next), nil
}
