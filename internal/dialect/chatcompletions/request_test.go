package chatcompletions

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/dialect"
	"github.com/tito-rl/tito/internal/fault"
)

const user = `{"role":"user","content":"hi"}`

func TestWhatCannotBeDoneExactlyIsRefusedByName(t *testing.T) {
	tool := `"tools":[{"type":"function","function":{"name":"f"}}],`
	for _, c := range []struct {
		field, param string // a fragment of the body, and the field that the error names
		code         fault.Code
	}{
		{`"n":2`, "n", fault.UnsupportedField},
		{`"n":0`, "n", fault.BadRequest},
		{`"logit_bias":{"1":5}`, "logit_bias", fault.UnsupportedField},
		{`"stop":"END"`, "stop", fault.UnsupportedField},
		{`"stop":["a"]`, "stop", fault.UnsupportedField},
		{`"response_format":{"type":"json_object"}`, "response_format", fault.UnsupportedField},
		{`"response_format":{"type":"json_schema","json_schema":{}}`, "response_format", fault.UnsupportedField},
		{tool + `"tool_choice":"required"`, "tool_choice", fault.UnsupportedField},
		{tool + `"tool_choice":"none"`, "tool_choice", fault.UnsupportedField},
		{`"tool_choice":"none",` + strings.TrimSuffix(tool, ","), "tool_choice", fault.UnsupportedField},
		{tool + `"tool_choice":{"type":"function","function":{"name":"f"}}`, "tool_choice", fault.UnsupportedField},
		{`"tools":[{"type":"custom","custom":{"name":"f"}}]`, "tools[0].type", fault.UnsupportedField},
		{`"tools":[{"type":"function","function":{}}]`, "tools[0].function.name", fault.BadRequest},
		{`"tools":[1]`, "tools[0]", fault.BadRequest},
		{`"tools":{}`, "tools", fault.BadRequest},
		{`"modalities":["text","audio"]`, "modalities", fault.UnsupportedField},
		{`"audio":{"voice":"x"}`, "audio", fault.UnsupportedField},
		{`"functions":[{"name":"f"}]`, "functions", fault.UnsupportedField},
		{`"function_call":{"name":"f"}`, "function_call", fault.UnsupportedField},
		{`"prediction":{"type":"content"}`, "prediction", fault.UnsupportedField},
		{`"web_search_options":{}`, "web_search_options", fault.UnsupportedField},
		{`"top_logprobs":3`, "top_logprobs", fault.UnsupportedField},
		{`"guided_json":{}`, "guided_json", fault.UnsupportedField},
		{`"continue_final_message":true`, "continue_final_message", fault.UnsupportedField},
		{`"chat_template_kwargs":{"messages":[]}`, "chat_template_kwargs.messages", fault.UnsupportedField},
		{`"max_tokens":0`, "max_tokens", fault.BadRequest},
		{`"max_tokens":-1`, "max_tokens", fault.BadRequest},
		{`"max_tokens":1.5`, "max_tokens", fault.BadRequest},
		{`"max_completion_tokens":"many"`, "max_completion_tokens", fault.BadRequest},
		{`"temperature":"hot"`, "temperature", fault.BadRequest},
		{`"seed":1.5`, "seed", fault.BadRequest},
		{`"stream":"yes"`, "stream", fault.BadRequest},
		{`"stream_options":{"include_usage":1}`, "stream_options.include_usage", fault.BadRequest},
		{`"model":5`, "model", fault.BadRequest},
		{`"model":"a","model":"b"`, "model", fault.BadRequest},
		{`"tools":[{"type":"function","function":{"name":"f","description":"\ud83d"}}]`, "tools[0]", fault.BadRequest},
	} {
		_, err := Dialect{}.ParseRequest([]byte(`{"messages":[` + user + `],` + c.field + `}`))
		if fault.CodeOf(err) != c.code || dialect.Param(err) != c.param {
			t.Errorf("%s: %v names %q", c.field, fault.CodeOf(err), dialect.Param(err))
		}
	}
}

func TestBadMessagesAreRefusedByTheirPlace(t *testing.T) {
	for _, c := range []struct {
		message, param string
		code           fault.Code
	}{
		{`5`, "messages[1]", fault.BadRequest},
		{`{"content":"x"}`, "messages[1].role", fault.BadRequest},
		{`{"role":"robot","content":"x"}`, "messages[1].role", fault.BadRequest},
		{`{"role":"function","name":"f","content":"x"}`, "messages[1].role", fault.UnsupportedField},
		{`{"role":"user","content":5}`, "messages[1].content", fault.BadRequest},
		{`{"role":"user","role":"tool","content":"x"}`, "messages[1].role", fault.BadRequest},
		{`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}`, "messages[1].content[1]", fault.UnsupportedPart},
		{`{"role":"user","content":[{"type":"input_audio"}]}`, "messages[1].content[0]", fault.UnsupportedPart},
		{`{"role":"user","content":[{"type":"file"}]}`, "messages[1].content[0]", fault.UnsupportedPart},
		{`{"role":"user","content":[{"type":"text"}]}`, "messages[1].content[0].text", fault.BadRequest},
		{`{"role":"user","content":["a"]}`, "messages[1].content[0]", fault.BadRequest},
		{`{"role":"user","content":"\ud83d"}`, "messages[1].content", fault.BadRequest},
		{`{"role":"user","content":[{"type":"text","text":"a\uDE00b"}]}`, "messages[1].content[0].text", fault.BadRequest},
		{`{"role":"assistant","refusal":"no"}`, "messages[1].refusal", fault.UnsupportedField},
		{`{"role":"assistant","function_call":{"name":"f"}}`, "messages[1].function_call", fault.UnsupportedField},
		{`{"role":"assistant","reasoning_content":["x"]}`, "messages[1].reasoning_content", fault.BadRequest},
		{`{"role":"assistant","reasoning_content":"\udc00"}`, "messages[1].reasoning_content", fault.BadRequest},
		{`{"role":"assistant","tool_calls":{}}`, "messages[1].tool_calls", fault.BadRequest},
		{`{"role":"assistant","tool_calls":[{"type":"custom"}]}`, "messages[1].tool_calls[0].type", fault.UnsupportedField},
		{`{"role":"assistant","tool_calls":[{"id":"a"}]}`, "messages[1].tool_calls[0].function", fault.BadRequest},
		{`{"role":"assistant","tool_calls":[{"id":"a","function":{"arguments":""}}]}`, "messages[1].tool_calls[0].function.name", fault.BadRequest},
		{`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}]}`, "messages[1].tool_calls[0].function.arguments", fault.BadRequest},
		{`{"role":"tool","tool_call_id":5,"content":""}`, "messages[1].tool_call_id", fault.BadRequest},
	} {
		_, err := Dialect{}.ParseRequest([]byte(`{"messages":[` + user + `,` + c.message + `]}`))
		if fault.CodeOf(err) != c.code || dialect.Param(err) != c.param {
			t.Errorf("%s: %v names %q", c.message, fault.CodeOf(err), dialect.Param(err))
		}
	}
}

func TestARequestThatIsNoneIsRefused(t *testing.T) {
	for _, body := range []string{``, `{`, `[]`, `null`, `{}`, `{"messages":[]}`, `{"messages":null}`, "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}"} {
		if _, err := (Dialect{}).ParseRequest([]byte(body)); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestValuesThatAskForNothingPass(t *testing.T) {
	body := `{"messages":[` + user + `],"n":1,"stop":null,"logit_bias":{},"response_format":{"type":"text"},"modalities":["text"],` +
		`"tools":[],"tool_choice":"none","functions":[],"function_call":"auto","top_logprobs":0,"ignore_eos":false,"echo":false,` +
		`"stop_token_ids":[],"audio":null,"temperature":null,"max_tokens":null,"stream_options":null,"prediction":null}`
	q, err := Dialect{}.ParseRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Asked)+len(q.Ignored)+len(q.Tools) != 0 {
		t.Errorf("recorded %v %v %v", q.Asked, q.Ignored, q.Tools)
	}
}

func TestARawMessageIsItsExactBytes(t *testing.T) {
	msg := `{ "content" : "caf\u00e9 \/", "role":"user" , "x":1.0}`
	q, err := Dialect{}.ParseRequest([]byte(`{"messages":[ ` + msg + ` ]}`))
	if err != nil {
		t.Fatal(err)
	}
	if m := q.Messages[0]; string(m.Raw) != msg || m.Content != chat.T("café /") {
		t.Errorf("%q %q", m.Raw, m.Content.S)
	}
}

func TestAVeryLargeRequestIsRead(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`{"messages":[`)
	text := strings.Repeat("a line of text that says \\\"hello\\\"\\n", 1<<10)
	n := 0
	for b.Len() < 64<<20 {
		if n > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"role":"user","content":"` + text + `"}`)
		n++
	}
	b.WriteString(`]}`)
	q, err := Dialect{}.ParseRequest(b.Bytes())
	if err != nil || len(q.Messages) != n {
		t.Fatalf("%d messages of %d: %v", len(q.Messages), n, err)
	}
}

func TestContextOverflowIsSaidInTheWordsHarnessesKnow(t *testing.T) {
	f := Dialect{}.Failure(dialect.ContextLength(32768, 30000, 4096))
	if f.Status != 400 || f.Retry || !bytes.Contains(f.Body, []byte(`maximum context length is 32768 tokens. However, `)) ||
		!bytes.Contains(f.Body, []byte(`"code":"context_length_exceeded"`)) {
		t.Errorf("%d %s", f.Status, f.Body)
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"f"}}],"stream":true,"n":1}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","content":null,"reasoning":"r","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{"}}]},` +
		`{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"\ud83d\ude00"}]}],"chat_template_kwargs":{"a":1},"reasoning_effort":"low"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := Dialect{}.ParseRequest(b)
		if err != nil {
			if h := fault.CodeOf(err).Info().HTTP; h < 400 || h > 499 {
				t.Fatalf("%v is answered with %d", err, h)
			}
			return
		}
		if len(q.Messages) == 0 || q.N != 1 {
			t.Fatalf("%+v", q)
		}
		for _, m := range q.Messages {
			if m.Role == "" || len(m.Raw) == 0 || !bytes.Contains(b, m.Raw) {
				t.Fatalf("%+v", m)
			}
		}
	})
}

func BenchmarkParseRequest(b *testing.B) {
	body := []byte(`{"messages":[` + strings.TrimSuffix(strings.Repeat(`{"role":"tool","tool_call_id":"x","content":"`+strings.Repeat(`some output\n`, 400)+`"},`, 100), ",") + `]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := (Dialect{}).ParseRequest(body); err != nil {
			b.Fatal(err)
		}
	}
}
