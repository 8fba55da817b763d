package family

import (
	"strings"

	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Memo is what one trajectory keeps of its last render, so that the next encodes only what is new. The zero value is
// empty. It belongs to one family and is not safe for concurrent use; calls that overlap take turns or bring their own.
type Memo struct {
	text string // with its marks
	mark rune   // 0 = none
	ids  []token.ID
	cuts int // how often the cut token occurs in ids, and in text
}

// Encode is tok.EncodeMarked(text, mark), or tok.Encode(text) where mark is 0. What text has in common with the memo's text, up to the last cut token in it,
// is taken over. cut must be [Isolating]: text on its two sides is encoded independently, so the result is exact. The
// caller may append to the slice, and must not change what is in it.
func (m *Memo) Encode(tok *tokenizer.Tokenizer, text string, mark rune, cut tokenizer.AddedToken) []token.ID {
	at, keep := m.reuse(text, mark, cut)
	if tok.Sliced(text) {
		at, keep = 0, 0
	}
	tail := encode(tok, text[at:], mark)
	n := keep + len(tail)
	ids := append(append(make([]token.ID, 0, n+reserve), m.ids[:keep]...), tail...)
	*m = Memo{}
	if cuts := count(ids, cut.ID); cuts == strings.Count(text, cut.Content) {
		*m = Memo{text: text, mark: mark, ids: ids[:n:n], cuts: cuts}
	}
	return ids
}

func encode(tok *tokenizer.Tokenizer, text string, mark rune) []token.ID {
	if mark == 0 {
		return tok.Encode(text)
	}
	return tok.EncodeMarked(text, mark)
}

// reserve is room for a completion, so that a checkpoint can be made by appending.
const reserve = 512

// reuse says where in text and in m.ids the last shared cut token begins.
func (m *Memo) reuse(text string, mark rune, cut tokenizer.AddedToken) (at, keep int) {
	if m.cuts == 0 {
		return 0, 0
	}
	at = strings.LastIndex(text[:commonPrefix(m.text, text)], cut.Content)
	if at <= 0 {
		return 0, 0
	}
	if mark != m.mark && strings.ContainsAny(text[:at], string([]rune{mark, m.mark})) { // a mark here is text there
		return 0, 0
	}
	n := strings.Count(text[:at], cut.Content)
	for i, id := range m.ids {
		if id != cut.ID {
			continue
		}
		if n == 0 {
			return at, i
		}
		n--
	}
	return 0, 0
}

func count(ids []token.ID, id token.ID) (n int) {
	for _, x := range ids {
		if x == id {
			n++
		}
	}
	return n
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+64 <= n && a[i:i+64] == b[i:i+64]; i += 64 {
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// Isolating is whether text on the two sides of t is encoded independently: t is matched in the text as it stands, takes
// no white space, and is no part of another added token.
func Isolating(t tokenizer.AddedToken, all []tokenizer.AddedToken) bool {
	for _, o := range all {
		if o.ID != t.ID && strings.Contains(o.Content, t.Content) {
			return false
		}
	}
	return !t.Normalized && !t.LStrip && !t.RStrip && !t.SingleWord && t.Content != ""
}
