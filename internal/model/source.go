package model

import (
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
	data []byte
	hash string // SHA-256 of data, in hex
}

func (d directory) source() (source, error) {
	for _, name := range tokenizerFiles {
		data, err := d.read(name)
		if err != nil {
			return source{}, err
		}
		if data != nil {
			return source{name, data, digest(data)}, nil
		}
	}
	return source{}, d.lacks(tokenizerFile)
}

// load reads a tokenizer, from the cache where that has it.
func (d directory) load(s source, cfg config) (*tokenizer.Tokenizer, error) {
	key := s.hash
	var read func() (*tokenizer.Tokenizer, error)
	switch s.name {
	case tokenizerFile:
		read = func() (*tokenizer.Tokenizer, error) { return tokenizer.Load(s.data) }
	case tekkenFile:
		read = func() (*tokenizer.Tokenizer, error) { return tokenizer.LoadTekken(s.data) }
	default:
		o, err := cfg.ranks(s.name)
		if err != nil {
			return nil, err
		}
		key += "-" + digest([]byte(cfg.class + string(ojson.ObjectOf(cfg.added...).Raw())))[:16]
		read = func() (*tokenizer.Tokenizer, error) { return tokenizer.LoadRanks(s.data, o) }
	}
	if d.cache == "" {
		return read()
	}
	return cached(filepath.Join(d.cache, key+"-v"+tokenizer.CompiledVersion+".tok"), key, read)
}

// cached reads a compiled tokenizer, or makes it anew and leaves it for the next time. A cache that cannot be read or
// written is as good as none.
func cached(path, key string, read func() (*tokenizer.Tokenizer, error)) (*tokenizer.Tokenizer, error) {
	if data, err := os.ReadFile(path); err == nil {
		if tok, err := tokenizer.LoadCompiled(data, key); err == nil {
			return tok, nil
		}
	}
	tok, err := read()
	if err == nil {
		_ = replace(path, tok.Compiled(key))
	}
	return tok, err
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
