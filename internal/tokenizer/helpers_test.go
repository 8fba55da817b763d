package tokenizer

import (
	"encoding/json"
	"flag"
	"os"
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

// shrink leaves the first 800 merges, so that the many variants load fast.
func shrink(file, model map[string]any) {
	const most = 256 + 800
	model["merges"] = model["merges"].([]any)[:most-256]
	vocab := model["vocab"].(map[string]any)
	for s, id := range vocab {
		if id.(float64) >= most {
			delete(vocab, s)
		}
	}
	for i, a := range file["added_tokens"].([]any) {
		a.(map[string]any)["id"] = float64(most + i)
	}
}

// variant is the bundle's tokenizer.json, smaller, and edited as a tree.
func variant(t testing.TB, edit func(file, model map[string]any)) []byte {
	t.Helper()
	var file map[string]any
	if err := json.Unmarshal(bundleJSON(t), &file); err != nil {
		t.Fatal(err)
	}
	shrink(file, file["model"].(map[string]any))
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
		for _, v := range file["model"].(map[string]any)["vocab"].(map[string]any) {
			next = max(next, v.(float64)+1)
		}
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

// often is how many of n random cases an ordinary run tries; TITO_LONG=1 tries all.
func often(n int) int {
	if os.Getenv("TITO_LONG") != "" {
		return n
	}
	return n / 5
}
