// Package mistral is the chat format of Mistral's models: [INST] around what the user says, </s> behind each reply, and
// calls behind [TOOL_CALLS], with no token that closes them.
//
// Calls come in two forms. Since 2025 each is its name, [ARGS] and JSON, behind a [TOOL_CALLS] of its own; between name
// and [ARGS] there may be [CALL_ID] and an id. Before, one [TOOL_CALLS] stood before a JSON array of objects with name,
// arguments and an id of nine characters. The template says which. Facts are those of the published templates and of the
// published tokenizers' lists of special tokens.
package mistral

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Name is the manifest's name of the format.
const Name = "mistral"

const (
	callOpen = "[TOOL_CALLS]"
	argsOpen = "[ARGS]"
	idOpen   = "[CALL_ID]"
)

var format = family.Format{
	Name:  Name,
	Turn:  "[/INST]",
	Cut:   "</s>",
	Close: "</s>",
	Stops: []family.StopToken{{Text: "</s>", Kind: family.StopClose}},
	Think: "[THINK]", Thought: "[/THINK]",
	Call: callOpen,
}

// New binds the format to a model's tokenizer and template. Where they are of another format the error is
// fault.UnknownFamily and says what is missing.
func New(tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	k, err := family.NewKit(format, tok, tpl, opts)
	if err != nil {
		return nil, err
	}
	text, err := probe(k, "c")
	if err != nil { // the older form takes ids of nine characters alone
		k.CallID = nine
		if text, err = probe(k, "abcdefghi"); err != nil {
			return nil, k.Refuse("the template fails on a tool call: " + err.Error())
		}
	}
	_, after, _ := strings.Cut(text, callOpen)
	switch {
	case strings.HasPrefix(after, "probe"+argsOpen+`{"k": "v"}`) && k.HasToken(argsOpen):
		k.NewBlock = func() family.Block { return &block{} }
		k.WriteCalls = write
	case strings.HasPrefix(strings.TrimPrefix(after, " "), `[{"name": "probe", "arguments": {"k": "v"}, "id": "abcdefghi"}`):
		k.NewBlock = func() family.Block { return &list{} }
		k.WriteCalls = writeList
		if strings.HasPrefix(after, " ") {
			k.Layout.Inner = " "
		}
	default:
		return nil, k.Refuse("the template writes calls in another form")
	}
	if err := k.Learn(); err != nil {
		return nil, err
	}
	return k, nil
}

func probe(k *family.Kit, id string) (string, error) {
	return k.Text(family.Probe(chat.Call{ID: id, Name: "probe", Arguments: `{"k": "v"}`}))
}

// nine is an id of nine letters and digits: id itself, its last nine, or nine that are derived from it.
func nine(id string) string {
	const n = 9
	if len(id) >= n {
		id = id[len(id)-n:]
	}
	if len(id) == n && strings.IndexFunc(id, func(r rune) bool { return !alnum(r) }) < 0 {
		return id
	}
	h := sha256.Sum256([]byte(id))
	return base32.HexEncoding.EncodeToString(h[:])[:n]
}

func alnum(r rune) bool { return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }

// arguments is a call's arguments as they are said.
func arguments(c chat.Call) string {
	if c.Arguments == "" {
		return "{}"
	}
	return c.Arguments
}

func write(calls []chat.Call, _ family.Layout, body func(string) string) (string, error) {
	var b strings.Builder
	for _, c := range calls {
		b.WriteString(callOpen + body(c.Name) + argsOpen + body(arguments(c)))
	}
	return b.String(), nil
}

// writeList makes up ids where there are none: from each call's place.
func writeList(calls []chat.Call, layout family.Layout, body func(string) string) (string, error) {
	var out []string
	for i, c := range calls {
		if c.ID == "" {
			c.ID = strconv.Itoa(i)
		}
		name := ojson.AppendString(nil, c.Name)
		out = append(out, `{"name": `+body(string(name))+`, "arguments": `+body(arguments(c))+`, "id": "`+nine(c.ID)+`"}`)
	}
	return callOpen + layout.Inner + "[" + strings.Join(out, ", ") + "]", nil
}
