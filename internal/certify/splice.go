package certify

import (
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/token"
)

// splices is L4: whatever ids the policy sampled, the bridged prompt keeps them, and is the whole encoding wherever they are
// canonical.
func (p *prover) splices() Level {
	ctxFree, canon := claim("suffix_context_free", true), claim("equals_full_encoding", true)
	verb, special := claim("keeps_sampled_ids", true), claim("sampled_special_ids", true)
	if p.bridger == nil {
		return level("L4", "token splice", false, ctxFree, canon, verb, special)
	}
	c := newCutter(p)
	for i, h := range p.histories {
		if i%4 != 0 { // 4 has no common factor with the forms of calls and contents
			continue
		}
		for _, a := range appends(h) {
			if slices.Contains(Kinds(), a.kind) {
				p.splice(h, a, c, ctxFree, canon, verb, i)
			}
		}
	}
	p.specials(special)
	return level("L4", "token splice: the sampled ids stay, the rest does not depend on them", false, ctxFree, canon, verb, special)
}

func (p *prover) splice(h history, a added, c *cutter, ctxFree, canon, verb *tally, seed int) {
	e := p.ended()
	b, base, ok := p.bridge(h, a.messages, e)
	if !ok {
		return
	}
	whole, err := p.Family.Render(p.conversation(h, append(h.messages[:len(h.messages):len(h.messages)], a.messages...), true))
	if err != nil {
		return
	}
	p.noteIDs(whole.IDs)
	fail := func(t *tally, why string, want, got []token.ID) {
		n := token.CommonPrefix(want, got)
		t.fail(why, Counter{Messages: Wires(h.messages), Appended: Wires(a.messages), Settings: h.settings, At: n,
			Wanted: p.some(want, n), Got: p.some(got, n)})
	}
	if want := append(slices.Clone(base), b.Suffix...); !slices.Equal(want, whole.IDs) {
		fail(ctxFree, "the suffix encodes in another way behind the history", whole.IDs, want)
	} else {
		ctxFree.ok()
	}
	prompt, err := p.Family.Render(p.conversation(h, h.before(), true))
	if err != nil {
		return
	}
	m := h.reply()
	said, err := p.Family.Speak(chat.Reply{Reasoning: m.Reasoning, Content: m.Content, Calls: m.Calls})
	if err != nil {
		canon.Refused++
		return
	}
	if last := said[len(said)-1]; last != e.Stop {
		e.Stop = last
		if b, _, ok = p.bridge(h, a.messages, e); !ok {
			return
		}
	}
	if b.Trim < 0 || b.Trim > 1 {
		fail(verb, "more than a stop is trimmed", whole.IDs, nil)
		return
	}
	next := func(said []token.ID) []token.ID {
		ck := append(slices.Clone(prompt.IDs), said...)
		return append(append(ck[:len(ck)-b.Trim], b.Insert...), b.Suffix...)
	}
	got := next(said)
	same := p.Family.Decode(got) == whole.Text // else the template writes the reply otherwise: its own claims tell where
	switch {
	case !same:
		canon.Refused++
	case !slices.Equal(got, whole.IDs) && !p.mergesInto(prompt.IDs, said):
		fail(canon, "the bridged prompt is not the encoding of the whole, though the sampled ids are canonical", whole.IDs, got)
	default:
		canon.ok()
	}
	for n := range 3 {
		other := c.cut(said, uint64(seed*3+n))
		got := next(other)
		keep := len(prompt.IDs) + len(other) - b.Trim
		switch {
		case !slices.Equal(got[:len(prompt.IDs)], prompt.IDs) || !slices.Equal(got[len(prompt.IDs):keep], other[:len(other)-b.Trim]):
			fail(verb, "sampled ids are changed", other, got)
		case same && p.Family.Decode(got) != whole.Text:
			fail(verb, "the bridged prompt's text is not the template's", whole.IDs, got)
		default:
			verb.ok()
		}
	}
}

// mergesInto is whether prompt and completion, each encoded alone, would encode otherwise in one: then the sampled ids are
// not canonical, and no render can have them.
func (p *prover) mergesInto(prompt, said []token.ID) bool {
	c := len(prompt)
	for c > 0 {
		if _, ok := p.added()[prompt[c-1]]; ok {
			break
		}
		c--
	}
	d := 0
	for d < len(said) {
		if _, ok := p.added()[said[d]]; ok {
			break
		}
		d++
	}
	around := append(slices.Clone(prompt[c:]), said[:d]...)
	return !slices.Equal(p.Tokenizer.EncodeBody(p.Family.Decode(around)), around)
}

// some shows ids around n.
func (p *prover) some(ids []token.ID, n int) string {
	from, to := max(0, n-3), min(len(ids), n+5)
	return fmt.Sprintf("ids %d… %v: %s", from, ids[from:to], p.Family.Decode(ids[from:to]))
}

// specials: a reply in which the policy sampled a special id inside its text, and one in which it spelled it out.
func (p *prover) specials(t *tally) {
	ctx := contexts()[0]
	h := start(ctx)
	prompt, err := p.Family.Render(p.conversation(h, h.messages, true))
	if err != nil {
		t.refuse()
		return
	}
	plain, err := p.Family.Speak(chat.Reply{Content: chat.T("x Q y")})
	if err != nil {
		t.refuse()
		return
	}
	at := slices.Index(plain, p.one("Q", plain))
	if at < 0 {
		return
	}
	for _, a := range p.Tokenizer.Added() {
		if slices.ContainsFunc(p.Family.Stops(), func(s family.Stop) bool { return s.ID == a.ID }) || strings.TrimSpace(a.Content) == "" {
			continue
		}
		for _, ids := range [][]token.ID{{a.ID}, p.Tokenizer.EncodeBody(a.Content)} {
			said := slices.Concat(plain[:at], ids, plain[at+1:])
			ps := p.Family.Parse(family.ParseInput{Prompt: prompt.IDs, Tools: h.tools})
			ps.Add(said)
			r, _ := ps.Done(true)
			if len(r.Calls) > 0 || r.Reasoning.S != "" || !strings.Contains(r.Content.S, a.Content) {
				continue // it was read as a part of a reply, not as text
			}
			echo := h.with(chat.Message{Role: chat.Assistant, Content: r.Content, Reasoning: r.Reasoning})
			before := p.conversation(echo, echo.messages, true)
			after := p.conversation(echo, append(echo.messages[:len(echo.messages):len(echo.messages)], more), true)
			sampled := map[int][]token.ID{len(h.messages): said}
			before.Sampled, after.Sampled = sampled, sampled
			b, err := p.bridger.Bridge(before, after, family.Ending{Stopped: true, Stop: said[len(said)-1]})
			if err != nil || b.Trim > 1 {
				t.refuse()
				continue
			}
			whole, err := p.Family.Render(after)
			if err != nil {
				t.refuse()
				continue
			}
			ck := append(slices.Clone(prompt.IDs), said...)
			got := append(append(ck[:len(ck)-b.Trim], b.Insert...), b.Suffix...)
			if p.Family.Decode(got) != whole.Text {
				t.Refused++ // the template writes such a reply otherwise
				continue
			}
			if count(got, a.ID) != count(whole.IDs, a.ID) {
				n := token.CommonPrefix(whole.IDs, got)
				t.fail("a special id in the policy's own text is lost or invented", Counter{Messages: Wires(echo.messages), At: n,
					Wanted: p.some(got, n), Got: p.some(whole.IDs, n)})
				continue
			}
			t.ok()
		}
	}
}

// one is the id in ids that says s, with or without a space before it.
func (p *prover) one(s string, ids []token.ID) token.ID {
	for _, id := range ids {
		if b, ok := p.Tokenizer.Bytes(id); ok && strings.TrimSpace(string(b)) == s {
			return id
		}
	}
	return ^token.ID(0)
}

func count(ids []token.ID, id token.ID) (n int) {
	for _, x := range ids {
		if x == id {
			n++
		}
	}
	return n
}

// cutter says a text in other ids than the canonical ones.
type cutter struct {
	p     *prover
	bytes map[string]token.ID
}

func newCutter(p *prover) *cutter {
	c := &cutter{p, map[string]token.ID{}}
	added := p.added()
	for id := range token.ID(p.Tokenizer.VocabSize()) {
		if _, ok := added[id]; ok {
			continue
		}
		if b, ok := p.Tokenizer.Bytes(id); ok && len(b) > 0 && len(b) <= 12 {
			if _, had := c.bytes[string(b)]; !had {
				c.bytes[string(b)] = id
			}
		}
	}
	return c
}

// cut splits ordinary ids of said anywhere, inside characters too. The bytes stay the same.
func (c *cutter) cut(said []token.ID, seed uint64) []token.ID {
	x := seed*0x9E3779B97F4A7C15 + 1
	draw := func(n int) int {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		return int(x % uint64(n))
	}
	var out []token.ID
	for _, id := range said {
		b, _ := c.p.Tokenizer.Bytes(id)
		if _, added := c.p.added()[id]; added || len(b) < 2 || draw(3) == 0 {
			out = append(out, id)
			continue
		}
		at := 1 + draw(len(b)-1)
		left, ok := c.bytes[string(b[:at])]
		right, ok2 := c.bytes[string(b[at:])]
		if !ok || !ok2 {
			out = append(out, id)
			continue
		}
		out = append(out, left, right)
	}
	return out
}

// discard is a hash that nobody reads.
type discard struct{ hash.Hash }

func (discard) Write(b []byte) (int, error) { return len(b), nil }
