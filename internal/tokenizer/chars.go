package tokenizer

import "unicode/utf8"

// chars says what the code points of a text become, in a vocabulary that is not byte-level: each its own token; else
// the tokens of its bytes, where the vocabulary has those of all of them; else the token for the unknown; else nothing.
type chars struct {
	index [0x1100]uint16 // of a page, by the code point's upper bits; 0 is none
	pages [][256]uint32  // 1 + id; 0 is no token
	bytes [256]uint32    // noToken where absent
	unk   uint32         // noToken where there is none
	fuse  bool           // one token for several unknown code points in a row
	joins *pairsOfRunes  // nil where text must not be cut
}

func (c *chars) set(r rune, id uint32) {
	i := &c.index[r>>8]
	if *i == 0 {
		if len(c.pages) == 0 {
			c.pages = make([][256]uint32, 1)
		}
		*i = uint16(len(c.pages))
		c.pages = append(c.pages, [256]uint32{})
	}
	c.pages[*i][r&0xFF] = id + 1
}

func (c *chars) get(r rune) (uint32, bool) {
	if i := c.index[r>>8]; i != 0 {
		if id1 := c.pages[i][r&0xFF]; id1 != 0 {
			return id1 - 1, true
		}
	}
	return 0, false
}

// appendUnits appends the tokens of s before merging: at most one a byte.
func (c *chars) appendUnits(dst []uint32, s string) []uint32 {
	unknown := false // a token for the unknown is due
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		id, ok := c.get(r)
		switch {
		case ok && (r != utf8.RuneError || n > 1):
			if unknown {
				dst, unknown = append(dst, c.unk), false
			}
			dst = append(dst, id)
		case c.hasBytes(s[i : i+n]):
			for _, b := range []byte(s[i : i+n]) {
				dst = append(dst, c.bytes[b])
			}
		case c.unk != noToken:
			if unknown && !c.fuse {
				dst = append(dst, c.unk)
			}
			unknown = true
		}
		i += n
	}
	if unknown {
		dst = append(dst, c.unk)
	}
	return dst
}

func (c *chars) hasBytes(s string) bool {
	for i := range len(s) {
		if c.bytes[s[i]] == noToken {
			return false
		}
	}
	return true
}

// whole is whether every byte has a token, so that nothing is unknown.
func (c *chars) whole() bool {
	for _, id := range c.bytes {
		if id == noToken {
			return false
		}
	}
	return true
}

// word is how much of s is merged on its own: it ends where no merge reaches over.
func (c *chars) word(s string) int {
	if c.joins == nil {
		return len(s)
	}
	before, n := utf8.DecodeRuneInString(s)
	for n < len(s) {
		after, k := rune(s[n]), 1
		if after >= utf8.RuneSelf {
			after, k = utf8.DecodeRuneInString(s[n:])
		}
		if !c.joins.has(before, after) {
			return n
		}
		before = after
		n += k
	}
	return n
}

// pairsOfRunes is a set of pairs of code points: a table for the common ones, and a hash set.
type pairsOfRunes struct {
	common [129][3]uint64 // bit sets
	slots  []uint64       // open addressing, linear probing; a power of two; 0 is empty
}

// commonRune numbers ASCII and the mark that stands for a space.
func commonRune(r rune) uint32 {
	if r == '▁' {
		return 128
	}
	return uint32(r)
}

func (p *pairsOfRunes) has(a, b rune) bool {
	x, y := commonRune(a), commonRune(b)
	if x <= 128 && y <= 128 {
		return p.common[x][y>>6]>>(y&63)&1 == 1
	}
	key, mask := uint64(a)<<32|uint64(b), uint64(len(p.slots)-1)
	for i := pairHash(key) & mask; ; i = (i + 1) & mask {
		switch p.slots[i] {
		case key:
			return true
		case 0:
			return false
		}
	}
}

// joins are the pairs of code points at which some merge joins two tokens. It is nil where a merge takes a token that
// stands for a byte or for the unknown: then what stands beside it is not what the text has.
func (m *bpe) joins(list []merge) *pairsOfRunes {
	c := m.chars
	if !c.whole() { // what is unknown may fuse, or vanish
		return nil
	}
	special := map[uint32]bool{c.unk: true}
	for _, id := range c.bytes {
		special[id] = true
	}
	p := &pairsOfRunes{}
	rest := map[uint64]bool{}
	for _, g := range list {
		if special[g.a] || special[g.b] {
			return nil
		}
		a, _ := utf8.DecodeLastRune(m.vocab.bytes(g.a))
		b, _ := utf8.DecodeRune(m.vocab.bytes(g.b))
		if x, y := commonRune(a), commonRune(b); x <= 128 && y <= 128 {
			p.common[x][y>>6] |= 1 << (y & 63)
		} else {
			rest[uint64(a)<<32|uint64(b)] = true
		}
	}
	p.slots = make([]uint64, tableSize(len(rest)))
	mask := uint64(len(p.slots) - 1)
	for key := range rest {
		i := pairHash(key) & mask
		for p.slots[i] != 0 {
			i = (i + 1) & mask
		}
		p.slots[i] = key
	}
	return p
}
