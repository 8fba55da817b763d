package ojson

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

func itoa(i int64) string { return strconv.FormatInt(i, 10) }

// str reads the string literal at p.i.
func (p *parser) str() (Value, error) {
	start := p.i
	for i := start + 1; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '"':
			p.i = i + 1
			return Value{kind: String, form: parsed, text: p.s[start:p.i]}, nil
		case c == '\\':
			return p.escapedStr(start, i)
		case c < ' ':
			return Value{}, p.fail(i, "a control character inside a string")
		}
	}
	return Value{}, p.fail(start, "a string without its end")
}

// escapedStr goes on with a literal whose first escape is at i.
func (p *parser) escapedStr(start, i int) (Value, error) {
	buf := append(p.buf[:0], p.s[start+1:i]...)
	defer func() { p.buf = buf }()
	for i < len(p.s) {
		switch c := p.s[i]; {
		case c == '"':
			p.i = i + 1
			k := p.newKids()
			k.str = string(buf)
			return Value{kind: String, form: escaped, text: p.s[start:p.i], kids: k}, nil
		case c == '\\':
			r, n := unescape(p.s[i:])
			if n == 0 {
				return Value{}, p.fail(i, "not an escape")
			}
			buf = appendWTF8(buf, r)
			i += n
		case c < ' ':
			return Value{}, p.fail(i, "a control character inside a string")
		default:
			from := i
			for i < len(p.s) && p.s[i] != '"' && p.s[i] != '\\' && p.s[i] >= ' ' {
				i++
			}
			buf = append(buf, p.s[from:i]...)
		}
	}
	return Value{}, p.fail(start, "a string without its end")
}

// unescape reads the escape at the start of s, a surrogate pair as one. Its length is 0 where it is not an escape.
func unescape(s string) (rune, int) {
	if len(s) < 2 {
		return 0, 0
	}
	switch s[1] {
	case '"', '\\', '/':
		return rune(s[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		hi, ok := hex4(s[2:])
		if !ok {
			return 0, 0
		}
		if utf16.IsSurrogate(hi) && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			if lo, ok := hex4(s[8:]); ok {
				if r := utf16.DecodeRune(hi, lo); r != utf8.RuneError {
					return r, 12
				}
			}
		}
		return hi, 6
	}
	return 0, 0
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for i := range 4 {
		c := s[i]
		switch {
		case c-'0' < 10:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// appendWTF8 is UTF-8 that gives a surrogate its three bytes.
func appendWTF8(dst []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(dst, 0xED, 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
	}
	return utf8.AppendRune(dst, r)
}

// surrogate is the lone surrogate at s[i:], or 0.
func surrogate(s string, i int) rune {
	if s[i] == 0xED && i+2 < len(s) && s[i+1]&0xE0 == 0xA0 && s[i+2]&0xC0 == 0x80 {
		return 0xD000 | rune(s[i+1]&0x3F)<<6 | rune(s[i+2]&0x3F)
	}
	return 0
}

// HasLoneSurrogate is whether decoded text s holds half of a surrogate pair: it is no Unicode text, and Python could not
// encode it either.
func HasLoneSurrogate(s string) bool {
	for i := range len(s) {
		if s[i] == 0xED && surrogate(s, i) != 0 {
			return true
		}
	}
	return false
}

// AppendString appends s as a JSON string in its shortest common form: quotes, backslashes and control characters are
// escaped, nothing else; a lone surrogate becomes its escape again, other invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			dst = append(dst, s[from:i]...)
			if r := surrogate(s, i); r != 0 {
				dst = append(dst, '\\', 'u', hex[r>>12], hex[r>>8&15], hex[r>>4&15], hex[r&15])
				n = 3
			} else {
				dst = append(dst, "\uFFFD"...)
			}
			i += n
			from = i
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// Raw is v's exact source, or its encoding where v was built. The caller owns the slice.
func (v Value) Raw() []byte { return v.Append(make([]byte, 0, len(v.text)+2)) }

// Append appends v: its exact source where it was parsed, else compact JSON without HTML escapes. The zero Value, which
// has no text, appends null.
func (v Value) Append(dst []byte) []byte {
	if v.form != built {
		return append(dst, v.text...)
	}
	switch v.kind {
	case String:
		return AppendString(dst, v.text)
	case Array:
		dst = append(dst, '[')
		for i, e := range v.Elems() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.Append(dst)
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		for i, m := range v.Members() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendString(dst, m.Key), ':')
			dst = m.Value.Append(dst)
		}
		return append(dst, '}')
	case Bool, Number:
		return append(dst, v.text...)
	}
	return append(dst, "null"...)
}
