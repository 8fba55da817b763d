package qualify

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/certify"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
)

// folder is the built-in model as files, each made by change from its own.
func folder(t *testing.T, change map[string]func([]byte) []byte) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{tokenizerFile, configFile, templateFile, "generation_config.json"} {
		b, err := fs.ReadFile(builtin.Bundle, "bundle/"+name)
		if err != nil {
			t.Fatal(err)
		}
		if do := change[name]; do != nil {
			b = do(b)
		}
		if b == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheTemplateIsTheOneThatTheModelReads(t *testing.T) {
	src, err := fs.ReadFile(builtin.Bundle, "bundle/"+templateFile)
	if err != nil {
		t.Fatal(err)
	}
	inConfig := func(v any) map[string]func([]byte) []byte {
		return map[string]func([]byte) []byte{
			templateFile: func([]byte) []byte { return nil },
			configFile: func(b []byte) []byte {
				var c map[string]any
				if err := json.Unmarshal(b, &c); err != nil {
					t.Fatal(err)
				}
				c["chat_template"] = v
				b, err := json.Marshal(c)
				if err != nil {
					t.Fatal(err)
				}
				return b
			},
		}
	}
	entry := func(name, s string) map[string]string { return map[string]string{"name": name, "template": s} }
	for name, change := range map[string]map[string]func([]byte) []byte{
		"of its own": nil,
		"in config":  inConfig(string(src)),
		"of several": inConfig([]any{entry("default", "x"), entry("tool_use", string(src)), entry("rag", "y")}),
		"default":    inConfig([]any{entry("default", string(src)), entry("rag", "y")}),
	} {
		m, f, err := load(folder(t, change))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if digest([]byte(f.template)) != m.Info.Template || m.Info.Tokenizer != f.sums[tokenizerFile] {
			t.Errorf("%s: another template or tokenizer than the model's", name)
		}
	}
}

func TestATemplateThatTellsTheTimeNeedsAClockThatStandsStill(t *testing.T) {
	dir := folder(t, map[string]func([]byte) []byte{templateFile: func(b []byte) []byte {
		return append([]byte("{{- '<|im_start|>system\\n' + strftime_now('%Y-%m-%d') + '<|im_end|>\\n' }}\n"), b...)
	}})
	settings, err := ojson.Parse([]byte(`{"a": 1.50}`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Run(t.Context(), Options{Dir: dir, Kwargs: settings, Code: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Allowed.Needs) != 1 || c.Allowed.Needs[0] != "frozen_clock" || len(c.Allowed.Incremental[WithTools]) != 4 || !c.Allowed.FullHistory {
		t.Errorf("%+v", c.Allowed)
	}
	if string(c.Pins.Kwargs) != `{"a":1.50}` || c.claim("parity").Verdict != certify.NotAttempted {
		t.Errorf("settings %s, parity %+v", c.Pins.Kwargs, c.claim("parity"))
	}
}

func TestADamagedModelIsNoCertificate(t *testing.T) {
	dir := folder(t, map[string]func([]byte) []byte{templateFile: func([]byte) []byte { return []byte("{% if %}") }})
	if _, err := Run(t.Context(), Options{Dir: dir}); fault.CodeOf(err) != fault.BadTemplate {
		t.Error(err)
	}
}
