package session

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the traces anew")

// A trace is comment lines and blocks: a command with the messages of its request, "----", and what came of it, up to an
// empty line. driver.run lists the commands, driver.message the lines of a request.
func TestTracesGiveTheRecordedEffects(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 25 {
		t.Fatalf("found %d traces, %v; want at least 25", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			had, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got := runTrace(t, string(had))
			if *rewrite {
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(had), got); d != "" {
				t.Errorf("trace differs (-recorded +now):\n%s", d)
			}
		})
	}
}

func runTrace(t *testing.T, text string) string {
	t.Helper()
	if !strings.HasPrefix(text, "# ") {
		t.Fatal("a trace begins with a comment that says what it shows")
	}
	var out strings.Builder
	var block []string
	d := &driver{t: t}
	skip := false
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case skip:
			skip = line != ""
		case strings.HasPrefix(line, "#") || line == "":
			if len(block) > 0 {
				t.Fatalf("%q lacks its ----", block[0])
			}
			out.WriteString(line + "\n")
		case line == "----":
			out.WriteString("----\n" + d.run(block) + "\n")
			block, skip = nil, true
		default:
			block = append(block, line)
			out.WriteString(line + "\n")
		}
	}
	if len(block) > 0 {
		t.Fatalf("%q lacks its ----", block[0])
	}
	d.checkAll()
	return strings.TrimRight(out.String(), "\n") + "\n"
}
