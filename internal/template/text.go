package template

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Python strings are sequences of code points, lone surrogates among them; here they are WTF-8.

// isSpace is Python's str.isspace for one character.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func isSurrogate(r rune) bool { return r >= 0xD800 && r < 0xE000 }

func appendRune(b []byte, r rune) []byte {
	if isSurrogate(r) {
		return append(b, 0xED, 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
	}
	return utf8.AppendRune(b, r)
}

// decode is the first code point of s and its width.
func decode(s string) (rune, int) {
	if s[0] < utf8.RuneSelf {
		return rune(s[0]), 1
	}
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n == 1 && len(s) >= 3 && s[0] == 0xED {
		return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), 3
	}
	return r, n
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func runeCount(s string) int {
	if !strings.Contains(s, "\xed") || utf8.ValidString(s) {
		return utf8.RuneCountInString(s)
	}
	n := 0
	for len(s) > 0 {
		_, w := decode(s)
		s = s[w:]
		n++
	}
	return n
}

func runes(s string) []rune {
	out := make([]rune, 0, len(s))
	for len(s) > 0 {
		r, n := decode(s)
		out = append(out, r)
		s = s[n:]
	}
	return out
}

func fromRunes(rs []rune) string {
	b := make([]byte, 0, len(rs))
	for _, r := range rs {
		b = appendRune(b, r)
	}
	return string(b)
}

// runeOffset is the byte offset of code point i of s, len(s) past the end.
func runeOffset(s string, i int) int {
	off := 0
	for ; i > 0 && off < len(s); i-- {
		_, n := decode(s[off:])
		off += n
	}
	return off
}

// isLineEnd is what str.splitlines cuts at.
func isLineEnd(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

func splitLines(s string, keep bool) []string {
	var out []string
	for len(s) > 0 {
		i, w := strings.IndexFunc(s, isLineEnd), 0
		if i < 0 {
			return append(out, s)
		}
		_, w = decode(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			w = 2
		}
		if keep {
			out = append(out, s[:i+w])
		} else {
			out = append(out, s[:i])
		}
		s = s[i+w:]
	}
	return out
}
