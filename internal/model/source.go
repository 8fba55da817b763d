package model

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// tokenizerFiles are the files that a tokenizer can be in. The first that is there counts.
var tokenizerFiles = []string{tokenizerFile, tekkenFile, kimiFile, qwenFile}

const (
	tekkenFile = "tekken.json"
	kimiFile   = "tiktoken.model"
	qwenFile   = "qwen.tiktoken"
)

// source is a tokenizer's file.
type source struct {
	name string
	hash string // SHA-256 of its bytes, in hex
}

func (d directory) source() (source, error) {
	for _, name := range tokenizerFiles {
		f, err := d.fs.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return source{}, missing(err, "%s in %s", name, d.where)
		}
		sum := sha256.New()
		_, err = io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{f}, make([]byte, 1<<16))
		_ = f.Close()
		if err != nil {
			return source{}, missing(err, "%s in %s", name, d.where)
		}
		return source{name, hex.EncodeToString(sum.Sum(nil))}, nil
	}
	return source{}, d.lacks(tokenizerFile)
}

// load reads a tokenizer, from the cache where that has it. The source that it gives back is what it read.
func (d directory) load(s source, cfg config) (*tokenizer.Tokenizer, source, error) {
	read := tokenizer.Load
	more := "" // what else the tokenizer depends on
	switch s.name {
	case tokenizerFile:
	case tekkenFile:
		read = tokenizer.LoadTekken
	default:
		o, err := cfg.ranks(s.name)
		if err != nil {
			return nil, s, err
		}
		more = "-" + digest([]byte(cfg.class + string(ojson.ObjectOf(cfg.added...).Raw())))[:16]
		read = func(data []byte) (*tokenizer.Tokenizer, error) { return tokenizer.LoadRanks(data, o) }
	}
	if tok := d.cached(s.hash + more); tok != nil {
		return tok, s, nil
	}
	data, err := d.read(s.name)
	if err != nil {
		return nil, s, err
	}
	s.hash = digest(data) // the file may have changed since
	tok, err := read(data)
	if err == nil {
		d.keep(tok, s.hash+more)
	}
	return tok, s, err
}

// place is where the cache has a compiled tokenizer.
func (d directory) place(key string) string {
	return filepath.Join(d.cache, key+"-v"+tokenizer.CompiledVersion+".tok")
}

// cached is a compiled tokenizer, nil where there is none that can be read: it is made anew then.
func (d directory) cached(key string) *tokenizer.Tokenizer {
	if d.cache == "" {
		return nil
	}
	data, err := os.ReadFile(d.place(key))
	if err != nil {
		return nil
	}
	tok, err := tokenizer.LoadCompiled(data, key)
	if err != nil {
		return nil
	}
	return tok
}

// keep leaves a compiled tokenizer for the next time. A cache that cannot be written is as good as none.
func (d directory) keep(tok *tokenizer.Tokenizer, key string) {
	if d.cache != "" {
		_ = replace(d.place(key), tok.Compiled(key))
	}
}

// replace writes a file so that others see all of it or none.
func replace(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// ranks are the options of a rank file. Its reader is code that comes with the model, so only known ones are read.
func (c config) ranks(file string) (tokenizer.RankOptions, error) {
	switch c.class {
	case "TikTokenTokenizer":
		var special []tokenizer.AddedToken
		for _, m := range c.added {
			id, err := strconv.ParseUint(m.Key, 10, 32)
			text := content(m.Value)
			if err != nil || text == "" {
				return tokenizer.RankOptions{}, fault.New(fault.BadModel, "%s: added token %s", configFile, m.Key)
			}
			special = append(special, tokenizer.AddedToken{ID: token.ID(id), Content: text, Special: true})
		}
		return tokenizer.KimiRanks(special), nil
	case "QWenTokenizer":
		return tokenizer.QwenRanks(), nil
	}
	return tokenizer.RankOptions{}, fault.New(fault.UnsupportedTokenizer, "%s is read by tokenizer_class %q of %s, which is not known",
		file, c.class, configFile)
}
