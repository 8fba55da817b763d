package family

import (
	"strings"

	"github.com/tito-rl/tito/internal/token"
)

// Bodies finds each message's texts in the prompt, in order; a text that the template changed is left out. It gives nil
// where the ids do not spell the text byte for byte.
func (k *Kit) Bodies(c Conversation, r Rendered) []Body {
	starts := make([]int, 0, len(r.IDs)+1) // byte at which each id starts
	at := 0
	for _, id := range r.IDs {
		starts = append(starts, at)
		b, _ := k.tok.Bytes(id)
		at += len(b)
	}
	if at != len(r.Text) {
		return nil
	}
	starts = append(starts, at)
	var out []Body
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
		out = append(out, Body{Span: token.Span{Start: id, End: end}, Message: msg, Field: field})
		cursor = to
	}
	for i, m := range c.Messages {
		find(i, "reasoning", strings.Trim(m.Reasoning.S, "\n"))
		find(i, "content", m.Content.S)
		for _, call := range m.Calls {
			find(i, "name", call.Name)
			find(i, "arguments", call.Arguments)
		}
	}
	return out
}
