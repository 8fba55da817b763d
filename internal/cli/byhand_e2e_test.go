//go:build e2e

package cli_test

import (
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/testkit"
)

// reference asks Python for its answers to lines.
func reference(t *testing.T, what, dir, lines string) []any {
	t.Helper()
	c := exec.Command(testkit.Python(t), "testdata/reference.py", what, dir)
	var errs strings.Builder
	c.Stdin, c.Stderr = strings.NewReader(lines), &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	return values(t, string(out))
}

func values(t *testing.T, lines string) (out []any) {
	t.Helper()
	for l := range strings.Lines(lines) {
		var v any
		if err := json.Unmarshal([]byte(l), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

func answers(t *testing.T, lines string, args ...string) []any {
	t.Helper()
	out, stderr, code := tell(strings.NewReader(lines), args...)
	if code != 0 {
		t.Fatal(stderr)
	}
	return values(t, out)
}

func jsonLine(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func TestE2ELinesAreEncodedAsTheReferenceDoes(t *testing.T) {
	dir := testkit.Qwen3(t)
	r := rand.New(rand.NewPCG(1, 2))
	parts := []string{" ", "\n", "\t\t", "the", "é", "e\u0301", "日本", "🤖", "<|im_end|>", "<think>", "<|im", "12345", "it's", "{\"a\": 1}", "\u00a0", "\u2028", "\x00"}
	var lines, texts strings.Builder
	for range 2000 {
		var s strings.Builder
		for range r.IntN(12) {
			s.WriteString(parts[r.IntN(len(parts))])
		}
		lines.WriteString(jsonLine(t, s.String()))
	}
	want := reference(t, "encode", dir, lines.String())
	got := answers(t, lines.String(), "encode", "--jsonl", "--model", dir)
	if len(got) != 2000 {
		t.Fatalf("%d answers", len(got))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, ids := range got {
		texts.WriteString(jsonLine(t, ids))
	}
	if n := len(answers(t, texts.String(), "decode", "--jsonl", "--model", dir)); n != 2000 {
		t.Errorf("%d texts", n)
	}
}

func TestE2ELinesAreRenderedAsTheReferenceDoes(t *testing.T) {
	dir := testkit.Qwen3(t)
	const tools = `"tools": [{"type": "function", "function": {"name": "bash", "description": "<b>é", "parameters": {"n": 1.50}}}]`
	messages := []string{
		`{"role": "user", "content": "hi <|im_end|>"}`,
		`{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}`,
		`{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [
			{"id": "a", "type": "function", "function": {"name": "bash", "arguments": {"z": 1.0, "a": [1e7, null, "é<think>"]}}}]},
			{"role": "tool", "tool_call_id": "a", "content": "<tool_call>"}`,
		`{"role": "user", "content": "q"}, {"role": "assistant", "content": "<think>\nx\n</think>\n\ny"}, {"role": "user", "content": "z"}`,
	}
	var lines strings.Builder
	for _, m := range messages {
		for _, rest := range []string{"", `, "add_generation_prompt": false`, `, "add_generation_prompt": true, ` + tools, `, "template_kwargs": {"enable_thinking": false}, ` + tools} {
			lines.WriteString(strings.ReplaceAll(`{"messages": [`+m+`]`+rest+"}", "\n", " ") + "\n")
		}
	}
	want := reference(t, "render", dir, lines.String())
	got := answers(t, lines.String(), "render", "--jsonl", "--native", "--model", dir)
	differ := 0
	for i, v := range got {
		m := v.(map[string]any)
		differ += len(m["differences"].([]any))
		delete(m, "differences")
		if d := cmp.Diff(want[i], v); d != "" {
			t.Errorf("line %d: %s", i+1, d)
		}
	}
	if len(got) != 16 || differ < 8 {
		t.Errorf("%d prompts, %d differences", len(got), differ)
	}
	for i, v := range answers(t, lines.String(), "render", "--jsonl", "--model", dir) {
		m, ref := v.(map[string]any), want[i].(map[string]any)
		// The last conversation's template cuts content at a think tag, which there is none of where bodies are text.
		if last := i >= 12; (m["text"] == ref["text"]) == last {
			t.Errorf("line %d: %q for %q", i+1, m["text"], ref["text"])
		}
	}
}
