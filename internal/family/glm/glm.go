// Package glm is the chat format of GLM-4.5 and later: a role token opens each message and ends the one before, reasoning
// stands between <think> tags, and a call is its name followed by pairs of <arg_key> and <arg_value>.
//
// There is no end-of-turn token: the policy says the next role's token, <|observation|> after calls and <|user|>
// otherwise. Every tag of a call is an added token, so a spelling of one inside a value is text; the token itself is text
// too where no legal continuation follows.
package glm

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Name is the manifest's name of the format.
const Name = "glm"

const (
	callOpen  = "<tool_call>"
	callClose = "</tool_call>"
	keyOpen   = "<arg_key>"
	keyClose  = "</arg_key>"
	valOpen   = "<arg_value>"
	valClose  = "</arg_value>"
)

var format = family.Format{
	Name:  Name,
	Turn:  "<|assistant|>",
	Close: "<|user|>", CloseCalls: "<|observation|>",
	Stops: []family.StopToken{{Text: "<|user|>", Kind: family.StopNextRole}, {Text: "<|observation|>", Kind: family.StopNextRole},
		{Text: "<|endoftext|>", Kind: family.StopTerminal}},
	Think: "<think>", Thought: "</think>",
	Call: callOpen, Called: callClose,
	NewBlock:   func() family.Block { return &block{} },
	WriteCalls: write,
}

// New binds the format to a model's tokenizer and template. Where they are of another format the error is
// fault.UnknownFamily and says what is missing.
func New(tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	k, err := family.NewKit(format, tok, tpl, opts)
	if err != nil {
		return nil, err
	}
	for _, want := range []string{keyOpen, keyClose, valOpen, valClose} {
		if !k.HasToken(want) {
			return nil, k.Refuse(want + " is no isolating added token of this tokenizer")
		}
	}
	calls := []chat.Call{{ID: "c", Name: "probe", Arguments: `{"k": true, "s": "v"}`}, {ID: "d", Name: "probe", Arguments: `{}`}}
	text, err := k.Text(family.Probe(calls...))
	if err != nil {
		return nil, k.Refuse("the template fails on a tool call: " + err.Error())
	}
	found := false
	for _, sep := range []string{"", "\n"} {
		call, err := one(calls[0], sep, func(s string) string { return s })
		if err == nil && strings.Contains(text, call) {
			found, k.Layout.Inner = true, sep
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

// one is a call as a template writes it, with sep between its parts.
func one(c chat.Call, sep string, body func(string) string) (string, error) {
	args, err := family.Bare(c, false)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(callOpen + body(c.Name) + sep)
	for _, a := range args {
		b.WriteString(keyOpen + body(a.Key) + keyClose + sep + valOpen + body(a.Value) + valClose + sep)
	}
	return b.String() + callClose, nil
}

func write(calls []chat.Call, layout family.Layout, body func(string) string) (string, error) {
	var out []string
	for _, c := range calls {
		text, err := one(c, layout.Inner, body)
		if err != nil {
			return "", err
		}
		out = append(out, text)
	}
	return strings.Join(out, layout.Next), nil
}
