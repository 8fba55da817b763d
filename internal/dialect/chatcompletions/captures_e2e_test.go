//go:build e2e

package chatcompletions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/testkit"
)

// Real requests are read without an error, and nothing of their messages gets lost on the way.
func TestE2ERequestsOfRealHarnessesAreRead(t *testing.T) {
	for _, harness := range []string{"opencode", "pi"} {
		files, _ := filepath.Glob(filepath.Join(testkit.Captures(t, harness), "*.json"))
		n := 0
		for _, f := range files {
			if strings.HasSuffix(f, ".meta.json") {
				continue
			}
			n++
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			q, err := Dialect{}.ParseRequest(b)
			if err != nil {
				t.Errorf("%s: %v", f, err)
				continue
			}
			v, _ := ojson.Parse(b)
			ms, _ := v.Get("messages")
			if len(q.Messages) != ms.Len() || !q.Stream || !q.IncludeUsage || q.MaxTokens < 1 {
				t.Errorf("%s: %d messages of %d, %+v", f, len(q.Messages), ms.Len(), q)
			}
			for i, m := range q.Messages {
				calls, _ := ms.At(i).Get("tool_calls")
				if m.Role == chat.Assistant && len(m.Calls) != calls.Len() {
					t.Errorf("%s: message %d has %d calls of %d", f, i, len(m.Calls), calls.Len())
				}
			}
		}
		if n == 0 {
			t.Errorf("no captures of %s", harness)
		}
	}
}
