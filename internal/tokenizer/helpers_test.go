package tokenizer

import (
	"encoding/json"
	"flag"
	"testing"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/token"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func bundleJSON(t testing.TB) []byte {
	t.Helper()
	data, err := builtin.Bundle.ReadFile("bundle/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func load(t testing.TB, data []byte) *Tokenizer {
	t.Helper()
	tok, err := Load(data)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func bundle(t testing.TB) *Tokenizer { t.Helper(); return load(t, bundleJSON(t)) }

// variant is the bundle's tokenizer.json, edited as a tree.
func variant(t testing.TB, edit func(file, model map[string]any)) []byte {
	t.Helper()
	var file map[string]any
	if err := json.Unmarshal(bundleJSON(t), &file); err != nil {
		t.Fatal(err)
	}
	edit(file, file["model"].(map[string]any))
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// step is the i-th pre-tokenizer of a variant.
func step(file map[string]any, i int) map[string]any {
	return file["pre_tokenizer"].(map[string]any)["pretokenizers"].([]any)[i].(map[string]any)
}

// addToken appends an added token, with the id that vocab gives it or else the next.
func addToken(file map[string]any, content string, flags ...string) {
	list := file["added_tokens"].([]any)
	id, known := file["model"].(map[string]any)["vocab"].(map[string]any)[content]
	if !known {
		next := 0.0
		for _, a := range list {
			next = max(next, a.(map[string]any)["id"].(float64)+1)
		}
		id = next
	}
	tok := map[string]any{"id": id, "content": content, "special": false, "normalized": false,
		"lstrip": false, "rstrip": false, "single_word": false}
	for _, f := range flags {
		tok[f] = true
	}
	file["added_tokens"] = append(list, tok)
}

func lookup(t testing.TB, tok *Tokenizer, s string) token.ID {
	t.Helper()
	id, ok := tok.Lookup(s)
	if !ok {
		t.Fatalf("no token %q", s)
	}
	return id
}

// variants are tokenizers of every kind that Load accepts.
var variants = map[string]func(file, model map[string]any){
	"Bundle": func(file, model map[string]any) {},
	"Llama3": func(file, model map[string]any) {
		step(file, 0)["pattern"] = map[string]any{"Regex": patternCL}
		file["normalizer"] = nil
		model["ignore_merges"] = true
		merges := model["merges"].([]any)
		for i, m := range merges {
			pair := m.([]any)
			merges[i] = pair[0].(string) + " " + pair[1].(string)
		}
	},
	"O200k": func(file, model map[string]any) {
		step(file, 0)["pattern"] = map[string]any{"Regex": patternO200}
		file["normalizer"] = nil
	},
	"GPT2": func(file, model map[string]any) {
		file["normalizer"] = nil
		file["pre_tokenizer"] = map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true, "trim_offsets": true}
	},
	"DeepSeek": func(file, model map[string]any) {
		split := func(re string) any {
			return map[string]any{"type": "Split", "pattern": map[string]any{"Regex": re}, "behavior": "Isolated", "invert": false}
		}
		file["normalizer"] = map[string]any{"type": "Sequence", "normalizers": []any{}}
		file["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{
			split(`\p{N}{1,3}`), split(`[一-龥぀-ゟ゠-ヿ]+`),
			split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
			step(file, 1),
		}}
	},
	"NoPattern": func(file, model map[string]any) { file["pre_tokenizer"] = step(file, 1) },
	"AddedTokens": func(file, model map[string]any) {
		addToken(file, "<l>", "lstrip")
		addToken(file, "<r>", "rstrip")
		addToken(file, "<both>", "lstrip", "rstrip")
		addToken(file, "word", "single_word")
		addToken(file, "éé", "normalized")
		addToken(file, "e\u0301x", "normalized")
		addToken(file, "user", "normalized", "single_word")
		addToken(file, "ass")
		addToken(file, "assistant\n")
		addToken(file, "日本")
		addToken(file, "日")
	},
}
