//go:build e2e

package qualify

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/certify"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write vectors/qualify/recorded_*.json anew")

func TestE2ERecordedReferencesAreWhatPythonSays(t *testing.T) {
	python := testkit.Python(t)
	_, recorded, err := Data()
	if err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"builtin": model.BuiltinName, "qwen3": testkit.Qwen3(t)} {
		r, err := Ask(t.Context(), Options{Dir: dir, Python: python})
		if err != nil {
			t.Fatal(err)
		}
		r.Name = name
		if *rewrite {
			b, err := json.MarshalIndent(r, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(testkit.Root(), "vectors", "qualify", "recorded_"+name+".json"), append(b, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		found := false
		for _, had := range recorded {
			if had.Name == name {
				found = true
				if d := cmp.Diff(had, r, cmp.Transformer("json", func(m json.RawMessage) string { return string(m) })); d != "" {
					t.Errorf("%s: write it anew with -rewrite:\n%s", name, d)
				}
			}
		}
		if !found {
			t.Errorf("%s is not recorded", name)
		}
	}
}

func TestE2EQwen3IsCertifiedInSeconds(t *testing.T) {
	known, recorded, err := Data()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	c, err := Run(t.Context(), Options{Dir: testkit.Qwen3(t), Code: "test", Known: known, Recorded: recorded})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("in %v", time.Since(at))
	if len(c.Surprises) > 0 {
		t.Errorf("surprises: %q", c.Surprises)
	}
	if p := c.claim("parity"); p.Verdict != certify.Proved || !c.Allowed.FullHistory {
		t.Errorf("parity: %+v", p)
	}
	if d := cmp.Diff(map[string][]string{WithTools: {}, WithoutTools: {}}, c.Allowed.Incremental); d != "" {
		t.Error(d)
	}
}
