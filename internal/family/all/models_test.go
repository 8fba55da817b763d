package all

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
)

// model is one that a format is tested on: added tokens with their published ids over the built-in vocabulary, and a
// template of our own in the format's layout.
type model struct {
	format   string
	template string // in testdata
	added    map[string]int
	tokens   []ojson.Member
	trims    bool // the template trims content and reasoning
	alone    bool // the template drops content beside calls
	sorts    bool // the template sorts the keys of arguments
	single   bool // the template takes one call a reply
	drifts   bool // the template's history never has what its prompts open
}

var qwen35IDs = map[string]int{"<|endoftext|>": 248044, "<|im_start|>": 248045, "<|im_end|>": 248046, "<tool_call>": 248058, "</tool_call>": 248059,
	"<tool_response>": 248066, "</tool_response>": 248067, "<think>": 248068, "</think>": 248069}

var glmIDs = map[string]int{"<|endoftext|>": 151329, "[gMASK]": 151331, "<sop>": 151333, "<|system|>": 151335, "<|user|>": 151336, "<|assistant|>": 151337,
	"<|observation|>": 151338, "<think>": 151350, "</think>": 151351, "<tool_call>": 151352, "</tool_call>": 151353, "<tool_response>": 151354,
	"</tool_response>": 151355, "<arg_key>": 151356, "</arg_key>": 151357, "<arg_value>": 151358, "</arg_value>": 151359}

var gemmaTokens = map[string]int{"<bos>": 4100, "<eos>": 4101, "<|turn>": 4102, "<turn|>": 4103, "<|channel>": 4104, "<channel|>": 4105, "<|tool>": 4106, "<tool|>": 4107,
	"<|tool_call>": 4108, "<tool_call|>": 4109, "<|tool_response>": 4110, "<tool_response|>": 4111, `<|"|>`: 4112, "<|think|>": 4113, "<|image|>": 4114}

var kimiIDs = map[string]int{"[BOS]": 163584, "[EOS]": 163585, "<|im_end|>": 163586, "<|im_user|>": 163587, "<|im_assistant|>": 163588, "<|im_system|>": 163594,
	"<|tool_calls_section_begin|>": 163595, "<|tool_calls_section_end|>": 163596, "<|tool_call_begin|>": 163597, "<|tool_call_argument_begin|>": 163598,
	"<|tool_call_end|>": 163599, "<|im_middle|>": 163601, "<think>": 163606, "</think>": 163607}

var mistralTokens = map[string]int{"<s>": 4100, "</s>": 4101, "[INST]": 4102, "[/INST]": 4103, "[AVAILABLE_TOOLS]": 4104, "[/AVAILABLE_TOOLS]": 4105, "[TOOL_RESULTS]": 4106,
	"[/TOOL_RESULTS]": 4107, "[TOOL_CALLS]": 4108, "[SYSTEM_PROMPT]": 4109, "[/SYSTEM_PROMPT]": 4110, "[ARGS]": 4111, "[CALL_ID]": 4112}

var mistralThinks = with(mistralTokens, map[string]int{"[THINK]": 4113, "[/THINK]": 4114, "[MODEL_SETTINGS]": 4115, "[/MODEL_SETTINGS]": 4116})

func with(a, b map[string]int) map[string]int {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func boundary(bos, eos string) []ojson.Member {
	return []ojson.Member{{Key: "bos_token", Value: ojson.StringOf(bos)}, {Key: "eos_token", Value: ojson.StringOf(eos)}}
}

var llamaIDs = map[string]int{"<|begin_of_text|>": 128000, "<|end_of_text|>": 128001, "<|start_header_id|>": 128006, "<|end_header_id|>": 128007, "<|eom_id|>": 128008,
	"<|eot_id|>": 128009, "<|python_tag|>": 128010}

var harmonyIDs = map[string]int{"<|endoftext|>": 199999, "<|return|>": 200002, "<|constrain|>": 200003, "<|channel|>": 200005, "<|start|>": 200006, "<|end|>": 200007,
	"<|message|>": 200008, "<|call|>": 200012}

var deepseekIDs = map[string]int{"<｜begin▁of▁sentence｜>": 100000, "<｜end▁of▁sentence｜>": 100001, "<｜User｜>": 128803, "<｜Assistant｜>": 128804, "<｜tool▁calls▁begin｜>": 128806,
	"<｜tool▁calls▁end｜>": 128807, "<｜tool▁call▁begin｜>": 128808, "<｜tool▁call▁end｜>": 128809, "<｜tool▁outputs▁begin｜>": 128810, "<｜tool▁outputs▁end｜>": 128811,
	"<｜tool▁output▁begin｜>": 128812, "<｜tool▁output▁end｜>": 128813, "<｜tool▁sep｜>": 128814}

// models are those that the tests of every format run on.
var models = map[string]model{
	"qwen35":   {format: "qwen-xml", template: "qwen35", added: qwen35IDs, trims: true},
	"nemotron": {format: "qwen-xml", template: "nemotron", trims: true, added: map[string]int{"<|im_start|>": 4100, "<|im_end|>": 4101, "<think>": 4102, "</think>": 4103, "<tool_call>": 4104, "</tool_call>": 4105, "<tool_response>": 4106, "</tool_response>": 4107}},
	"coder":    {format: "qwen-xml", template: "coder", added: qwen35IDs, trims: true},
	"glm45":    {format: "glm", template: "glm45", added: glmIDs, trims: true},
	"glm5":     {format: "glm", template: "glm5", added: glmIDs, trims: true},
	"minimax": {format: "minimax-m2", template: "minimax", added: map[string]int{"]~!b[": 200034, "]~b]": 200019, "[e~[": 200020, "<think>": 200050, "</think>": 200051,
		"<minimax:tool_call>": 200052, "</minimax:tool_call>": 200053}},
	"gemma4":       {format: "gemma-4", template: "gemma4", added: gemmaTokens, tokens: boundary("<bos>", "<eos>"), trims: true, alone: true, sorts: true},
	"kimi":         {format: "kimi-k2", template: "kimi", added: kimiIDs},
	"ministral":    {format: "mistral", template: "ministral", added: mistralThinks, tokens: boundary("<s>", "</s>")},
	"mistralsmall": {format: "mistral", template: "mistralsmall", added: mistralTokens, tokens: boundary("<s>", "</s>"), alone: true},
	"deepseek3":    {format: "deepseek-v3", template: "deepseek3", added: deepseekIDs, tokens: boundary("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")},
	"deepseek31":   {format: "deepseek-v3.1", template: "deepseek31", added: with(deepseekIDs, map[string]int{"<think>": 128798, "</think>": 128799}), tokens: boundary("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")},
	"harmony":      {format: "harmony", template: "harmony", added: harmonyIDs, alone: true, single: true},
	"llama":        {format: "llama3-json", template: "llama", added: llamaIDs, trims: true, alone: true, single: true},
	"plain": {format: "generic", template: "plain", trims: true, added: map[string]int{"<|begin|>": 4100, "<|head|>": 4101, "<|tail|>": 4102, "<|end|>": 4103, "<|eot|>": 4104, "<think>": 4105, "</think>": 4106},
		tokens: []ojson.Member{{Key: "bos_token", Value: ojson.StringOf("<|begin|>")}, {Key: "eos_token", Value: ojson.StringOf("<|eot|>")}}},
}

// withAdded is the built-in tokenizer with other added tokens.
func withAdded(t testing.TB, added map[string]int) string {
	t.Helper()
	var file map[string]json.RawMessage
	if err := json.Unmarshal([]byte(bundleTokenizer(t)), &file); err != nil {
		t.Fatal(err)
	}
	type entry struct {
		ID         int    `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	}
	var list []entry
	for s, id := range added {
		list = append(list, entry{ID: id, Content: s, Special: strings.HasPrefix(s, "<|")})
	}
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	file["added_tokens"] = b
	var bpe map[string]json.RawMessage
	var vocab map[string]int
	if err := json.Unmarshal(file["model"], &bpe); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(bpe["vocab"], &vocab); err != nil {
		t.Fatal(err)
	}
	for s, id := range added { // an added token keeps an id of its own only where the vocabulary has it
		vocab[s] = id
	}
	bpe["vocab"], _ = json.Marshal(vocab)
	file["model"], _ = json.Marshal(bpe)
	if b, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (m model) bind(t testing.TB) *subject {
	t.Helper()
	tpl, err := os.ReadFile(filepath.Join("testdata", m.template+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	f := bind(t, withAdded(t, m.added), string(tpl), family.Options{Tokens: m.tokens})
	if f.Name() != m.format {
		t.Fatalf("read as %s", f.Name())
	}
	return f
}

// eachModel runs a test on every model.
func eachModel(t *testing.T, test func(*testing.T, model, *subject)) {
	for name, m := range models {
		t.Run(name, func(t *testing.T) { test(t, m, m.bind(t)) })
	}
}

func TestWhatATemplateWritesAroundRepliesIsLearned(t *testing.T) {
	chatml := family.Layout{ThinkOpen: "\n", ThinkClose: "\n", ThinkEnd: "\n\n", ThinkAlone: "\n\n", First: "\n\n", Next: "\n", AfterStop: "\n", PythonText: true}
	opened := chatml
	opened.Opening = "<think>\n"
	nemotron := opened
	nemotron.ThinkEnd, nemotron.ThinkAlone, nemotron.First, nemotron.Tail = "\n", "", "\n", "\n"
	minimax := opened
	minimax.First, minimax.Bare, minimax.Next, minimax.PythonText = "\n", "\n", "", false
	want := map[string]family.Layout{
		"qwen35": opened, "coder": chatml, "nemotron": nemotron, "minimax": minimax,
		"glm45":     {Lead: "\n", ThinkEnd: "\n", First: "\n", Next: "\n", Inner: "\n"},
		"glm5":      {Opening: "<think>"},
		"deepseek3": {ThinkOpen: "\n", ThinkClose: "\n", ThinkEnd: "\n\n", ThinkAlone: "\n\n", Next: ""}, "deepseek31": {Opening: "</think>"}, "plain": {}, "llama": {}, "harmony": {}, "ministral": {},
		"gemma4":       {ThinkClose: "\n", AfterStop: "\n"},
		"kimi":         {Opening: "<think>"},
		"mistralsmall": {Inner: " "},
	}
	settings := map[string]string{"qwen35": "preserve_thinking", "nemotron": "truncate_history_thinking", "glm5": "clear_thinking", "kimi": "preserve_thinking"}
	for name, m := range models {
		f := m.bind(t)
		if d := cmp.Diff(want[name], f.Layout); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		how, setting := f.Retention()
		if setting.Key != settings[name] || (how == family.RetainSetting) != (setting.Key != "") {
			t.Errorf("%s: %s %q", name, how, setting.Key)
		}
	}
}
