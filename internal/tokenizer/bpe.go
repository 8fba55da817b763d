package tokenizer

import "github.com/tito-rl/tito/internal/token"

// bpe merges the units of one piece of text, its bytes or its code points: always the pair of the lowest rank, of several the leftmost.
type bpe struct {
	vocab        *vocab
	merges       pairs
	single       [256]uint32 // the id of each byte, in a byte-level vocabulary
	chars        *chars      // nil in a byte-level vocabulary
	whole        []uint64    // bit set of the tokens that their own units merge into
	ignoreMerges bool        // a piece that is a token is that token, whatever the merges say
}

const (
	shortPiece = 48 // bytes up to which a piece is merged by scanning
	noToken    = ^uint32(0)
)

// scratch is working memory that the pieces of one text share.
type scratch struct {
	units []uint32
	nodes []node
	heap  candidates
}

// append appends the tokens of one piece, which is not empty.
func (m *bpe) append(dst []token.ID, piece string, w *scratch) []token.ID {
	if m.chars != nil {
		return m.appendChars(dst, piece, w)
	}
	if len(piece) == 1 {
		return append(dst, token.ID(m.single[piece[0]]))
	}
	if len(piece) <= m.vocab.long {
		if id, ok := m.vocab.find(piece); ok && (m.ignoreMerges || m.isWhole(id)) {
			return append(dst, token.ID(id))
		}
	}
	return m.merged(dst, piece, w)
}

func (m *bpe) isWhole(id uint32) bool { return m.whole[id>>6]>>(id&63)&1 == 1 }

// appendChars cuts a piece further where no merge reaches over: without a pre-tokenizer a piece is all of a text.
func (m *bpe) appendChars(dst []token.ID, piece string, w *scratch) []token.ID {
	if m.ignoreMerges && len(piece) <= m.vocab.long {
		if id, ok := m.vocab.find(piece); ok {
			return append(dst, token.ID(id))
		}
	}
	for piece != "" {
		n := m.chars.word(piece)
		word := piece[:n]
		piece = piece[n:]
		if n <= m.vocab.long {
			if id, ok := m.vocab.find(word); ok && m.isWhole(id) {
				dst = append(dst, token.ID(id))
				continue
			}
		}
		dst = m.merged(dst, word, w)
	}
	return dst
}

// merged appends what the units of a piece merge into.
func (m *bpe) merged(dst []token.ID, piece string, w *scratch) []token.ID {
	if len(piece) <= shortPiece {
		var short [shortPiece]uint32
		units := m.appendUnits(short[:0], piece)
		return m.mergeShort(dst, &short, len(units))
	}
	w.units = m.appendUnits(w.units[:0], piece)
	return m.mergeLong(dst, w)
}

func (m *bpe) appendUnits(dst []uint32, piece string) []uint32 {
	if m.chars != nil {
		return m.chars.appendUnits(dst, piece)
	}
	for i := range len(piece) {
		dst = append(dst, m.single[piece[i]])
	}
	return dst
}

// mergeShort keeps the merge of every adjacent pair and looks for the lowest by scanning.
func (m *bpe) mergeShort(dst []token.ID, ids *[shortPiece]uint32, n int) []token.ID {
	var next [shortPiece]uint64 // next[i] merges ids[i] and ids[i+1]
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

// mergeLong keeps the candidates in a heap, so that its time is n log n. A piece is shorter than 2^31 bytes.
func (m *bpe) mergeLong(dst []token.ID, w *scratch) []token.ID {
	if len(w.units) == 0 {
		return dst
	}
	syms, heap := w.nodes[:0], w.heap[:0]
	for i, id := range w.units {
		syms = append(syms, node{id, int32(i) - 1, int32(i) + 1})
	}
	syms[len(syms)-1].next = -1
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
	w.nodes, w.heap = syms, heap
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

// markWhole finds the tokens that their own units merge into; only those may be taken by lookup.
func (m *bpe) markWhole() {
	m.whole = make([]uint64, len(m.vocab.spans)/64+1)
	var buf []token.ID
	var w scratch
	for _, e := range m.vocab.slots {
		if e.id1 == 0 {
			continue
		}
		id := e.id1 - 1
		piece := string(m.vocab.bytes(id))
		if piece == "" {
			continue
		}
		if buf = m.merged(buf[:0], piece, &w); len(buf) == 1 && buf[0] == token.ID(id) {
			m.whole[id>>6] |= 1 << (id & 63)
		}
	}
}
