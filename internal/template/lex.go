package template

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/fault"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokNumber
	tokOp
)

type tok struct {
	kind tokenKind
	text string // operator, name, data, a string's value
	num  value
	line int
}

func badTemplate(line int, format string, args ...any) error {
	e := fault.New(fault.BadTemplate, format, args...)
	e.Msg = "chat template, line " + strconv.Itoa(line) + ": " + e.Msg
	return e
}

// lexer cuts source into tokens. Compile-time failures travel as panics of type error up to Compile.
type lexer struct {
	src       string
	pos, line int
	toks      []tok
	lineStart bool // the last match ended a line
}

// normalize makes every line end one \n and drops one at the very end, as Jinja does before it looks at anything else.
func normalize(src string) string {
	if strings.Contains(src, "\r") {
		src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	}
	return strings.TrimSuffix(src, "\n")
}

func lex(src string) []tok {
	l := &lexer{src: normalize(src), line: 1, lineStart: true}
	for l.pos < len(l.src) {
		l.root()
	}
	return append(l.toks, tok{kind: tokEOF, line: l.line})
}

func (l *lexer) fail(format string, args ...any) { panic(badTemplate(l.line, format, args...)) }

func (l *lexer) add(t tok) {
	t.line = l.line
	l.toks = append(l.toks, t)
}

// advance moves to end and keeps count of lines.
func (l *lexer) advance(end int) {
	if end > l.pos {
		part := l.src[l.pos:end]
		l.line += strings.Count(part, "\n")
		l.lineStart = part[len(part)-1] == '\n'
		l.pos = end
	}
}

func (l *lexer) spaceEnd(i int) int {
	for i < len(l.src) {
		r, n := utf8.DecodeRuneInString(l.src[i:])
		if !isSpace(r) {
			break
		}
		i += n
	}
	return i
}

// root reads template data up to the next tag, and that tag.
func (l *lexer) root() {
	from, at := l.pos, l.pos
	for {
		i := strings.IndexByte(l.src[at:], '{')
		if i < 0 || at+i+1 >= len(l.src) {
			l.data(l.src[from:])
			l.advance(len(l.src))
			return
		}
		at += i
		if c := l.src[at+1]; c == '%' || c == '#' || c == '{' {
			break
		}
		at++
	}
	sign := byte(0)
	inner := at + 2
	if inner < len(l.src) && (l.src[inner] == '-' || l.src[inner] == '+') {
		sign = l.src[inner]
		inner++
	}
	text := l.strip(l.src[from:at], sign, l.src[at+1] != '{')
	l.data(text)
	switch l.src[at+1] {
	case '#':
		l.advance(inner)
		l.comment()
	case '{':
		l.advance(inner)
		l.add(tok{kind: tokVarBegin})
		l.code(tokVarEnd)
	default:
		if end, ok := l.rawBegin(inner); ok {
			l.advance(end)
			l.raw()
			return
		}
		l.advance(inner)
		l.add(tok{kind: tokBlockBegin})
		l.code(tokBlockEnd)
	}
}

func (l *lexer) data(s string) {
	if s != "" {
		l.add(tok{kind: tokData, text: s})
	}
}

// strip is what whitespace control leaves of the text before a tag.
func (l *lexer) strip(text string, sign byte, block bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, isSpace)
	}
	if sign == '+' || !block {
		return text
	}
	nl := strings.LastIndexByte(text, '\n') + 1
	if (nl > 0 || l.lineStart) && strings.TrimLeftFunc(text[nl:], isSpace) == "" {
		return text[:nl]
	}
	return text
}

// tagEnd is where a block or comment tag that closes at i (with width two) ends, given the sign before it.
func (l *lexer) tagEnd(i int, sign byte) int {
	i += 2
	switch {
	case sign == '-':
		return l.spaceEnd(i)
	case sign != '+' && i < len(l.src) && l.src[i] == '\n':
		return i + 1
	}
	return i
}

func (l *lexer) comment() {
	i := strings.Index(l.src[l.pos:], "#}")
	if i < 0 {
		if l.pos == len(l.src) {
			return // Jinja2 does not mind a comment that opens at the very end
		}
		l.fail("a comment without its end")
	}
	i += l.pos
	sign := byte(0)
	if i > l.pos {
		sign = l.src[i-1]
	}
	l.advance(l.tagEnd(i, sign))
}

// rawBegin is the end of a raw tag whose inside starts at i.
func (l *lexer) rawBegin(i int) (int, bool) {
	i = l.spaceEnd(i)
	if !strings.HasPrefix(l.src[i:], "raw") {
		return 0, false
	}
	i = l.spaceEnd(i + 3)
	if strings.HasPrefix(l.src[i:], "-%}") {
		return l.spaceEnd(i + 3), true
	}
	return i + 2, strings.HasPrefix(l.src[i:], "%}")
}

func (l *lexer) raw() {
	for at := l.pos; ; at += 2 {
		i := strings.Index(l.src[at:], "{%")
		if i < 0 {
			if l.pos == len(l.src) {
				return // nor a raw block
			}
			l.fail("a raw block without its end")
		}
		at += i
		j, sign := at+2, byte(0)
		if j < len(l.src) && (l.src[j] == '-' || l.src[j] == '+') {
			sign = l.src[j]
			j++
		}
		j = l.spaceEnd(j)
		if !strings.HasPrefix(l.src[j:], "endraw") {
			continue
		}
		j = l.spaceEnd(j + 6)
		end := byte(0)
		if j < len(l.src) && (l.src[j] == '-' || l.src[j] == '+') {
			end = l.src[j]
			j++
		}
		if !strings.HasPrefix(l.src[j:], "%}") {
			continue
		}
		l.data(l.strip(l.src[l.pos:at], sign, true))
		l.advance(l.tagEnd(j, end))
		return
	}
}

// code reads tokens up to the end of a tag.
func (l *lexer) code(end tokenKind) {
	var open []byte
	for {
		if l.pos >= len(l.src) {
			return // the parser sees the missing end
		}
		if len(open) == 0 && l.closeTag(end) {
			return
		}
		c := l.src[l.pos]
		r, _ := utf8.DecodeRuneInString(l.src[l.pos:])
		switch {
		case isSpace(r):
			l.advance(l.spaceEnd(l.pos))
		case c >= '0' && c <= '9':
			l.number()
		case isNameRune(r):
			l.name()
		case c == '"' || c == '\'':
			l.str(c)
		default:
			open = l.operator(open)
		}
	}
}

func (l *lexer) closeTag(end tokenKind) bool {
	i, sign := l.pos, byte(0)
	if c := l.src[i]; c == '-' || c == '+' && end == tokBlockEnd {
		sign = c
		i++
	}
	if end == tokVarEnd {
		if !strings.HasPrefix(l.src[i:], "}}") {
			return false
		}
		i += 2
		if sign == '-' {
			i = l.spaceEnd(i)
		}
	} else {
		if !strings.HasPrefix(l.src[i:], "%}") {
			return false
		}
		i = l.tagEnd(i, sign)
	}
	l.add(tok{kind: end})
	l.advance(i)
	return true
}

func isNameRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.M, r)
}

func (l *lexer) name() {
	i := l.pos
	for i < len(l.src) {
		r, n := utf8.DecodeRuneInString(l.src[i:])
		if !isNameRune(r) {
			break
		}
		i += n
	}
	l.add(tok{kind: tokName, text: l.src[l.pos:i]})
	l.advance(i)
}

// digits is the end of digits joined by single underscores.
func digits(s string, i int, ok func(byte) bool) int {
	for i < len(s) && (ok(s[i]) || s[i] == '_' && i+1 < len(s) && ok(s[i+1])) {
		i++
	}
	return i
}

func isDecimal(c byte) bool { return c-'0' < 10 }

func (l *lexer) number() {
	s, i := l.src, l.pos
	afterDot := i > 0 && s[i-1] == '.'
	end := digits(s, i, isDecimal)
	isFloat := false
	if !afterDot {
		if end+1 < len(s) && s[end] == '.' && isDecimal(s[end+1]) {
			end, isFloat = digits(s, end+1, isDecimal), true
		}
		if end < len(s) && s[end]|0x20 == 'e' {
			j := end + 1
			if j < len(s) && (s[j] == '+' || s[j] == '-') {
				j++
			}
			if j < len(s) && isDecimal(s[j]) {
				end, isFloat = digits(s, j, isDecimal), true
			}
		}
	}
	base := 10
	if !isFloat && s[i] == '0' {
		end, base = zeroPrefixed(s, i)
	}
	text := strings.ReplaceAll(s[i:end], "_", "")
	var v value
	if isFloat {
		f, _ := strconv.ParseFloat(text, 64)
		v = floatOf(f)
	} else {
		if base != 10 {
			text = text[2:]
		}
		n, ok := new(big.Int).SetString(text, base)
		if !ok || len(text) > maxIntDigits {
			l.fail("not a number: %.40s", text)
		}
		v = bigOf(n)
	}
	l.add(tok{kind: tokNumber, num: v})
	l.advance(end)
}

// zeroPrefixed ends an integer that starts with 0: a prefixed one, or zeros alone.
func zeroPrefixed(s string, i int) (end, base int) {
	if i+2 < len(s) {
		var ok func(byte) bool
		switch s[i+1] | 0x20 {
		case 'x':
			base, ok = 16, func(c byte) bool { return isDecimal(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
		case 'o':
			base, ok = 8, func(c byte) bool { return c >= '0' && c <= '7' }
		case 'b':
			base, ok = 2, func(c byte) bool { return c == '0' || c == '1' }
		}
		if ok != nil {
			if end = digits(s, i+2, ok); end > i+2 {
				return end, base
			}
		}
	}
	return digits(s, i, func(c byte) bool { return c == '0' }), 10
}

const doubleOps = "** // == != >= <="

func (l *lexer) operator(open []byte) []byte {
	op := l.src[l.pos : l.pos+1]
	if l.pos+1 < len(l.src) && l.src[l.pos+1] > ' ' && strings.Contains(doubleOps, l.src[l.pos:l.pos+2]) {
		op = l.src[l.pos : l.pos+2]
	}
	switch op {
	case "(":
		open = append(open, ')')
	case "[":
		open = append(open, ']')
	case "{":
		open = append(open, '}')
	case ")", "]", "}":
		if len(open) == 0 || open[len(open)-1] != op[0] {
			l.fail("unexpected %s", op)
		}
		open = open[:len(open)-1]
	default:
		if len(op) == 1 && !strings.Contains("+-/*%~<>=.:|,;", op) {
			l.fail("unexpected character %q", l.src[l.pos])
		}
	}
	l.add(tok{kind: tokOp, text: op})
	l.advance(l.pos + len(op))
	return open
}

func (l *lexer) str(quote byte) {
	i := l.pos + 1
	for i < len(l.src) && l.src[i] != quote {
		if l.src[i] == '\\' {
			i++
		}
		i++
	}
	if i >= len(l.src) {
		l.fail("a string without its end")
	}
	s, ok := unescape(l.src[l.pos+1 : i])
	if !ok {
		l.fail("a bad escape in a string")
	}
	l.add(tok{kind: tokString, text: s})
	l.advance(i + 1)
}

// unescape reads Python's string escapes. Escapes that Python does not know stay as they are.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		i++
		if i >= len(s) {
			return "", false
		}
		width := 0
		switch c := s[i]; c {
		case '\n':
		case '\\', '\'', '"':
			b = append(b, c)
		case 'x':
			width = 2
		case 'u':
			width = 4
		case 'U':
			width = 8
		case 'N':
			return "", false
		default:
			if j := strings.IndexByte("abfnrtv", c); j >= 0 {
				b = append(b, "\a\b\f\n\r\t\v"[j])
			} else if c >= '0' && c <= '7' {
				n := 0
				j := i
				for ; j < len(s) && j < i+3 && s[j] >= '0' && s[j] <= '7'; j++ {
					n = n*8 + int(s[j]-'0')
				}
				b = appendRune(b, rune(n))
				i = j - 1
			} else {
				b = append(b, '\\', c)
			}
		}
		if width > 0 {
			if i+width >= len(s) {
				return "", false
			}
			n, err := strconv.ParseUint(s[i+1:i+1+width], 16, 32)
			if err != nil || n > unicode.MaxRune {
				return "", false
			}
			b = appendRune(b, rune(n))
			i += width
		}
	}
	return string(b), true
}
