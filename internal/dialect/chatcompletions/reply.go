package chatcompletions

import (
	"bytes"
	"math"
	"strconv"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/dialect"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
)

// writer appends JSON. Keys and fixed parts are written as they are.
type writer struct{ b []byte }

func (w *writer) raw(s string) { w.b = append(w.b, s...) }
func (w *writer) str(s string) { w.b = ojson.AppendString(w.b, s) }
func (w *writer) int(n int64)  { w.b = strconv.AppendInt(w.b, n, 10) }
func (w *writer) num(f float32) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		w.raw("null")
		return
	}
	w.b = strconv.AppendFloat(w.b, float64(f), 'g', -1, 32)
}

func (w *writer) head(object string, m dialect.Meta) {
	w.raw(`{"id":`)
	w.str(m.ID)
	w.raw(`,"object":`)
	w.str(object)
	w.raw(`,"created":`)
	w.int(m.Created)
	w.raw(`,"model":`)
	w.str(m.Model)
}

func (w *writer) call(c chat.Call) {
	w.raw(`"id":`)
	w.str(c.ID)
	w.raw(`,"type":"function","function":{"name":`)
	w.str(c.Name)
	w.raw(`,"arguments":`)
	w.str(c.Arguments)
	w.raw(`}}`)
}

func (w *writer) usage(u chat.Usage) {
	w.raw(`{"prompt_tokens":`)
	w.int(int64(u.Prompt))
	w.raw(`,"completion_tokens":`)
	w.int(int64(u.Completion))
	w.raw(`,"total_tokens":`)
	w.int(int64(u.Prompt + u.Completion))
	w.raw(`,"prompt_tokens_details":{"cached_tokens":`)
	w.int(int64(u.Cached))
	w.raw(`}}`)
}

// logprobs writes null where none were asked for.
func (w *writer) logprobs(q chat.Request, ts []chat.TokenLogprob) {
	if !q.WantLogprobs || ts == nil {
		w.raw("null")
		return
	}
	w.raw(`{"content":[`)
	for i, t := range ts {
		if i > 0 {
			w.raw(",")
		}
		w.raw(`{"token":`)
		w.str(string(bytes.ToValidUTF8(t.Bytes, []byte("\uFFFD"))))
		w.raw(`,"logprob":`)
		w.num(t.Logprob)
		w.raw(`,"bytes":[`)
		for j, b := range t.Bytes {
			if j > 0 {
				w.raw(",")
			}
			w.int(int64(b))
		}
		w.raw(`],"top_logprobs":[]}`)
	}
	w.raw(`],"refusal":null}`)
}

// finish is the reason that the client is told: a reply that stopped with calls is "tool_calls".
func finish(r chat.Reply) string {
	switch {
	case r.Finish == chat.FinishLength:
		return string(chat.FinishLength)
	case len(r.Calls) > 0:
		return string(chat.FinishToolCalls)
	}
	return string(chat.FinishStop)
}

// Reply encodes a whole answer. Content is null where there are only calls, "" where there is nothing at all.
func (Dialect) Reply(m dialect.Meta, q chat.Request, r chat.Reply) []byte {
	w := &writer{}
	w.head("chat.completion", m)
	w.raw(`,"choices":[{"index":0,"message":{"role":"assistant","content":`)
	if r.Content.Empty() && len(r.Calls) > 0 {
		w.raw("null")
	} else {
		w.str(r.Content.S)
	}
	if !r.Reasoning.Empty() {
		w.raw(`,"reasoning_content":`)
		w.str(r.Reasoning.S)
	}
	for i, c := range r.Calls {
		w.raw([]string{`,"tool_calls":[{`, `,{`}[min(i, 1)])
		w.call(c)
	}
	if len(r.Calls) > 0 {
		w.raw("]")
	}
	w.raw(`},"logprobs":`)
	w.logprobs(q, r.Logprobs)
	w.raw(`,"finish_reason":`)
	w.str(finish(r))
	w.raw(`}],"usage":`)
	w.usage(r.Usage)
	w.raw("}")
	return w.b
}

// Stream starts a streamed answer.
func (Dialect) Stream(m dialect.Meta, q chat.Request) dialect.Stream { return &stream{meta: m, req: q} }

type stream struct {
	meta               dialect.Meta
	req                chat.Request
	begun              bool
	reasoning, content int // bytes sent
}

func (s *stream) KeepAlive() []byte { return []byte(": keep-alive\n\n") }

func (s *stream) Reasoning(text string) []byte {
	s.reasoning += len(text)
	w := &writer{}
	s.text(w, "reasoning_content", text)
	return w.b
}

func (s *stream) Content(text string) []byte {
	s.content += len(text)
	w := &writer{}
	s.text(w, "content", text)
	return w.b
}

func (s *stream) text(w *writer, key, text string) {
	if text == "" {
		return
	}
	s.chunk(w, func() { w.raw(`"` + key + `":`); w.str(text) }, "", nil)
}

// chunk writes one event; its first also says who speaks.
func (s *stream) chunk(w *writer, delta func(), finish string, logprobs []chat.TokenLogprob) {
	w.raw("data: ")
	w.head("chat.completion.chunk", s.meta)
	w.raw(`,"choices":[{"index":0,"delta":{`)
	if !s.begun {
		s.begun = true
		w.raw(`"role":"assistant"`)
		if delta != nil {
			w.raw(",")
		}
	}
	if delta != nil {
		delta()
	}
	w.raw(`},"logprobs":`)
	w.logprobs(s.req, logprobs)
	w.raw(`,"finish_reason":`)
	if finish == "" {
		w.raw("null")
	} else {
		w.str(finish)
	}
	w.raw("}]")
	if s.req.IncludeUsage {
		w.raw(`,"usage":null`)
	}
	w.raw("}\n\n")
}

func (s *stream) Finish(r chat.Reply) []byte {
	w := &writer{}
	s.text(w, "reasoning_content", r.Reasoning.S[min(s.reasoning, len(r.Reasoning.S)):])
	s.text(w, "content", r.Content.S[min(s.content, len(r.Content.S)):])
	for i, c := range r.Calls {
		s.chunk(w, func() {
			w.raw(`"tool_calls":[{"index":`)
			w.int(int64(i))
			w.raw(`,`)
			w.call(c)
			w.raw("]")
		}, "", nil)
	}
	s.chunk(w, nil, finish(r), r.Logprobs)
	if s.req.IncludeUsage {
		w.raw("data: ")
		w.head("chat.completion.chunk", s.meta)
		w.raw(`,"choices":[],"usage":`)
		w.usage(r.Usage)
		w.raw("}\n\n")
	}
	w.raw("data: [DONE]\n\n")
	return w.b
}

// Failure encodes err in the API's error object. Its type is "invalid_request_error" on every 4xx; among the rest only
// what may succeed later is a "server_error", because harnesses try again by that word.
func (Dialect) Failure(err error) dialect.Failure {
	code := fault.CodeOf(err)
	info := code.Info()
	kind := "invalid_request_error"
	switch {
	case info.HTTP >= 500 && info.Retry:
		kind = "server_error"
	case info.HTTP >= 500:
		kind = "api_error"
	}
	w := &writer{}
	w.raw(`{"error":{"message":`)
	w.str(err.Error())
	w.raw(`,"type":`)
	w.str(kind)
	w.raw(`,"param":`)
	if p := dialect.Param(err); p != "" {
		w.str(p)
	} else {
		w.raw("null")
	}
	w.raw(`,"code":`)
	w.str(string(code))
	w.raw("}}")
	return dialect.Failure{Status: info.HTTP, Body: w.b, Retry: info.Retry}
}
