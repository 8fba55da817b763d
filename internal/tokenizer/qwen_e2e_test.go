//go:build e2e

package tokenizer

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/tito-rl/tito/internal/testkit"
)

func qwen3(t testing.TB) *Tokenizer {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(testkit.Qwen3(t), "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	tok, err := Load(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("loaded in %v", time.Since(start))
	return tok
}

func TestE2EQwen3Loads(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tok := qwen3(t)
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d ids, %.1f MB", tok.VocabSize(), float64(after.HeapAlloc-before.HeapAlloc)/1e6)
	t.Log(tok.Encode("<|im_start|>user\nHello world's 123 <tool_call>\n\n{}"))
	runtime.KeepAlive(tok)
}
