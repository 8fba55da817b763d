package tokenizer

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// form is a Unicode normalisation form other than C, by its definition.
type form struct{ compat, compose bool }

func (f form) normal(s string) string {
	if ascii(s) {
		return s
	}
	decompose := norm.NFD
	if f.compat {
		decompose = norm.NFKD
	}
	var out []byte
	var run []composing
	flush := func() {
		order(run)
		if f.compose {
			run = compose(run)
		}
		for _, m := range run {
			out = utf8.AppendRune(out, m.r)
		}
		run = run[:0]
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || inRanges(nfcSkip[:], r) || f.compat && inRanges(compatSkip[:], r) {
			flush()
			out = append(out, s[i:i+n]...)
		} else {
			for dec := decompose.Bytes([]byte(s[i : i+n])); len(dec) > 0; {
				r, k := utf8.DecodeRune(dec)
				run = append(run, composing{r, norm.NFD.Properties(dec).CCC()})
				dec = dec[k:]
			}
		}
		i += n
	}
	flush()
	return string(out)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func inRanges(list [][2]rune, r rune) bool {
	i := sort.Search(len(list), func(i int) bool { return list[i][1] >= r })
	return i < len(list) && list[i][0] <= r
}

// stripAccents takes marks away.
type stripAccents struct{}

func (stripAccents) normal(s string) string {
	return mapRunes(s, func(r rune) bool { return (classOf(r) == mark) != inRanges(accentOther[:], r) }, func(rune) string { return "" })
}

// lowered maps each code point on its own.
type lowered struct{}

func (lowered) normal(s string) string {
	return mapRunes(s, func(r rune) bool { return lowerOf(r) != string(r) }, lowerOf)
}

// lowerOf is the lower case of Unicode 17, which Go does not have yet.
func lowerOf(r rune) string {
	switch {
	case r == 0x130:
		return "i\u0307"
	case r == 0x1C89, r == 0xA7CC, r == 0xA7CE, r == 0xA7D2, r == 0xA7D4, r == 0xA7DA:
		return string(r + 1)
	case r == 0xA7CB:
		return "\u0264"
	case r == 0xA7DC:
		return "\u019B"
	case r >= 0x10D50 && r <= 0x10D65:
		return string(r + 0x20)
	case r >= 0x16EA0 && r <= 0x16EB8:
		return string(r + 0x1B)
	}
	return string(unicode.ToLower(r))
}

// mapRunes replaces the code points that change. Bytes that are not UTF-8 stay.
func mapRunes(s string, changes func(rune) bool, to func(rune) string) string {
	var out strings.Builder
	done := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if (r != utf8.RuneError || n > 1) && changes(r) {
			out.WriteString(s[done:i])
			out.WriteString(to(r))
			done = i + n
		}
		i += n
	}
	if done == 0 {
		return s
	}
	out.WriteString(s[done:])
	return out.String()
}

// punctuation matches each punctuation character; all of ASCII's that are no letter, digit or space are.
type punctuation struct{}

func (punctuation) find(s string, each func(start, end int)) {
	for at := 0; at < len(s); {
		class, n := classAt(s[at:])
		is := class&punct != 0
		if n == 1 {
			is = class&(punct|symbol) != 0
		} else if r, _ := utf8.DecodeRuneInString(s[at:]); inRanges(punctOther[:], r) {
			is = !is
		}
		if is {
			each(at, at+n)
		}
		at += n
	}
}
