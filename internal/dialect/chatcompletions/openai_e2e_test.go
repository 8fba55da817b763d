//go:build e2e

package chatcompletions

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/testkit"
)

// client answers the official client with recorded bytes, and says what it made of them.
const client = `
import json, sys
import httpx, openai
for line in sys.stdin:
    c = json.loads(line)
    def answer(request):
        if json.loads(request.content).get("stream"):
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=": keep-alive\n\n" + "\n\n".join(c["sse"]) + "\n\n")
        return httpx.Response(c.get("status", 200), headers={"content-type": "application/json"}, content=c["json"])
    api = openai.OpenAI(api_key="k", base_url="http://test/v1", max_retries=0, http_client=httpx.Client(transport=httpx.MockTransport(answer)))
    ask = dict(model="policy", messages=[{"role": "user", "content": "hi"}])
    if "status" in c:
        try:
            api.chat.completions.create(**ask)
        except openai.APIStatusError as e:
            print(json.dumps({"error": [e.status_code, e.code, e.type]}))
        continue
    r = openai.types.chat.ChatCompletion.model_validate(api.chat.completions.create(**ask).model_dump(), strict=True)
    m = r.choices[0].message
    whole = {"content": m.content or "", "reasoning": getattr(m, "reasoning_content", "") or "", "finish": r.choices[0].finish_reason,
             "calls": [[t.id, t.function.name, t.function.arguments] for t in m.tool_calls or []], "total": r.usage.total_tokens}
    got = {"content": "", "reasoning": "", "finish": None, "calls": [], "total": r.usage.total_tokens}
    for chunk in api.chat.completions.create(stream=True, **ask):
        chunk = openai.types.chat.ChatCompletionChunk.model_validate(chunk.model_dump(), strict=True)
        if chunk.usage:
            got["total"] = chunk.usage.total_tokens
        for ch in chunk.choices:
            got["finish"] = ch.finish_reason or got["finish"]
            got["content"] += ch.delta.content or ""
            got["reasoning"] += getattr(ch.delta, "reasoning_content", "") or ""
            for t in ch.delta.tool_calls or []:
                while len(got["calls"]) <= t.index:
                    got["calls"].append([t.id, t.function.name, ""])
                got["calls"][t.index][2] += t.function.arguments
    print(json.dumps({"whole": whole, "stream": got}))
`

type heard struct {
	Content, Reasoning, Finish string
	Calls                      [][]string
	Total                      int
}

func TestE2ETheOfficialClientReadsWhatIsWritten(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testkit.Root(), "vectors", "wire", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var in bytes.Buffer
	var cases []vector
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var v vector
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		line := map[string]any{"json": v.JSON, "sse": v.SSE}
		switch {
		case v.Error != nil:
			line = map[string]any{"json": v.Error.Body, "status": v.Error.Status}
		case v.Reply == nil:
			continue
		}
		cases = append(cases, v)
		if err := json.NewEncoder(&in).Encode(line); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(testkit.Python(t), "-c", client)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(cases) || len(cases) == 0 {
		t.Fatalf("%d answers to %d cases", len(lines), len(cases))
	}
	for i, v := range cases {
		var got struct {
			Error         []any
			Whole, Stream heard
		}
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatal(err)
		}
		if v.Error != nil {
			if d := cmp.Diff([]any{float64(v.Error.Status), string(v.Error.Code)}, got.Error[:2]); d != "" {
				t.Errorf("%s\n%s", v.About, d)
			}
			continue
		}
		r := v.Reply.chat()
		want := heard{r.Content.S, r.Reasoning.S, finish(r), [][]string{}, r.Usage.Prompt + r.Usage.Completion}
		for _, c := range r.Calls {
			want.Calls = append(want.Calls, []string{c.ID, c.Name, c.Arguments})
		}
		if d := cmp.Diff(want, got.Whole); d != "" {
			t.Errorf("%s (whole)\n%s", v.About, d)
		}
		if d := cmp.Diff(want, got.Stream); d != "" {
			t.Errorf("%s (stream)\n%s", v.About, d)
		}
	}
}
