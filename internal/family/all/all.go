// Package all is the manifest of chat formats: one row a format. Adding a format is one folder beside this one and one
// row here.
package all

import (
	"strings"

	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/family/chatml"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Row is one format.
type Row struct {
	Name string
	// New binds the format to a model; it is fault.UnknownFamily where the model is of another format.
	New func(*tokenizer.Tokenizer, *template.Template, family.Options) (family.Family, error)
}

// Rows lists every format, in the order in which they are tried. The slice belongs to the caller.
func Rows() []Row {
	return []Row{
		{chatml.Name, chatml.New},
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
