//go:build e2e

package qualify

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/certify"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/family/all"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// published is one row of vectors/qualify/templates.json.
type published struct {
	File     string            `json:"file"`
	Kwargs   json.RawMessage   `json:"kwargs,omitempty"`
	Tokens   map[string]string `json:"tokens,omitempty"` // bos_token, eos_token
	Added    []string          `json:"added,omitempty"`  // over the built-in vocabulary; none = Qwen3's own tokenizer
	Verdicts map[string]string `json:"verdicts"`         // by claim
	Why      map[string]string `json:"why,omitempty"`    // of what is refuted
	Cannot   string            `json:"cannot,omitempty"` // why no family reads it
}

func (r published) name() string {
	v, err := ojson.Parse(r.Kwargs)
	if err != nil || len(v.Members()) == 0 {
		return r.File
	}
	m := v.Members()[0]
	return r.File + " " + m.Key + "=" + string(m.Value.Append(nil))
}

// templates is the folder of vendors' templates in a Go module that is downloaded for this test alone.
func templates(t *testing.T) string {
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
	return filepath.Join(mod.Dir, "testdata", "templates")
}

// with is the built-in tokenizer with other added tokens.
func with(t *testing.T, added []string) []byte {
	t.Helper()
	b, err := fs.ReadFile(builtin.Bundle, "bundle/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	var bpe struct{ Vocab map[string]int }
	if err := json.Unmarshal(file["model"], &bpe); err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	for i, s := range added {
		list = append(list, map[string]any{"id": len(bpe.Vocab) + i, "content": s, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})
	}
	if file["added_tokens"], err = json.Marshal(list); err != nil {
		t.Fatal(err)
	}
	if b, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestE2EPublishedTemplatesHaveTheirVerdicts(t *testing.T) {
	var rows []published
	if err := read("qualify/templates.json", &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) < 17 {
		t.Fatalf("%d rows", len(rows))
	}
	dir := templates(t)
	own, err := os.ReadFile(filepath.Join(testkit.Qwen3(t), "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	qwen3, err := tokenizer.Load(own)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		t.Run(r.name(), func(t *testing.T) {
			src, err := os.ReadFile(filepath.Join(dir, r.File))
			if err != nil {
				t.Fatal(err)
			}
			tok := qwen3
			if r.Added != nil {
				if tok, err = tokenizer.Load(with(t, r.Added)); err != nil {
					t.Fatal(err)
				}
			}
			tpl, err := template.Compile(string(src))
			if err != nil {
				t.Fatal(err)
			}
			var tokens []ojson.Member
			for _, name := range []string{"bos_token", "eos_token"} {
				if s := r.Tokens[name]; s != "" {
					tokens = append(tokens, ojson.Member{Key: name, Value: ojson.StringOf(s)})
				}
			}
			f, err := all.New(tok, tpl, family.Options{Tokens: tokens})
			if err != nil {
				t.Fatal(err)
			}
			m := certify.Model{Family: f, Tokenizer: tok, BOS: r.Tokens["bos_token"]}
			if r.Kwargs != nil {
				if m.Kwargs, err = ojson.Parse(r.Kwargs); err != nil {
					t.Fatal(err)
				}
			}
			got := map[string]string{}
			proof := certify.Prove(m)
			for _, name := range []string{"append.tool", "append.user", "append.tool+user", "append.tool/no_tools", "append.system", "append.split_batch", "generation_consistent", "suffix_context_free", "equals_full_encoding", "keeps_sampled_ids"} {
				x := find(proof.Levels, name)
				got[name] = string(x.Verdict)
				t.Logf("%-24s %-10s %4d of %4d, %4d refused by the template; %s", name, x.Verdict, x.Refuted, x.Cases, x.Refused, x.Why)
				if x.Verdict == certify.Refuted && r.Why[name] == "" {
					t.Errorf("%s has no reason: %+v", name, x.Counter)
				}
			}
			if d := cmp.Diff(r.Verdicts, got); d != "" && !*rewrite {
				t.Error(d)
			}
			t.Log(f.Name())
			rows[i].Verdicts = got
		})
	}
	if *rewrite {
		b, err := json.MarshalIndent(rows, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(testkit.Root(), "vectors", "qualify", "templates.json"), append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
