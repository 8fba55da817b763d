// Package chatcompletions speaks the OpenAI Chat Completions API, JSON and server-sent events.
//
// What it does with each field of a request is one table, in fields.go: honoured exactly, recorded, or refused by name.
// It adds what engines add to that API: reasoning_content (reasoning is read too) and chat_template_kwargs.
package chatcompletions

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/dialect"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
)

// Dialect is the API. The zero value is ready.
type Dialect struct{}

var _ dialect.Dialect = Dialect{}

// Name is "chat_completions".
func (Dialect) Name() string { return "chat_completions" }

// Path is where calls are posted, below the base URL.
func (Dialect) Path() string { return "/chat/completions" }

// ParseRequest reads a request. See [dialect.Dialect].
func (Dialect) ParseRequest(body []byte) (chat.Request, error) {
	v, err := ojson.Parse(body)
	if err != nil {
		return chat.Request{}, fault.Wrap(fault.BadRequest, err, "the request's body")
	}
	if v.Kind() != ojson.Object {
		return chat.Request{}, bad("", "the request's body must be an object, not %s", v.Kind())
	}
	if k := twice(v); k != "" {
		return chat.Request{}, bad(k, "occurs twice")
	}
	r := reader{req: chat.Request{N: 1}, halves: mayHoldHalves(body)}
	for _, m := range v.Members() {
		if err := r.top(m.Key, m.Value); err != nil {
			return chat.Request{}, err
		}
	}
	if err := r.settle(); err != nil {
		return chat.Request{}, err
	}
	return r.req, nil
}

// reader gathers one request. Fields come in any order, so what depends on two of them waits for settle.
type reader struct {
	req            chat.Request
	maxOld, maxNew int
	effort         ojson.Value
	noCalls        bool
	halves         bool // the body may hold a lone surrogate
}

func (r *reader) settle() error {
	if len(r.req.Messages) == 0 {
		return bad("messages", "must hold at least one message")
	}
	if r.noCalls && len(r.req.Tools) > 0 {
		return cannot(fault.UnsupportedField, "tool_choice", whyCalls)
	}
	r.req.MaxTokens = r.maxNew
	if r.maxNew == 0 {
		r.req.MaxTokens = r.maxOld
	} else if r.maxOld != 0 && r.maxOld != r.maxNew {
		r.req.Ignored = append(r.req.Ignored, ojson.Member{Key: "max_tokens", Value: ojson.IntOf(int64(r.maxOld))})
	}
	if r.effort.IsValid() {
		// Engines hand it to the template, above what chat_template_kwargs says.
		if err := r.text("reasoning_effort", r.effort.Str()); err != nil {
			return err
		}
		var ms []ojson.Member
		for _, m := range r.req.TemplateKwargs.Members() {
			if m.Key != "reasoning_effort" {
				ms = append(ms, m)
			}
		}
		r.req.TemplateKwargs = ojson.ObjectOf(append(ms, ojson.Member{Key: "reasoning_effort", Value: r.effort})...)
	}
	return nil
}

func (r *reader) messages(v ojson.Value) error {
	r.req.Messages = make([]chat.Message, 0, v.Len())
	for i, e := range v.Elems() {
		m, err := r.message(index("messages", i), e)
		if err != nil {
			return err
		}
		r.req.Messages = append(r.req.Messages, m)
	}
	return nil
}

func (r *reader) message(at string, v ojson.Value) (m chat.Message, err error) {
	if v.Kind() != ojson.Object {
		return m, bad(at, "must be an object, not %s", v.Kind())
	}
	if k := twice(v); k != "" {
		return m, bad(at+"."+k, "occurs twice")
	}
	m.Raw = v.Raw()
	if m.Role, err = role(at, v); err != nil {
		return m, err
	}
	if m.Content, m.Parts, err = r.content(at, v); err != nil {
		return m, err
	}
	name, err := r.field(at, v, "name")
	if err != nil {
		return m, err
	}
	m.Name = name.S
	switch m.Role {
	case chat.Tool:
		id, err := r.field(at, v, "tool_call_id")
		m.CallID = id.S
		return m, err
	case chat.Assistant:
		return m, r.assistant(at, v, &m)
	}
	return m, nil
}

func role(at string, v ojson.Value) (chat.Role, error) {
	role, _ := v.Get("role")
	switch s := role.Str(); s {
	case "system", "developer":
		return chat.System, nil
	case "user", "assistant", "tool":
		return chat.Role(s), nil
	case "function":
		return "", cannot(fault.UnsupportedField, at+".role", "use tool results")
	}
	return "", bad(at+".role", "must be system, developer, user, assistant or tool")
}

func (r *reader) assistant(at string, v ojson.Value, m *chat.Message) (err error) {
	if m.Reasoning, err = r.field(at, v, "reasoning_content"); err != nil {
		return err
	}
	if m.Reasoning.Presence != chat.Present {
		other, err := r.field(at, v, "reasoning")
		if err != nil {
			return err
		}
		if other.Presence != chat.Absent {
			m.Reasoning = other
		}
	}
	for _, k := range []string{"refusal", "function_call", "audio"} {
		if f, ok := v.Get(k); ok && f.Kind() != ojson.Null && !isEmpty(f) {
			return cannot(fault.UnsupportedField, at+"."+k, "no template renders it")
		}
	}
	calls, ok := v.Get("tool_calls")
	if !ok || calls.Kind() == ojson.Null {
		return nil
	}
	if calls.Kind() != ojson.Array {
		return bad(at+".tool_calls", "must be an array, not %s", calls.Kind())
	}
	for i, c := range calls.Elems() {
		call, err := r.call(index(at+".tool_calls", i), c)
		if err != nil {
			return err
		}
		m.Calls = append(m.Calls, call)
	}
	return nil
}

func (r *reader) call(at string, v ojson.Value) (c chat.Call, err error) {
	if v.Kind() != ojson.Object {
		return c, bad(at, "must be an object, not %s", v.Kind())
	}
	if t, ok := v.Get("type"); ok && t.Kind() != ojson.Null && t.Str() != "function" {
		return c, cannot(fault.UnsupportedField, at+".type", `only "function" calls can be rendered`)
	}
	f, ok := v.Get("function")
	if !ok || f.Kind() != ojson.Object {
		return c, bad(at+".function", "must be an object")
	}
	id, err := r.field(at, v, "id")
	if err != nil {
		return c, err
	}
	name, err := r.field(at+".function", f, "name")
	if err != nil {
		return c, err
	}
	if name.S == "" {
		return c, bad(at+".function.name", "must be a string that is not empty")
	}
	args, err := r.field(at+".function", f, "arguments")
	if err != nil {
		return c, err
	}
	return chat.Call{ID: id.S, Name: name.S, Arguments: args.S}, nil
}

// content reads a string, null, nothing, or a list of text parts.
func (r *reader) content(at string, msg ojson.Value) (t chat.Text, parts bool, err error) {
	v, ok := msg.Get("content")
	if !ok || v.Kind() != ojson.Array {
		t, err = r.field(at, msg, "content")
		return t, false, err
	}
	texts := make([]string, 0, v.Len())
	for i, p := range v.Elems() {
		at := index(at+".content", i)
		if p.Kind() != ojson.Object {
			return t, true, bad(at, "must be an object, not %s", p.Kind())
		}
		switch kind, _ := p.Get("type"); kind.Str() {
		case "text":
			s, err := r.field(at, p, "text")
			if err != nil {
				return t, true, err
			}
			if s.Presence != chat.Present {
				return t, true, bad(at+".text", "must be a string")
			}
			texts = append(texts, s.S)
		case "":
			return t, true, bad(at+".type", "must be a string that is not empty")
		default:
			return t, true, cannot(fault.UnsupportedPart, at, "a part of type "+strconv.Quote(kind.Str())+" cannot be turned into ids; send text")
		}
	}
	return chat.T(strings.Join(texts, "\n")), true, nil
}

// field reads a string, null or nothing.
func (r *reader) field(at string, v ojson.Value, key string) (chat.Text, error) {
	f, ok := v.Get(key)
	switch {
	case !ok:
		return chat.Text{}, nil
	case f.Kind() == ojson.Null:
		return chat.Text{Presence: chat.Null}, nil
	case f.Kind() != ojson.String:
		return chat.Text{}, bad(at+"."+key, "must be a string, not %s", f.Kind())
	}
	return chat.T(f.Str()), r.text(at+"."+key, f.Str())
}

// text refuses what is no Unicode text: it could not be turned into ids without changing it.
func (r *reader) text(at, s string) error {
	if r.halves && ojson.HasLoneSurrogate(s) {
		return bad(at, "holds half of a surrogate pair (\\ud800 to \\udfff alone), which is no text")
	}
	return nil
}

// whole is text for every string inside v.
func (r *reader) whole(at string, v ojson.Value) error {
	if !r.halves {
		return nil
	}
	for _, e := range v.Elems() {
		if err := r.whole(at, e); err != nil {
			return err
		}
	}
	for _, m := range v.Members() {
		if err := r.text(at, m.Key); err != nil {
			return err
		}
		if err := r.whole(at, m.Value); err != nil {
			return err
		}
	}
	return r.text(at, v.Str())
}

// mayHoldHalves is whether body has an escape of a surrogate at all; few have.
func mayHoldHalves(body []byte) bool {
	return bytes.Contains(body, []byte(`\ud`)) || bytes.Contains(body, []byte(`\uD`))
}

func (r *reader) positive(name string, v ojson.Value, to *int) error {
	n, err := integer(name, v)
	if err == nil && n < 1 {
		return bad(name, "must be at least 1, not %s", v.Num())
	}
	*to = n
	return err
}

func integer(name string, v ojson.Value) (int, error) {
	n, err := strconv.Atoi(v.Num())
	if err != nil {
		return 0, bad(name, "must be an integer, not %s", v.Raw())
	}
	return n, nil
}

// twice is a key that v holds more than once, or "".
func twice(v ojson.Value) string {
	if !v.HasDuplicates() {
		return ""
	}
	seen := map[string]bool{}
	for _, m := range v.Members() {
		if seen[m.Key] {
			return m.Key
		}
		seen[m.Key] = true
	}
	return ""
}

func index(at string, i int) string { return at + "[" + strconv.Itoa(i) + "]" }

func bad(param, format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	if param != "" {
		msg = param + " " + msg
	}
	return &dialect.FieldError{Param: param, Fault: &fault.Error{Code: fault.BadRequest, Msg: msg}}
}

func cannot(code fault.Code, param, why string) error {
	return &dialect.FieldError{Param: param, Fault: &fault.Error{Code: code, Msg: param + " is not supported as sent", Fix: why}}
}
