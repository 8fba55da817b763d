package explain

import (
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/trajectory"
)

func itoa(n int) string { return strconv.Itoa(n) }

// The fields that an id can belong to, beside those of a message.
const (
	fieldContent   = "content"
	fieldReasoning = "reasoning"
	fieldArguments = "arguments"
	fieldName      = "name"
	fieldEnd       = "end"
	fieldScaffold  = "scaffold"
)

// message is a request's message as far as its bytes were kept.
type message struct {
	hash  trajectory.Hash
	role  string
	value ojson.Value // zero where the bytes were not kept
	texts []text
}

// text is one string of a message, by field.
type text struct{ field, s string }

func messagesOf(t *trajectory.Tree, seq trajectory.Seq) []message {
	hashes := t.Messages(seq)
	out := make([]message, len(hashes))
	for i, h := range hashes {
		out[i].hash = h
		raw, ok := t.Blob(h)
		if !ok {
			continue
		}
		v, err := ojson.Parse(raw)
		if err != nil || v.Kind() != ojson.Object {
			continue
		}
		out[i].value = v
		if role, ok := v.Get("role"); ok {
			out[i].role = role.Str()
		}
		for _, m := range v.Members() {
			collect(&out[i].texts, m, fieldContent)
		}
	}
	return out
}

// collect gathers the strings of a message by field, in order, whatever the wire API: the keys tell.
func collect(out *[]text, m ojson.Member, field string) {
	switch m.Key {
	case "role", "id", "type", "tool_call_id", "call_id", "tool_use_id", "signature":
		return
	case "reasoning", "reasoning_content", "thinking":
		field = fieldReasoning
	case "arguments", "input":
		field = fieldArguments
	case "name":
		field = fieldName
	}
	switch m.Value.Kind() {
	case ojson.String:
		if s := m.Value.Str(); s != "" {
			*out = append(*out, text{field, s})
		}
	case ojson.Array:
		for _, e := range m.Value.Elems() {
			collect(out, ojson.Member{Value: e}, field)
		}
	case ojson.Object:
		if field == fieldArguments { // an object of arguments is one text
			*out = append(*out, text{field, string(m.Value.Raw())})
			return
		}
		for _, e := range m.Value.Members() {
			collect(out, e, field)
		}
	}
}

// field joins a message's texts of one field.
func (m *message) field(name string) string {
	var parts []string
	for _, t := range m.texts {
		if t.field == name {
			parts = append(parts, t.s)
		}
	}
	return strings.Join(parts, "\n")
}

// place finds the message of the request and the field that the first differing id belongs to.
func (d *diff) place() (index int, field string) {
	if d.c.Kind == trajectory.Root {
		return d.newMessage(), ""
	}
	if d.owner != nil {
		field = d.sampledField()
		for _, e := range d.t.Echoes(d.n.Seq) {
			if e.Turn == d.owner.Seq {
				return e.Message, field
			}
		}
	}
	if d.o.Bodies != nil {
		if i, f, ok := d.inBodies(); ok {
			return i, either(field, f)
		}
	}
	i, f := d.inText()
	return i, either(field, f)
}

// newMessage is the first message of the request that the nearest turn's request did not have there, -1 = none.
func (d *diff) newMessage() int {
	switch {
	case d.base == 0:
		return -1
	case d.edited >= 0:
		return d.edited
	case len(d.nowMsgs) > len(d.wasMsgs):
		return len(d.wasMsgs)
	}
	return -1
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// sampledField is the part of the owner's reply in which the difference lies.
func (d *diff) sampledField() string {
	n := d.owner
	end := len(n.Completion)
	if n.Stop >= 0 {
		end--
	}
	if d.ownerAt >= end || strings.TrimSpace(d.o.Decode(n.Completion[d.ownerAt:end])) == "" && d.o.Decode(n.Completion) != "" {
		return fieldEnd
	}
	before := d.o.Decode(n.Completion[:d.ownerAt])
	for _, c := range n.Reply.Calls {
		if c.Span.Start > d.ownerAt || d.ownerAt >= c.Span.End {
			continue
		}
		block := d.o.Decode(n.Completion[c.Span.Start:c.Span.End])
		done := len(d.o.Decode(n.Completion[c.Span.Start:d.ownerAt]))
		switch at := strings.Index(block, c.Arguments); {
		case at >= 0 && c.Arguments != "" && at <= done && done < at+len(c.Arguments):
			return fieldArguments
		case c.Name != "" && strings.Contains(block[:min(done, len(block))], c.Name):
			return fieldArguments
		}
		return fieldName
	}
	whole := d.o.Decode(n.Completion)
	inside := func(s string) bool {
		at := strings.Index(whole, s)
		return s != "" && at >= 0 && at <= len(before) && len(before) < at+len(s)
	}
	switch {
	case inside(strings.TrimSpace(n.Reply.Reasoning.S)):
		return fieldReasoning
	case inside(strings.TrimSpace(n.Reply.Content.S)):
		return fieldContent
	}
	return fieldScaffold
}

func (d *diff) inBodies() (index int, field string, ok bool) {
	index = -1
	for _, b := range d.o.Bodies(d.n.Seq) {
		if b.Start > d.at {
			break
		}
		index, field, ok = b.Message, fieldScaffold, true
		if d.at < b.End {
			return b.Message, b.Field, true
		}
	}
	return index, field, ok
}

// inText looks for each message's texts, in order, in the decoded prompt. What lies after the last text that was found
// before the difference belongs to that message.
func (d *diff) inText() (index int, field string) {
	prompt := d.o.Decode(d.now)
	offset := len(d.o.Decode(d.now[:d.at]))
	index, from := -1, 0
	for i := range d.nowMsgs {
		for _, t := range d.nowMsgs[i].texts {
			s := strings.TrimSpace(t.s)
			at := strings.Index(prompt[from:], s)
			if s == "" || at < 0 {
				continue
			}
			at += from
			if at > offset {
				return index, field
			}
			from = at + len(s)
			index, field = i, fieldScaffold
			if offset < from {
				return i, t.field
			}
		}
	}
	return index, field
}
