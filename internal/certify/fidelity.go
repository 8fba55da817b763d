package certify

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
)

// word is one that no template writes by itself.
const word = "Wzqj"

// fidelity is what can be proved of a render without a reference: that it is a function of the conversation, and what of
// the conversation it keeps.
func (p *prover) fidelity() Level {
	ts := []*tally{p.deterministic(), p.clockFree(), p.bodiesStay(), p.onceBOS(), p.structure(), p.readBack()}
	for _, field := range []string{"system", "user", "content", "content_beside_calls", "reasoning", "result"} {
		ts = append(ts, p.verbatim(field))
	}
	ts = append(ts, p.ordered("argument_order"), p.ordered("tool_order"), p.ordered("result_order"), p.ordered("system_place"))
	return level("L1", "full history: the render is a function of the conversation, and equals the reference's", false, ts...)
}

// deterministic: the same conversation twice.
func (p *prover) deterministic() *tally {
	t := claim("deterministic", true)
	for i, h := range p.histories {
		if i%7 != 0 {
			continue
		}
		c := p.conversation(h, h.messages, true)
		a, err := p.text(c)
		if err != nil {
			t.refuse()
			continue
		}
		if b, err := p.text(c); err != nil || a != b {
			t.fail("the same conversation renders in two ways", differ(h, nil, a, b))
			continue
		}
		t.ok()
	}
	return t
}

// clockFree: at two times. A model whose template tells the time needs a clock that stands still for each trajectory.
func (p *prover) clockFree() *tally {
	t := claim("clock_free", false)
	for i, h := range p.histories {
		if i%5 != 0 {
			continue
		}
		c := p.conversation(h, h.messages, true)
		a, err := p.text(c)
		if err != nil {
			t.refuse()
			continue
		}
		c.Clock = later
		if b, err := p.text(c); err != nil || a != b {
			t.fail("the prompt tells the time", differ(h, nil, a, b))
			continue
		}
		t.ok()
	}
	return t
}

// bodiesStay: a message that spells a special token adds none of its id.
func (p *prover) bodiesStay() *tally {
	t := claim("spelling_stays_text", true)
	ctx := contexts()[0]
	for _, a := range p.Tokenizer.Added() {
		if strings.TrimSpace(a.Content) == "" {
			continue
		}
		plain, spelled := start(ctx), start(ctx)
		spelled.messages[1].Content = chat.T("x" + a.Content + "y")
		x, err := p.Family.Render(p.conversation(plain, plain.messages, true))
		y, err2 := p.Family.Render(p.conversation(spelled, spelled.messages, true))
		if err != nil || err2 != nil {
			t.refuse()
			continue
		}
		n := 0
		for _, id := range x.IDs {
			if id == a.ID {
				n--
			}
		}
		for _, id := range y.IDs {
			if id == a.ID {
				n++
			}
		}
		if n != 0 {
			t.fail("a user's text becomes the special token that it spells", differ(spelled, nil, x.Text, y.Text))
			continue
		}
		t.ok()
	}
	return t
}

// onceBOS: no prompt has the token that begins a text twice.
func (p *prover) onceBOS() *tally {
	t := claim("bos_once", true)
	if p.BOS == "" {
		t.Why = "the tokenizer names no bos_token"
		return t
	}
	for i, h := range p.histories {
		if i%7 != 0 {
			continue
		}
		text, err := p.text(p.conversation(h, h.messages, true))
		if err != nil {
			t.refuse()
			continue
		}
		if strings.Count(text, p.BOS) > 1 {
			t.fail("the prompt begins with bos_token twice", differ(h, nil, p.BOS, text))
			continue
		}
		t.ok()
	}
	return t
}

// structure: where every message of a format begins and ends with the same two tokens, they take turns.
func (p *prover) structure() *tally {
	t := claim("messages_open_and_close", true)
	k, ok := p.Family.(*family.Kit)
	if !ok || k.Turn == "" {
		t.Why = "the format has no opener that all messages share"
		return t
	}
	u := start(contexts()[3])
	text, err := p.text(p.conversation(u, u.messages, true))
	if err != nil || strings.Count(text, k.Turn) != 3 || strings.Count(text, k.Format.Close) != 2 {
		t.Why = "the format has no opener that all messages share"
		return t
	}
	for _, h := range p.histories {
		ms := h.messages
		for _, a := range appends(h) {
			if a.kind == AppendTool {
				ms = append(ms[:len(ms):len(ms)], a.messages...)
			}
		}
		r, err := p.Family.Render(p.conversation(h, ms, true))
		if err != nil {
			t.refuse()
			continue
		}
		open := false
		at := -1
		rest := 0
		for i, id := range r.IDs {
			s := ""
			if b, ok := p.Tokenizer.Bytes(id); ok {
				s = string(b)
			}
			switch {
			case s == k.Turn:
				if open {
					at = i
				}
				open = true
			case s == k.Format.Close:
				if !open {
					at = i
				}
				open = false
			case !open && strings.TrimSpace(s) != "" && i > 0 && s != p.BOS:
				at = i
			}
			if at >= 0 {
				break
			}
			rest += len(s)
		}
		if at >= 0 {
			c := Counter{Messages: Wires(ms), Settings: h.settings, At: rest, Wanted: "text between " + k.Turn + " and " + k.Format.Close, Got: around(r.Text, min(rest, len(r.Text)))}
			t.fail("text stands outside of every message", c)
			continue
		}
		t.ok()
	}
	return t
}

// verbatim: a field's text comes out as it went in, edges and length included.
func (p *prover) verbatim(field string) *tally {
	t := claim("verbatim."+field, false)
	ctx := contexts()[0]
	long := strings.Repeat("0123456789 line\n", 2048)
	for _, body := range []string{word, "\n " + word + " \n", word + "É日本😀", word + " <b>&\"'</b>", word + long + word} {
		h := start(ctx)
		s := shape{chat.T("R"), chat.T("c"), nil}
		switch field {
		case "system":
			h.messages[0].Content = chat.T(body)
		case "user":
			h.messages[1].Content = chat.T(body)
		case "content":
			s.content = chat.T(body)
		case "content_beside_calls":
			s.content, s.calls = chat.T(body), []string{simpleArgs}
		case "reasoning":
			s.reasoning = chat.T(body)
		case "result":
			s.calls = []string{simpleArgs}
		}
		h.messages = append(h.messages, reply(s, 0))
		ms := h.messages
		if s.calls != nil {
			r := results(h)
			if field == "result" {
				r[0].Content = chat.T(body)
			}
			ms = append(ms, r...)
		}
		text, err := p.text(p.conversation(h, ms, true))
		if err != nil {
			t.refuse()
			continue
		}
		if !strings.Contains(text, body) {
			got := "(left out)"
			at := max(strings.Index(text, word), 0)
			if strings.Contains(text, word) {
				got = around(text, at)
			}
			t.fail("the template changes or leaves out the text", Counter{Messages: Wires(ms), At: at, Wanted: around(body, 0), Got: got})
			continue
		}
		t.ok()
	}
	return t
}

// ordered: what has an order keeps it.
func (p *prover) ordered(what string) *tally {
	t := claim(what, false)
	ctx := contexts()[0]
	h := start(ctx)
	s := shape{absent, chat.T("c"), []string{`{"zWzqj": 1, "aWzqj": 2, "mWzqj": 3}`}}
	want := []string{"zWzqj", "aWzqj", "mWzqj"}
	var tail []chat.Message
	switch what {
	case "tool_order":
		h.tools = nil
		for _, n := range want {
			h.tools = append(h.tools, ojson.ObjectOf(ojson.Member{Key: "type", Value: ojson.StringOf("function")},
				ojson.Member{Key: "function", Value: ojson.ObjectOf(ojson.Member{Key: "name", Value: ojson.StringOf(n)},
					ojson.Member{Key: "description", Value: ojson.StringOf("d")},
					ojson.Member{Key: "parameters", Value: tool(`{"type":"object","properties":{"city":{"type":"string"}}}`)})}))
		}
		s.calls = nil
	case "result_order":
		s.calls = []string{simpleArgs, simpleArgs, simpleArgs}
	case "system_place":
		s.calls = nil
	}
	h.messages = append(h.messages, reply(s, 0))
	switch what {
	case "result_order", "argument_order":
		for i, r := range results(h) {
			if what == "result_order" {
				r.Content = chat.T(want[i])
			}
			tail = append(tail, r)
		}
	case "system_place":
		h.messages[1].Content, h.messages[2].Content = chat.T(want[0]), chat.T(want[1])
		tail = []chat.Message{{Role: chat.System, Content: chat.T(want[2])}, more}
	}
	ms := append(h.messages[:len(h.messages):len(h.messages)], tail...)
	text, err := p.text(p.conversation(h, ms, true))
	if err != nil {
		t.refuse()
		return t
	}
	at := 0
	for _, w := range want {
		i := strings.Index(text[at:], w)
		if i < 0 {
			got := "(left out)"
			if j := strings.Index(text, w); j >= 0 {
				got = around(text, j)
			}
			t.fail("the template puts them in another order", Counter{Messages: Wires(ms), At: at, Wanted: strings.Join(want, " … "), Got: got})
			return t
		}
		at += i + len(w)
	}
	t.ok()
	return t
}
