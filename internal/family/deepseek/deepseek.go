// Package deepseek is the chat format of DeepSeek V3, R1 and V3.1: role tokens without newlines, and calls in one section,
// each between tokens of its own. V3 and R1 write a call's name and its JSON in a fence; V3.1 writes them bare.
//
// Arguments reach these templates as text. The templates of V3 and R1 leave out tokens from the second round of calls on;
// what they write is what the model is shown.
package deepseek

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// The manifest's names of the two forms.
const (
	Name   = "deepseek-v3"
	Name31 = "deepseek-v3.1"
)

const (
	sectionOpen  = "<｜tool▁calls▁begin｜>"
	sectionClose = "<｜tool▁calls▁end｜>"
	callOpen     = "<｜tool▁call▁begin｜>"
	callSep      = "<｜tool▁sep｜>"
	callClose    = "<｜tool▁call▁end｜>"
	textEnd      = "<｜end▁of▁sentence｜>"
	fenceOpen    = "\n```json\n"
	fenceClose   = "\n```"
)

// New binds the form of V3 and R1 to a model; New31 that of V3.1. Where the model is of another format the error is
// fault.UnknownFamily and says what is missing.
func New(tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	return bind(Name, form{fenced: true}, tok, tpl, opts)
}

// New31 binds the form of V3.1.
func New31(tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	return bind(Name31, form{}, tok, tpl, opts)
}

func bind(name string, f form, tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	k, err := family.NewKit(family.Format{
		Name:  name,
		Turn:  "<｜Assistant｜>",
		Close: textEnd,
		Stops: []family.StopToken{{Text: textEnd, Kind: family.StopTerminal}},
		Think: "<think>", Thought: "</think>",
		Call: sectionOpen, Called: sectionClose,
		NewBlock:      func() family.Block { return newBlock(f) },
		WriteCalls:    f.write,
		TextArguments: true,
		Layout:        f.layout(),
	}, tok, tpl, opts)
	if err != nil {
		return nil, err
	}
	for _, want := range []string{callOpen, callSep, callClose} {
		if !k.HasToken(want) {
			return nil, k.Refuse(want + " is no isolating added token of this tokenizer")
		}
	}
	calls := []chat.Call{{ID: "c", Name: "probe", Arguments: `{"k": "v"}`}, {ID: "d", Name: "probe", Arguments: `{}`}}
	text, err := k.Text(family.Probe(calls...))
	if err != nil {
		return nil, k.Refuse("the template fails on a tool call: " + err.Error())
	}
	want, err := f.write(calls, k.Layout, func(s string) string { return s })
	if err != nil || !strings.Contains(text, want) {
		return nil, k.Refuse("the template writes calls in another form")
	}
	if err := k.Learn(calls...); err != nil {
		return nil, err
	}
	return k, nil
}

// form is one of the two ways to write a call.
type form struct{ fenced bool }

// layout is what the models were seen to say; their templates leave reasoning out.
func (f form) layout() family.Layout {
	if f.fenced {
		return family.Layout{ThinkOpen: "\n", ThinkClose: "\n", ThinkEnd: "\n\n", ThinkAlone: "\n\n"}
	}
	return family.Layout{}
}

func (f form) write(calls []chat.Call, _ family.Layout, body func(string) string) (string, error) {
	var b strings.Builder
	b.WriteString(sectionOpen)
	for i, c := range calls {
		if strings.ContainsAny(c.Name, "\n ") || c.Name == "" {
			return "", fault.New(fault.BadRequest, "this model's calls cannot hold the name %q", c.Name)
		}
		args := c.Arguments
		if args == "" {
			args = "{}"
		}
		switch {
		case !f.fenced:
			b.WriteString(callOpen + body(c.Name) + callSep + body(args) + callClose)
		default:
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(callOpen + "function" + callSep + body(c.Name) + fenceOpen + body(args) + fenceClose + callClose)
		}
	}
	return b.String() + sectionClose, nil
}
