package tokenizer

import (
	"sort"
	"strings"
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
	starts [256]int32 // nodes of the contents' first bytes; 0 is none
	only   byte       // the one first byte, where there is just one; else 0
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
		at := int32(0)
		for _, b := range []byte(s) {
			at = m.child(at, b)
		}
		if m.nodes[at].token < 0 {
			m.nodes[at].token = int32(i)
		}
	}
	for _, e := range m.nodes[0].edges {
		m.starts[e.b] = e.to
		m.only = e.b
	}
	if len(m.nodes[0].edges) > 1 {
		m.only = 0
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

// longest is the longest token whose content starts s, which is not empty, and that content's length.
func (m *matcher) longest(s string) (tok int32, n int) {
	tok = -1
	at := m.starts[s[0]]
	for i := 0; at != 0; {
		i++
		if t := m.nodes[at].token; t >= 0 {
			tok, n = t, i
		}
		if i == len(s) {
			break
		}
		next := int32(0)
		for _, e := range m.nodes[at].edges {
			if e.b == s[i] {
				next = e.to
				break
			}
		}
		at = next
	}
	return tok, n
}

// found is one match of an added token: the text from start to stop becomes id, and the search goes on at next.
type found struct {
	id                token.ID
	start, stop, next int
}

// find finds the first match in text from byte at on. done is where the last match's text ended. cuts are byte offsets,
// in order, that no match may hold inside.
func (m *matcher) find(text string, at, done int, cuts []int) (found, bool) {
	for at < len(text) {
		if at = m.skip(text, at); at == len(text) {
			break
		}
		limit := len(text)
		if len(cuts) > 0 {
			i := sort.SearchInts(cuts, at+1)
			if i < len(cuts) {
				limit = cuts[i]
			}
		}
		i, n := m.longest(text[at:limit])
		if i < 0 {
			at++
			continue
		}
		tok := &m.tokens[i]
		f := found{tok.ID, at, at + n, at + n}
		at = f.next
		if tok.SingleWord && (wordBefore(text[:f.start]) || wordAfter(text[f.stop:])) {
			continue
		}
		if tok.LStrip {
			f.start = done + spacesBefore(text[done:max(f.start, done)])
		}
		if tok.RStrip {
			f.stop = run(text, f.stop, space)
		}
		f.stop = max(f.stop, done)
		return f, true
	}
	return found{}, false
}

// skip passes over bytes that begin no content.
func (m *matcher) skip(text string, at int) int {
	if m.only != 0 {
		if i := strings.IndexByte(text[at:], m.only); i >= 0 {
			return at + i
		}
		return len(text)
	}
	for at < len(text) && m.starts[text[at]] == 0 {
		at++
	}
	return at
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
