// Package model reads a model's directory: its tokenizer, its chat template, and the chat format that they belong to.
//
// It reads only what a prompt's ids depend on, never weights. What it cannot read exactly it refuses, and says which file
// is at fault. A Model is immutable and safe for concurrent use; many trajectories share one.
package model

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/family/all"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
	"github.com/tito-rl/tito/internal/trajectory"
)

// BuiltinName is the name of the model that the binary carries.
const BuiltinName = "builtin"

// The files of a model's directory. The first is needed; the template is in the third, or else in the second.
const (
	tokenizerFile  = "tokenizer.json"
	configFile     = "tokenizer_config.json"
	templateFile   = "chat_template.jinja"
	generationFile = "generation_config.json"
)

// Model is everything that turns conversations into ids and back.
type Model struct {
	Name      string // the directory's base name, or BuiltinName
	Tokenizer *tokenizer.Tokenizer
	Template  *template.Template
	Family    family.Family
	Info      trajectory.ModelInfo
	Stops     []token.ID // the family's, in its order; the caller must not change them
	VocabSize int        // 1 + the highest id of the tokenizer; an engine's own may be padded beyond it
}

// Loader reads models' directories. The zero Loader needs nothing.
type Loader struct {
	// Cache is a folder for compiled tokenizers, which load many times faster than their files. It is made where it is
	// not there; "" is none. What is in it may be deleted at any time.
	Cache string
}

// Load reads the model in a directory. Errors: fault.FileMissing where the directory is not there or a file cannot be
// read; fault.BadModel where it lacks a file or its files disagree; else the code of the part that is wrong
// (fault.BadTokenizer, fault.UnsupportedTokenizer, fault.BadTemplate, fault.UnknownFamily).
func (l Loader) Load(dir string) (*Model, error) {
	d, name, err := l.open(dir)
	if err != nil {
		return nil, err
	}
	return read(d, name)
}

// LoadTokenizer reads the tokenizer in a directory, which needs no chat template. Errors are those of [Loader.Load].
func (l Loader) LoadTokenizer(dir string) (*tokenizer.Tokenizer, error) {
	d, _, err := l.open(dir)
	if err != nil {
		return nil, err
	}
	tok, _, _, err := d.tokenizer()
	return tok, err
}

// Load is [Loader.Load] without a cache.
func Load(dir string) (*Model, error) { return Loader{}.Load(dir) }

// LoadTokenizer is [Loader.LoadTokenizer] without a cache.
func LoadTokenizer(dir string) (*tokenizer.Tokenizer, error) { return Loader{}.LoadTokenizer(dir) }

func open(dir string) (directory, string, error) { return Loader{}.open(dir) }

// open finds a directory and its base name.
func (l Loader) open(dir string) (directory, string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return directory{}, "", missing(err, "model directory %s", dir).WithFix("--model takes a directory with %s, or %q", tokenizerFile, BuiltinName)
	}
	if !info.IsDir() {
		return directory{}, "", fault.New(fault.FileMissing, "%s is a file", dir).WithFix("--model takes the directory that holds it")
	}
	name := filepath.Base(dir)
	if abs, err := filepath.Abs(dir); err == nil {
		name = filepath.Base(abs)
	}
	return directory{os.DirFS(dir), dir, l.Cache}, name, nil
}

// Builtin is the model that the binary carries. It is made once.
func Builtin() (*Model, error) { return loadBuiltin() }

// loadBuiltin holds an immutable value, made on first use.
var loadBuiltin = sync.OnceValues(func() (*Model, error) {
	d, err := bundled()
	if err != nil {
		return nil, err
	}
	return read(d, BuiltinName)
})

func bundled() (directory, error) {
	bundle, err := fs.Sub(builtin.Bundle, "bundle")
	return directory{bundle, "the built-in model", ""}, fault.Wrap(fault.InternalError, err, "built-in model")
}

func missing(err error, format string, args ...any) *fault.Error {
	e := fault.New(fault.FileMissing, format, args...)
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // the message names the file already
	}
	e.Err = err
	return e
}

// directory is a model's files, and what to call them in messages.
type directory struct {
	fs    fs.FS
	where string
	cache string // folder of compiled tokenizers; "" for none
}

// read is a file's bytes, nil where it is not there.
func (d directory) read(name string) ([]byte, error) {
	b, err := fs.ReadFile(d.fs, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, missing(err, "%s in %s", name, d.where)
	}
	return b, nil
}

// lacks is the error for a file that is not there. It says what is.
func (d directory) lacks(what string) error {
	const show = 20
	entries, _ := fs.ReadDir(d.fs, ".")
	var names []string
	for _, e := range entries[:min(len(entries), show)] {
		names = append(names, e.Name())
	}
	has := "it is empty"
	if len(names) > 0 {
		has = "it has " + strings.Join(names, ", ")
	}
	if len(entries) > show {
		has += ", …"
	}
	return fault.New(fault.BadModel, "%s has no %s; %s", d.where, what, has)
}

// tokenizer reads the tokenizer, and gives its file and the configuration that it agrees with.
func (d directory) tokenizer() (*tokenizer.Tokenizer, source, config, error) {
	fail := func(err error) (*tokenizer.Tokenizer, source, config, error) { return nil, source{}, config{}, err }
	src, err := d.source()
	if err != nil {
		return fail(err)
	}
	var cfg config
	if src.name != tokenizerFile {
		if cfg, err = d.config(); err != nil { // a rank file cannot be read without it
			return fail(err)
		}
	}
	tok, src, err := d.load(src, cfg)
	if err != nil {
		return fail(fault.Wrap(fault.BadTokenizer, err, "%s", d.where))
	}
	if cfg, err = d.config(); err != nil {
		return fail(err)
	}
	if err := cfg.check(tok); err != nil {
		return fail(fault.Wrap(fault.BadModel, err, "%s", d.where))
	}
	return tok, src, cfg, nil
}

func read(d directory, name string) (*Model, error) {
	tok, file, cfg, err := d.tokenizer()
	if err != nil {
		return nil, err
	}
	src, err := d.template(cfg)
	if err != nil {
		return nil, err
	}
	tpl, err := template.Compile(src)
	if err != nil {
		return nil, fault.Wrap(fault.BadTemplate, err, "%s", d.where)
	}
	fam, err := all.New(tok, tpl, family.Options{Tokens: cfg.tokens})
	if err != nil {
		return nil, fault.Wrap(fault.UnknownFamily, err, "%s", d.where)
	}
	m := &Model{
		Name: name, Tokenizer: tok, Template: tpl, Family: fam, VocabSize: tok.VocabSize(),
		Info: trajectory.ModelInfo{Name: name, Family: fam.Name(), Tokenizer: file.hash, Template: digest([]byte(src))},
	}
	for _, s := range fam.Stops() {
		m.Stops = append(m.Stops, s.ID)
	}
	if err := d.checkEnds(cfg, m); err != nil {
		return nil, err
	}
	return m, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
