package template

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// truncate is Python's int(f).
func truncate(f float64) value {
	n, _ := big.NewFloat(f).Int(nil)
	return bigOf(n)
}

// roundInt is Python's round(n, digits) of an int.
func roundInt(v value, digits int) value {
	if digits >= 0 {
		return bigOf(v.big())
	}
	if digits < -maxIntDigits {
		return intOf(0)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil)
	n := roundHalfEven(new(big.Rat).SetFrac(v.big(), scale))
	return bigOf(n.Mul(n, scale))
}

var htmlEscaper = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

func escape(v value) value {
	return value{k: kStr, safe: true, s: htmlEscaper.Replace(v.s)}
}

func escapeFilter(r *run, v value, a args) value {
	a.positional("escape", 0, 0)
	if v.k == kStr && v.safe {
		return v
	}
	s := escape(strOf(r.str(v)))
	r.grow(len(s.s))
	return s
}

func forceEscape(r *run, v value, a args) value {
	a.positional("forceescape", 0, 0)
	s := escape(strOf(r.str(v)))
	r.grow(len(s.s))
	return s
}

func fileSize(r *run, v value, a args) value {
	p := a.bind("filesizeformat", "binary")
	f := 0.0
	switch {
	case v.k == kStr:
		ok := false
		if f, ok = parseFloat(v.s); !ok {
			refuse("ValueError: could not convert string to float")
		}
	case v.isNumber():
		f = toFloat(v)
	default:
		refuse("TypeError: float() argument must be a string or a real number, not '%s'", typeName(v))
	}
	base, units := 1000.0, "kB MB GB TB PB EB ZB YB"
	if isSet(p[0]) {
		base, units = 1024.0, "KiB MiB GiB TiB PiB EiB ZiB YiB"
	}
	if f == 1 {
		return strOf("1 Byte")
	}
	if f < base {
		if math.IsInf(f, 0) {
			refuse("OverflowError: cannot convert float infinity to integer")
		}
		return strOf(intRepr(truncate(f)) + " Bytes")
	}
	if math.IsNaN(f) {
		return strOf("nan YB")
	}
	names := strings.Fields(units)
	for i, name := range names {
		unit := math.Pow(base, float64(i+2))
		if f < unit || i == len(names)-1 {
			return strOf(strconv.FormatFloat(base*f/unit, 'f', 1, 64) + " " + name)
		}
	}
	return value{}
}

func groupBy(r *run, v value, a args) value {
	p := a.bind("groupby", "attribute", "default", "case_sensitive")
	need("groupby", "attribute", p[0])
	get := r.defaulted(p[0], p[1])
	key := func(v value) value {
		if v = get(v); !isSet(p[2]) {
			v = ignoreCase(v)
		}
		return v
	}
	var out []value
	var group []value
	flush := func(name value) {
		if len(group) > 0 {
			if !isSet(p[2]) {
				name = get(group[0])
			}
			t := tupleOf(name, listOf(group...))
			t.safe = true // marks its named fields
			out = append(out, t)
			group = nil
		}
	}
	var last value
	for _, e := range r.sorted(r.list(v), key, false) {
		k := key(e)
		if len(group) > 0 && !equal(k, last) {
			flush(last)
		}
		last = k
		group = append(group, e)
	}
	flush(last)
	return listOf(out...)
}

func indentFilter(r *run, v value, a args) value {
	p := a.bind("indent", "width", "first", "blank")
	indent := "    "
	if p[0].k == kStr {
		indent = p[0].s
	} else if p[0].k != kMissing {
		n := r.intArg("indent", p[0])
		if n > maxString {
			refuse("MemoryError: indented by %d", n)
		}
		indent = strings.Repeat(" ", int(max(n, 0)))
	}
	if v.k <= kUndef {
		refuseUndefined(v)
	}
	lines := splitLines(strArg("indent", v)+"\n", false)
	if n := len(lines) * len(indent); n > maxString {
		refuse("MemoryError: a string of %d bytes", n)
	}
	var b strings.Builder
	if isSet(p[1]) {
		b.WriteString(indent)
	}
	for i, l := range lines {
		if i > 0 {
			b.WriteByte('\n')
			if l != "" || isSet(p[2]) {
				b.WriteString(indent)
			}
		}
		b.WriteString(l)
	}
	r.grow(b.Len())
	return strOf(b.String())
}

// pprintFilter is Python's pformat as long as the value fits on one line of 80.
func pprintFilter(r *run, v value, a args) value {
	p := a.bind("pprint")
	_ = p
	s := r.repr(sortedDicts(r, v, 0))
	if len(s) > 80 && v.k >= kStr {
		refuse("pprint of more than a line is not supported")
	}
	return strOf(s)
}

func sortedDicts(r *run, v value, depth int) value {
	deeper(depth)
	switch v.k {
	case kList, kTuple:
		es := make([]value, len(v.seq()))
		for i, e := range v.seq() {
			es[i] = sortedDicts(r, e, depth+1)
		}
		return value{k: v.k, o: &seq{elems: es}}
	case kDict:
		es := append([]entry(nil), v.dict().entries()...)
		r.sortBy(es, func(e entry) value { return e.key }, false)
		for i := range es {
			es[i].val = sortedDicts(r, es[i].val, depth+1)
		}
		return value{k: kDict, o: &dict{list: es}}
	}
	return v
}

func stripTags(r *run, v value, a args) value {
	a.positional("striptags", 0, 0)
	s := r.str(v)
	r.charge(len(s) / 16)
	cut := func(open, end string) {
		var b strings.Builder
		for {
			i := strings.Index(s, open)
			if i < 0 {
				break
			}
			j := strings.Index(s[i:], end)
			if j < 0 {
				break
			}
			b.WriteString(s[:i])
			s = s[i+j+len(end):]
		}
		b.WriteString(s)
		s = b.String()
	}
	cut("<!--", "-->")
	cut("<", ">")
	s = strings.Join(strings.FieldsFunc(s, isSpace), " ")
	return strOf(htmlUnescaper.Replace(s))
}

var htmlUnescaper = strings.NewReplacer("&amp;", "&", "&gt;", ">", "&lt;", "<", "&#39;", "'", "&#34;", `"`, "&quot;", `"`)

// urlQuote is Python's urllib.parse.quote with safe "/", or quote_plus without it for query strings.
func urlQuote(s string, query bool) string {
	var b []byte
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDecimal(c) || strings.IndexByte("_.-~", c) >= 0 || c == '/' && !query:
			b = append(b, c)
		case c == ' ' && query:
			b = append(b, '+')
		default:
			b = append(b, fmt.Sprintf("%%%02X", c)...)
		}
	}
	return string(b)
}

func urlEncode(r *run, v value, a args) value {
	a.positional("urlencode", 0, 0)
	if v.k == kStr {
		return strOf(urlQuote(v.s, false))
	}
	src, ok := r.tryIterate(v)
	if !ok {
		return strOf(urlQuote(r.str(v), false))
	}
	pairs := []value(nil)
	if v.k == kDict {
		pairs = (&view{v.dict(), "items"}).items()
	} else {
		pairs = r.drain(&src)
	}
	var parts []string
	for _, p := range pairs {
		kv := r.list(p)
		if len(kv) != 2 {
			refuse("ValueError: %d values to unpack into 2", len(kv))
		}
		parts = append(parts, urlQuote(r.str(kv[0]), true)+"="+urlQuote(r.str(kv[1]), true))
	}
	return strOf(strings.Join(parts, "&"))
}

func xmlAttr(r *run, v value, a args) value {
	p := a.bind("xmlattr", "autospace")
	if v.k != kDict {
		refuse("AttributeError: '%s' object has no attribute 'items'", typeName(v))
	}
	var parts []string
	for _, e := range v.dict().entries() {
		if e.val.k <= kNone {
			continue
		}
		if k := strArg("xmlattr", e.key); strings.ContainsAny(k, " \t\n\r\f\v/>=") {
			refuse("ValueError: invalid character in attribute name: %s", k)
		}
		val := strOf(r.str(e.val))
		if !e.val.safe {
			val = escape(val)
		}
		parts = append(parts, escape(e.key).s+`="`+val.s+`"`)
	}
	s := strings.Join(parts, " ")
	if s != "" && (p[0].k == kMissing || truth(p[0])) {
		s = " " + s
	}
	return strOf(s)
}

// wordWrap breaks at white space only; what needs Python's textwrap to break inside words is refused.
func wordWrap(r *run, v value, a args) value {
	p := a.bind("wordwrap", "width", "break_long_words", "wrapstring", "break_on_hyphens")
	width, join := int64(79), "\n"
	if p[0].k != kMissing {
		width = r.intArg("wordwrap", p[0])
	}
	if p[2].k != kMissing && p[2].k != kNone {
		join = strArg("wordwrap", p[2])
	}
	if width <= 0 {
		refuse("ValueError: invalid width %d (must be > 0)", width)
	}
	var out []string
	for _, line := range splitLines(strArg("wordwrap", v), false) {
		if int64(runeCount(line)) <= width {
			out = append(out, line)
			continue
		}
		refuse("wordwrap of a line longer than its width is not supported")
	}
	return strOf(strings.Join(out, join))
}
