//go:build e2e

package all

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/dialect/chatcompletions"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/testkit"
)

// Real requests render on Qwen3, with and without reuse of the one before, and their text survives the ids.
func TestE2ERequestsOfRealHarnessesRenderOnQwen3(t *testing.T) {
	f := qwen3(t)
	for _, harness := range []string{"opencode", "pi"} {
		files, _ := filepath.Glob(filepath.Join(testkit.Captures(t, harness), "*.json"))
		var memo family.Memo
		n := 0
		for _, file := range files {
			if strings.HasSuffix(file, ".meta.json") {
				continue
			}
			n++
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			q, err := chatcompletions.Dialect{}.ParseRequest(b)
			if err != nil {
				t.Fatal(err)
			}
			c := family.Conversation{Messages: q.Messages, Tools: q.Tools, Kwargs: q.TemplateKwargs, Clock: template.Clock{Year: 2026, Month: 11, Day: 30}}
			whole, err := f.Render(c)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			again, err := f.RenderWith(&memo, c)
			if err != nil || !slices.Equal(whole.IDs, again.IDs) || whole.Text != again.Text {
				t.Errorf("%s: reuse gives another prompt (%v)", file, err)
			}
			if f.Decode(whole.IDs) != whole.Text {
				t.Errorf("%s: the ids do not spell the text", file)
			}
		}
		if n == 0 {
			t.Errorf("no captures of %s", harness)
		}
	}
}
