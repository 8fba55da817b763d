//go:build e2e

package template

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/testkit"
)

func qwen3(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testkit.Qwen3(t), "tokenizer_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := ojson.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	src, ok := config.Get("chat_template")
	if !ok {
		t.Fatal("no chat_template")
	}
	return src.Str()
}

func TestE2EQwen3AgreesWithApplyChatTemplate(t *testing.T) {
	src := qwen3(t)
	o := startOracle(t, testkit.Qwen3(t))
	n, bad, refused := 0, 0, 0
	check := func(messages, toolList, rest string) {
		chat := `{"messages":` + messages + `,"tools":` + toolList + `,` + rest + `}`
		want, refusal := o.ask(ojson.ObjectOf(ojson.Member{Key: "chat", Value: ojson.StringOf(chat)}))
		if messages == "[]" && refusal != "" { // transformers itself indexes the first message
			return
		}
		n++
		if refusal != "" {
			refused++
		}
		if !agree(t, chat, src, chat, want, refusal) {
			bad++
		}
	}
	eachCase(check)
	check(longConversation(20), tools, settings[0])
	t.Logf("%d renders, %d refused by both, %d differences", n, refused, bad)
}

func TestE2ECapturedRequestsRenderAsInPython(t *testing.T) {
	src := qwen3(t)
	n, bad, refused := 0, 0, 0
	for _, harness := range []string{"opencode", "pi"} {
		files, err := filepath.Glob(filepath.Join(testkit.Captures(t, harness), "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		o := startOracle(t)
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			req, err := ojson.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			messages, ok := req.Get("messages")
			if !ok {
				continue
			}
			toolList, ok := req.Get("tools")
			if !ok {
				toolList = ojson.NullOf()
			}
			vars := `{"messages":` + string(messages.Raw()) + `,"tools":` + string(toolList.Raw()) + `,"add_generation_prompt":true}`
			want, refusal := o.render(src, vars)
			if n++; refusal != "" {
				refused++
			}
			if !agree(t, f, src, vars, want, refusal) {
				bad++
			}
		}
	}
	if n == 0 {
		t.Fatal("no captured request")
	}
	t.Logf("%d requests, %d refused by both, %d differences", n, refused, bad)
}

// realTemplates are the vendors' templates in a module that is downloaded for this test alone.
func realTemplates(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module fetch\n\ngo 1.26\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "mod", "download", "-json", "github.com/ardanlabs/jinja@v1.8.0")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		testkit.Missing(t, "cannot download the templates: %v", err)
	}
	var mod struct{ Dir string }
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(mod.Dir, "testdata", "templates", "*"))
	if err != nil || len(files) < 17 {
		t.Fatalf("%d templates, %v", len(files), err)
	}
	return files
}

func TestE2ERealTemplatesAgreeWithPython(t *testing.T) {
	o := startOracle(t)
	total := 0
	for _, f := range realTemplates(t) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		n, bad, refused := 0, 0, 0
		eachCase(func(messages, toolList, rest string) {
			vars := `{"messages":` + messages + `,"tools":` + toolList + `,"documents":null,"bos_token":"<s>","eos_token":"</s>",` + rest + `}`
			want, refusal := o.render(string(b), vars)
			if n++; refusal != "" {
				refused++
			}
			if bad < 3 && !agree(t, filepath.Base(f)+" "+vars, string(b), vars, want, refusal) {
				bad++
			}
		})
		total += n
		t.Logf("%-40s %4d renders, %3d refused by both, %d differences", strings.TrimSuffix(filepath.Base(f), ".jinja"), n, refused, bad)
	}
	t.Logf("%d renders", total)
}
