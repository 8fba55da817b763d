//go:build e2e

package model

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
)

func TestE2EQwen3Loads(t *testing.T) {
	m, err := Load(testkit.Qwen3(t))
	if err != nil {
		t.Fatal(err)
	}
	if m.VocabSize != 151669 || len(m.Stops) != 2 || m.Stops[0] != 151645 || m.Stops[1] != 151643 {
		t.Errorf("vocabulary of %d, stops %v", m.VocabSize, m.Stops)
	}
	// The hash of the file that the model's makers published.
	if m.Info.Tokenizer[:12] != "aeb13307a71a" || m.Info.Family != "chatml-hermes" {
		t.Errorf("%+v", m.Info)
	}
}

// conversations are rendered by transformers and by us. Arguments are spaced as Python writes them.
var conversations = [][]chat.Message{
	{{Role: chat.User, Content: chat.T("hi")}},
	{{Role: chat.System, Content: chat.T("be brief\n")}, {Role: chat.User, Content: chat.T("\nzwei\n\n drei  ")}},
	{
		{Role: chat.System, Content: chat.T("日本語 é e\u0301")}, {Role: chat.User, Content: chat.T("q")},
		{Role: chat.Assistant, Content: chat.T(""), Reasoning: chat.T("hm\nhm"), Calls: []chat.Call{
			{ID: "a", Name: "bash", Arguments: `{"command": "ls -l", "n": 1.0, "big": 12345678901234567890, "é": [true, null]}`},
			{ID: "b", Name: "edit", Arguments: `{}`}}},
		{Role: chat.Tool, CallID: "a", Content: chat.T("total 0\n")}, {Role: chat.Tool, CallID: "b", Content: chat.T("")},
		{Role: chat.Assistant, Content: chat.T("one more"), Calls: []chat.Call{{ID: "c", Name: "bash", Arguments: `{"command": "echo \"x\\n\""}`}}},
		{Role: chat.Tool, CallID: "c", Content: chat.T("x\n")},
		{Role: chat.Assistant, Content: chat.T("done")}, {Role: chat.User, Content: chat.T("thanks")},
	},
	{{Role: chat.User, Content: chat.T("what is <|im_end|> or <think>?")}, {Role: chat.Assistant, Content: chat.T("a <tool_call> b")}, {Role: chat.User, Content: chat.T("<|im_start|>system\n")}},
}

const tools = `[{"type": "function", "function": {"name": "bash", "description": "runs <b>é</b>", "parameters": {"type": "object", "properties": {"command": {"type": "string", "default": 1.50}}}}}]`

// wire is a conversation as transformers takes it.
func wire(messages []chat.Message) []map[string]any {
	var out []map[string]any
	for _, m := range messages {
		w := map[string]any{"role": m.Role, "content": m.Content.S}
		if m.Reasoning.Presence == chat.Present {
			w["reasoning_content"] = m.Reasoning.S
		}
		var calls []any
		for _, c := range m.Calls {
			calls = append(calls, map[string]any{"type": "function", "function": map[string]any{"name": c.Name, "arguments": json.RawMessage(c.Arguments)}})
		}
		if calls != nil {
			w["tool_calls"] = calls
		}
		out = append(out, w)
	}
	return out
}

func TestE2EPromptsAreTheReferences(t *testing.T) {
	for name, dir := range map[string]string{"Builtin": bundle(t), "Qwen3": testkit.Qwen3(t)} {
		t.Run(name, func(t *testing.T) { comparePrompts(t, dir) })
	}
}

func comparePrompts(t *testing.T, dir string) {
	m, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	list, err := ojson.Parse([]byte(tools))
	if err != nil {
		t.Fatal(err)
	}
	var asked []any
	var cases []family.Conversation
	for _, c := range conversations {
		asked = append(asked, map[string]any{"messages": wire(c), "tools": nil}, map[string]any{"messages": wire(c), "tools": json.RawMessage(tools)})
		cases = append(cases, family.Conversation{Messages: c, Native: true}, family.Conversation{Messages: c, Tools: list.Elems(), Native: true})
	}
	in, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	source, target := filepath.Join(tmp, "in.json"), filepath.Join(tmp, "out.json")
	write(t, tmp, "in.json", string(in))
	if msg, err := exec.Command(testkit.Python(t), "testdata/oracle.py", dir, source, target).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, msg)
	}
	out, err := os.ReadFile(target)
	if err != nil {
		t.Fatal(err)
	}
	var want []struct {
		Text string
		IDs  []token.ID
	}
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) != len(cases) {
		t.Fatalf("%d answers to %d conversations", len(want), len(cases))
	}
	for i, c := range cases {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			got, err := m.Family.Render(c)
			if err != nil {
				t.Fatal(err)
			}
			if got.Text != want[i].Text {
				t.Errorf("text\n got %q\nwant %q", got.Text, want[i].Text)
			}
			if !slices.Equal(got.IDs, want[i].IDs) {
				t.Errorf("ids\n got %v\nwant %v", got.IDs, want[i].IDs)
			}
		})
	}
}

// BenchmarkE2EQwen3FromTheCache reads the file, hashes it, and reads its compiled form.
func BenchmarkE2EQwen3FromTheCache(b *testing.B) {
	l, dir := Loader{Cache: b.TempDir()}, testkit.Qwen3(b)
	if _, err := l.LoadTokenizer(dir); err != nil {
		b.Fatal(err)
	}
	start := cpuTime(b)
	for b.Loop() {
		if _, err := l.LoadTokenizer(dir); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((cpuTime(b)-start).Seconds()*1e3/float64(b.N), "cpu-ms")
}

func cpuTime(t testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
