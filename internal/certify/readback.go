package certify

import (
	"slices"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
)

// plain is whether h ends with a reply that no template has a reason to change.
func (h history) plain() bool {
	m := h.reply()
	ok := m.Content.S == "txt" && (m.Reasoning.Presence == chat.Absent || m.Reasoning.S == "R x")
	for _, c := range m.Calls {
		ok = ok && c.Arguments == simpleArgs
	}
	return ok
}

// readBack: a plain reply as history writes it is read as the same reply.
func (p *prover) readBack() *tally {
	t := claim("reply_reads_back", false)
	for _, h := range p.histories {
		if !h.plain() || h.tools == nil {
			continue
		}
		prompt, err := p.Family.Render(p.conversation(h, h.before(), true))
		whole, err2 := p.Family.Render(p.conversation(h, h.messages, false))
		if err != nil || err2 != nil {
			t.refuse()
			continue
		}
		ids := p.upToClose(whole.IDs, h.reply())
		if len(ids) < len(prompt.IDs) || !slices.Equal(ids[:len(prompt.IDs)], prompt.IDs) {
			t.refuse() // history begins it otherwise: another claim tells it
			continue
		}
		said := slices.Clip(ids[len(prompt.IDs):])
		if !p.closes(said, h.reply()) {
			said = append(said, p.closing(h.reply()).ID)
		}
		r := p.read(prompt.IDs, said, h.tools)
		if why := sameReply(r, h.reply()); why != "" {
			t.fail(why, Counter{Messages: Wires(h.messages), Settings: h.settings, Wanted: "the reply as it was", Got: p.Family.Decode(said)})
			continue
		}
		t.ok()
	}
	return t
}

func (p *prover) read(prompt, said []token.ID, tools []ojson.Value) family.Parsed {
	reader := p.Family.Parse(family.ParseInput{Prompt: prompt, Tools: tools})
	reader.Add(said)
	r, _ := reader.Done(true)
	return r
}

// sameReply says what of m was read as something else, or "".
func sameReply(r family.Parsed, m chat.Message) string {
	var calls []family.Attempt
	for _, a := range r.Calls {
		if a.IsCall {
			calls = append(calls, a)
		}
	}
	switch {
	case len(calls) != len(m.Calls):
		return "calls are not read as calls"
	case r.Content.S != m.Content.S:
		return "content is read as another text"
	case r.Reasoning.S != m.Reasoning.S:
		return "reasoning is left out, or read as another text"
	}
	for i, a := range calls {
		x, err := ojson.Parse([]byte(a.Arguments))
		y, err2 := ojson.Parse([]byte(m.Calls[i].Arguments))
		if a.Name != m.Calls[i].Name || err != nil || err2 != nil || !ojson.Equal(x, y) {
			return "a call is read as another one"
		}
	}
	return ""
}
