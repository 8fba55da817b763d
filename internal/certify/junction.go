package certify

import (
	"fmt"
	"slices"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// junctions is L3: for each way in which a reply ends and each kind of append, what is trimmed and inserted, and that the
// seam encodes in one way only.
func (p *prover) junctions() Level {
	var ts []*tally
	if p.bridger == nil {
		return level("L3", "junctions", true, claim("junction", true))
	}
	ends := []family.Ending{{}}
	for _, s := range p.Family.Stops() {
		ends = append(ends, family.Ending{Stopped: true, Stop: s.ID})
	}
	for _, kind := range Kinds() {
		t := claim("junction."+kind, true)
		ts = append(ts, t)
		for i, h := range p.histories {
			if !h.wide || h.settings != "" || i%4 != 0 { // 4 and the 5 forms of calls have no common factor
				continue
			}
			for _, a := range appends(h) {
				if a.kind != kind {
					continue
				}
				for _, e := range ends {
					p.junction(t, h, a, e)
				}
			}
		}
	}
	return level("L3", "junctions: what stands between a reply and the next message is known for every way of ending", true, ts...)
}

func (p *prover) junction(t *tally, h history, a added, e family.Ending) {
	b, base, ok := p.bridge(h, a.messages, e)
	if !ok {
		return // L2 has told it
	}
	whole, err := p.Family.Render(p.conversation(h, append(h.messages[:len(h.messages):len(h.messages)], a.messages...), true))
	if err != nil {
		return
	}
	fail := func(why string, got []token.ID) {
		t.fail(why, Counter{Messages: Wires(h.messages), Appended: Wires(a.messages), Settings: "ends with " + p.ending(e), At: len(base),
			Wanted: around(whole.Text, len(whole.Text)-len(b.Text)), Got: fmt.Sprint(got)})
	}
	added := p.added()
	// The reply's ids as history has them, with e in place of the end that the template writes.
	seq := slices.Clone(base)
	closes := p.closes(base, h.reply())
	if closes {
		seq = seq[:len(seq)-1]
	}
	if e.Stopped {
		seq = append(seq, e.Stop)
	}
	if b.Trim > 1 || b.Trim > 0 && !e.Stopped {
		fail("more than a stop is trimmed", nil)
		return
	}
	seq = append(append(seq[:len(seq)-b.Trim], b.Insert...), b.Suffix...)
	if p.Family.Decode(seq) != whole.Text {
		fail("the bridged prompt's text is not the template's", seq)
		return
	}
	// The seam: a token that stands alone, ids that no merge reaches, another token that stands alone.
	left := -1
	if n := len(seq) - len(b.Suffix); n > 0 {
		left = n - 1
	}
	right := -1
	for i, id := range b.Suffix {
		if x, ok := added[id]; ok {
			right = i
			if !family.Isolating(x, p.Tokenizer.Added()) {
				fail("what follows begins with "+x.Content+", which does not stand alone", b.Suffix)
				return
			}
			break
		}
	}
	if right < 0 || left < 0 {
		fail("no token that stands alone follows the reply", b.Suffix)
		return
	}
	if right > 0 {
		x, ok := added[seq[left]]
		if !ok {
			fail("text follows a reply that no stop has closed", b.Suffix)
			return
		}
		tail := b.Suffix[:right]
		y := added[b.Suffix[right]]
		text := x.Content + p.Family.Decode(tail) + y.Content
		if want := append(append([]token.ID{x.ID}, tail...), y.ID); !slices.Equal(p.Tokenizer.Encode(text), want) {
			fail("the ids between the stop and the next message depend on what surrounds them", tail)
			return
		}
	}
	p.noteIDs(seq)
	t.ok()
}

// bridge is the bridge over an append, and the ids of the template's text up to it: what canonical history would have.
func (p *prover) bridge(h history, ms []chat.Message, e family.Ending) (b family.Bridge, base []token.ID, ok bool) {
	before := p.conversation(h, h.messages, true)
	after := p.conversation(h, append(h.messages[:len(h.messages):len(h.messages)], ms...), true)
	b, err := p.bridger.Bridge(before, after, e)
	if err != nil {
		return b, nil, false
	}
	r, err := p.Family.Render(p.conversation(h, h.messages, false))
	if err != nil {
		return b, nil, false
	}
	return b, p.upToClose(r.IDs, h.reply()), true
}

// closing is the stop that a reply like m ends with.
func (p *prover) closing(m chat.Message) family.Stop {
	if p.bridger == nil {
		return p.Family.Stops()[0]
	}
	return p.bridger.Closing(m)
}

// upToClose is ids without what the template writes behind the close of their last message, m.
func (p *prover) upToClose(ids []token.ID, m chat.Message) []token.ID {
	s := p.closing(m)
	i := lastIndex(ids, s.ID)
	switch {
	case s.Kind != family.StopNextRole && i >= 0:
		return ids[:i+1]
	case s.Kind == family.StopNextRole && i >= 0 && i == len(ids)-1: // some templates write it behind a reply that nothing follows
		return ids[:i]
	}
	return ids
}

// closes is whether base ends with the stop that the template writes behind m.
func (p *prover) closes(base []token.ID, m chat.Message) bool {
	s := p.closing(m)
	return s.Kind != family.StopNextRole && len(base) > 0 && base[len(base)-1] == s.ID
}

func (p *prover) ending(e family.Ending) string {
	if !e.Stopped {
		return "a cut"
	}
	return p.Family.Decode([]token.ID{e.Stop})
}

func (p *prover) added() map[token.ID]tokenizer.AddedToken {
	if p.byID == nil {
		p.byID = map[token.ID]tokenizer.AddedToken{}
		for _, a := range p.Tokenizer.Added() {
			p.byID[a.ID] = a
		}
	}
	return p.byID
}

func (p *prover) noteIDs(ids []token.ID) { p.sum.Write(token.AppendList(nil, ids)) }

func lastIndex(ids []token.ID, id token.ID) int {
	for i := len(ids) - 1; i >= 0; i-- {
		if ids[i] == id {
			return i
		}
	}
	return -1
}

// Junction is one row of the table of junctions.
type Junction struct {
	Append  string `json:"append"`
	Ends    string `json:"ends"` // the stop's text, or "a cut"
	Trimmed int    `json:"trimmed"`
	Insert  string `json:"insert"`
	Tail    string `json:"tail"` // text between the stop and the next message's opener
	Opens   string `json:"opens"`
}

// Junctions tells the junction of each kind of append, as the plainest reply has it.
func Junctions(m Model) (out []Junction) {
	p := &prover{Model: m, sum: discard{}}
	b, ok := m.Family.(family.Bridger)
	if !ok {
		return nil
	}
	p.bridger = b
	ends := []family.Ending{}
	for _, s := range m.Family.Stops() {
		ends = append(ends, family.Ending{Stopped: true, Stop: s.ID})
	}
	for _, s := range []shape{{absent, chat.T("txt"), nil}, {absent, chat.T("txt"), []string{simpleArgs}}} {
		h := start(contexts()[0])
		h.messages = append(h.messages, reply(s, 0))
		seen := map[string]bool{}
		for _, a := range appends(h) {
			if seen[a.kind] || !slices.Contains(Kinds(), a.kind) {
				continue
			}
			seen[a.kind] = true
			for _, e := range append(ends, family.Ending{}) {
				b, _, ok := p.bridge(h, a.messages, e)
				if !ok {
					continue
				}
				right := slices.IndexFunc(b.Suffix, func(id token.ID) bool { _, ok := p.added()[id]; return ok })
				if right < 0 {
					continue
				}
				name := a.kind
				if a.kind == AppendSystem && len(s.calls) > 0 {
					name = "tool+system"
				}
				out = append(out, Junction{Append: name, Ends: p.ending(e), Trimmed: b.Trim, Insert: m.Family.Decode(b.Insert),
					Tail: m.Family.Decode(b.Suffix[:right]), Opens: m.Family.Decode(b.Suffix[right : right+1])})
			}
		}
	}
	return out
}
