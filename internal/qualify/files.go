package qualify

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/ojson"
)

// files are a model's own, as the certificate and a reference need them.
type files struct {
	sums      map[string]string // sha256 by name
	tokenizer []byte
	template  string            // its source
	tokens    map[string]string // special tokens by name
}

// names are those of the files that are there, sorted.
func (f *files) names() (out []string) {
	for name := range f.sums {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

const (
	tokenizerFile = "tokenizer.json"
	configFile    = "tokenizer_config.json"
	templateFile  = "chat_template.jinja"
)

// load reads a model and its files.
func load(dir string) (*model.Model, *files, error) {
	var m *model.Model
	var from fs.FS
	var err error
	if dir == model.BuiltinName {
		if m, err = model.Builtin(); err == nil {
			from, err = fs.Sub(builtin.Bundle, "bundle")
		}
	} else {
		if m, err = model.Load(dir); err == nil {
			from = os.DirFS(filepath.Clean(dir))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	f := &files{sums: map[string]string{}, tokens: map[string]string{}}
	for _, name := range []string{tokenizerFile, "tekken.json", "tiktoken.model", "qwen.tiktoken", configFile, templateFile, "generation_config.json"} {
		b, err := fs.ReadFile(from, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, fault.Wrap(fault.FileMissing, err, "%s", name)
		}
		f.sums[name] = digest(b)
		switch name {
		case tokenizerFile:
			f.tokenizer = b
		case templateFile:
			f.template = string(b)
		case configFile:
			f.config(b)
		}
	}
	return m, f, nil
}

// config takes what a reference is told of tokenizer_config.json.
func (f *files) config(b []byte) {
	v, err := ojson.Parse(b)
	if err != nil {
		return // model.Load has read it
	}
	for _, name := range []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"} {
		t, _ := v.Get(name)
		if t.Kind() == ojson.Object {
			t, _ = t.Get("content")
		}
		if t.Kind() == ojson.String && t.Str() != "" {
			f.tokens[name] = t.Str()
		}
	}
	t, _ := v.Get("chat_template")
	f.template = t.Str()
	named := map[string]string{} // of several the one that model.Load takes
	for _, e := range t.Elems() {
		name, _ := e.Get("name")
		src, _ := e.Get("template")
		named[name.Str()] = src.Str()
	}
	for _, name := range []string{"default", "tool_use"} {
		if src, ok := named[name]; ok {
			f.template = src
		}
	}
}
