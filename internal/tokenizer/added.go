package tokenizer

import (
	"sort"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/token"
)

// AddedToken is one entry of added_tokens. Text that contains its content becomes its id before any merging.
type AddedToken struct {
	ID         token.ID
	Content    string
	Special    bool // left out of decoded text by decoders that are asked to skip special tokens; no other effect
	Normalized bool // matched in the normalised text, after those that are not
	LStrip     bool // takes the white space on its left
	RStrip     bool // takes the white space on its right
	SingleWord bool // matches only where no word character touches it
}

// matcher finds added tokens in text: the leftmost, and of several there the longest.
type matcher struct {
	nodes  []trieNode
	starts [256]bool // first bytes of contents
	tokens []AddedToken
}

type trieNode struct {
	edges []trieEdge // in order of their byte
	token int32      // index of the token whose content ends here, or -1
}

type trieEdge struct {
	b  byte
	to int32
}

// newMatcher makes a matcher of tokens, each found by the spelling at the same index.
func newMatcher(tokens []AddedToken, spellings []string) *matcher {
	m := &matcher{nodes: []trieNode{{token: -1}}, tokens: tokens}
	for i, s := range spellings {
		if s == "" {
			continue
		}
		m.starts[s[0]] = true
		at := int32(0)
		for _, b := range []byte(s) {
			at = m.child(at, b)
		}
		if m.nodes[at].token < 0 {
			m.nodes[at].token = int32(i)
		}
	}
	return m
}

func (m *matcher) child(at int32, b byte) int32 {
	edges := m.nodes[at].edges
	i := sort.Search(len(edges), func(i int) bool { return edges[i].b >= b })
	if i < len(edges) && edges[i].b == b {
		return edges[i].to
	}
	to := int32(len(m.nodes))
	m.nodes = append(m.nodes, trieNode{token: -1})
	edges = append(edges, trieEdge{})
	copy(edges[i+1:], edges[i:])
	edges[i] = trieEdge{b, to}
	m.nodes[at].edges = edges
	return to
}

// longest is the longest token whose content starts s, and that content's length.
func (m *matcher) longest(s string) (tok int32, n int) {
	tok = -1
	at := int32(0)
	for i := range len(s) {
		next := int32(-1)
		for _, e := range m.nodes[at].edges {
			if e.b == s[i] {
				next = e.to
				break
			}
		}
		if next < 0 {
			break
		}
		at = next
		if t := m.nodes[at].token; t >= 0 {
			tok, n = t, i+1
		}
	}
	return tok, n
}

// each calls body with every stretch of text between added tokens, and added with every one found, in order. cuts are
// byte offsets, in order, that no match may hold inside. offset is where the stretch begins in text.
func (m *matcher) each(text string, cuts []int, body func(s string, offset int), added func(token.ID)) {
	done := 0
	for at := 0; at < len(text); {
		if !m.starts[text[at]] {
			at++
			continue
		}
		for len(cuts) > 0 && cuts[0] <= at {
			cuts = cuts[1:]
		}
		limit := len(text)
		if len(cuts) > 0 {
			limit = cuts[0]
		}
		i, n := m.longest(text[at:limit])
		if i < 0 {
			at++
			continue
		}
		tok := &m.tokens[i]
		start, stop := at, at+n
		at = stop
		if tok.SingleWord && (wordBefore(text[:start]) || wordAfter(text[stop:])) {
			continue
		}
		if tok.LStrip {
			start = max(spacesBefore(text[:start]), done)
		}
		if tok.RStrip {
			stop = run(text, stop, space)
		}
		if done < start {
			body(text[done:start], done)
		}
		added(tok.ID)
		done = max(done, stop)
	}
	if done < len(text) {
		body(text[done:], done)
	}
}

func wordBefore(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func wordAfter(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

// spacesBefore is where the white space that ends s begins.
func spacesBefore(s string) int {
	for s != "" {
		r, n := utf8.DecodeLastRuneInString(s)
		if classOf(r) != space {
			break
		}
		s = s[:len(s)-n]
	}
	return len(s)
}
