package model

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// bundle copies the built-in model into a directory, less the files named.
func bundle(t *testing.T, without ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "small")
	sub, err := fs.Sub(builtin.Bundle, "bundle")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, sub); err != nil {
		t.Fatal(err)
	}
	for _, name := range without {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheBuiltInModelLoads(t *testing.T) {
	m, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := Builtin(); again != m {
		t.Error("it is made twice")
	}
	if m.Name != BuiltinName || m.Info.Name != BuiltinName || m.VocabSize != 4096 || len(m.Info.Tokenizer) != 64 || len(m.Info.Template) != 64 {
		t.Errorf("%+v", m.Info)
	}
	end, _ := m.Tokenizer.Lookup("<|im_end|>")
	text, _ := m.Tokenizer.Lookup("<|endoftext|>")
	if diff := cmp.Diff([]token.ID{end, text}, m.Stops); diff != "" {
		t.Errorf("stops: -want +got\n%s", diff)
	}
}

func TestADirectoryIsTheSameModel(t *testing.T) {
	want, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	m, err := Load(bundle(t))
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "small" || m.Info.Name != "small" {
		t.Errorf("name %q", m.Name)
	}
	if m.Info.Tokenizer != want.Info.Tokenizer || m.Info.Template != want.Info.Template || m.Info.Family != want.Info.Family {
		t.Errorf("got %+v, want %+v", m.Info, want.Info)
	}
}

func TestTheTemplateIsFoundWhereModelsKeepIt(t *testing.T) {
	want, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	src, err := builtin.Bundle.ReadFile("bundle/chat_template.jinja")
	if err != nil {
		t.Fatal(err)
	}
	quoted := quote(string(src))
	for name, config := range map[string]string{
		"AString":  `{"chat_template": ` + quoted + `}`,
		"ToolUse":  `{"chat_template": [{"name": "default", "template": "x"}, {"name": "tool_use", "template": ` + quoted + `}]}`,
		"Default":  `{"chat_template": [{"name": "rag", "template": "x"}, {"name": "default", "template": ` + quoted + `}]}`,
		"EosToken": `{"eos_token": {"__type": "AddedToken", "content": "<|im_end|>"}, "bos_token": null, "chat_template": ` + quoted + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := bundle(t, templateFile)
			write(t, dir, configFile, config)
			m, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if m.Info.Template != want.Info.Template {
				t.Error("another template was taken")
			}
		})
	}
	t.Run("TheFileFirst", func(t *testing.T) {
		dir := bundle(t)
		write(t, dir, configFile, `{"chat_template": "x"}`)
		if m, err := Load(dir); err != nil || m.Info.Template != want.Info.Template {
			t.Errorf("%v", err)
		}
	})
	t.Run("NoConfig", func(t *testing.T) {
		if _, err := Load(bundle(t, configFile, generationFile)); err != nil {
			t.Error(err)
		}
	})
}

func quote(s string) string {
	var b bytes.Buffer
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func TestBrokenModelsAreRefused(t *testing.T) {
	without := func(names ...string) func(*testing.T) string {
		return func(t *testing.T) string { return bundle(t, names...) }
	}
	with := func(name, text string, less ...string) func(*testing.T) string {
		return func(t *testing.T) string { dir := bundle(t, less...); write(t, dir, name, text); return dir }
	}
	for name, c := range map[string]struct {
		code fault.Code
		dir  func(*testing.T) string
		says string // a name that the message must hold
	}{
		"NoDirectory":    {fault.FileMissing, func(t *testing.T) string { return filepath.Join(t.TempDir(), "gone") }, "gone"},
		"AFile":          {fault.FileMissing, func(t *testing.T) string { return filepath.Join(bundle(t), tokenizerFile) }, tokenizerFile},
		"EmptyDirectory": {fault.BadModel, func(t *testing.T) string { return t.TempDir() }, tokenizerFile},
		"NoTokenizer":    {fault.BadModel, without(tokenizerFile), "chat_template.jinja, generation_config.json"},
		"NoTemplate":     {fault.BadModel, without(templateFile), templateFile},
		"NoConfigEither": {fault.BadModel, without(templateFile, configFile), configFile},
		"TokenizerIsADirectory": {fault.FileMissing, func(t *testing.T) string {
			dir := bundle(t, tokenizerFile)
			if err := os.Mkdir(filepath.Join(dir, tokenizerFile), 0o700); err != nil {
				t.Fatal(err)
			}
			return dir
		}, tokenizerFile},
		"NotATokenizer":    {fault.BadTokenizer, with(tokenizerFile, `{"architectures": []}`), "small"},
		"OtherTokenizer":   {fault.UnsupportedTokenizer, with(tokenizerFile, `{"pre_tokenizer": {"type": "Metaspace"}, "model": {"type": "Unigram"}}`), "Metaspace"},
		"BadTemplate":      {fault.BadTemplate, with(templateFile, `{% for x in %}`), "small"},
		"UnknownFamily":    {fault.UnknownFamily, with(templateFile, `{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}`), "small"},
		"ConfigIsNoJSON":   {fault.BadModel, with(configFile, `{"eos_token":`), configFile},
		"ConfigIsAList":    {fault.BadModel, with(configFile, `[]`), configFile},
		"TemplateUnnamed":  {fault.BadModel, with(configFile, `{"chat_template": [{"name": "rag", "template": "x"}]}`, templateFile), "rag"},
		"TokensDisagree":   {fault.BadModel, with(configFile, `{"added_tokens_decoder": {"4087": {"content": "<|other|>"}}}`), "<|other|>"},
		"TokenNotThere":    {fault.BadModel, with(configFile, `{"added_tokens_decoder": {"5000": {"content": "<|other|>"}}}`), "5000"},
		"EosIsNoStop":      {fault.BadModel, with(configFile, `{"eos_token": "<think>"}`), "<think>"},
		"EosIsNoToken":     {fault.BadModel, with(configFile, `{"eos_token": "</s>"}`), "</s>"},
		"OtherEos":         {fault.BadModel, with(generationFile, `{"eos_token_id": [4089, 5]}`), "5"},
		"EosIsNoNumber":    {fault.BadModel, with(generationFile, `{"eos_token_id": ["a"]}`), generationFile},
		"GenerationIsText": {fault.BadModel, with(generationFile, `x`), generationFile},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Load(c.dir(t))
			if got := fault.CodeOf(err); m != nil || got != c.code {
				t.Fatalf("got %q (%v), want %q", got, err, c.code)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not name %q", err, c.says)
			}
			if e := new(fault.Error); !errors.As(err, &e) {
				t.Error("it is no fault")
			}
		})
	}
}

func TestAReplyExtendsItsPromptUnderTheBuiltInTemplate(t *testing.T) {
	m, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	calls := []chat.Call{{ID: "1", Name: "bash", Arguments: `{"command": "ls"}`}, {ID: "2", Name: "bash", Arguments: `{}`}}
	for _, reply := range []chat.Reply{
		{Content: chat.T("done")},
		{Content: chat.T("a\n"), Reasoning: chat.T("hm")},
		{Calls: calls, Reasoning: chat.T("hm\n\nhm")},
		{Content: chat.T("then"), Calls: calls[:1]},
	} {
		messages := []chat.Message{{Role: chat.System, Content: chat.T("s")}, {Role: chat.User, Content: chat.T("u")}}
		first := render(t, m, messages)
		said, err := m.Family.Speak(reply)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, chat.Message{Role: chat.Assistant, Content: reply.Content, Reasoning: reply.Reasoning, Calls: reply.Calls})
		for range reply.Calls {
			messages = append(messages, chat.Message{Role: chat.Tool, Content: chat.T("out")})
		}
		messages = append(messages, chat.Message{Role: chat.User, Content: chat.T("more")})
		checkpoint := append(first, said...)
		if second := render(t, m, messages); token.CommonPrefix(checkpoint, second) != len(checkpoint) {
			t.Errorf("%+v: the next prompt does not begin with the checkpoint\n%q\n%q", reply, m.Family.Decode(checkpoint), m.Family.Decode(second))
		}
	}
}

func render(t *testing.T, m *Model, messages []chat.Message) []token.ID {
	t.Helper()
	r, err := m.Family.Render(family.Conversation{Messages: messages})
	if err != nil {
		t.Fatal(err)
	}
	return append([]token.ID(nil), r.IDs...)
}
