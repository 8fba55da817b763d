package certify

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
)

// toolless marks the claims about conversations without declared tools: some templates treat those otherwise.
const toolless = "/no_tools"

func kindOf(h history, kind string) string {
	if h.tools == nil {
		return kind + toolless
	}
	return kind
}

// appends is L2: the prompt before an append leads into the one behind it, kind by kind.
func (p *prover) appends() Level {
	about := "append-only: what came before a reply's end is written in the same way behind an append"
	byKind := map[string]*tally{}
	var order []*tally
	for _, tools := range []string{"", toolless} {
		for _, k := range append(Kinds(), appendAssistant, appendSplit) {
			t := claim("append."+k+tools, k != appendAssistant && k != appendSplit)
			byKind[k+tools], order = t, append(order, t)
		}
	}
	for _, h := range p.histories {
		for _, a := range appends(h) {
			p.append(byKind[kindOf(h, a.kind)], h, a)
		}
		p.split(byKind[kindOf(h, appendSplit)], h)
	}
	order = append(order, p.generation(), p.spoken())
	return level("L2", about, true, order...)
}

// ended is how a completion ends that ends as the format wants.
func (p *prover) ended() family.Ending {
	return family.Ending{Stopped: true, Stop: p.Family.Stops()[0].ID}
}

func (p *prover) append(t *tally, h history, a added) {
	before := p.conversation(h, h.messages, true)
	after := p.conversation(h, append(h.messages[:len(h.messages):len(h.messages)], a.messages...), true)
	if p.bridger == nil {
		t.Why = "the format has no bridge"
		return
	}
	b, err := p.bridger.Bridge(before, after, p.ended())
	d, parts := diverged(err)
	switch {
	case err == nil:
		p.note(b.Text)
		t.ok()
	case parts:
		p.note(d.After)
		t.fail("the template writes what came before in another way behind the append", differ(h, a.messages, d.Before, d.After))
	default:
		// Either the template refuses the conversation, or it does not end or go on as the format does.
		before.Kwargs = p.kwargs(false)
		x, errX := p.text(before)
		y, errY := p.text(after)
		if errX != nil || errY != nil {
			t.refuse()
			return
		}
		t.fail(err.Error(), differ(h, a.messages, x, y))
	}
}

func (p *prover) note(s string) { p.sum.Write([]byte(s)) }

// split: a batch of results in two requests.
func (p *prover) split(t *tally, h history) {
	rs := results(h)
	if len(rs) < 2 {
		return
	}
	one := append(h.messages[:len(h.messages):len(h.messages)], rs[0])
	x, err := p.text(p.conversation(h, one, false))
	y, err2 := p.text(p.conversation(h, append(one[:len(one):len(one)], rs[1:]...), true))
	switch {
	case err != nil || err2 != nil:
		t.refuse()
	case !strings.HasPrefix(y, x):
		c := differ(history{messages: one, settings: h.settings}, rs[1:], x, y)
		t.fail("a batch of results is closed before its end", c)
	default:
		t.ok()
	}
}

// generation: what history says of a reply begins as the prompt for it did. Where it does not, full_history parts from the
// checkpoint at that reply; incremental keeps the ids that were there.
func (p *prover) generation() *tally {
	t := claim("generation_consistent", false)
	for _, h := range p.histories {
		x, err := p.text(p.conversation(h, h.before(), true))
		y, err2 := p.text(p.conversation(h, h.messages, false))
		switch {
		case err != nil || err2 != nil:
			t.refuse()
		case !strings.HasPrefix(y, x):
			c := differ(history{messages: h.before(), settings: h.settings}, []chat.Message{h.reply()}, x, y)
			t.fail("history begins the reply in another way than the prompt for it", c)
		default:
			t.ok()
		}
	}
	return t
}

// spoken: history says a plain reply as the format's own writer says it behind the prompt. Where it does not, an echo of a
// canonical completion parts from its checkpoint.
func (p *prover) spoken() *tally {
	t := claim("history_as_spoken", false)
	for _, h := range p.histories {
		m := h.reply()
		if !h.plain() {
			continue
		}
		prompt, err := p.Family.Render(p.conversation(h, h.before(), true))
		r, err2 := p.Family.Render(p.conversation(h, h.messages, false))
		said, err3 := p.Family.Speak(chat.Reply{Reasoning: m.Reasoning, Content: m.Content, Calls: m.Calls})
		if err != nil || err2 != nil || err3 != nil {
			t.refuse()
			continue
		}
		want := p.Family.Decode(p.upToClose(r.IDs, m))
		if s := p.closing(m); s.Kind == family.StopNextRole {
			said = said[:len(said)-1]
		}
		if got := prompt.Text + p.Family.Decode(said); got != want {
			c := differ(history{messages: h.before(), settings: h.settings}, []chat.Message{m}, want, got)
			t.fail("history writes a reply in another way than the policy says it", c)
			continue
		}
		t.ok()
	}
	return t
}
