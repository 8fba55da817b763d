//go:build e2e

package tokenizer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
)

// oracles run Hugging Face's own tokenizers, the pinned version and the newest.
var oracles = map[string]func(t *testing.T, model, in, out string) *exec.Cmd{
	"Python0.22.2": func(t *testing.T, model, in, out string) *exec.Cmd {
		return exec.Command(testkit.Python(t), "testdata/oracle.py", model, in, out)
	},
	"Node0.23.2": func(t *testing.T, model, in, out string) *exec.Cmd {
		mod := testkit.Dep(t, "npm", "node_modules", "tokenizers")
		return exec.Command(testkit.Node(t), "testdata/oracle.js", mod, model, in, out)
	},
}

// reference encodes texts with Hugging Face's tokenizers and calls each with every answer.
func reference(t *testing.T, oracle, model string, texts []string, each func(i int, ids []token.ID)) {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.json"), filepath.Join(dir, "out.jsonl")
	data, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if msg, err := oracles[oracle](t, model, in, out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, msg)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for dec := json.NewDecoder(bufio.NewReader(f)); dec.More(); n++ {
		var ids []token.ID
		if err := dec.Decode(&ids); err != nil {
			t.Fatal(err)
		}
		each(n, ids)
	}
	if n != len(texts) {
		t.Fatalf("the oracle answered %d of %d strings", n, len(texts))
	}
}

// compare encodes texts with both and reports every difference, the first few in full.
func compare(t *testing.T, oracle string, tok *Tokenizer, model string, texts []string) {
	t.Helper()
	differ := 0
	reference(t, oracle, model, texts, func(i int, want []token.ID) {
		if got := tok.Encode(texts[i]); !slices.Equal(got, want) {
			if differ++; differ <= 5 {
				t.Errorf("%.200q\n got %v\nwant %v", texts[i], got, want)
			}
		}
	})
	t.Logf("%s: %d strings, %d differences", oracle, len(texts), differ)
	if differ > 0 {
		t.Errorf("%d differences", differ)
	}
}

func mixed(seed uint64, n int) []string {
	r := rand.New(rand.NewPCG(seed, 2))
	out := slices.Concat(traps, longRuns())
	for range n {
		out = append(out, randomText(r, 12))
	}
	for range n / 10 {
		out = append(out, randomText(r, 80), randomBytes(r, 200), conversation(r))
	}
	return out
}

// everyCodePoint puts each code point between letters, beside spaces, digits and marks, and against itself.
func everyCodePoint() []string {
	var out []string
	for c := rune(0); c <= utf8.MaxRune; c++ {
		if c == 0x323B0 {
			c = 0xE0000
		}
		if c == 0xE0200 {
			c = 0x10FFF0
		}
		if !utf8.ValidRune(c) {
			continue
		}
		s := string(c)
		out = append(out, "x"+s+"y "+s+s+"1\u0301"+s+"\u0323\n"+s)
	}
	return out
}

// sources are real files in many languages, at most limit bytes of each.
func sources(t testing.TB, limit, each int) []string {
	t.Helper()
	count := map[string]int{}
	var out []string
	for _, root := range []string{filepath.Join(testkit.Dep(t, "npm"), "node_modules"), testkit.Dep(t, "venv"), filepath.Join(runtime.GOROOT(), "src"), filepath.Join(runtime.GOROOT(), "test")} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			ext := filepath.Ext(path)
			if err != nil || d.IsDir() || count[ext] >= each || ext == "" || ext == ".node" || ext == ".so" || ext == ".wasm" || strings.HasSuffix(path, ".map") {
				return nil
			}
			data, err := os.ReadFile(path)
			if err != nil || !utf8.Valid(data) || len(data) == 0 {
				return nil
			}
			count[ext]++
			out = append(out, strings.ToValidUTF8(string(data[:min(len(data), limit)]), ""))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(out) < 300 {
		t.Fatalf("only %d source files found", len(out))
	}
	return out
}

func qwen3(t testing.TB) (tok *Tokenizer, path string) {
	t.Helper()
	path = filepath.Join(testkit.Qwen3(t), "tokenizer.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return load(t, data), path
}

func TestE2EEveryKindEqualsTheReference(t *testing.T) {
	for name, edit := range variants {
		data := variant(t, edit)
		model := filepath.Join(t.TempDir(), "tokenizer.json")
		if err := os.WriteFile(model, data, 0o600); err != nil {
			t.Fatal(err)
		}
		tok := load(t, data)
		texts := mixed(3, 6000)
		r := rand.New(rand.NewPCG(4, 4))
		extra := []string{"<l>", "<r>", "<both>", "word", "words", "é", "e\u0301", "e\u0301x", "éx", "user", "ass", "assistant\n", "assist", " ", "  ", "\n", " \n", "_", "日本", "日", "ß", "\u0301", "12345"}
		for range 3000 {
			var b strings.Builder
			for range 1 + r.IntN(10) {
				b.WriteString(extra[r.IntN(len(extra))])
			}
			texts = append(texts, b.String())
		}
		for _, oracle := range []string{"Python0.22.2", "Node0.23.2"} {
			t.Run(name+"/"+oracle, func(t *testing.T) { compare(t, oracle, tok, model, texts) })
		}
		t.Run(name+"/CodePoints", func(t *testing.T) {
			var some []string
			for i, s := range everyCodePoint() {
				if i%7 == 0 || i < 0x3000 {
					some = append(some, s)
				}
			}
			compare(t, "Python0.22.2", tok, model, some)
		})
	}
}

// TestE2ERecordedIdsAreTheReferences checks vectors/tokenizer against the reference, or writes it anew with -rewrite.
func TestE2ERecordedIdsAreTheReferences(t *testing.T) {
	texts := slices.Clone(traps)
	r := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		texts = append(texts, randomText(r, 12))
	}
	for range 20 {
		texts = append(texts, randomBytes(r, 60), conversation(r))
	}
	model := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(model, bundleJSON(t), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	out.WriteString("[")
	reference(t, "Python0.22.2", model, texts, func(i int, ids []token.ID) {
		if i > 0 {
			out.WriteString(",")
		}
		out.WriteString("\n")
		line, err := json.Marshal(golden{texts[i], ids})
		if err != nil {
			t.Fatal(err)
		}
		out.Write(line)
	})
	out.WriteString("\n]\n")
	path := filepath.Join(testkit.Root(), "vectors", goldens)
	if *rewrite {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, out.Bytes()) {
		t.Error("vectors/tokenizer/bundle.json differs from the reference's ids; write it anew with -rewrite")
	}
}

func TestE2EQwen3EqualsTheReference(t *testing.T) {
	tok, model := qwen3(t)
	for _, name := range []string{"Python0.22.2", "Node0.23.2"} {
		t.Run(name+"/Mixed", func(t *testing.T) { compare(t, name, tok, model, mixed(1, 20000)) })
		t.Run(name+"/Sources", func(t *testing.T) { compare(t, name, tok, model, sources(t, 20000, 60)) })
		t.Run(name+"/EveryCodePoint", func(t *testing.T) { compare(t, name, tok, model, everyCodePoint()) })
	}
}

// BenchmarkE2EQwen3 encodes source files in several languages, in pieces of at most 4 KB as messages are.
func BenchmarkE2EQwen3(b *testing.B) {
	tok, _ := qwen3(b)
	texts := benchTexts(b)
	size := 0
	for _, s := range texts {
		size += len(s)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	var ids []token.ID
	for b.Loop() {
		for _, s := range texts {
			ids = tok.AppendEncode(ids[:0], s)
		}
	}
}

func benchTexts(b *testing.B) []string {
	b.Helper()
	var texts []string
	for _, s := range sources(b, 1<<15, 12) {
		for s != "" {
			n := min(len(s), 4096)
			for n < len(s) && !utf8.RuneStart(s[n]) {
				n++
			}
			texts = append(texts, s[:n])
			s = s[n:]
		}
	}
	return texts
}

func BenchmarkE2ELoadQwen3(b *testing.B) {
	data, err := os.ReadFile(filepath.Join(testkit.Qwen3(b), "tokenizer.json"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		load(b, data)
	}
}
