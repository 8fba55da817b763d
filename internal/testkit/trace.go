package testkit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Traces runs every trace of testdata/*.txt, of which there must be at least least, or writes them anew.
//
// A trace begins with a comment that says what it shows. Then come blocks: lines of input, "----", and what came of them, up
// to an empty line. For each trace start gives a function that answers a block, and one that is called at the trace's end.
func Traces(t *testing.T, least int, rewrite bool, start func(*testing.T) (answer func(block []string) string, end func())) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < least {
		t.Fatalf("found %d traces, %v; want at least %d", len(files), err, least)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			had, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			answer, end := start(t)
			got := trace(t, string(had), answer)
			end()
			if rewrite {
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

// trace is the text with each answer given again.
func trace(t *testing.T, text string, answer func([]string) string) string {
	t.Helper()
	if !strings.HasPrefix(text, "# ") {
		t.Fatal("a trace begins with a comment that says what it shows")
	}
	var out strings.Builder
	var block []string
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
			out.WriteString("----\n" + answer(block) + "\n")
			block, skip = nil, true
		default:
			block = append(block, line)
			out.WriteString(line + "\n")
		}
	}
	if len(block) > 0 {
		t.Fatalf("%q lacks its ----", block[0])
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}
