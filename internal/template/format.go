package template

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// spec is a number format, of % or of str.format.
type spec struct {
	fill         string
	align        byte // < > = ^, 0 for the default
	sign         byte // + - or space
	alt          bool
	width        int
	group        byte // , or _
	prec         int  // -1 where absent
	verb         byte
	zero         bool
	percentStyle bool
}

const maxWidth = 1 << 20

// percent is Python's s % v.
func (r *run) percent(s string, v value) string {
	argv, tuple := []value{v}, v.k == kTuple
	if tuple {
		argv = v.seq()
	}
	used := 0
	mapped := false
	take := func() value {
		if used >= len(argv) {
			refuse("TypeError: not enough arguments for format string")
		}
		used++
		return argv[used-1]
	}
	var b []byte
	for i := 0; i < len(s); {
		j := strings.IndexByte(s[i:], '%')
		if j < 0 {
			b = append(b, s[i:]...)
			break
		}
		b = append(b, s[i:i+j]...)
		i += j + 1
		sp, arg := spec{fill: " ", prec: -1, percentStyle: true}, value{}
		if i < len(s) && s[i] == '(' {
			arg, i = r.percentKey(s, i, v)
			mapped = true
		}
		i = sp.parsePercent(s, i, func() int { return int(r.intArg("%", take())) })
		if sp.verb == '%' {
			b = append(b, '%')
			continue
		}
		if !mapped {
			arg = take()
		}
		b = append(b, r.percentOne(sp, arg)...)
		if len(b) > maxString {
			refuse("MemoryError: a string of more than %d bytes", maxString)
		}
	}
	if !mapped && used < len(argv) && (tuple || v.k != kDict && v.k != kList && v.k > kUndef && v.k != kRange && v.k != kView) {
		refuse("TypeError: not all arguments converted during string formatting")
	}
	r.grow(len(b))
	return string(b)
}

func (r *run) percentKey(s string, i int, v value) (value, int) {
	depth, from := 0, i+1
	for ; i < len(s); i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if i >= len(s) {
		refuse("ValueError: incomplete format key")
	}
	if v.k != kDict {
		refuse("TypeError: format requires a mapping")
	}
	x, ok := v.dict().getStr(s[from:i])
	if !ok {
		refuse("KeyError: '%s'", s[from:i])
	}
	return x, i + 1
}

func (sp *spec) parsePercent(s string, i int, star func() int) int {
	for ; i < len(s) && strings.IndexByte("#0- +", s[i]) >= 0; i++ {
		switch s[i] {
		case '#':
			sp.alt = true
		case '0':
			sp.zero = true
		case '-':
			sp.align = '<'
		case '+':
			sp.sign = '+'
		case ' ':
			if sp.sign == 0 {
				sp.sign = ' '
			}
		}
	}
	number := func() int {
		if i < len(s) && s[i] == '*' {
			i++
			return star()
		}
		n := 0
		for ; i < len(s) && isDecimal(s[i]) && n <= maxWidth; i++ {
			n = n*10 + int(s[i]-'0')
		}
		return n
	}
	if sp.width = number(); sp.width < 0 {
		sp.align, sp.width = '<', -sp.width
	}
	if i < len(s) && s[i] == '.' {
		i++
		sp.prec = max(number(), 0)
	}
	if sp.width > maxWidth || sp.prec > maxWidth {
		refuse("ValueError: width or precision too big")
	}
	for i < len(s) && strings.IndexByte("hlL", s[i]) >= 0 {
		i++
	}
	if i >= len(s) {
		refuse("ValueError: incomplete format")
	}
	sp.verb = s[i]
	return i + 1
}

func (r *run) percentOne(sp spec, v value) string {
	switch sp.verb {
	case 's', 'r', 'a':
		s := ""
		if sp.verb == 's' {
			s = r.str(v)
		} else if s = r.repr(v); sp.verb == 'a' {
			s = asciiRepr(s)
		}
		sp.zero = false
		return sp.padText(sp.cut(s), '>')
	case 'c':
		if v.k == kStr && runeCount(v.s) == 1 {
			return sp.padText(v.s, '>')
		}
		if n := v.n; (v.k == kInt || v.k == kBool) && n >= 0 && n <= 0x10FFFF {
			return sp.padText(string(appendRune(nil, rune(n))), '>')
		}
		refuse("TypeError: %%c requires an int or a character")
	case 'd', 'i', 'u':
		if v.k == kFloat {
			v = finiteInt(v.float())
		}
		if !v.isInt() {
			refuse("TypeError: %%%c format: a real number is required, not %s", sp.verb, typeName(v))
		}
		sp.verb = 'd'
		return sp.integer(v)
	case 'x', 'X', 'o':
		if !v.isInt() {
			refuse("TypeError: %%%c format: an integer is required, not %s", sp.verb, typeName(v))
		}
		return sp.integer(v)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		f := 0.0
		switch {
		case v.isNumber():
			f = toFloat(v)
		default:
			refuse("TypeError: must be real number, not %s", typeName(v))
		}
		return sp.float(f)
	}
	refuse("ValueError: unsupported format character '%c'", sp.verb)
	return ""
}

func finiteInt(f float64) value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		refuse("OverflowError: cannot convert %s to integer", floatRepr(f))
	}
	return truncate(f)
}

func asciiRepr(s string) string {
	var b []byte
	for len(s) > 0 {
		c, n := decode(s)
		if c < 0x80 {
			b = append(b, byte(c))
		} else {
			b = appendEscape(b, c)
		}
		s = s[n:]
	}
	return string(b)
}

func (sp *spec) cut(s string) string {
	if sp.prec >= 0 && runeCount(s) > sp.prec {
		return s[:runeOffset(s, sp.prec)]
	}
	return s
}

// padText fills s up to the width; def is the alignment where none is given.
func (sp *spec) padText(s string, def byte) string {
	n := sp.width - runeCount(s)
	if n <= 0 {
		return s
	}
	align := sp.align
	if align == 0 {
		align = def
	}
	switch align {
	case '<':
		return s + strings.Repeat(sp.fill, n)
	case '^':
		return strings.Repeat(sp.fill, n/2) + s + strings.Repeat(sp.fill, n-n/2)
	}
	return strings.Repeat(sp.fill, n) + s
}

// number puts sign, prefix, padding and digits together.
func (sp *spec) number(neg bool, prefix, digits string) string {
	sign := ""
	switch {
	case neg:
		sign = "-"
	case sp.sign == '+' || sp.sign == ' ':
		sign = string(sp.sign)
	}
	inside := sp.align == '=' || sp.zero && sp.align == 0
	fill := sp.fill
	if sp.zero && sp.align == 0 {
		fill = "0"
	}
	if inside {
		min := 0
		if fill == "0" {
			min = sp.width - len(sign) - len(prefix)
		}
		digits = groupDigits(digits, sp.group, sp.groupSize(), min)
		if n := sp.width - len(sign) - len(prefix) - len(digits); n > 0 {
			digits = strings.Repeat(fill, n) + digits
		}
		return sign + prefix + digits
	}
	digits = groupDigits(digits, sp.group, sp.groupSize(), 0)
	return sp.padText(sign+prefix+digits, '>')
}

func (sp *spec) groupSize() int {
	if sp.group == '_' && strings.IndexByte("xXob", sp.verb) >= 0 {
		return 4
	}
	return 3
}

// groupDigits puts sep between groups of the whole part, and zeros before it up to width.
func groupDigits(s string, sep byte, size, width int) string {
	if sep == 0 {
		return s
	}
	end := 0
	for end < len(s) && s[end] != '.' && s[end] != 'e' && s[end] != 'E' && s[end] != '%' {
		end++
	}
	whole, rest := s[:end], s[end:]
	if strings.ContainsAny(whole, "n") { // nan, inf
		return s
	}
	var out []byte
	for i := 0; i < len(whole) || len(out)+len(rest) < width; i++ {
		if i > 0 && i%size == 0 {
			out = append(out, sep)
			if i >= len(whole) && len(out)+len(rest) >= width {
				out = append(out, '0')
				break
			}
		}
		if i < len(whole) {
			out = append(out, whole[len(whole)-1-i])
		} else {
			out = append(out, '0')
		}
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return string(out) + rest
}

func (sp *spec) integer(v value) string {
	n := v.big()
	base, prefix := 10, ""
	switch sp.verb {
	case 'x', 'X':
		base, prefix = 16, "0x"
	case 'o':
		base, prefix = 8, "0o"
	case 'b':
		base, prefix = 2, "0b"
	}
	if base == 10 {
		intRepr(v) // refuses what has too many digits
	}
	digits := new(big.Int).Abs(n).Text(base)
	if sp.verb == 'X' {
		digits, prefix = strings.ToUpper(digits), "0X"
	}
	if !sp.alt {
		prefix = ""
	}
	if sp.percentStyle && sp.prec > len(digits) {
		digits = strings.Repeat("0", sp.prec-len(digits)) + digits
	}
	return sp.number(n.Sign() < 0, prefix, digits)
}

func (sp *spec) float(f float64) string {
	prec := sp.prec
	if prec < 0 {
		prec = 6
	}
	neg := math.Signbit(f) && !math.IsNaN(f)
	a := math.Abs(f)
	s := ""
	switch {
	case math.IsNaN(a):
		s = "nan"
	case math.IsInf(a, 0):
		s = "inf"
	default:
		switch sp.verb | 0x20 {
		case 'f':
			s = strconv.FormatFloat(a, 'f', prec, 64)
		case 'e':
			s = strconv.FormatFloat(a, 'e', prec, 64)
		default:
			s = general(a, max(prec, 1), sp.alt)
		}
		if sp.alt && !strings.Contains(s, ".") {
			whole, exp, ok := strings.Cut(s, "e")
			if s = whole + "."; ok {
				s += "e" + exp
			}
		}
	}
	if sp.verb >= 'A' && sp.verb <= 'Z' {
		s = strings.ToUpper(s)
	}
	if !sp.percentStyle && sp.verb == '%' {
		s += "%"
	}
	return sp.number(neg, "", s)
}

// general is C's %g.
func general(a float64, prec int, alt bool) string {
	e := strconv.FormatFloat(a, 'e', prec-1, 64)
	i := strings.IndexByte(e, 'e')
	x, _ := strconv.Atoi(e[i+1:])
	if a == 0 {
		x = 0
	}
	if x < -4 || x >= prec {
		m := e[:i]
		if !alt {
			m = trimFraction(m)
		}
		return m + e[i:]
	}
	s := strconv.FormatFloat(a, 'f', prec-1-x, 64)
	if !alt {
		s = trimFraction(s)
	}
	return s
}

// trimFraction drops zeros at the end of a fraction, and a point with nothing after it.
func trimFraction(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func formatFilter(r *run, v value, a args) value {
	if len(a.pos) > 0 && len(a.kw) > 0 {
		refuse("FilterArgumentError: can't handle positional and keyword arguments at the same time")
	}
	if len(a.kw) > 0 {
		d := &dict{}
		for _, k := range a.kw {
			d.set(strOf(k.name), k.v)
		}
		return strOf(r.percent(r.str(v), value{k: kDict, o: d}))
	}
	return strOf(r.percent(r.str(v), tupleOf(append([]value(nil), a.pos...)...)))
}
