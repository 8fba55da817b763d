package template

import (
	"strconv"
	"unicode"
)

// str is Python's str(v), as printing does it.
func (r *run) str(v value) string {
	switch v.k {
	case kStr:
		return v.s
	case kMissing, kUndef:
		return ""
	case kInt, kBig:
		return intRepr(v)
	}
	return r.repr(v)
}

// repr is Python's repr(v). What Python prints with a memory address is refused: no two runs would agree.
func (r *run) repr(v value) string {
	b := r.appendRepr(nil, v, 0)
	r.grow(len(b))
	return string(b)
}

func (r *run) appendRepr(b []byte, v value, depth int) []byte {
	deeper(depth)
	r.charge(1)
	if len(b) > maxString {
		refuse("MemoryError: a string of more than %d bytes", maxString)
	}
	switch v.k {
	case kMissing, kUndef:
		return append(b, "Undefined"...)
	case kNone:
		return append(b, "None"...)
	case kBool:
		if v.n != 0 {
			return append(b, "True"...)
		}
		return append(b, "False"...)
	case kInt, kBig:
		return append(b, intRepr(v)...)
	case kFloat:
		return append(b, floatRepr(v.float())...)
	case kStr:
		if v.safe {
			b = append(b, "Markup("...)
			return append(appendStrRepr(b, v.s), ')')
		}
		return appendStrRepr(b, v.s)
	case kList:
		return append(r.appendReprs(append(b, '['), v.seq(), depth), ']')
	case kTuple:
		b = r.appendReprs(append(b, '('), v.seq(), depth)
		if len(v.seq()) == 1 {
			b = append(b, ',')
		}
		return append(b, ')')
	case kDict:
		return r.appendDictRepr(b, v.dict(), depth)
	case kRange:
		g := v.o.(*rangeObj)
		b = strconv.AppendInt(append(b, "range("...), g.start, 10)
		b = strconv.AppendInt(append(b, ", "...), g.stop, 10)
		if g.step != 1 {
			b = strconv.AppendInt(append(b, ", "...), g.step, 10)
		}
		return append(b, ')')
	case kView:
		w := v.o.(*view)
		b = append(append(append(b, "dict_"...), w.what...), "(["...)
		return append(r.appendReprs(b, w.items(), depth), "])"...)
	case kSpace:
		b = r.appendDictRepr(append(b, "<Namespace "...), &v.o.(*space).d, depth)
		return append(b, '>')
	case kMacro:
		name := v.o.(*macro).def.name
		if name == "" {
			return append(b, "<Macro anonymous>"...)
		}
		return append(appendStrRepr(append(b, "<Macro "...), name), '>')
	case kLoop:
		l := v.o.(*loop)
		b = strconv.AppendInt(append(b, "<LoopContext "...), int64(l.index0+1), 10)
		b = strconv.AppendInt(append(b, '/'), int64(l.length()), 10)
		return append(b, '>')
	}
	refuse("a %s has no text that stays the same from run to run", typeName(v))
	return nil
}

func (r *run) appendReprs(b []byte, es []value, depth int) []byte {
	for i, e := range es {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = r.appendRepr(b, e, depth+1)
	}
	return b
}

func (r *run) appendDictRepr(b []byte, d *dict, depth int) []byte {
	b = append(b, '{')
	for i, e := range d.entries() {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(r.appendRepr(b, e.key, depth+1), ": "...)
		b = r.appendRepr(b, e.val, depth+1)
	}
	return append(b, '}')
}

func appendStrRepr(b []byte, s string) []byte {
	quote := byte('\'')
	single, double := false, false
	for i := range len(s) {
		single = single || s[i] == '\''
		double = double || s[i] == '"'
	}
	if single && !double {
		quote = '"'
	}
	b = append(b, quote)
	for len(s) > 0 {
		c, n := decode(s)
		switch {
		case c == rune(quote) || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c >= ' ' && c < 0x7f || c >= 0x80 && unicode.IsPrint(c):
			b = append(b, s[:n]...)
		default:
			b = appendEscape(b, c)
		}
		s = s[n:]
	}
	return append(b, quote)
}

// appendEscape writes \xNN, \uNNNN or \UNNNNNNNN.
func appendEscape(b []byte, c rune) []byte {
	const hex = "0123456789abcdef"
	width := 8
	switch {
	case c < 0x100:
		b, width = append(b, `\x`...), 2
	case c < 0x10000:
		b, width = append(b, `\u`...), 4
	default:
		b = append(b, `\U`...)
	}
	for shift := 4 * (width - 1); shift >= 0; shift -= 4 {
		b = append(b, hex[c>>shift&15])
	}
	return b
}
