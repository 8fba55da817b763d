//go:build e2e

package tokenizer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
)

// rankJob is one rank file or tekken.json, and what it is to encode.
type rankJob struct {
	Ranks   string              `json:"ranks,omitempty"`
	Tekken  string              `json:"tekken,omitempty"`
	Pattern string              `json:"pattern,omitempty"`
	Special map[string]token.ID `json:"special,omitempty"`
	Slices  bool                `json:"slices,omitempty"`
	In      string              `json:"in"`
	Out     string              `json:"out"`
}

// askRanks asks tiktoken or Tekkenizer, with special tokens read in text and without.
func askRanks(t *testing.T, j rankJob, texts []string, each func(i int, want [2][]token.ID)) {
	t.Helper()
	dir := t.TempDir()
	j.In, j.Out = filepath.Join(dir, "in.json"), filepath.Join(dir, "out.jsonl")
	writeJSON(t, j.In, texts)
	list := filepath.Join(dir, "jobs.json")
	writeJSON(t, list, []rankJob{j})
	if msg, err := exec.Command(testkit.Python(t), "testdata/ranks.py", list).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, msg)
	}
	out, err := os.ReadFile(j.Out)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for dec := json.NewDecoder(bufio.NewReader(bytes.NewReader(out))); dec.More(); n++ {
		var want [2][]token.ID
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		each(n, want)
	}
	if n != len(texts) {
		t.Fatalf("%d answers to %d strings", n, len(texts))
	}
}

func compareRanks(t *testing.T, tok *Tokenizer, j rankJob, texts []string) (differ int) {
	t.Helper()
	askRanks(t, j, texts, func(n int, want [2][]token.ID) {
		body, all := tok.EncodeBody(texts[n]), tok.Encode(texts[n])
		if !slices.Equal(body, want[1]) || want[0] != nil && !slices.Equal(all, want[0]) {
			if differ++; differ <= 5 {
				t.Errorf("%.200q\n got %v\nwant %v\n got %v\nwant %v", texts[n], body, want[1], all, want[0])
			}
		}
		if got := string(tok.Decode(all)); j.Tekken == "" && got != texts[n] {
			t.Errorf("%.200q decodes to %.200q", texts[n], got)
		}
	})
	if differ > 0 {
		t.Errorf("%d of %d strings differ", differ, len(texts))
	}
	return differ
}

func TestE2ERecordedRanksAreTiktokens(t *testing.T) {
	path, data := rankFile(t, bundle(t))
	texts := goldenTexts(2)
	kinds := map[string][]golden{}
	for name, o := range rankVariants {
		tok, err := LoadRanks(data, o)
		if err != nil {
			t.Fatal(err)
		}
		askRanks(t, rankJob{Ranks: path, Pattern: o.Pattern, Special: specialOf(tok), Slices: o.Slices}, texts, func(i int, want [2][]token.ID) {
			kinds[name] = append(kinds[name], golden{texts[i], want[0]})
		})
	}
	checkRecorded(t, rankGoldens, kinds)
}

// rankFile writes the vocabulary of a byte-level tokenizer as tiktoken does; its ids are ranks.
func rankFile(t *testing.T, tok *Tokenizer) (path string, data []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "test.tiktoken")
	data = ranksOf(tok)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, data
}

func realTokenizer(t testing.TB, pkg string) *Tokenizer {
	t.Helper()
	data, err := os.ReadFile(realFile(t, pkg))
	if err != nil {
		t.Fatal(err)
	}
	return load(t, data)
}

func specialOf(tok *Tokenizer) map[string]token.ID {
	m := map[string]token.ID{}
	for _, a := range tok.Added() {
		m[a.Content] = a.ID
	}
	return m
}

func TestE2ERankFilesAndTekkenAreExact(t *testing.T) {
	for _, c := range rankExactness(t) {
		t.Logf("%s, %s: %d strings, %d differences", c.model, c.oracle, c.strings, c.differ)
	}
}

// rankExactness compares rank files, made of real vocabularies, with tiktoken, and Mistral's files with its Tekkenizer.
func rankExactness(t *testing.T) (out []exact) {
	few, many := 5000, 20000
	if long() {
		few, many = 200000, 200000
	}
	code := sources(t, 20000, 40)
	var kimi []AddedToken
	for i, name := range []string{"[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|tool_calls_section_begin|>"} {
		kimi = append(kimi, AddedToken{ID: token.ID(151643 + 3*i), Content: name, Special: true})
	}
	for _, c := range []struct {
		name, pkg string
		o         RankOptions
	}{
		{"Qwen's pattern, Qwen3's tokens", "tokenizer-qwen3", QwenRanks()},
		{"Kimi K2's pattern and slices, Qwen3's tokens", "tokenizer-qwen3", KimiRanks(kimi)},
		{"o200k's pattern, gpt-oss's tokens", "tokenizer-gptoss", RankOptions{Pattern: patternO200, Special: realTokenizer(t, "tokenizer-gptoss").Added()}},
		{"Llama 3's pattern and tokens", "tokenizer-llama3_1", RankOptions{Pattern: patternCL, Special: realTokenizer(t, "tokenizer-llama3_1").Added()}},
	} {
		path, data := rankFile(t, realTokenizer(t, c.pkg))
		c.o.NFC = false // tiktoken itself changes no text
		tok, err := LoadRanks(data, c.o)
		if err != nil {
			t.Fatal(err)
		}
		texts := suite(code, tok, 9, few)
		if c.o.Slices {
			for _, unit := range []string{"a", " ", "日", "ab cd\n", "é", "<|im_end|>", "\x1c"} {
				texts = append(texts, strings.Repeat(unit, 30000), "x "+strings.Repeat(unit, 60000/len(unit))+" y")
			}
			texts = append(texts, strings.Repeat("one two three\n", 60000))
		}
		j := rankJob{Ranks: path, Pattern: c.o.Pattern, Special: specialOf(tok), Slices: c.o.Slices}
		out = append(out, exact{c.name, "tiktoken 0.14.0", len(texts), compareRanks(t, tok, j, texts)})
	}
	found, err := filepath.Glob(filepath.Join(testkit.Dep(t, "venv"), "lib", "*", "site-packages", "mistral_common", "data", "tekken_*.json"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no tekken file: %v", err)
	}
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := LoadTekken(data)
		if err != nil {
			t.Fatal(err)
		}
		texts := suite(code, tok, 10, many)
		out = append(out, exact{"Mistral's " + filepath.Base(path), "mistral-common 1.13.1", len(texts), compareRanks(t, tok, rankJob{Tekken: path}, texts)})
	}
	return out
}
