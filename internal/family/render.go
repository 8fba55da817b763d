package family

import (
	"slices"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
)

// Render gives the prompt that the model's template makes of c. The template sees what engines hand it for templates
// that take text:
//
//   - messages: role; content, always text ("" for null or absent); reasoning_content where it is present; tool_calls with
//     id, type and function {name, arguments}; tool_call_id; name. Arguments that are a JSON object are handed over as one
//     ("" as an empty one), so that the template spells them; anything else stays the text that came. A format with
//     TextArguments hands over text alone.
//   - tools as they came, or none; documents none; add_generation_prompt true;
//   - then the family's options, then c.Kwargs. Neither may set messages or tools.
//
// A spelling of an added token in a message or a tool stays text, unless c.Native; see [Conversation].
func (k *Kit) Render(c Conversation) (Rendered, error) {
	return k.RenderWith(&Memo{}, c)
}

// RenderWith is Render that encodes only what memo does not hold already.
func (k *Kit) RenderWith(memo *Memo, c Conversation) (Rendered, error) {
	text, mark, err := k.text(c)
	if err != nil {
		return Rendered{}, err
	}
	var ids []token.ID
	if k.Turn == "" {
		ids = encode(k.tok, text, mark)
	} else {
		ids = memo.Encode(k.tok, text, mark, k.cut)
	}
	r := Rendered{Text: text, IDs: ids}
	if mark != 0 {
		r.Text = strings.ReplaceAll(text, string(mark), "")
	}
	return r, nil
}

// text is the template's output, with a mark in every spelling that is to stay text; mark is 0 where there is none.
func (k *Kit) text(c Conversation) (text string, mark rune, err error) {
	if len(c.Messages) == 0 {
		return "", 0, fault.New(fault.BadRequest, "there are no messages to render")
	}
	if !c.Native {
		if mark, err = k.spell.mark(bodies(c)); err != nil {
			return "", 0, err
		}
	}
	vars := append([]ojson.Member(nil), k.opts.Tokens...)
	vars = append(vars,
		ojson.Member{Key: "messages", Value: k.messages(c, mark)},
		ojson.Member{Key: "tools", Value: k.tools(c.Tools, mark)},
		ojson.Member{Key: "documents", Value: ojson.NullOf()},
		ojson.Member{Key: "add_generation_prompt", Value: ojson.BoolOf(true)})
	for _, kw := range []ojson.Value{k.opts.Kwargs, c.Kwargs} {
		for _, m := range kw.Members() {
			if m.Key == "messages" || m.Key == "tools" {
				return "", 0, fault.New(fault.BadRequest, "template settings may not set %s", m.Key)
			}
			vars = set(vars, m)
		}
	}
	text, err = k.tpl.Render(vars, c.Clock)
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
func bodies(c Conversation) []string {
	out := make([]string, 0, 2*len(c.Messages)+len(c.Tools))
	for _, m := range c.Messages {
		out = append(out, m.Content.S)
		for _, s := range []string{m.Reasoning.S, m.Name, m.CallID} {
			if s != "" {
				out = append(out, s)
			}
		}
		for _, call := range m.Calls {
			out = append(out, call.ID, call.Name, call.Arguments)
		}
	}
	for _, t := range c.Tools {
		out = append(out, string(t.Raw()))
	}
	return out
}

func (k *Kit) tools(tools []ojson.Value, mark rune) ojson.Value {
	if len(tools) == 0 {
		return ojson.NullOf()
	}
	if mark == 0 {
		return ojson.ArrayOf(tools...)
	}
	return mapStrings(ojson.ArrayOf(tools...), func(s string) string { return k.spell.protect(s, mark, nil) })
}

func (k *Kit) messages(c Conversation, mark rune) ojson.Value {
	out := make([]ojson.Value, len(c.Messages))
	for i, m := range c.Messages {
		var s said
		if ids, ok := c.Sampled[i]; ok && mark != 0 && k.spell.any(bodies(Conversation{Messages: []chat.Message{m}})) {
			s = k.said(ids, mark, m)
		}
		out[i] = k.message(m, mark, s)
	}
	return ojson.ArrayOf(out...)
}

func (k *Kit) message(m chat.Message, mark rune, s said) ojson.Value {
	text := func(t string, w spoken) ojson.Value { return ojson.StringOf(k.spell.protect(t, mark, w)) }
	out := []ojson.Member{
		{Key: "role", Value: ojson.StringOf(string(m.Role))},
		{Key: "content", Value: text(m.Content.S, s.content)},
	}
	if m.Reasoning.Presence == chat.Present {
		key := k.ReasoningKey
		if key == "" {
			key = "reasoning_content"
		}
		out = append(out, ojson.Member{Key: key, Value: text(m.Reasoning.S, s.reasoning)})
	}
	if len(m.Calls) > 0 {
		calls := make([]ojson.Value, len(m.Calls))
		for i, c := range m.Calls {
			var w spoken
			if i < len(s.calls) {
				w = s.calls[i]
			}
			name := text(c.Name, w)
			calls[i] = ojson.ObjectOf(
				ojson.Member{Key: "id", Value: text(k.callID(c.ID), nil)},
				ojson.Member{Key: "type", Value: ojson.StringOf("function")},
				ojson.Member{Key: "function", Value: ojson.ObjectOf(
					ojson.Member{Key: "name", Value: name},
					ojson.Member{Key: "arguments", Value: k.arguments(c.Arguments, mark, w)})})
		}
		out = append(out, ojson.Member{Key: "tool_calls", Value: ojson.ArrayOf(calls...)})
	}
	if m.CallID != "" {
		out = append(out, ojson.Member{Key: "tool_call_id", Value: text(k.callID(m.CallID), nil)})
	}
	if m.Name != "" {
		out = append(out, ojson.Member{Key: "name", Value: text(m.Name, nil)})
	}
	return ojson.ObjectOf(out...)
}

func (k *Kit) callID(id string) string {
	if k.CallID == nil {
		return id
	}
	return k.CallID(id)
}

// arguments hands a JSON object over as one, anything else as the text that came.
func (k *Kit) arguments(args string, mark rune, w spoken) ojson.Value {
	if k.TextArguments && args == "" {
		args = "{}"
	}
	v, ok := ArgumentsObject(args)
	switch {
	case !ok || k.TextArguments:
		return ojson.StringOf(k.spell.protect(args, mark, w))
	case mark == 0:
		return v
	}
	return mapStrings(v, func(s string) string { return k.spell.protect(s, mark, w) })
}

// ArgumentsObject reads arguments as the JSON object that they are, if they are; "" is an empty one. One with half of a
// surrogate pair in a string is none: it could not be spelled again.
func ArgumentsObject(args string) (ojson.Value, bool) {
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

// EachString calls do for every key and string inside v, in order.
func EachString(v ojson.Value, do func(string)) {
	mapStrings(v, func(s string) string { do(s); return s })
}

// said is what a completion said, by the field that it was read into.
type said struct {
	reasoning, content spoken
	calls              []spoken
}

// said reads the completion that m echoes again, for the spellings in it. Neither prompt nor tools are at hand: m says
// whether calls were read, and reasoning that ends without having begun began in the prompt.
func (k *Kit) said(ids []token.ID, mark rune, m chat.Message) said {
	p := k.parser(ParseInput{NoCalls: len(m.Calls) == 0})
	tag := slices.IndexFunc(ids, func(id token.ID) bool { return k.thinks && (id == k.think || id == k.thought) })
	if tag >= 0 && ids[tag] == k.thought && !m.Reasoning.Empty() {
		p.mode = inReasoning
	}
	p.Add(ids)
	p.Done(true)
	hear := func(texts ...string) spoken {
		w := spoken{}
		for _, t := range texts {
			k.spell.listen(w, t, mark)
		}
		return w
	}
	s := said{reasoning: hear(p.reasoning.Marked(0, p.reasoning.Len(), mark)), content: hear(p.content.Marked(0, p.content.Len(), mark))}
	for _, b := range p.called {
		for _, texts := range k.NewBlock().Said(b, mark) {
			s.calls = append(s.calls, hear(texts...))
		}
	}
	return s
}
