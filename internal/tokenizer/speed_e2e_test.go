//go:build e2e

package tokenizer

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
)

// cpuTime is the processor time that this process has used: other work on the machine does not count.
func cpuTime(t testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// corpora are about a megabyte each of source code in ten languages and of prose, in pieces of at most 4 KB, as messages
// are.
func corpora(t testing.TB) map[string][]string {
	t.Helper()
	roots := []string{filepath.Join(goRoot(t), "src"), filepath.Join(testkit.Dep(t, "npm"), "node_modules"), testkit.Dep(t, "venv")}
	return map[string][]string{
		"code":  corpus(t, roots, 100<<10, ".go", ".s", ".py", ".pyi", ".js", ".ts", ".json", ".html", ".css", ".c", ".h", ".sh", ".toml"),
		"prose": corpus(t, roots, 350<<10, ".md", ".txt", ".rst"),
	}
}

func corpus(t testing.TB, roots []string, each int, exts ...string) []string {
	t.Helper()
	size := map[string]int{}
	var pieces []string
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			ext := filepath.Ext(path)
			if err != nil || d.IsDir() || !slices.Contains(exts, ext) || size[ext] > each {
				return nil
			}
			data, err := os.ReadFile(path)
			if err != nil || !utf8.Valid(data) || len(data) < 2000 {
				return nil
			}
			text := string(data[:min(len(data), 20<<10)])
			size[ext] += len(text)
			for text != "" {
				n := min(len(text), 4096)
				pieces = append(pieces, strings.ToValidUTF8(text[:n], ""))
				text = text[n:]
			}
			return nil
		})
	}
	if total(pieces) < 500<<10 {
		t.Fatalf("only %d bytes of %v", total(pieces), exts)
	}
	return pieces
}

func total(texts []string) (n int) {
	for _, s := range texts {
		n += len(s)
	}
	return n
}

func BenchmarkE2EEncode(b *testing.B) {
	all := corpora(b)
	for _, real := range realTokenizers {
		tok := realTokenizer(b, real.pkg)
		for _, name := range []string{"code", "prose"} {
			b.Run(real.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				ids := make([]token.ID, 0, 1<<14)
				start := cpuTime(b)
				for b.Loop() {
					for _, s := range all[name] {
						ids = tok.AppendEncode(ids[:0], s)
					}
				}
				b.ReportMetric(float64(b.N)*float64(total(all[name]))/(cpuTime(b)-start).Seconds()/1e6, "MB/cpu-s")
			})
		}
	}
}

func BenchmarkE2ELoad(b *testing.B) {
	for _, real := range realTokenizers {
		data, err := os.ReadFile(realFile(b, real.pkg))
		if err != nil {
			b.Fatal(err)
		}
		compiled := load(b, data).Compiled("")
		for name, read := range map[string]func(){
			"File":  func() { load(b, data) },
			"Cache": func() { _, _ = LoadCompiled(compiled, "") },
		} {
			b.Run(real.name+"/"+name, func(b *testing.B) {
				start := cpuTime(b)
				for b.Loop() {
					read()
				}
				b.ReportMetric((cpuTime(b)-start).Seconds()*1e3/float64(b.N), "cpu-ms")
				b.ReportMetric(float64(len(compiled))/1e6, "cache-MB")
			})
		}
	}
}

// timed is one tokenizer on one corpus, in megabytes a processor second.
type timed struct {
	model, corpus       string
	size                int
	ours, pinned, newer float64
}

// measure runs this package and both of Hugging Face's over the same texts, in one run, each tokenizer fresh.
func measure(t testing.TB) []timed {
	t.Helper()
	all := corpora(t)
	dir := t.TempDir()
	var out []timed
	var jobs []job
	for _, real := range realTokenizers {
		for _, name := range []string{"code", "prose"} {
			j := job{Model: realFile(t, real.pkg), In: filepath.Join(dir, name+".json")}
			writeJSON(t, j.In, all[name])
			jobs = append(jobs, j)
			tok := realTokenizer(t, real.pkg)
			runtime.GC()
			start := cpuTime(t)
			for _, s := range all[name] {
				tok.Encode(s)
			}
			size := total(all[name])
			out = append(out, timed{model: real.name, corpus: name, size: size, ours: rate(size, (cpuTime(t) - start).Seconds())})
		}
	}
	list := filepath.Join(dir, "jobs.json")
	writeJSON(t, list, jobs)
	mod := testkit.Dep(t, "npm", "node_modules", "tokenizers")
	python := seconds(t, exec.Command(testkit.Python(t), "testdata/speed.py", list))
	node := seconds(t, exec.Command(testkit.Node(t), "testdata/speed.js", mod, list))
	for i := range out {
		out[i].pinned, out[i].newer = rate(out[i].size, python[i]), rate(out[i].size, node[i])
	}
	return out
}

func rate(size int, seconds float64) float64 { return float64(size) / seconds / 1e6 }

func seconds(t testing.TB, cmd *exec.Cmd) []float64 {
	t.Helper()
	data, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var out []float64
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
