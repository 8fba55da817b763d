//go:build e2e

package all

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
)

var qwenOnce sync.Once
var qwenFamily *subject

// qwen3 is the family bound to Qwen3's own files.
func qwen3(t *testing.T) *subject {
	t.Helper()
	dir := testkit.Qwen3(t)
	qwenOnce.Do(func() {
		tok, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
		if err != nil {
			t.Fatal(err)
		}
		var cfg struct {
			Template string `json:"chat_template"`
		}
		load(t, filepath.Join(dir, "tokenizer_config.json"), &cfg)
		qwenFamily = bind(t, string(tok), cfg.Template, family.Options{Tokens: []ojson.Member{{Key: "eos_token", Value: ojson.StringOf("<|im_end|>")}}})
	})
	return qwenFamily
}

func TestE2EParseVectorsHoldOnQwen3(t *testing.T) {
	f := qwen3(t)
	for _, file := range vectors(t, "parse") {
		runParseVector(t, f, file, false)
	}
}

func TestE2EAnEchoedReplyExtendsItsCheckpointOnQwen3(t *testing.T) { checkpoints(t, qwen3(t), 200) }

// oracle renders with transformers, with messages as engines hand them over: content is text, arguments are objects.
const oracle = `
import json, sys
from transformers import PreTrainedTokenizerFast
d = sys.argv[1]
tok = PreTrainedTokenizerFast(tokenizer_file=d + "/tokenizer.json")
tok.chat_template = json.load(open(d + "/tokenizer_config.json"))["chat_template"]
for line in sys.stdin:
    c = json.loads(line)
    for m in c["messages"]:
        m["content"] = m.get("content") or ""
        for call in m.get("tool_calls") or []:
            f = call["function"]
            f["arguments"] = json.loads(f["arguments"]) if f["arguments"] else {}
    text = tok.apply_chat_template(c["messages"], tools=c.get("tools"), tokenize=False, add_generation_prompt=True, **c.get("kwargs", {}))
    print(json.dumps({"text": text, "ids": tok.encode(text, add_special_tokens=False)}))
`

// conversation is one random conversation, in the wire's form for the oracle and in ours.
func conversation(t *testing.T, r *rand.Rand) ([]byte, family.Conversation) {
	c := family.Conversation{Native: true}
	var wire []string
	str := func(s string) string { return string(ojson.AppendString(nil, s)) }
	add := func(m chat.Message, fields string) {
		c.Messages = append(c.Messages, m)
		wire = append(wire, `{"role":"`+string(m.Role)+`"`+fields+`}`)
	}
	if r.IntN(2) == 0 {
		s := randomText(r, 5)
		add(chat.Message{Role: chat.System, Content: chat.T(s)}, `,"content":`+str(s))
	}
	s := "u" + randomText(r, 5)
	add(user(s), `,"content":`+str(s))
	for range r.IntN(4) {
		m := chat.Message{Role: chat.Assistant}
		fields := ""
		switch r.IntN(3) {
		case 0:
			m.Content = chat.Text{Presence: chat.Null}
			fields = `,"content":null`
		default:
			m.Content = chat.T(randomText(r, 5))
			fields = `,"content":` + str(m.Content.S)
		}
		if r.IntN(2) == 0 {
			m.Reasoning = chat.T(randomText(r, 5))
			fields += `,"reasoning_content":` + str(m.Reasoning.S)
		}
		var calls []string
		for range r.IntN(3) {
			args := []string{``, `{}`, `{"a":1.0,"b":1e7,"c":[1,2.50,-0.0,1e-7,12345678901234567890],"d":null,"e":true}`, `{"s":` + str(randomText(r, 6)) + `,"é":"\u00e9\ud83d\ude00\/"}`, `{"a":1,"b":2,"a":3}`}[r.IntN(5)]
			m.Calls = append(m.Calls, chat.Call{ID: "c", Name: "bash", Arguments: args})
			calls = append(calls, `{"id":"c","type":"function","function":{"name":"bash","arguments":`+str(args)+`}}`)
		}
		if calls != nil {
			fields += `,"tool_calls":[` + strings.Join(calls, ",") + `]`
		}
		add(m, fields)
		for range m.Calls {
			s := randomText(r, 6)
			add(chat.Message{Role: chat.Tool, CallID: "c", Content: chat.T(s)}, `,"tool_call_id":"c","content":`+str(s))
		}
		if r.IntN(3) == 0 {
			s := []string{"<tool_response>x</tool_response>", randomText(r, 4)}[r.IntN(2)]
			add(user(s), `,"content":`+str(s))
		}
	}
	tools, kwargs := "", ""
	if r.IntN(2) == 0 {
		raw := `{"type":"function","function":{"z":1.0,"name":"bash","a":1e7,"d":` + str(randomText(r, 4)) + `}}`
		c.Tools = []ojson.Value{value(t, raw)}
		tools = `,"tools":[` + raw + `]`
	}
	if r.IntN(3) == 0 {
		c.Kwargs = value(t, `{"enable_thinking":false}`)
		kwargs = `,"kwargs":{"enable_thinking":false}`
	}
	return []byte(`{"messages":[` + strings.Join(wire, ",") + `]` + tools + kwargs + `}`), c
}

func TestE2ERenderEqualsTransformersOnQwen3(t *testing.T) {
	f := qwen3(t)
	var in bytes.Buffer
	var cs []family.Conversation
	for seed := range uint64(300) {
		wire, c := conversation(t, rand.New(rand.NewPCG(seed, 9)))
		in.Write(append(wire, '\n'))
		cs = append(cs, c)
	}
	cmd := exec.Command(testkit.Python(t), "-c", oracle, testkit.Qwen3(t))
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != len(cs) {
		t.Fatalf("%d answers to %d conversations", len(lines), len(cs))
	}
	for i, line := range lines {
		var want struct {
			Text string
			IDs  []token.ID
		}
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		c := cs[i]
		c.Clock = template.Clock{Year: 2026, Month: 11, Day: 30}
		got, err := f.Render(c)
		if err != nil {
			t.Fatalf("conversation %d: %v", i, err)
		}
		if got.Text != want.Text || !slices.Equal(got.IDs, want.IDs) {
			t.Fatalf("conversation %d:\nwant %q\n got %q", i, want.Text, got.Text)
		}
	}
}
