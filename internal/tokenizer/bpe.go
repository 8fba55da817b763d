package tokenizer

import "github.com/tito-rl/tito/internal/token"

// bpe merges the bytes of one piece of text: always the pair of the lowest rank, of several the leftmost.
type bpe struct {
	vocab        *vocab
	merges       pairs
	single       [256]uint32 // the id of each byte
	whole        []uint64    // bit set of the tokens that their own bytes merge into
	ignoreMerges bool        // a piece that is a token is that token, whatever the merges say
}

const (
	shortPiece = 48 // bytes up to which a piece is merged by scanning
	noToken    = ^uint32(0)
)

// append appends the tokens of one piece.
func (m *bpe) append(dst []token.ID, piece string) []token.ID {
	if len(piece) == 1 {
		return append(dst, token.ID(m.single[piece[0]]))
	}
	if len(piece) <= m.vocab.long {
		if id, ok := m.vocab.find(piece); ok && (m.ignoreMerges || m.whole[id>>6]>>(id&63)&1 == 1) {
			return append(dst, token.ID(id))
		}
	}
	if len(piece) <= shortPiece {
		return m.appendShort(dst, piece)
	}
	return m.appendLong(dst, piece)
}

// appendShort keeps the merge of every adjacent pair and looks for the lowest by scanning.
func (m *bpe) appendShort(dst []token.ID, piece string) []token.ID {
	var ids [shortPiece]uint32
	var next [shortPiece]uint64 // next[i] merges ids[i] and ids[i+1]
	n := len(piece)
	for i := range n {
		ids[i] = m.single[piece[i]]
	}
	for i := range n - 1 {
		next[i] = m.merges.get(ids[i], ids[i+1])
	}
	for n > 1 {
		best, at := noMerge, 0
		for i, v := range next[:n-1] {
			if v < best {
				best, at = v, i
			}
		}
		if best == noMerge {
			break
		}
		ids[at] = uint32(best)
		copy(ids[at+1:n-1], ids[at+2:n])
		copy(next[at:n-2], next[at+1:n-1])
		n--
		if at > 0 {
			next[at-1] = m.merges.get(ids[at-1], ids[at])
		}
		if at < n-1 {
			next[at] = m.merges.get(ids[at], ids[at+1])
		}
	}
	for _, id := range ids[:n] {
		dst = append(dst, token.ID(id))
	}
	return dst
}

// node is a token of a long piece, linked to its neighbours by index; -1 is none.
type node struct {
	id         uint32
	prev, next int32
}

// candidate is a merge of the node at and the one after it.
type candidate struct {
	merge uint64
	at    int32
}

func (c candidate) less(d candidate) bool {
	return c.merge>>32 < d.merge>>32 || c.merge>>32 == d.merge>>32 && c.at < d.at
}

// appendLong keeps the candidates in a heap, so that its time is n log n.
func (m *bpe) appendLong(dst []token.ID, piece string) []token.ID {
	syms := make([]node, len(piece))
	for i := range syms {
		syms[i] = node{m.single[piece[i]], int32(i) - 1, int32(i) + 1}
	}
	syms[len(syms)-1].next = -1
	heap := make(candidates, 0, len(piece))
	for i := range len(syms) - 1 {
		if v := m.merges.get(syms[i].id, syms[i+1].id); v != noMerge {
			heap = append(heap, candidate{v, int32(i)})
		}
	}
	heap.init()
	for len(heap) > 0 {
		c := heap.pop()
		s := &syms[c.at]
		// A candidate is stale when one of its two symbols has changed; a node that is gone has no id.
		if s.id == noToken || s.next < 0 || m.merges.get(s.id, syms[s.next].id) != c.merge {
			continue
		}
		gone := &syms[s.next]
		s.id, s.next = uint32(c.merge), gone.next
		gone.id = noToken
		if s.next >= 0 {
			syms[s.next].prev = c.at
			if v := m.merges.get(s.id, syms[s.next].id); v != noMerge {
				heap.push(candidate{v, c.at})
			}
		}
		if s.prev >= 0 {
			if v := m.merges.get(syms[s.prev].id, s.id); v != noMerge {
				heap.push(candidate{v, s.prev})
			}
		}
	}
	for i := int32(0); i >= 0; i = syms[i].next {
		dst = append(dst, token.ID(syms[i].id))
	}
	return dst
}

// candidates is a binary heap, lowest first.
type candidates []candidate

func (h candidates) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *candidates) push(c candidate) {
	*h = append(*h, c)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].less(s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *candidates) pop() candidate {
	s := *h
	top := s[0]
	s[0] = s[len(s)-1]
	*h = s[:len(s)-1]
	h.down(0)
	return top
}

func (h candidates) down(i int) {
	for {
		low := 2*i + 1
		if low >= len(h) {
			return
		}
		if low+1 < len(h) && h[low+1].less(h[low]) {
			low++
		}
		if !h[low].less(h[i]) {
			return
		}
		h[i], h[low] = h[low], h[i]
		i = low
	}
}

// markWhole finds the tokens that their own bytes merge into; only those may be taken by lookup.
func (m *bpe) markWhole() {
	m.whole = make([]uint64, len(m.vocab.spans)/64+1)
	var buf []token.ID
	for _, e := range m.vocab.slots {
		if e.id1 == 0 {
			continue
		}
		id := e.id1 - 1
		piece := string(m.vocab.bytes(id))
		if piece == "" {
			continue
		}
		if len(piece) <= shortPiece {
			buf = m.appendShort(buf[:0], piece)
		} else {
			buf = m.appendLong(buf[:0], piece)
		}
		if len(buf) == 1 && buf[0] == token.ID(id) {
			m.whole[id>>6] |= 1 << (id & 63)
		}
	}
}
