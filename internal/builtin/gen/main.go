// Command gen trains the built-in tokenizer on the project's own text and writes internal/builtin/bundle.
//
// It is deterministic: the same text gives the same file. The file is committed, so that a later change of the text
// changes nothing until gen is run again.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/tokenizer"
)

const entries = 4096 // of the whole vocabulary

// pattern cuts text into pieces; it is one that many models use, so that engines know it.
const pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// added are the tokens above the trained ones. The special ones are the frame of a message, the others parts of it.
var added = []struct {
	content string
	special bool
}{
	{"<|endoftext|>", true}, {"<|im_start|>", true}, {"<|im_end|>", true},
	{"<think>", false}, {"</think>", false},
	{"<tool_call>", false}, {"</tool_call>", false},
	{"<tool_response>", false}, {"</tool_response>", false},
}

func main() {
	log.SetFlags(0)
	if err := generate(); err != nil {
		log.Fatal(err)
	}
}

func generate() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	text, files, err := projectText(root)
	if err != nil {
		return err
	}
	merges := train(pieces(text), entries-256-len(added))
	file, err := tokenizerJSON(merges)
	if err != nil {
		return err
	}
	if _, err := tokenizer.Load(file); err != nil {
		return err
	}
	log.Printf("%d bytes of %d files, %d merges", len(text), files, len(merges))
	bundle := filepath.Join(root, "internal", "builtin", "bundle")
	if err := os.WriteFile(filepath.Join(bundle, "tokenizer.json"), file, 0o644); err != nil {
		return err
	}
	stops := fmt.Sprintf("{\n  \"eos_token_id\": [%d, %d]\n}\n", idOf("<|im_end|>", merges), idOf("<|endoftext|>", merges))
	return os.WriteFile(filepath.Join(bundle, "generation_config.json"), []byte(stops), 0o644)
}

// idOf is the id of an added token: those come after the bytes and the merges.
func idOf(content string, merges [][2]string) int {
	for i, a := range added {
		if a.content == content {
			return 256 + len(merges) + i
		}
	}
	log.Fatalf("no added token %q", content)
	return 0
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return "", fmt.Errorf("no go.mod above the working directory: %w", err)
}

// projectText is the text of the project's files in the order of their paths, less what was generated.
func projectText(root string) (string, int, error) {
	var text strings.Builder
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"vectors", "testdata", "bundle", "bin", "runs", "__pycache__"}, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || name == "LICENSE" || name == "go.sum" || strings.HasSuffix(name, "_table.go") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if len(data) <= 1<<18 && utf8.Valid(data) && !bytes.Contains(data, []byte{0}) {
			text.Write(data)
			files++
		}
		return nil
	})
	return text.String(), files, err
}

// pieces counts the stretches of text within which merging happens.
func pieces(text string) map[string]int {
	none, err := tokenizerJSON(nil)
	if err != nil {
		log.Fatal(err)
	}
	cutter, err := tokenizer.Load(none)
	if err != nil {
		log.Fatal(err)
	}
	count := map[string]int{}
	for _, p := range cutter.Pieces(text) {
		count[p]++
	}
	return count
}

// tokenizerJSON writes the file: single bytes, the results of merges in their order, the added tokens.
func tokenizerJSON(merges [][2]string) ([]byte, error) {
	vocab := newObject()
	for b := range 256 {
		vocab.set(spell(string([]byte{byte(b)})), vocab.len())
	}
	pairs := [][2]string{}
	for _, m := range merges {
		pairs = append(pairs, [2]string{spell(m[0]), spell(m[1])})
		vocab.set(spell(m[0]+m[1]), vocab.len())
	}
	tokens := []*object{}
	for i, a := range added {
		tokens = append(tokens, obj("id", vocab.len()+i, "content", a.content, "single_word", false, "lstrip", false,
			"rstrip", false, "normalized", false, "special", a.special))
	}
	byteLevel := obj("type", "ByteLevel", "add_prefix_space", false, "trim_offsets", false, "use_regex", false)
	split := obj("type", "Split", "pattern", obj("Regex", pattern), "behavior", "Isolated", "invert", false)
	file := obj(
		"version", "1.0", "truncation", nil, "padding", nil, "added_tokens", tokens,
		"normalizer", obj("type", "NFC"),
		"pre_tokenizer", obj("type", "Sequence", "pretokenizers", []any{split, byteLevel}),
		"post_processor", byteLevel, "decoder", byteLevel,
		"model", obj("type", "BPE", "dropout", nil, "unk_token", nil, "continuing_subword_prefix", "",
			"end_of_word_suffix", "", "fuse_unk", false, "byte_fallback", false, "ignore_merges", false,
			"vocab", vocab, "merges", pairs),
	)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(file)
	return out.Bytes(), err
}

// object is a JSON object that keeps the order of its keys.
type object struct {
	keys   []string
	values map[string]any
}

func newObject() *object { return &object{values: map[string]any{}} }

func obj(pairs ...any) *object {
	o := newObject()
	for i := 0; i < len(pairs); i += 2 {
		o.set(pairs[i].(string), pairs[i+1])
	}
	return o
}

func (o *object) len() int { return len(o.keys) }

func (o *object) set(key string, value any) {
	if _, twice := o.values[key]; twice {
		log.Fatalf("key %q comes twice", key)
	}
	o.keys = append(o.keys, key)
	o.values[key] = value
}

// MarshalJSON writes the keys in order.
func (o *object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := enc.Encode(k); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := enc.Encode(o.values[k]); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// spell writes bytes in the byte-level alphabet: printable Latin-1 as itself, the other 68 bytes from U+0100 on.
func spell(s string) string {
	var out strings.Builder
	for _, c := range []byte(s) {
		out.WriteRune(alphabet[c])
	}
	return out.String()
}

var alphabet = func() (a [256]rune) {
	next := rune(0x100)
	for b := range 256 {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			a[b] = rune(b)
			continue
		}
		a[b] = next
		next++
	}
	return a
}()
