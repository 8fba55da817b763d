package template

import (
	"math"
	"strconv"
	"strings"
)

func formatMethod(r *run, self value, a args) value {
	d := &dict{}
	for _, k := range a.kw {
		d.set(strOf(k.name), k.v)
	}
	f := &formatter{r: r, pos: a.pos, kw: value{k: kDict, o: d}}
	return strOf(f.format(self.s, 2))
}

func formatMapMethod(r *run, self value, a args) value {
	a.positional("format_map", 1, 1)
	f := &formatter{r: r, kw: a.pos[0]}
	return strOf(f.format(self.s, 2))
}

// formatter is Python's str.format under the sandbox.
type formatter struct {
	r      *run
	pos    []value
	kw     value
	auto   int
	manual bool
}

func (f *formatter) format(s string, depth int) string {
	if depth < 0 {
		refuse("ValueError: max string recursion exceeded")
	}
	var b []byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '{' && i+1 < len(s) && s[i+1] == '{', c == '}' && i+1 < len(s) && s[i+1] == '}':
			b = append(b, c)
			i++
		case c == '}':
			refuse("ValueError: single '}' encountered in format string")
		case c == '{':
			end := fieldEnd(s, i)
			b = append(b, f.field(s[i+1:end], depth)...)
			i = end
		default:
			b = append(b, c)
		}
	}
	f.r.grow(len(b))
	return string(b)
}

// fieldEnd is the closing brace of the field that opens at i.
func fieldEnd(s string, i int) int {
	depth := 0
	bracket := false
	for ; i < len(s); i++ {
		switch {
		case bracket:
			bracket = s[i] != ']'
		case s[i] == '[':
			bracket = true
		case s[i] == '{':
			depth++
		case s[i] == '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	refuse("ValueError: expected '}' before end of string")
	return 0
}

func (f *formatter) field(s string, depth int) string {
	name, spec, conv := s, "", byte(0)
	bracket := false
	for i := range len(s) {
		switch s[i] {
		case '[':
			bracket = true
		case ']':
			bracket = false
		}
		if !bracket && (s[i] == ':' || s[i] == '!') {
			name = s[:i]
			rest := s[i:]
			if rest[0] == '!' {
				if len(rest) < 2 || len(rest) > 2 && rest[2] != ':' {
					refuse("ValueError: bad conversion in format string")
				}
				conv = rest[1]
				rest = rest[2:]
			}
			spec = strings.TrimPrefix(rest, ":")
			break
		}
	}
	v := f.lookup(name)
	switch conv {
	case 0:
	case 's':
		v = strOf(f.r.str(v))
	case 'r':
		v = strOf(f.r.repr(v))
	case 'a':
		v = strOf(asciiRepr(f.r.repr(v)))
	default:
		refuse("ValueError: unknown conversion specifier '%c'", conv)
	}
	if strings.ContainsAny(spec, "{}") {
		spec = f.format(spec, depth-1)
	}
	return f.r.formatValue(v, spec)
}

func (f *formatter) lookup(name string) value {
	end := strings.IndexAny(name, ".[")
	first, rest := name, ""
	if end >= 0 {
		first, rest = name[:end], name[end:]
	}
	var v value
	if n, ok := parseInt(first, 10); first == "" || ok && isDecimal(first[0]) && n.k == kInt {
		i := n.n
		if first == "" {
			if f.manual {
				refuse("ValueError: cannot switch from manual field specification to automatic field numbering")
			}
			i = int64(f.auto)
			f.auto++
		} else {
			if f.auto > 0 {
				refuse("ValueError: cannot switch from automatic field numbering to manual field specification")
			}
			f.manual = true
		}
		if i >= int64(len(f.pos)) {
			refuse("IndexError: replacement index %d out of range", i)
		}
		v = f.pos[i]
	} else {
		x, ok := value{}, false
		if f.kw.k == kDict {
			x, ok = f.kw.dict().getStr(first)
		}
		if !ok {
			refuse("KeyError: '%s'", first)
		}
		v = x
	}
	return f.walk(v, rest)
}

func (f *formatter) walk(v value, rest string) value {
	for rest != "" {
		if rest[0] == '.' {
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			if end == 0 {
				refuse("ValueError: empty attribute in format string")
			}
			v = f.r.getattr(v, rest[1:end+1])
			rest = rest[end+1:]
			continue
		}
		end := strings.IndexByte(rest, ']')
		if rest[0] != '[' || end < 2 {
			refuse("ValueError: bad element in format string")
		}
		key := strOf(rest[1:end])
		if n, ok := parseInt(key.s, 10); ok && isDecimal(key.s[0]) {
			key = n
		}
		v = f.r.getitem(v, key)
		rest = rest[end+1:]
	}
	return v
}

// formatValue is Python's format(v, spec).
func (r *run) formatValue(v value, s string) string {
	if v.k <= kUndef && s != "" {
		refuse("TypeError: unsupported format string passed to Undefined.__format__")
	}
	if s == "" {
		return r.str(v)
	}
	sp := parseSpec(s)
	if sp.group != 0 && (sp.verb == 'n' || sp.verb == 'c' || sp.group == ',' && sp.verb != 0 && strings.IndexByte("boxX", sp.verb) >= 0) {
		refuse("ValueError: cannot specify '%c' with '%c'", sp.group, sp.verb)
	}
	switch {
	case v.k == kStr:
		if sp.verb != 0 && sp.verb != 's' || sp.sign != 0 || sp.alt || sp.group != 0 || sp.align == '=' {
			refuse("ValueError: bad format '%s' for a string", s)
		}
		return sp.padText(sp.cut(v.s), '<')
	case v.isInt():
		switch sp.verb {
		case 0, 'd', 'n', 'b', 'o', 'x', 'X':
			if sp.prec >= 0 {
				refuse("ValueError: precision not allowed in integer format specifier")
			}
			if sp.verb == 0 || sp.verb == 'n' {
				sp.verb = 'd'
			}
			return sp.integer(v)
		case 'c':
			if sp.prec >= 0 || sp.sign != 0 || sp.alt {
				refuse("ValueError: bad format '%s' for a character", s)
			}
			if v.k == kBig || v.n < 0 || v.n > 0x10FFFF {
				refuse("OverflowError: %%c arg not in range(0x110000)")
			}
			return sp.padText(string(appendRune(nil, rune(v.n))), '<')
		}
		return r.formatFloat(sp, toFloat(v), s)
	case v.k == kFloat:
		return r.formatFloat(sp, v.float(), s)
	}
	refuse("TypeError: unsupported format string passed to %s.__format__", typeName(v))
	return ""
}

func (r *run) formatFloat(sp spec, f float64, s string) string {
	switch sp.verb {
	case 'e', 'E', 'f', 'F', 'g', 'G':
		return sp.float(f)
	case 'n':
		sp.verb = 'g'
		return sp.float(f)
	case '%':
		if sp.prec < 0 {
			sp.prec = 6
		}
		text := strings.TrimPrefix((&spec{fill: " ", prec: sp.prec, verb: 'f', alt: sp.alt}).float(f*100), "-") + "%"
		return sp.number(f < 0, "", text)
	case 0:
		if sp.prec < 0 {
			text := floatRepr(f)
			neg := strings.HasPrefix(text, "-")
			return sp.number(neg, "", strings.TrimPrefix(text, "-"))
		}
		return sp.shortFloat(f)
	}
	refuse("ValueError: bad format '%s' for a float", s)
	return ""
}

// shortFloat is a precision without a type: %g, but with a digit after the point, and exponents one place earlier.
func (sp *spec) shortFloat(f float64) string {
	neg := math.Signbit(f) && !math.IsNaN(f)
	f = math.Abs(f)
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return sp.number(neg, "", floatRepr(f))
	}
	prec := max(sp.prec, 1)
	e := strconv.FormatFloat(f, 'e', prec-1, 64)
	mantissa, exp, _ := strings.Cut(e, "e")
	x, _ := strconv.Atoi(exp)
	if x < -4 || x >= prec-1 {
		return sp.number(neg, "", trimFraction(mantissa)+"e"+exp)
	}
	text := trimFraction(strconv.FormatFloat(f, 'f', prec-1-x, 64))
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return sp.number(neg, "", text)
}

// parseSpec reads [[fill]align][sign][#][0][width][,|_][.precision][type].
func parseSpec(s string) spec {
	sp := spec{fill: " ", prec: -1}
	bad := func() { refuse("ValueError: invalid format specifier '%s'", s) }
	t := s
	isAlign := func(c byte) bool { return strings.IndexByte("<>=^", c) >= 0 }
	filled := false
	if _, n := decode(t); len(t) > n && isAlign(t[n]) {
		filled, sp.fill, sp.align = true, t[:n], t[n]
		t = t[n+1:]
	} else if isAlign(t[0]) {
		sp.align = t[0]
		t = t[1:]
	}
	if t != "" && strings.IndexByte("+- ", t[0]) >= 0 {
		sp.sign = t[0]
		t = t[1:]
	}
	if strings.HasPrefix(t, "#") {
		sp.alt = true
		t = t[1:]
	}
	if strings.HasPrefix(t, "0") && !filled {
		t = t[1:]
		sp.fill, sp.zero = "0", sp.align == 0
	}
	number := func() int {
		n := 0
		for ; t != "" && isDecimal(t[0]); t = t[1:] {
			if n = n*10 + int(t[0]-'0'); n > maxWidth {
				refuse("ValueError: width or precision too big")
			}
		}
		return n
	}
	sp.width = number()
	if t != "" && (t[0] == ',' || t[0] == '_') {
		sp.group = t[0]
		t = t[1:]
	}
	if strings.HasPrefix(t, ".") {
		t = t[1:]
		if t == "" || !isDecimal(t[0]) {
			bad()
		}
		sp.prec = number()
	}
	if len(t) > 1 {
		bad()
	}
	if len(t) == 1 {
		sp.verb = t[0]
	}
	return sp
}
