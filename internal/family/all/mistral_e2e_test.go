//go:build e2e

package all

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// The tokenizer is the one that Mistral publishes with mistral-common; it has no token of the newer form.
func TestE2EMistralsOlderFormHoldsOnMistralsOwnTokenizer(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testkit.Dep(t, "venv"), "lib", "python3*", "site-packages", "mistral_common", "data", "tekken_240911.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.LoadTekken(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", "mistralsmall.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	tpl, err := template.Compile(string(text))
	if err != nil {
		t.Fatal(err)
	}
	fam, err := New(tok, tpl, family.Options{Tokens: boundary("<s>", "</s>")})
	if err != nil {
		t.Fatal(err)
	}
	f := &subject{fam.(*family.Kit), tok, map[token.ID]string{}}
	for _, a := range tok.Added() {
		f.added[a.ID] = a.Content
	}
	if f.Name() != "mistral" {
		t.Fatalf("read as %s", f.Name())
	}
	m := models["mistralsmall"]
	parsesWhatItSpeaks(t, m, f)
	keepsAnEchoedReply(t, m, f)
	isCutAnyhow(t, m, f)
	leadsToTheWholePrompt(t, m, f)
	for _, file := range vectors(t, filepath.Join("parse", "mistral")) {
		if strings.HasPrefix(filepath.Base(file), "list_") {
			runParseVector(t, f, file, false)
		}
	}
}
