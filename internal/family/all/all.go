// Package all is the manifest of chat formats: one row a format. Adding a format is one folder beside this one and one
// row here.
package all

import (
	"strings"

	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/family/chatml"
	"github.com/tito-rl/tito/internal/family/deepseek"
	"github.com/tito-rl/tito/internal/family/gemma"
	"github.com/tito-rl/tito/internal/family/generic"
	"github.com/tito-rl/tito/internal/family/glm"
	"github.com/tito-rl/tito/internal/family/harmony"
	"github.com/tito-rl/tito/internal/family/kimi"
	"github.com/tito-rl/tito/internal/family/llama"
	"github.com/tito-rl/tito/internal/family/minimax"
	"github.com/tito-rl/tito/internal/family/mistral"
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
		{chatml.Name, chatml.New, "Qwen3's tokenizer; templates of Qwen2.5, Qwen3, Qwen3-VL and TRL's training template"},
		{qwenxml.Name, qwenxml.New, "templates of Qwen3.5, 3.6, 3.8 and Nemotron 3 over Qwen3's tokenizer and over a synthetic one with Qwen3.5's ids; of Qwen3-Coder the layout alone"},
		{glm.Name, glm.New, "templates of GLM-4.5 and GLM-5.2 over a synthetic tokenizer with GLM-4.5's ids"},
		{minimax.Name, minimax.New, "a template of our own in MiniMax-M2's layout over a synthetic tokenizer with its ids"},
		{gemma.Name, gemma.New, "templates of Gemma 4, five versions, over a synthetic tokenizer"},
		{kimi.Name, kimi.New, "a template of our own in the layout of Kimi K2 Thinking and K2.5 over a synthetic tokenizer"},
		{mistral.Name, mistral.New, "templates of Ministral 3 and Mistral Medium 3.5 over a synthetic tokenizer with their special tokens; the layout of Mistral Small 3.1 over Mistral's own tokenizer"},
		{deepseek.Name, deepseek.New, "TRL's template of DeepSeek V3 over its tokenizer"},
		{deepseek.Name31, deepseek.New31, "a template of our own in DeepSeek V3.1's layout over a synthetic tokenizer"},
		{harmony.Name, harmony.New, "gpt-oss's template over its tokenizer"},
		{llama.Name, llama.New, "templates of Llama 3.1 and 3.2 over Llama 3's tokenizer and over a synthetic one with Llama 3.1's ids"},
		{generic.Name, generic.New, "the template of Gemma 3 over its tokenizer, that of Phi-3 over a synthetic one"},
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
