// Package llama is the chat format of Llama 3.1 and 3.2: header tokens around each role, and a call as the whole reply,
// one JSON object with name and parameters.
//
// Calls have no tags, so the rule is narrow: a reply is a call if all of it is one such object and the name is declared.
// Anything else is content. The template drops content beside a call and refuses a second call; so does Speak.
package llama

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
const Name = "llama3-json"

var format = family.Format{
	Name:  Name,
	Turn:  "<|start_header_id|>",
	Close: "<|eot_id|>",
	Stops: []family.StopToken{{Text: "<|eot_id|>", Kind: family.StopClose}, {Text: "<|eom_id|>", Kind: family.StopClose},
		{Text: "<|end_of_text|>", Kind: family.StopTerminal}},
	Leading:    true,
	NewBlock:   func() family.Block { return block{} },
	WriteCalls: write,
}

// New binds the format to a model's tokenizer and template. Where they are of another format the error is
// fault.UnknownFamily and says what is missing.
func New(tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	k, err := family.NewKit(format, tok, tpl, opts)
	if err != nil {
		return nil, err
	}
	call := chat.Call{ID: "c", Name: "probe", Arguments: `{"k": "v"}`}
	text, err := k.Text(family.Probe(call))
	if err != nil {
		return nil, k.Refuse("the template fails on a tool call: " + err.Error())
	}
	if !strings.Contains(text, bare("probe", call.Arguments)+format.Close) {
		return nil, k.Refuse("the template writes calls in another form")
	}
	if err := k.Learn(); err != nil {
		return nil, err
	}
	return k, nil
}

func bare(name, args string) string { return `{"name": "` + name + `", "parameters": ` + args + `}` }

func write(calls []chat.Call, _ family.Layout, body func(string) string) (string, error) {
	if len(calls) > 1 {
		return "", fault.New(fault.BadRequest, "%s: this format has one call a reply, not %d", Name, len(calls))
	}
	c := calls[0]
	if _, ok := family.ArgumentsObject(c.Arguments); !ok {
		return "", fault.New(fault.BadRequest, "%s: the arguments of a call to %q are no JSON object", Name, c.Name)
	}
	args := c.Arguments
	if args == "" {
		args = "{}"
	}
	name := ojson.AppendString(nil, c.Name)
	return bare(body(string(name[1:len(name)-1])), body(args)), nil
}

// block reads a whole reply.
type block struct{}

func (block) Text(string)           {}
func (block) Token(string)          {}
func (block) Open() family.Verdict  { return family.Inside }
func (block) Close() family.Verdict { return family.Inside }
func (block) Dead() bool            { return false }

// Read gives nothing where the reply is no object with name and parameters: then it was never meant as a call.
func (block) Read(s *family.Stretch, tools *family.Tools) ([]family.Attempt, []string) {
	v, err := ojson.Parse([]byte(s.String()))
	name, named := v.Get("name")
	params, has := v.Get("parameters")
	if err != nil || !named || !has || name.Kind() != ojson.String || name.Str() == "" {
		return nil, nil
	}
	a := family.Attempt{Status: family.AttemptOK, Name: name.Str(), Arguments: string(params.Raw()), IsCall: true}
	switch {
	case params.Kind() != ojson.Object, !known(v):
		a.Status, a.IsCall = family.AttemptMalformed, false
	case !tools.Knows(a.Name):
		a.Status, a.IsCall = family.AttemptUnknownTool, false
	case v.HasDuplicates():
		a.Status, a.IsCall = family.AttemptMalformed, false
	case family.Duplicates(params):
		a.Status = family.AttemptDuplicateKey
	}
	return []family.Attempt{a}, nil
}

// known is whether v has the keys of a call and no other.
func known(v ojson.Value) bool {
	for _, m := range v.Members() {
		switch m.Key {
		case "type", "name", "parameters":
		default:
			return false
		}
	}
	return true
}

// Name is never known: a reply that was cut is content.
func (block) Name(*family.Stretch) string { return "" }

// Said lists the name and the strings of the parameters.
func (block) Said(s *family.Stretch, mark rune) [][]string {
	v, err := ojson.Parse([]byte(s.Marked(0, s.Len(), mark)))
	if err != nil {
		return nil
	}
	name, _ := v.Get("name")
	params, _ := v.Get("parameters")
	texts := []string{name.Str()}
	family.EachString(params, func(s string) { texts = append(texts, s) })
	return [][]string{texts}
}
