//go:build e2e

package tokenizer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
)

// oracles run Hugging Face's own tokenizers, the pinned version and the newest.
var oracles = map[string]func(t testing.TB, jobs string) *exec.Cmd{
	"Python0.22.2": func(t testing.TB, jobs string) *exec.Cmd {
		return exec.Command(testkit.Python(t), "testdata/oracle.py", jobs)
	},
	"Node0.23.2": func(t testing.TB, jobs string) *exec.Cmd {
		mod := testkit.Dep(t, "npm", "node_modules", "tokenizers")
		return exec.Command(testkit.Node(t), "testdata/oracle.js", mod, jobs)
	},
}

// job is one tokenizer.json and what it is to encode.
type job struct {
	Model string `json:"model"`
	In    string `json:"in"`
	Out   string `json:"out"`
	texts []string
}

// answer is what the reference gives for one string.
type answer struct {
	ids  []token.ID
	text *string // decoded; nil where the oracle does not decode
}

func (a *answer) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &[]any{&a.ids, &a.text}) }

func writeJSON(t testing.TB, path string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask runs one oracle over all jobs and calls each with every answer.
func ask(t testing.TB, oracle string, jobs []job, each func(j, i int, a answer)) {
	t.Helper()
	dir := t.TempDir()
	for i := range jobs {
		j := &jobs[i]
		j.In, j.Out = filepath.Join(dir, strconv.Itoa(i)+".json"), filepath.Join(dir, strconv.Itoa(i)+".jsonl")
		writeJSON(t, j.In, j.texts)
	}
	list := filepath.Join(dir, "jobs.json")
	writeJSON(t, list, jobs)
	if msg, err := oracles[oracle](t, list).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, msg)
	}
	for k, j := range jobs {
		f, err := os.Open(j.Out)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for dec := json.NewDecoder(bufio.NewReader(f)); dec.More(); n++ {
			var a answer
			if err := dec.Decode(&a); err != nil {
				t.Fatal(err)
			}
			each(k, n, a)
		}
		f.Close()
		if n != len(j.texts) {
			t.Fatalf("the oracle answered %d of %d strings", n, len(j.texts))
		}
	}
}

// compare asks an oracle for one tokenizer and counts the differences; the first few it reports in full.
func compare(t testing.TB, oracle string, tok *Tokenizer, model string, texts []string) (differ int) {
	t.Helper()
	ask(t, oracle, []job{{Model: model, texts: texts}}, func(_, i int, want answer) {
		if msg := difference(tok, texts[i], want); msg != "" {
			if differ++; differ <= 5 {
				t.Error(msg)
			}
		}
	})
	if differ > 0 {
		t.Errorf("%s, %s: %d of %d strings differ", model, oracle, differ, len(texts))
	}
	return differ
}

// difference compares ids, and the decoded text where that is well-formed: of what is not the reference keeps no bytes.
func difference(tok *Tokenizer, text string, want answer) string {
	if got := tok.Encode(text); !slices.Equal(got, want.ids) {
		return fmt.Sprintf("%.200q\n got %v\nwant %v", text, got, want.ids)
	}
	if want.text == nil || strings.ContainsRune(*want.text, utf8.RuneError) {
		return ""
	}
	if got := string(tok.Decode(want.ids)); got != *want.text {
		return fmt.Sprintf("%v decode\n got %.200q\nwant %.200q", want.ids, got, *want.text)
	}
	return ""
}

func mixed(seed uint64, n int) []string {
	r := rand.New(rand.NewPCG(seed, 2))
	out := slices.Concat(traps, longRuns(257))
	for range n {
		out = append(out, randomText(r, 12))
	}
	for range n / 10 {
		out = append(out, randomText(r, 80), randomBytes(r, 200), conversation(r))
	}
	return out
}

// goRoot is the folder of the Go distribution that runs the tests.
func goRoot(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// sources are real files in many languages, at most limit bytes of each.
func sources(t testing.TB, limit, each int) []string {
	t.Helper()
	count := map[string]int{}
	var out []string
	for _, root := range []string{filepath.Join(testkit.Dep(t, "npm"), "node_modules"), testkit.Dep(t, "venv"), filepath.Join(goRoot(t), "src"), filepath.Join(goRoot(t), "test")} {
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

// kindTexts are the strings for tokenizers made from the bundle.
func kindTexts(seed uint64, n int) []string {
	texts := mixed(seed, n)
	r := rand.New(rand.NewPCG(seed, 4))
	extra := []string{"<l>", "<r>", "<both>", "word", "words", "é", "e\u0301", "e\u0301x", "éx", "user", "ass", "assistant\n", "assist", " ", "  ", "\n", " \n", "_", "日本", "日", "ß", "\u0301", "12345", "▁", "▁▁", "<n>", "q", "ü", "q\u00fc", "Z", "<0x71>", "qq", "\n\n", "<unk>", "\u0300\u0301"}
	for range n {
		var b strings.Builder
		for range 1 + r.IntN(10) {
			b.WriteString(extra[r.IntN(len(extra))])
		}
		texts = append(texts, b.String())
	}
	return texts
}

// byCodePoint are the kinds whose tables of Unicode show only when every code point is asked for.
var byCodePoint = []string{"NFD", "NFKD", "NFKC", "Accents", "Lowercase", "Punctuation", "DigitsAlone", "Whitespace", "WhitespaceSplit", "Bundle", "DeepSeek"}

func TestE2EEveryKindEqualsTheReference(t *testing.T) {
	n := 300
	if long() {
		n = 3000
	}
	var jobs []job
	var toks []*Tokenizer
	names := slices.Sorted(maps.Keys(variants))
	for i, name := range names {
		data := variant(t, variants[name])
		model := filepath.Join(t.TempDir(), "tokenizer.json")
		if err := os.WriteFile(model, data, 0o600); err != nil {
			t.Fatal(err)
		}
		texts := kindTexts(uint64(i), n)
		if slices.Contains(byCodePoint, name) {
			texts = append(texts, blocks(rand.New(rand.NewPCG(1, 1)), 1500)...)
		}
		jobs = append(jobs, job{Model: model, texts: texts})
		toks = append(toks, load(t, data))
	}
	for oracle := range oracles {
		differ := make([]int, len(jobs))
		ask(t, oracle, jobs, func(j, i int, want answer) {
			if msg := difference(toks[j], jobs[j].texts[i], want); msg != "" {
				if differ[j]++; differ[j] <= 3 {
					t.Errorf("%s, %s: %s", oracle, names[j], msg)
				}
			}
		})
		for j, n := range differ {
			if n > 0 {
				t.Errorf("%s, %s: %d of %d strings differ", oracle, names[j], n, len(jobs[j].texts))
			}
		}
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
	ask(t, "Python0.22.2", []job{{Model: model, texts: texts}}, func(_, i int, a answer) {
		ids := a.ids
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

// checkRecorded compares goldens with what the reference says now, or writes them anew with -rewrite.
func checkRecorded(t *testing.T, path string, kinds map[string][]golden) {
	t.Helper()
	var out bytes.Buffer
	out.WriteString("{")
	for i, name := range slices.Sorted(maps.Keys(kinds)) {
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(&out, "\n%q: [", name)
		for k, g := range kinds[name] {
			line, err := json.Marshal(g)
			if err != nil {
				t.Fatal(err)
			}
			if k > 0 {
				out.WriteString(",")
			}
			out.WriteString("\n")
			out.Write(line)
		}
		out.WriteString("]")
	}
	out.WriteString("\n}\n")
	if *rewrite {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, out.Bytes()) {
		t.Errorf("%s differs from the reference's ids; write it anew with -rewrite", path)
	}
}

func TestE2ERecordedKindsAreTheReferences(t *testing.T) {
	var jobs []job
	names := slices.Sorted(maps.Keys(variants))
	for i, name := range names {
		model := filepath.Join(t.TempDir(), "tokenizer.json")
		if err := os.WriteFile(model, variant(t, variants[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, job{Model: model, texts: goldenTexts(uint64(i))})
	}
	kinds := map[string][]golden{}
	ask(t, "Python0.22.2", jobs, func(j, i int, a answer) {
		kinds[names[j]] = append(kinds[names[j]], golden{jobs[j].texts[i], a.ids})
	})
	checkRecorded(t, kindGoldens, kinds)
}
