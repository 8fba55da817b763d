//go:build e2e

package tokenizer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tito-rl/tito/internal/testkit"
)

const (
	tablesBegin = "<!-- tables: begin -->\n"
	tablesEnd   = "<!-- tables: end -->\n"
)

// TestE2EModelsTable measures what docs/models.md says of tokenizers, and writes its tables anew. It only runs with
// -rewrite; with TITO_LONG=1 it compares ten times as many strings.
func TestE2EModelsTable(t *testing.T) {
	if !*rewrite {
		t.Skip("skipped: it writes docs/models.md, and does so with -rewrite alone")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "Measured on %s with %s on %s.\n\n", time.Now().UTC().Format(time.DateOnly), runtime.Version(), processor())
	b.WriteString("| tokenizer | ids compared with | strings | differences |\n|---|---|---|---|\n")
	for _, e := range append(exactness(t), rankExactness(t)...) {
		fmt.Fprintf(&b, "| %s | %s | %d | %d |\n", e.model, e.oracle, e.strings, e.differ)
	}
	b.WriteString("\nMegabytes of text a processor second, one core, a fresh tokenizer, pieces of at most 4 KB:\n\n")
	b.WriteString("| tokenizer | text | tito | PyPI 0.22.2 | | npm 0.23.2 | |\n|---|---|---|---|---|---|---|\n")
	for _, m := range measure(t) {
		fmt.Fprintf(&b, "| %s | %s, %.1f MB | %.1f | %.2f | %.1f× | %.2f | %.1f× |\n", m.model, m.corpus, float64(m.size)/1e6, m.ours,
			m.pinned, m.ours/m.pinned, m.newer, m.ours/m.newer)
	}
	b.WriteString("\nProcessor milliseconds to load, and the heap that the table then holds:\n\n")
	b.WriteString("| tokenizer | file | from the file | compiled | from the compiled form | heap |\n|---|---|---|---|---|---|\n")
	for _, real := range realTokenizers {
		b.WriteString(loadRow(t, real.name, realFile(t, real.pkg)))
	}
	if t.Failed() {
		return
	}
	path := filepath.Join(testkit.Root(), "docs", "models.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := bytes.Cut(page, []byte(tablesBegin))
	_, tail, ok2 := bytes.Cut(rest, []byte(tablesEnd))
	if !ok || !ok2 {
		t.Fatal("docs/models.md has lost the marks of its tables")
	}
	page = bytes.Join([][]byte{head, []byte(tablesBegin), b.Bytes(), []byte(tablesEnd), tail}, nil)
	if err := os.WriteFile(path, page, 0o644); err != nil {
		t.Fatal(err)
	}
}

func processor() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// loadRow is the best of three: what else the machine does only adds.
func loadRow(t *testing.T, name, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	compiled := load(t, data).Compiled("")
	best := func(f func()) float64 {
		least := time.Hour
		for range 3 {
			start := cpuTime(t)
			f()
			least = min(least, cpuTime(t)-start)
		}
		return least.Seconds() * 1e3
	}
	fromFile := best(func() { load(t, data) })
	fromCache := best(func() { _, err = LoadCompiled(compiled, "") })
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	tok, err := LoadCompiled(compiled, "")
	if err != nil {
		t.Fatal(err)
	}
	used := heap() - before
	runtime.KeepAlive(tok)
	runtime.KeepAlive(compiled)
	return fmt.Sprintf("| %s | %.1f MB | %.0f | %.1f MB | %.1f | %.1f MB |\n", name, float64(len(data))/1e6, fromFile,
		float64(len(compiled))/1e6, fromCache, float64(used)/1e6)
}
