package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/fault"
)

func check(t *testing.T, dir string) *Report {
	t.Helper()
	r, err := Check(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestACheckedModelIsDescribed(t *testing.T) {
	r := check(t, bundle(t))
	m, err := Load(bundle(t))
	if err != nil {
		t.Fatal(err)
	}
	if !r.Usable || r.Err != nil || len(r.Problems) > 0 {
		t.Fatalf("%+v", r.Problems)
	}
	if r.Family != m.Info.Family || r.Template.SHA256 != m.Info.Template || r.Files[0].SHA256 != m.Info.Tokenizer || r.Tokenizer.Vocabulary != m.VocabSize {
		t.Errorf("%+v is not %+v", r, m.Info)
	}
	want := TokenizerInfo{Vocabulary: 4096, Added: 9, Special: 3, Constructs: Constructs{Kind: "byte-level BPE", Normalizer: []string{"NFC"},
		PreTokenizer: []string{"Split", "ByteLevel"}, Decoder: []string{"ByteLevel"}, PostProcessor: []string{"ByteLevel"}}}
	if d := cmp.Diff(want, *r.Tokenizer); d != "" {
		t.Error(d)
	}
	if len(r.Stops) != 2 || len(r.Ends) < 2 || slices.ContainsFunc(r.Ends, func(e EndInfo) bool { return !e.Stop }) || len(r.Sampling) > 0 {
		t.Errorf("stops %v, ends %v, sampling %v", r.Stops, r.Ends, r.Sampling)
	}
	if b, err := json.Marshal(r); err != nil || strings.Contains(string(b), "null") {
		t.Errorf("%s %v", b, err)
	}
}

func TestTheBuiltInModelIsChecked(t *testing.T) {
	if r, err := CheckBuiltin(); err != nil || !r.Usable || len(r.Can) < 4 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestDefaultsThatBiasSamplingAreNamed(t *testing.T) {
	dir := bundle(t)
	write(t, dir, generationFile, `{"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 1.0, "min_p": 0, "repetition_penalty": 1.05,
		"presence_penalty": null, "bad_words_ids": [], "suppress_tokens": [1], "max_new_tokens": 5, "eos_token_id": 4089}`)
	r := check(t, dir)
	want := []SamplingInfo{{"temperature", "0.6", "1"}, {"top_k", "20", "0"}, {"repetition_penalty", "1.05", "1"}, {"suppress_tokens", "[1]", "null"}}
	if d := cmp.Diff(want, r.Sampling); d != "" {
		t.Error(d)
	}
	if !r.Usable {
		t.Error("it is usable all the same")
	}
}

func TestACheckGoesOnWhereLoadEnds(t *testing.T) {
	for name, c := range map[string]struct {
		less  []string
		files map[string]string
		can   string
		codes []fault.Code
	}{
		"Nothing":       {less: []string{tokenizerFile, configFile, templateFile, generationFile}, codes: []fault.Code{fault.BadModel, fault.BadModel}},
		"NoTemplate":    {less: []string{templateFile}, can: "encode", codes: []fault.Code{fault.BadModel}},
		"BadTokenizer":  {files: map[string]string{tokenizerFile: "{"}, codes: []fault.Code{fault.BadTokenizer}},
		"TwoThings":     {files: map[string]string{tokenizerFile: "{", templateFile: "{% for %}"}, codes: []fault.Code{fault.BadTokenizer, fault.BadTemplate}},
		"BadConfig":     {files: map[string]string{configFile: "["}, codes: []fault.Code{fault.BadModel}},
		"OtherTokens":   {files: map[string]string{configFile: `{"added_tokens_decoder": {"1": {"content": "<x>"}}}`}, codes: []fault.Code{fault.BadModel}},
		"UnknownFamily": {files: map[string]string{templateFile: "{{ messages }}"}, can: "encode", codes: []fault.Code{fault.UnknownFamily}},
		"OtherEos":      {files: map[string]string{generationFile: `{"eos_token_id": [4089, 5]}`}, can: "render", codes: []fault.Code{fault.BadModel}},
		"BadGeneration": {files: map[string]string{generationFile: `nonsense`}, can: "render", codes: []fault.Code{fault.BadModel}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := bundle(t, c.less...)
			for n, text := range c.files {
				write(t, dir, n, text)
			}
			r := check(t, dir)
			var codes []fault.Code
			for _, p := range r.Problems {
				codes = append(codes, p.Code)
			}
			if d := cmp.Diff(c.codes, codes); d != "" || r.Usable {
				t.Errorf("%s\n%v", d, r.Problems)
			}
			if _, err := Load(dir); err == nil || err.Error() != r.Err.Error() {
				t.Errorf("Load says %v, Check %v", err, r.Err)
			}
			if got := slices.Contains(r.Can, c.can); got != (c.can != "") || slices.Contains(r.Can, "run") {
				t.Errorf("can %v", r.Can)
			}
		})
	}
}

func TestACheckNeedsADirectory(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "gone"), filepath.Join(bundle(t), tokenizerFile)} {
		if _, err := Check(path); fault.CodeOf(err) != fault.FileMissing {
			t.Errorf("%v", err)
		}
	}
}

func TestATokenizerAloneIsRead(t *testing.T) {
	if tok, err := LoadTokenizer(bundle(t, templateFile, configFile, generationFile)); err != nil || tok.VocabSize() != 4096 {
		t.Error(err)
	}
	for _, dir := range []string{filepath.Join(t.TempDir(), "gone"), t.TempDir()} {
		if tok, err := LoadTokenizer(dir); tok != nil || err == nil {
			t.Error("there is none")
		}
	}
	dir := bundle(t)
	if err := os.WriteFile(filepath.Join(dir, configFile), []byte(`{"added_tokens_decoder": {"1": {"content": "<x>"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if tok, err := LoadTokenizer(dir); tok != nil || fault.CodeOf(err) != fault.BadModel {
		t.Errorf("%v", err)
	}
}
