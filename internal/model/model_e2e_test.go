//go:build e2e

package model

import (
	"testing"

	"github.com/tito-rl/tito/internal/testkit"
)

func TestE2EQwen3Loads(t *testing.T) {
	m, err := Load(testkit.Qwen3(t))
	if err != nil {
		t.Fatal(err)
	}
	if m.VocabSize != 151669 || len(m.Stops) != 2 || m.Stops[0] != 151645 || m.Stops[1] != 151643 {
		t.Errorf("vocabulary of %d, stops %v", m.VocabSize, m.Stops)
	}
	// The hashes of the files that the model's makers published.
	if m.Info.Tokenizer[:12] != "aeb13307a71a" || m.Info.Family != "chatml-hermes" {
		t.Errorf("%+v", m.Info)
	}
}
