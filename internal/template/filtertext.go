package template

import (
	"fmt"
	"strings"
	"unicode"
)

func centerFilter(r *run, v value, a args) value {
	p := a.bind("center", "width")
	width := int64(80)
	if p[0].k != kMissing {
		width = r.intArg("center", p[0])
	}
	return value{k: kStr, safe: v.safe && v.k == kStr, s: r.pad("center", r.str(v), width, " ")}
}

func replaceFilter(r *run, v value, a args) value {
	p := a.bind("replace", "old", "new", "count")
	count := int64(-1)
	if p[2].k != kMissing && p[2].k != kNone {
		count = r.intArg("replace", p[2])
	}
	return strOf(r.replace(r.str(v), r.str(need("replace", "old", p[0])), r.str(need("replace", "new", p[1])), count))
}

func trimFilter(r *run, v value, a args) value {
	p := a.bind("trim", "chars")
	self := v
	if v.k != kStr {
		self = strOf(r.str(v))
	}
	if p[0].k == kMissing {
		return r.lib.str["strip"](r, self, args{})
	}
	return r.lib.str["strip"](r, self, args{pos: p})
}

func truncateFilter(r *run, v value, a args) value {
	p := a.bind("truncate", "length", "killwords", "end", "leeway")
	length, leeway, end := int64(255), int64(5), "..."
	if p[0].k != kMissing {
		length = r.intArg("truncate", p[0])
	}
	if p[2].k != kMissing {
		end = strArg("truncate", p[2])
	}
	if p[3].k != kMissing && p[3].k != kNone {
		leeway = r.intArg("truncate", p[3])
	}
	keep := length - int64(runeCount(end))
	if keep < 0 || leeway < 0 {
		refuse("AssertionError: expected length >= %d and leeway >= 0", runeCount(end))
	}
	n, ok := pyLen(v)
	if !ok {
		refuse("TypeError: object of type '%s' has no len()", typeName(v))
	}
	if int64(n) <= length+leeway {
		return v
	}
	s := r.sliceStr(strArg("truncate", v), 0, keep, 1, false, true)
	if !isSet(p[1]) {
		if i := strings.LastIndexByte(s, ' '); i >= 0 {
			s = s[:i]
		}
	}
	return strOf(s + end)
}

func wordCount(r *run, v value, a args) value {
	a.positional("wordcount", 0, 0)
	n, in := 0, false
	for _, c := range r.str(v) {
		word := c == '_' || unicode.IsLetter(c) || unicode.IsNumber(c)
		if word && !in {
			n++
		}
		in = word
	}
	return intOf(n)
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
	a.positional("pprint", 0, 0)
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
