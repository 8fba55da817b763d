// Package kimi is the chat format of Moonshot's Kimi K2 line: role tokens open each message, <|im_end|> closes it, and
// calls stand in one section, each an id and JSON arguments between tokens.
//
// The function's name is nowhere but in the id, functions.NAME:INDEX. So the id is the model's own: it is kept, and its
// template is given it back. Facts are those of the published templates.
package kimi

import (
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Name is the manifest's name of the format.
const Name = "kimi-k2"

const (
	sectionOpen  = "<|tool_calls_section_begin|>"
	sectionClose = "<|tool_calls_section_end|>"
	callOpen     = "<|tool_call_begin|>"
	argsOpen     = "<|tool_call_argument_begin|>"
	callClose    = "<|tool_call_end|>"
)

var format = family.Format{
	Name:  Name,
	Turn:  "<|im_assistant|>",
	Close: "<|im_end|>",
	Stops: []family.StopToken{{Text: "<|im_end|>", Kind: family.StopClose}, {Text: "[EOS]", Kind: family.StopTerminal}},
	Think: "<think>", Thought: "</think>",
	Call: sectionOpen, Called: sectionClose,
	NewBlock:   newBlock,
	WriteCalls: write,
}

// New binds the format to a model's tokenizer and template. Where they are of another format the error is
// fault.UnknownFamily and says what is missing.
func New(tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	k, err := family.NewKit(format, tok, tpl, opts)
	if err != nil {
		return nil, err
	}
	for _, want := range []string{callOpen, argsOpen, callClose} {
		if !k.HasToken(want) {
			return nil, k.Refuse(want + " is no isolating added token of this tokenizer")
		}
	}
	calls := []chat.Call{{ID: "functions.probe:0", Name: "probe", Arguments: `{"k": "v"}`}, {ID: "functions.probe:1", Name: "probe", Arguments: `{}`}}
	text, err := k.Text(family.Probe(calls...))
	if err != nil {
		return nil, k.Refuse("the template fails on a tool call: " + err.Error())
	}
	want, _ := write(calls, k.Layout, func(s string) string { return s })
	if !strings.Contains(text, want) {
		return nil, k.Refuse("the template writes calls in another form")
	}
	if err := k.Learn(calls...); err != nil {
		return nil, err
	}
	return k, nil
}

// write makes up ids where the calls have none of the model's form: from each call's place in the reply.
func write(calls []chat.Call, _ family.Layout, body func(string) string) (string, error) {
	var b strings.Builder
	b.WriteString(sectionOpen)
	for i, c := range calls {
		id := c.ID
		if nameIn(id) != c.Name {
			id = "functions." + c.Name + ":" + strconv.Itoa(i)
		}
		args := c.Arguments
		if args == "" {
			args = "{}"
		}
		b.WriteString(callOpen + body(id) + argsOpen + body(args) + callClose)
	}
	b.WriteString(sectionClose)
	return b.String(), nil
}

// nameIn is the function's name in an id such as functions.NAME:0, "" where the id has another form. Some models leave
// "functions." out.
func nameIn(id string) string {
	name, index, ok := cutLast(id, ":")
	if _, err := strconv.ParseUint(index, 10, 32); !ok || err != nil || strings.ContainsAny(name, blanks) {
		return ""
	}
	return strings.TrimPrefix(name, "functions.")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
