package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"

	"github.com/tito-rl/tito/internal/fault"
)

// regex finds the matches of a pattern that has no scanner of its own: slow, and correct.
type regex struct{ re *regexp2.Regexp }

func compileRegex(pattern string) (regex, error) {
	pinned, err := pinClasses(pattern)
	if err != nil {
		return regex{}, err
	}
	re, err := regexp2.Compile(pinned)
	if err != nil {
		return regex{}, fault.New(fault.UnsupportedTokenizer, "tokenizer.json: pattern %q: %v", pattern, err)
	}
	return regex{re}, nil
}

func (x regex) find(s string, each func(start, end int)) {
	runes := []rune(s)
	at, pos := 0, 0 // runes passed, and the bytes that they take
	pass := func(end int) int {
		for ; at < end; at++ {
			pos += width(s[pos:], runes[at])
		}
		return pos
	}
	m, err := x.re.FindRunesMatch(runes)
	for err == nil && m != nil { // an error is a timeout, and none is set
		start := pass(m.RuneIndex)
		if end := pass(m.RuneIndex + m.RuneLength); end > start {
			each(start, end)
		}
		m, err = x.re.FindNextMatch(m)
	}
}

// width is the bytes of r at the start of s: a byte that is not UTF-8 was read as one U+FFFD.
func width(s string, r rune) int {
	if r != utf8.RuneError {
		return utf8.RuneLen(r)
	}
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// properties are the classes that the pinned tables know, by their name in a pattern.
var properties = map[string]func(rune) bool{
	"L":  func(r rune) bool { return classOf(r)&anyLetter != 0 },
	"M":  func(r rune) bool { return classOf(r) == mark },
	"N":  func(r rune) bool { return classOf(r) == number },
	"P":  func(r rune) bool { return classOf(r) == punct },
	"S":  func(r rune) bool { return classOf(r) == symbol },
	"Ll": func(r rune) bool { return classOf(r) == lower },
}

// pinClasses writes out the Unicode classes of a pattern as ranges of the pinned tables. A class that they lack is
// refused by name.
func pinClasses(pattern string) (string, error) {
	pattern = strings.ReplaceAll(pattern, `\p{Lu}\p{Lt}`, `\p{upper}`)
	pattern = strings.ReplaceAll(pattern, `\p{Lm}\p{Lo}`, `\p{other}`)
	var out strings.Builder
	inside := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case c == '\\' && i+1 < len(pattern):
			i++
			switch e := pattern[i]; e {
			case 'p', 'P':
				name, rest, ok := strings.Cut(strings.TrimPrefix(pattern[i+1:], "{"), "}")
				set := propertySet(name)
				if !ok || set == nil || e == 'P' && inside {
					return "", fault.New(fault.UnsupportedTokenizer, `tokenizer.json: pattern %q: class \%c{%s}`, pattern, e, name)
				}
				switch {
				case inside:
					out.WriteString(ranges(set))
				case e == 'P':
					out.WriteString("[^" + ranges(set) + "]")
				default:
					out.WriteString("[" + ranges(set) + "]")
				}
				i = len(pattern) - len(rest) - 1
				continue
			case 'w', 'W', 'd', 'D', 'b', 'B', 'h', 'H', 'X', 'R', 'K', 'G':
				return "", fault.New(fault.UnsupportedTokenizer, `tokenizer.json: pattern %q: \%c`, pattern, e)
			}
			out.WriteByte('\\')
		}
		out.WriteByte(pattern[i])
	}
	return out.String(), nil
}

func propertySet(name string) func(rune) bool {
	switch name {
	case "upper":
		return func(r rune) bool { return classOf(r) == upper }
	case "other":
		return func(r rune) bool { return classOf(r) == letter }
	}
	return properties[name]
}

// ranges writes a set as the inside of a bracket expression. Nothing from U+32400 on has a class, but a block of tags and
// variation selectors.
func ranges(set func(rune) bool) string {
	var b strings.Builder
	for r := rune(0); r < 0xE0200; r++ {
		if r == 0x32400 {
			r = 0xE0000
		}
		if !set(r) {
			continue
		}
		from := r
		for set(r + 1) {
			r++
		}
		b.WriteString(quoteRune(from) + "-" + quoteRune(r))
	}
	return b.String()
}

func quoteRune(r rune) string {
	if r < utf8.RuneSelf {
		return fmt.Sprintf(`\x%02X`, r)
	}
	return string(r)
}
