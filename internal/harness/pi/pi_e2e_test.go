//go:build e2e

package pi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/cli"
	"github.com/tito-rl/tito/internal/sandbox/local"
	"github.com/tito-rl/tito/internal/testkit"
)

func TestMain(m *testing.M) {
	local.MaybeInit()
	os.Exit(m.Run())
}

// tito runs a command line and returns what it printed.
func tito(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	code := cli.Run(context.Background(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Env: os.Getenv})
	if code != 0 {
		t.Fatalf("tito %s: exit code %d\n%s%s", strings.Join(args, " "), code, out.String(), errs.String())
	}
	return out.String()
}

// explained is what of explain --json is looked at.
type explained struct {
	Turns, Extends int
	Items          []struct {
		Turn                int
		Kind, Reason, Class string
		Message             int
		Field               string
	}
}

// Pi itself, with Qwen3's own tokenizer and template: parallel calls, reasoning, arguments that Pi spells in its own way, and
// an answer that begins with a line break.
func TestE2EPiDoesATaskWithQwen3sTokens(t *testing.T) {
	testkit.Node(t)
	model, home, out := testkit.Qwen3(t), testkit.Dep(t, "npm"), t.TempDir()
	lines := strings.Split(strings.TrimSpace(tito(t, "trial", "--harness", "pi", "--harness-home", home, "--sandbox", "local",
		"--engine", "rehearsal", "--model", model, "--task", "testdata/task", "--out", out, "--name", "pi", "--json")), "\n")
	var res struct {
		Reward   float64
		Outcome  string
		Turns    int
		Artifact string
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &res); err != nil {
		t.Fatal(err)
	}
	if res.Reward != 1 || res.Outcome != "scored" || res.Turns != 6 {
		log, _ := os.ReadFile(filepath.Join(out, "trials", "pi", "agent", "pi.log"))
		t.Fatalf("%+v\n%s", res, log)
	}
	tito(t, "verify", res.Artifact)
	var e explained
	if err := json.Unmarshal([]byte(tito(t, "explain", "--json", "--model", model, res.Artifact)), &e); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, i := range e.Items {
		b, _ := json.Marshal(i)
		got.Write(append(b, '\n'))
	}
	const want = `{"Turn":2,"Kind":"realign","Reason":"","Class":"argument_reserialised","Message":2,"Field":"arguments"}
{"Turn":3,"Kind":"realign","Reason":"","Class":"argument_reserialised","Message":5,"Field":"arguments"}
{"Turn":4,"Kind":"split","Reason":"token_drift","Class":"bpe_merge","Message":7,"Field":"content"}
`
	if got.String() != want || e.Extends != 2 {
		t.Errorf("explained %d extends and\n%swant 2 and\n%s", e.Extends, got.String(), want)
	}
}
