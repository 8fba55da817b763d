package pi

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tito-rl/tito/internal/fault"
)

func TestAHomeWithoutPiIsNamed(t *testing.T) {
	dir := t.TempDir()
	if _, err := New(dir); fault.CodeOf(err) != fault.HarnessMissing {
		t.Errorf("an empty home: %v", err)
	}
	at := filepath.Join(dir, "node_modules", packageN)
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{`{"version":"0.73.1"}`, `{"version":"` + Pinned + `"}`, `{`} { // another, no Node beside it, no JSON
		if err := os.WriteFile(filepath.Join(at, "package.json"), []byte(version), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := New(dir); fault.CodeOf(err) != fault.HarnessMissing {
			t.Errorf("%s: %v", version, err)
		}
	}
}

func TestTheLastErrorOfTheEventLogCounts(t *testing.T) {
	log := filepath.Join(t.TempDir(), "pi.jsonl")
	const failed = `{"type":"message_end","message":{"role":"assistant","stopReason":"error","errorMessage":"429 later"}}` + "\n"
	const went = `{"type":"message_end","message":{"role":"assistant","stopReason":"stop"}}` + "\n"
	for text, want := range map[string]string{failed: "429 later", failed + went: "", went + failed: "429 later", "not json\n": ""} {
		if err := os.WriteFile(log, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := lastError(log); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}
