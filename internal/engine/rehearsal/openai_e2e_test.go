//go:build e2e

package rehearsal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/engine/enginetest"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
)

// openaiClient asks with OpenAI's own Python client, whole and as a stream, and prints what it understood.
const openaiClient = `
import json, sys
from openai import OpenAI, BadRequestError
client = OpenAI(base_url=sys.argv[1], api_key="k")
ask = dict(model=client.models.list().data[0].id, prompt=json.loads(sys.argv[2]), max_tokens=100, logprobs=0)
extra = {"return_token_ids": True, "request_id": sys.argv[3]}
one = client.completions.create(**ask, extra_body=extra)
c = one.choices[0]
print(json.dumps({"ids": c.token_ids, "prompt": c.prompt_token_ids, "lps": c.logprobs.token_logprobs, "finish": c.finish_reason, "text": c.text, "n": one.usage.completion_tokens}))
ids, lps, text, finish, prompt, n = [], [], "", None, None, 0
for ev in client.completions.create(**ask, stream=True, stream_options={"include_usage": True}, extra_body=extra):
    if ev.usage: n = ev.usage.completion_tokens
    for c in ev.choices:
        ids += c.token_ids; lps += c.logprobs.token_logprobs; text += c.text; finish = c.finish_reason
        prompt = prompt or c.prompt_token_ids
print(json.dumps({"ids": ids, "prompt": prompt, "lps": lps, "finish": finish, "text": text, "n": n}))
try:
    client.completions.create(**{**ask, "max_tokens": 1000000})
except BadRequestError as e:
    print(json.dumps({"text": e.body["message"]}))
`

func TestE2EOpenAIsClientUnderstandsTheServer(t *testing.T) {
	type heard struct {
		IDs    []token.ID
		Prompt []token.ID
		Lps    []float64
		Finish string
		Text   string
		N      int
	}
	python := testkit.Python(t)
	s := setup(t)
	e := build(t, s)
	srv := httptest.NewServer(e.Handler())
	defer srv.Close()
	prompt := enginetest.Prompt("say hello")
	list, err := json.Marshal(prompt)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		key := fmt.Sprint("key-", i)
		cmd := exec.CommandContext(t.Context(), python, "-c", openaiClient, srv.URL+"/v1", string(list), key)
		cmd.Env = []string{"NO_PROXY=*"}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, &stderr)
		}
		d := json.NewDecoder(bytes.NewReader(out))
		var whole, stream, refused heard
		for _, v := range []*heard{&whole, &stream, &refused} {
			if err := d.Decode(v); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
		}
		r := enginetest.Request(prompt, key)
		r.MaxTokens = 100
		want := enginetest.Collect(t.Context(), e, r)
		if diff := cmp.Diff(whole, stream); diff != "" {
			t.Error(diff)
		}
		if !cmp.Equal(whole.IDs, want.IDs) || !cmp.Equal(whole.Prompt, prompt) || whole.Finish != want.Final.Finish || whole.N != len(want.IDs) {
			t.Errorf("heard %+v, in process %+v", whole, want)
		}
		for j, lp := range whole.Lps {
			if float32(lp) != want.Logprobs[j] {
				t.Errorf("id %d: %v, in process %v", j, lp, want.Logprobs[j])
			}
		}
		if refused.Text == "" {
			t.Error("an overflow is not refused")
		}
	}
}
