package tokenizer

import (
	"math/bits"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/token"
)

// maxID bounds the ids of a file, so that a hostile one cannot ask for all memory.
const maxID = 1 << 22

// span is where a token's bytes lie in vocab.arena. n is present plus the length, so that the zero span is no token.
type span struct{ off, n uint32 }

const present = 1 << 31

// vocab holds the bytes of every token and finds tokens by their bytes.
//
// A byte-level vocabulary writes bytes in an alphabet of its own, one printable code point a byte. Entries that are
// written otherwise cannot come out of merging; they are kept in odd, by their spelling. Other vocabularies are plain text.
type vocab struct {
	byteLevel bool

	arena []byte
	spans []span
	slots []slot // open addressing, linear probing; a power of two
	odd   map[string]token.ID
	long  int // bytes of the longest token
}

type slot struct{ hash, id1 uint32 } // id1 is 1 + id; 0 is an empty slot

func newVocab(n int, byteLevel bool) *vocab {
	return &vocab{byteLevel: byteLevel, slots: make([]slot, tableSize(n)), odd: map[string]token.ID{}}
}

// tableSize is a power of two with room for n entries.
func tableSize(n int) int { return 1 << bits.Len(uint(n+n/2+16)) }

// place gives id the bytes from off to the end of the arena; false if the id is taken.
func (v *vocab) place(off, id uint32) bool {
	if need := int(id) + 1; need > len(v.spans) {
		v.spans = append(v.spans, make([]span, need-len(v.spans))...)
	}
	if v.spans[id].n != 0 {
		return false
	}
	n := uint32(len(v.arena)) - off
	v.spans[id] = span{off, present | n}
	v.long = max(v.long, int(n))
	return true
}

// index makes id findable by its bytes; false if they are another token's.
func (v *vocab) index(id uint32) bool {
	b := v.bytes(id)
	h := hashString(string(b))
	mask := uint32(len(v.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch s := v.slots[i]; {
		case s.id1 == 0:
			v.slots[i] = slot{h, id + 1}
			return true
		case s.hash == h && string(v.bytes(s.id1-1)) == string(b):
			return false
		}
	}
}

// keepOdd makes id findable by its spelling; false if that is another token's.
func (v *vocab) keepOdd(id uint32) bool {
	spelling := string(v.bytes(id))
	_, twice := v.odd[spelling]
	v.odd[spelling] = token.ID(id)
	return !twice
}

func (v *vocab) has(id uint32) bool { return int(id) < len(v.spans) && v.spans[id].n != 0 }

// bytes are those of a known id.
func (v *vocab) bytes(id uint32) []byte {
	s := v.spans[id]
	end := s.off + s.n&^present
	return v.arena[s.off:end:end]
}

// find is the id of the token with these bytes.
func (v *vocab) find(s string) (uint32, bool) {
	h := hashString(s)
	mask := uint32(len(v.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		e := v.slots[i]
		if e.id1 == 0 {
			return 0, false
		}
		if e.hash == h && string(v.bytes(e.id1-1)) == s {
			return e.id1 - 1, true
		}
	}
}

// spelled is the id of an entry as the file writes it. buf is scratch space, given back grown.
func (v *vocab) spelled(s []byte, buf []byte) (uint32, []byte, bool) {
	buf, ok := v.appendBytes(buf[:0], s)
	if !ok {
		id, found := v.odd[string(s)]
		return uint32(id), buf, found
	}
	id, found := v.find(string(buf))
	return id, buf, found
}

// appendBytes appends the bytes of an entry that is written as s; false where it is none of the byte-level alphabet.
func (v *vocab) appendBytes(dst, s []byte) ([]byte, bool) {
	if v.byteLevel {
		return appendUnspelled(dst, s)
	}
	return append(dst, s...), utf8.Valid(s)
}

func hashString(s string) uint32 {
	const k = 0x9E3779B97F4A7C15
	h := uint64(len(s)) * k
	for len(s) >= 8 {
		h = mix(h ^ le64(s))
		s = s[8:]
	}
	var tail uint64
	for i := range len(s) {
		tail |= uint64(s[i]) << (8 * i)
	}
	h = mix(h ^ tail)
	return uint32(h ^ h>>32)
}

func mix(x uint64) uint64 {
	hi, lo := bits.Mul64(x^0xA0761D6478BD642F, 0xE7037ED1A0B428DB)
	return hi ^ lo
}

func le64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// unspell maps each code point of the byte-level alphabet to 1 + its byte, others to 0. Printable Latin-1 stands for
// itself; the other 68 bytes are written from U+0100 on, in order.
var unspell = func() (t [0x144]uint16) {
	next := 0x100
	for b := range 256 {
		if printable(b) {
			t[b] = uint16(b) + 1
		} else {
			t[next] = uint16(b) + 1
			next++
		}
	}
	return t
}()

func printable(b int) bool { return b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE }

// appendUnspelled appends the bytes that s stands for; false where a code point is not in the byte-level alphabet.
func appendUnspelled(dst, s []byte) ([]byte, bool) {
	for i := 0; i < len(s); {
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(s[i:])
		}
		if int(r) >= len(unspell) || unspell[r] == 0 || r == utf8.RuneError {
			return dst, false
		}
		dst = append(dst, byte(unspell[r]-1))
		i += n
	}
	return dst, true
}

// pairs maps two adjacent ids to their merge: rank<<32 | id of the result.
type pairs struct {
	slots []pair // open addressing, linear probing; a power of two; empty where merge is noMerge
}

type pair struct{ key, merge uint64 }

// noMerge is above every merge.
const noMerge = ^uint64(0)

func newPairs(n int) pairs {
	s := make([]pair, tableSize(n))
	for i := range s {
		s[i].merge = noMerge
	}
	return pairs{s}
}

func pairKey(a, b uint32) uint64 { return uint64(a)<<32 | uint64(b) }

func pairHash(key uint64) uint64 { return (key ^ key>>29) * 0x9E3779B97F4A7C15 >> 20 }

// set enters a merge; of two for one pair the later counts, as in the reference.
func (p pairs) set(a, b uint32, merge uint64) {
	key, mask := pairKey(a, b), uint64(len(p.slots)-1)
	for i := pairHash(key) & mask; ; i = (i + 1) & mask {
		if e := &p.slots[i]; e.merge == noMerge || e.key == key {
			*e = pair{key, merge}
			return
		}
	}
}

// get is the merge of a and b, or noMerge.
func (p pairs) get(a, b uint32) uint64 {
	key, mask := pairKey(a, b), uint64(len(p.slots)-1)
	for i := pairHash(key) & mask; ; i = (i + 1) & mask {
		e := &p.slots[i]
		if e.merge == noMerge || e.key == key {
			return e.merge
		}
	}
}
