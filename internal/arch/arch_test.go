package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/tito-rl/tito/internal/testkit"
)

func rules(t *testing.T, text string) []*Rule {
	t.Helper()
	r, err := ParseRules(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheRepositoryKeepsItsRules(t *testing.T) {
	text, err := os.ReadFile("floors.txt")
	if err != nil {
		t.Fatal(err)
	}
	breaches, files, err := Check(os.DirFS(testkit.Root()), rules(t, string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if files < 40 {
		t.Fatalf("read only %d files", files)
	}
	for _, b := range breaches {
		t.Error(b)
	}
}

// Each fixture is a broken repository as one text file: "-- path --" lines separate its files; the first part is the
// breach that must be named.
func TestEachRuleFires(t *testing.T) {
	paths, _ := filepath.Glob("testdata/*.txt")
	if len(paths) < 10 {
		t.Fatalf("found only %d fixtures", len(paths))
	}
	for _, p := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(p), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			parts := strings.Split(string(b), "\n-- ")
			want := strings.TrimSpace(strings.TrimPrefix(parts[0], "#"))
			repo := fstest.MapFS{}
			var floors string
			for _, part := range parts[1:] {
				name, body, _ := strings.Cut(part, " --\n")
				if name == "floors.txt" {
					floors = body
					continue
				}
				repo[name] = &fstest.MapFile{Data: []byte(body + "\n")}
			}
			got, _, err := Check(repo, rules(t, floors))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
