//go:build e2e

package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tito-rl/tito/internal/testkit"
)

// Pi knows other providers, and the environment holds a key for one of them: it must still choose the policy by itself.
func TestE2EPiUnderRunCallsThePolicyAndNobodyElse(t *testing.T) {
	cli := filepath.Join(testkit.Dep(t, "npm"), "node_modules", "@earendil-works", "pi-coding-agent", "dist", "bundle", "cli.js")
	dir := t.TempDir()
	bin := filepath.Join(dir, "tito")
	if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/tito").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pi := filepath.Join(dir, "pi")
	if err := os.WriteFile(pi, fmt.Appendf(nil, "#!/bin/sh\nexec '%s' '%s' \"$@\"\n", testkit.Node(t), cli), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "run", "--json", "--out", filepath.Join(dir, "out"), "--", pi, "-p", "say something")
	cmd.Env = append(os.Environ(), "HOME="+dir, "OPENAI_API_KEY=of-another-provider")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Summary struct{ Turns int }
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r.Summary.Turns != 1 {
		t.Errorf("%d turns, want 1: %s", r.Summary.Turns, out)
	}
}
