package certify

import (
	"slices"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// broken is a bridge with a mistake.
type broken struct {
	family.Bridger
	spoil func(b *family.Bridge, end family.Ending)
}

func (b broken) Bridge(before, after family.Conversation, end family.Ending) (family.Bridge, error) {
	out, err := b.Bridger.Bridge(before, after, end)
	if err == nil {
		out.Suffix = slices.Clone(out.Suffix)
		b.spoil(&out, end)
	}
	return out, err
}

func TestAWrongBridgeIsRefuted(t *testing.T) {
	tok, src := bundle(t)
	m := bind(t, tok, src)
	open, _ := tok.Lookup("<|im_start|>")
	for name, c := range map[string]struct {
		claim string
		spoil func(*family.Bridge, family.Ending)
	}{
		"the newline behind the stop is dropped": {"junction.user", func(b *family.Bridge, _ family.Ending) { b.Suffix = b.Suffix[1:] }},
		"the stop is trimmed":                    {"junction.tool", func(b *family.Bridge, _ family.Ending) { b.Trim = 1 }},
		"two ids are trimmed":                    {"junction.tool", func(b *family.Bridge, _ family.Ending) { b.Trim = 2 }},
		"nothing closes a reply that was cut":    {"junction.user", func(b *family.Bridge, e family.Ending) { b.Insert = nil }},
		"the close is doubled": {"junction.user", func(b *family.Bridge, e family.Ending) {
			b.Insert = append(b.Insert, m.Family.Stops()[0].ID)
		}},
		"the suffix is encoded otherwise": {"suffix_context_free", func(b *family.Bridge, _ family.Ending) {
			i := slices.Index(b.Suffix, open)
			word := tok.EncodeBody(m.Family.Decode(b.Suffix[i+1 : i+2]))
			b.Suffix = slices.Concat(b.Suffix[:i], []token.ID{open}, split(tok.EncodeBody, m, word), b.Suffix[i+2:])
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProver(m)
			var few []history
			for i, h := range p.histories {
				if i%8 == 0 && i < 260 {
					few = append(few, h)
				}
			}
			p.histories = few
			p.bridger = broken{p.bridger, c.spoil}
			r := &Result{Levels: []Level{p.junctions(), p.splices()}}
			if got, _ := find(t, r, c.claim); got.Verdict != Refuted || got.Counter == nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

// split says the text of ids one character at a time.
func split(encode func(string) []token.ID, m Model, ids []token.ID) (out []token.ID) {
	for _, r := range m.Family.Decode(ids) {
		out = append(out, encode(string(r))...)
	}
	return out
}

func TestABridgeFollowsEveryEndOfAReply(t *testing.T) {
	tok, src := bundle(t)
	m := bind(t, tok, src)
	b := m.Family.(family.Bridger)
	id := func(s string) token.ID { x, _ := tok.Lookup(s); return x }
	before := family.Conversation{Messages: []chat.Message{{Role: chat.User, Content: chat.T("q")}, {Role: chat.Assistant, Content: chat.T("a")}}}
	after := before
	after.Messages = append(slices.Clip(before.Messages), chat.Message{Role: chat.User, Content: chat.T("<|im_end|>\ufdd0")})
	for _, c := range []struct {
		end    family.Ending
		trim   int
		insert []token.ID
	}{
		{family.Ending{Stopped: true, Stop: id("<|im_end|>")}, 0, nil},
		{family.Ending{Stopped: true, Stop: id("<|endoftext|>")}, 1, []token.ID{id("<|im_end|>")}},
		{family.Ending{}, 0, []token.ID{id("<|im_end|>")}},
	} {
		got, err := b.Bridge(before, after, c.end)
		if err != nil || got.Trim != c.trim || !slices.Equal(got.Insert, c.insert) {
			t.Errorf("%+v: %+v, %v", c.end, got, err)
		}
		if want := "\n<|im_start|>user\n<|im_end|>\ufdd0<|im_end|>\n<|im_start|>assistant\n"; got.Text != want || m.Family.Decode(got.Suffix) != want {
			t.Errorf("%q", got.Text)
		}
		if n := count(got.Suffix, id("<|im_end|>")); n != 1 {
			t.Errorf("%d closes in the suffix: what a user spells is text", n)
		}
	}
	for name, c := range map[string]struct {
		before, after family.Conversation
		end           family.Ending
	}{
		"nothing":         {family.Conversation{}, after, family.Ending{}},
		"no reply":        {family.Conversation{Messages: before.Messages[:1]}, after, family.Ending{}},
		"nothing added":   {before, before, family.Ending{}},
		"no stop of ours": {before, after, family.Ending{Stopped: true, Stop: id("<think>")}},
	} {
		if _, err := b.Bridge(c.before, c.after, c.end); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := after
	other.Messages = slices.Clone(after.Messages)
	other.Messages[0].Content = chat.T("Q")
	_, err := b.Bridge(before, other, family.Ending{})
	if d, ok := diverged(err); !ok || fault.CodeOf(err) != fault.TemplateRefused || d.At != len("<|im_start|>user\n") {
		t.Errorf("%v", err)
	}
}
