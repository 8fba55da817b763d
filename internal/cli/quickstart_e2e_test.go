//go:build e2e

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The static binary, as anybody builds it, learns with any seed. Time is the processors', as the machine may be shared:
// 90 seconds of two.
func TestE2EQuickstartLearns(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "tito")
	build := exec.Command("go", "build", "-o", bin, "../../cmd/tito")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for seed := 1; seed <= 2; seed++ {
		t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			run := filepath.Join(dir, fmt.Sprint(seed))
			cmd := exec.Command(bin, "quickstart", "--seed", fmt.Sprint(seed), "--out", run, "--json")
			var progress bytes.Buffer
			cmd.Stderr = &progress
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, progress.String())
			}
			var r struct {
				Steps       int     `json:"steps"`
				First       float64 `json:"reward_first"`
				Last        float64 `json:"reward_last"`
				Turns       int     `json:"turns"`
				Realigns    int     `json:"realigns"`
				Trainable   int     `json:"trainable_tokens"`
				Sampled     int     `json:"sampled_tokens"`
				AllVerified bool    `json:"verified"`
			}
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if r.First > 0.4 || r.Last < 0.9 || !r.AllVerified {
				t.Errorf("reward from %v to %v, verified %v\n%s", r.First, r.Last, r.AllVerified, progress.String())
			}
			if r.Realigns == 0 || r.Trainable > r.Sampled || r.Trainable < r.Sampled*8/10 || r.Turns < 2*r.Steps {
				t.Errorf("%+v", r)
			}
			if used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); used > 180*time.Second {
				t.Errorf("it took %s of processor time", used)
			}
			if out, err := exec.Command(bin, "verify", filepath.Join(run, "trials")).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
