package chatml

import (
	"slices"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
)

// Render gives the prompt that the model's template makes of c. The template sees what engines hand it for templates
// that take text:
//
//   - messages: role; content, always text ("" for null or absent); reasoning_content where it is present; tool_calls with
//     id, type and function {name, arguments}; tool_call_id; name. Arguments that are a JSON object are handed over as one
//     ("" as an empty one), so that the template spells them; anything else stays the text that came.
//   - tools as they came, or none; documents none; add_generation_prompt true;
//   - then the family's options, then c.Kwargs. Neither may set messages or tools.
//
// A spelling of an added token in a message or a tool stays text, unless c.Native; see [family.Conversation].
func (f *Family) Render(c family.Conversation) (family.Rendered, error) {
	return f.RenderWith(&family.Memo{}, c)
}

// RenderWith is Render that encodes only what memo does not hold already.
func (f *Family) RenderWith(memo *family.Memo, c family.Conversation) (family.Rendered, error) {
	text, mark, err := f.text(c)
	if err != nil {
		return family.Rendered{}, err
	}
	r := family.Rendered{Text: text, IDs: memo.Encode(f.tok, text, mark, f.turn)}
	if mark != 0 {
		r.Text = strings.ReplaceAll(text, string(mark), "")
	}
	return r, nil
}

// text is the template's output, with a mark in every spelling that is to stay text; mark is 0 where there is none.
func (f *Family) text(c family.Conversation) (text string, mark rune, err error) {
	if len(c.Messages) == 0 {
		return "", 0, fault.New(fault.BadRequest, "there are no messages to render")
	}
	if !c.Native {
		if mark, err = f.spell.mark(bodies(c)); err != nil {
			return "", 0, err
		}
	}
	vars := append([]ojson.Member(nil), f.opts.Tokens...)
	vars = append(vars,
		ojson.Member{Key: "messages", Value: f.messages(c, mark)},
		ojson.Member{Key: "tools", Value: f.tools(c.Tools, mark)},
		ojson.Member{Key: "documents", Value: ojson.NullOf()},
		ojson.Member{Key: "add_generation_prompt", Value: ojson.BoolOf(true)})
	for _, kw := range []ojson.Value{f.opts.Kwargs, c.Kwargs} {
		for _, m := range kw.Members() {
			if m.Key == "messages" || m.Key == "tools" {
				return "", 0, fault.New(fault.BadRequest, "template settings may not set %s", m.Key)
			}
			vars = set(vars, m)
		}
	}
	text, err = f.tpl.Render(vars, c.Clock)
	return text, mark, fault.Wrap(fault.TemplateRefused, err, "the chat template")
}

func set(vars []ojson.Member, m ojson.Member) []ojson.Member {
	for i := range vars {
		if vars[i].Key == m.Key {
			vars[i].Value = m.Value
			return vars
		}
	}
	return append(vars, m)
}

// bodies lists every text that came from the harness, in the spelling that it came in.
func bodies(c family.Conversation) []string {
	out := make([]string, 0, 2*len(c.Messages)+len(c.Tools))
	for _, m := range c.Messages {
		out = append(out, m.Content.S)
		for _, s := range []string{m.Reasoning.S, m.Name, m.CallID} {
			if s != "" {
				out = append(out, s)
			}
		}
		for _, k := range m.Calls {
			out = append(out, k.ID, k.Name, k.Arguments)
		}
	}
	for _, t := range c.Tools {
		out = append(out, string(t.Raw()))
	}
	return out
}

func (f *Family) tools(tools []ojson.Value, mark rune) ojson.Value {
	if len(tools) == 0 {
		return ojson.NullOf()
	}
	if mark == 0 {
		return ojson.ArrayOf(tools...)
	}
	return mapStrings(ojson.ArrayOf(tools...), func(s string) string { return f.spell.protect(s, mark, nil) })
}

func (f *Family) messages(c family.Conversation, mark rune) ojson.Value {
	out := make([]ojson.Value, len(c.Messages))
	for i, m := range c.Messages {
		var s said
		if ids, ok := c.Sampled[i]; ok && mark != 0 && f.spell.any(bodies(family.Conversation{Messages: []chat.Message{m}})) {
			s = f.said(ids, mark, m)
		}
		out[i] = f.message(m, mark, s)
	}
	return ojson.ArrayOf(out...)
}

func (f *Family) message(m chat.Message, mark rune, s said) ojson.Value {
	text := func(t string, k spoken) ojson.Value { return ojson.StringOf(f.spell.protect(t, mark, k)) }
	out := []ojson.Member{
		{Key: "role", Value: ojson.StringOf(string(m.Role))},
		{Key: "content", Value: text(m.Content.S, s.content)},
	}
	if m.Reasoning.Presence == chat.Present {
		out = append(out, ojson.Member{Key: "reasoning_content", Value: text(m.Reasoning.S, s.reasoning)})
	}
	if len(m.Calls) > 0 {
		calls := make([]ojson.Value, len(m.Calls))
		for i, c := range m.Calls {
			var k spoken
			if i < len(s.calls) {
				k = s.calls[i]
			}
			name := text(c.Name, k)
			calls[i] = ojson.ObjectOf(
				ojson.Member{Key: "id", Value: text(c.ID, nil)},
				ojson.Member{Key: "type", Value: ojson.StringOf("function")},
				ojson.Member{Key: "function", Value: ojson.ObjectOf(
					ojson.Member{Key: "name", Value: name},
					ojson.Member{Key: "arguments", Value: f.arguments(c.Arguments, mark, k)})})
		}
		out = append(out, ojson.Member{Key: "tool_calls", Value: ojson.ArrayOf(calls...)})
	}
	if m.CallID != "" {
		out = append(out, ojson.Member{Key: "tool_call_id", Value: text(m.CallID, nil)})
	}
	if m.Name != "" {
		out = append(out, ojson.Member{Key: "name", Value: text(m.Name, nil)})
	}
	return ojson.ObjectOf(out...)
}

// arguments hands a JSON object over as one, anything else as the text that came.
func (f *Family) arguments(args string, mark rune, k spoken) ojson.Value {
	v, ok := object(args)
	switch {
	case !ok:
		return ojson.StringOf(f.spell.protect(args, mark, k))
	case mark == 0:
		return v
	}
	return mapStrings(v, func(s string) string { return f.spell.protect(s, mark, k) })
}

// object reads arguments as the JSON object that they are, if they are; "" is an empty one. One with half of a surrogate
// pair in a string is none: it could not be spelled again.
func object(args string) (ojson.Value, bool) {
	if args == "" {
		return ojson.ObjectOf(), true
	}
	v, err := ojson.Parse([]byte(args))
	if err != nil || v.Kind() != ojson.Object {
		return ojson.Value{}, false
	}
	whole := true
	if strings.Contains(args, `\u`) {
		mapStrings(v, func(s string) string {
			whole = whole && !ojson.HasLoneSurrogate(s)
			return s
		})
	}
	return v, whole
}

// said is what a completion said, by the field that it was read into.
type said struct {
	reasoning, content spoken
	calls              []spoken
}

// said reads the completion that m echoes again, for the spellings in it. Neither prompt nor tools are at hand: m says
// whether calls were read, and reasoning that ends without having begun began in the prompt.
func (f *Family) said(ids []token.ID, mark rune, m chat.Message) said {
	p := f.parser(family.ParseInput{NoCalls: len(m.Calls) == 0})
	tag := slices.IndexFunc(ids, func(id token.ID) bool { return f.thinks && (id == f.think || id == f.thought) })
	if tag >= 0 && ids[tag] == f.thought && !m.Reasoning.Empty() {
		p.mode = inReasoning
	}
	p.Add(ids)
	p.Done(true)
	hear := func(t *body) spoken {
		k := spoken{}
		f.spell.listen(k, t.marked(mark), mark)
		return k
	}
	s := said{reasoning: hear(&p.reasoning), content: hear(&p.content)}
	for _, b := range p.called {
		for _, a := range f.read(b.marked(mark), nil) {
			k := spoken{}
			f.spell.listen(k, a.Name, mark)
			if v, ok := object(a.Arguments); ok {
				mapStrings(v, func(t string) string { f.spell.listen(k, t, mark); return t })
			} else {
				f.spell.listen(k, a.Arguments, mark)
			}
			s.calls = append(s.calls, k)
		}
	}
	return s
}

// Bodies finds each message's texts in the prompt, in order; a text that the template changed is left out. It gives nil
// where the ids do not spell the text byte for byte.
func (f *Family) Bodies(c family.Conversation, r family.Rendered) []family.Body {
	starts := make([]int, 0, len(r.IDs)+1) // byte at which each id starts
	at := 0
	for _, id := range r.IDs {
		starts = append(starts, at)
		b, _ := f.tok.Bytes(id)
		at += len(b)
	}
	if at != len(r.Text) {
		return nil
	}
	starts = append(starts, at)
	var out []family.Body
	cursor, id := 0, 0
	find := func(msg int, field, s string) {
		i := strings.Index(r.Text[cursor:], s)
		if s == "" || i < 0 {
			return
		}
		from, to := cursor+i, cursor+i+len(s)
		for starts[id+1] <= from {
			id++
		}
		end := id
		for starts[end] < to {
			end++
		}
		out = append(out, family.Body{Span: token.Span{Start: id, End: end}, Message: msg, Field: field})
		cursor = to
	}
	for i, m := range c.Messages {
		find(i, "reasoning", strings.Trim(m.Reasoning.S, "\n"))
		find(i, "content", m.Content.S)
		for _, k := range m.Calls {
			find(i, "name", k.Name)
			find(i, "arguments", k.Arguments)
		}
	}
	return out
}
