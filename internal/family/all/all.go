// Package all is the manifest of chat formats: one row a format. Adding a format is one folder beside this one and one
// row here.
package all

import (
	"strings"

	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/family/chatml"
	"github.com/tito-rl/tito/internal/family/generic"
	"github.com/tito-rl/tito/internal/family/glm"
	"github.com/tito-rl/tito/internal/family/minimax"
	"github.com/tito-rl/tito/internal/family/qwenxml"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Row is one format.
type Row struct {
	Name string
	// New binds the format to a model; it is fault.UnknownFamily where the model is of another format.
	New func(*tokenizer.Tokenizer, *template.Template, family.Options) (family.Family, error)
	// Proved says on what the format's tests bind it: whose tokenizer and whose templates.
	Proved string
}

// Rows lists every format, in the order in which they are tried. The slice belongs to the caller.
func Rows() []Row {
	return []Row{
		{chatml.Name, chatml.New, "the tokenizer and template of Qwen3"},
		{qwenxml.Name, qwenxml.New, "templates of Qwen3.5, Qwen3.6 and Nemotron 3; a tokenizer of our own with Qwen3.5's added tokens and ids"},
		{glm.Name, glm.New, "templates of GLM-4.5 and GLM-5.2; a tokenizer of our own with GLM-4.5's added tokens and ids"},
		{minimax.Name, minimax.New, "a template of our own in the published format; a tokenizer of our own with MiniMax-M2's added tokens and ids"},
		{generic.Name, generic.New, "templates of many makers; Qwen3's tokenizer"},
	}
}

// New finds the format of a model by its tokenizer and template. No format reads it: fault.UnknownFamily, with each
// format's reason.
func New(tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	var why []string
	for _, r := range Rows() {
		f, err := r.New(tok, tpl, opts)
		if fault.CodeOf(err) != fault.UnknownFamily {
			return f, err
		}
		why = append(why, err.Error())
	}
	return nil, fault.New(fault.UnknownFamily, "no chat format reads this model: %s", strings.Join(why, "; "))
}
