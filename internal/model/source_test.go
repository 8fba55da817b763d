package model

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

const sample = "<|im_start|>user\n it's 日本 1234 \U0001f44d<|im_end|>\n"

func cacheFiles(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestTheCacheIsMadeReadAndMadeAgain(t *testing.T) {
	dir, cache := bundle(t), filepath.Join(t.TempDir(), "a", "b")
	plain, err := LoadTokenizer(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := plain.Encode(sample)
	load := func() {
		t.Helper()
		tok, err := Loader{Cache: cache}.LoadTokenizer(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode(sample); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	load()
	names := cacheFiles(t, cache)
	if len(names) != 1 {
		t.Fatalf("cache holds %v", names)
	}
	path := filepath.Join(cache, names[0])
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	load()
	for _, broken := range [][]byte{nil, good[:len(good)/2], append(slices.Clone(good[:100]), make([]byte, len(good)-100)...)} {
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		load()
		if again, _ := os.ReadFile(path); !bytes.Equal(again, good) {
			t.Error("a damaged form is not replaced")
		}
	}
	if names := cacheFiles(t, cache); len(names) != 1 {
		t.Errorf("cache holds %v", names)
	}
	m, err := Loader{Cache: cache}.Load(dir)
	if err != nil || m.Info.Tokenizer != must(t, dir).Info.Tokenizer {
		t.Errorf("%v", err)
	}
}

func must(t *testing.T, dir string) *Model {
	t.Helper()
	m, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAnotherFileHasAnotherPlaceInTheCache(t *testing.T) {
	cache := t.TempDir()
	for i := range 2 {
		dir := bundle(t)
		data, err := os.ReadFile(filepath.Join(dir, tokenizerFile))
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, tokenizerFile, string(data)+"\n"[:i])
		if _, err := (Loader{Cache: cache}).LoadTokenizer(dir); err != nil {
			t.Fatal(err)
		}
	}
	if names := cacheFiles(t, cache); len(names) != 2 {
		t.Errorf("cache holds %v", names)
	}
}

func TestACacheThatCannotBeUsedIsNoError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, filepath.Dir(file), "file", "x")
	if _, err := (Loader{Cache: file}).LoadTokenizer(bundle(t)); err != nil {
		t.Error(err)
	}
	if _, err := (Loader{Cache: t.TempDir()}).LoadTokenizer(bundle(t, tokenizerFile)); fault.CodeOf(err) != fault.BadModel {
		t.Errorf("without a tokenizer: %v", err)
	}
}

// ranks are the bundle's tokens as a rank file, and as the vocab of a tekken.json.
func ranks(t *testing.T) (string, []any) {
	t.Helper()
	tok, err := LoadTokenizer(bundle(t))
	if err != nil {
		t.Fatal(err)
	}
	special := map[token.ID]bool{}
	for _, a := range tok.Added() {
		special[a.ID] = true
	}
	var lines bytes.Buffer
	var vocab []any
	for id := range token.ID(tok.VocabSize()) {
		if b, ok := tok.Bytes(id); ok && !special[id] {
			text := base64.StdEncoding.EncodeToString(b)
			fmt.Fprintf(&lines, "%s %d\n", text, id)
			vocab = append(vocab, map[string]any{"rank": id, "token_bytes": text})
		}
	}
	return lines.String(), vocab
}

func TestRankFilesAreReadAsTheirModelsDo(t *testing.T) {
	lines, vocab := ranks(t)
	tekken, err := json.Marshal(map[string]any{"vocab": vocab, "config": map[string]any{"pattern": `\s+|\S+`,
		"default_vocab_size": len(vocab) + 30, "default_num_special_tokens": 30, "version": "v3"}})
	if err != nil {
		t.Fatal(err)
	}
	kimi := `{"tokenizer_class": "TikTokenTokenizer", "added_tokens_decoder": {"4090": {"content": "<|im_end|>", "special": true}}}`
	for name, c := range map[string]struct {
		file, text, config string
		code               fault.Code
		token              string
		id                 token.ID
	}{
		"Kimi":         {kimiFile, lines, kimi, "", "<|im_end|>", 4090},
		"KimiReserved": {kimiFile, lines, kimi, "", "<|reserved_token_4100|>", 4100},
		"Tekken":       {tekkenFile, string(tekken), `{}`, "", "[INST]", 3},
		"Unknown":      {kimiFile, lines, `{"tokenizer_class": "Other"}`, fault.UnsupportedTokenizer, "", 0},
		"NoConfig":     {qwenFile, lines, `{}`, fault.UnsupportedTokenizer, "", 0},
		"BadConfig":    {kimiFile, lines, `[]`, fault.BadModel, "", 0},
		"BadAdded":     {kimiFile, lines, `{"tokenizer_class": "TikTokenTokenizer", "added_tokens_decoder": {"x": "y"}}`, fault.BadModel, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir, cache := bundle(t, tokenizerFile), t.TempDir()
			write(t, dir, c.file, c.text)
			write(t, dir, configFile, c.config)
			for range 2 { // made, then from the cache
				tok, err := Loader{Cache: cache}.LoadTokenizer(dir)
				if fault.CodeOf(err) != c.code {
					t.Fatal(err)
				}
				if err != nil {
					return
				}
				if id, ok := tok.Lookup(c.token); !ok || id != c.id {
					t.Errorf("%s is id %d", c.token, id)
				}
				checkText(t, tok)
			}
			if r, err := Check(dir); err != nil || r.Tokenizer == nil || r.Tokenizer.Kind != c.file {
				t.Errorf("check: %v, %+v", err, r.Tokenizer)
			}
		})
	}
}

func checkText(t *testing.T, tok *tokenizer.Tokenizer) {
	t.Helper()
	if got := string(tok.Decode(tok.Encode(sample))); got != sample {
		t.Errorf("decodes to %q", got)
	}
}
