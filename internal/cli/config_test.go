package cli

import (
	"testing"

	"github.com/tito-rl/tito/internal/fault"
	"go.yaml.in/yaml/v3"
)

func TestAConfigurationFileIsReadStrictly(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "f:1: ",
		"- a\n":                     "f:1: ",
		"steps: 1\n---\nsteps: 2\n": "f:1: ",
		"steps: 1\nstep: 2\n":       "f:2: ",
		"seed: 1\nsteps: 1.5\n":     "f:2: ",
		"seed: -1\n":                "f:1: ",
		"seed: 1\n\nseed: 1\n":      "f:3: ",
		"tasks: one\n":              "f:1: ",
		"steps: [1\n":               "f: ",
	} {
		var q quickConfig
		_, err := decodeYAML("f", []byte(text), &q)
		if fault.CodeOf(err) != fault.BadConfig || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
			t.Errorf("%q: %v [%s], want bad_config at %s", text, err, fault.CodeOf(err), want)
		}
	}
}

func FuzzAConfigurationFileThatIsReadIsWrittenBackAlike(f *testing.F) {
	f.Add([]byte("kind: quickstart\nseed: 1\nsteps: 2\ntasks: [a, b]\nlearning_rate: 0.5\n"))
	f.Add([]byte("kind: &a x\ntito: *a\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q, again quickConfig
		if _, err := decodeYAML("f", b, &q); err != nil {
			if fault.CodeOf(err) != fault.BadConfig {
				t.Fatal(err)
			}
			return
		}
		out, err := yaml.Marshal(q)
		if err != nil {
			t.Skip(err) // a text that YAML cannot hold
		}
		if _, err := decodeYAML("f", out, &again); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
}
