package template

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

func titleFilter(s string) string {
	var b []byte
	start := true
	for len(s) > 0 {
		c, n := decode(s)
		switch {
		case c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || isSpace(c):
			b = append(b, s[:n]...)
			start = true
		case start:
			b = append(b, upper(s[:n])...)
			start = false
		default:
			b = append(b, lower(s[:n])...)
		}
		s = s[n:]
	}
	return string(b)
}

func upper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	return cases.Upper(language.Und).String(s)
}

func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	return cases.Lower(language.Und).String(s)
}

func capitalize(s string) string {
	if s == "" {
		return s
	}
	_, n := decode(s)
	return titleCase(s[:n]) + lowerAfter(s, n)
}

// titleCase is the title case of one character.
func titleCase(c string) string {
	if isASCII(c) {
		return strings.ToUpper(c)
	}
	return cases.Title(language.Und).String(c)
}

// lowerAfter is s[n:] in lower case, which for a final sigma depends on what is before it.
func lowerAfter(s string, n int) string {
	if isASCII(s) {
		return strings.ToLower(s[n:])
	}
	return lower(s[n:])
}

func titleWords(s string) string {
	var b []byte
	start := true
	for len(s) > 0 {
		r, n := decode(s)
		switch {
		case !isCased(r):
			b = append(b, s[:n]...)
			start = true
			s = s[n:]
			continue
		case start:
			b = append(b, titleCase(s[:n])...)
		default:
			b = append(b, lower(s[:n])...)
		}
		start = false
		s = s[n:]
	}
	return string(b)
}

func isCased(r rune) bool { return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) }

func swapCase(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := decode(s)
		if unicode.IsUpper(r) {
			b.WriteString(lower(s[:n]))
		} else {
			b.WriteString(upper(s[:n]))
		}
		s = s[n:]
	}
	return b.String()
}

func isUpperStr(s string) bool {
	cased := false
	for _, r := range s {
		if unicode.IsLower(r) || unicode.IsTitle(r) {
			return false
		}
		cased = cased || unicode.IsUpper(r)
	}
	return cased
}

func isLowerStr(s string) bool {
	cased := false
	for _, r := range s {
		if unicode.IsUpper(r) || unicode.IsTitle(r) {
			return false
		}
		cased = cased || unicode.IsLower(r)
	}
	return cased
}

func isTitleStr(s string) bool {
	cased, inWord := false, false
	for _, r := range s {
		switch {
		case unicode.IsUpper(r) || unicode.IsTitle(r):
			if inWord {
				return false
			}
			inWord, cased = true, true
		case unicode.IsLower(r):
			if !inWord {
				return false
			}
		default:
			inWord = false
		}
	}
	return cased
}

func isDigitRune(r rune) bool {
	return unicode.IsDigit(r) || strings.ContainsRune("²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", r) || r >= '①' && r <= '⑨'
}

func isIdentifier(s string) bool {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !isNameRune(r)) {
			return false
		}
	}
	return s != ""
}
