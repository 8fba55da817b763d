package template

import (
	"math"
	"strings"
)

// dumper writes Python's json.dumps.
type dumper struct {
	r          *run
	b          []byte
	ascii      bool
	sortKeys   bool
	indent     string // "" with newlines where pretty is set
	pretty     bool
	item, pair string // separators
}

func (d *dumper) dump(v value, depth int) {
	deeper(depth)
	d.r.charge(1)
	if len(d.b) > maxString {
		refuse("MemoryError: a string of more than %d bytes", maxString)
	}
	switch v.k {
	case kNone:
		d.b = append(d.b, "null"...)
	case kBool:
		if v.n != 0 {
			d.b = append(d.b, "true"...)
		} else {
			d.b = append(d.b, "false"...)
		}
	case kInt, kBig:
		d.b = append(d.b, intRepr(v)...)
	case kFloat:
		d.b = append(d.b, jsonFloat(v.float())...)
	case kStr:
		d.str(v.s)
	case kList, kTuple:
		d.list(v.seq(), depth)
	case kDict:
		d.dict(v.dict(), depth)
	default:
		refuse("TypeError: Object of type %s is not JSON serializable", typeName(v))
	}
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return floatRepr(f)
}

func (d *dumper) newline(depth int) {
	if d.pretty {
		d.b = append(d.b, '\n')
		for range depth {
			d.b = append(d.b, d.indent...)
		}
	}
}

func (d *dumper) list(es []value, depth int) {
	if len(es) == 0 {
		d.b = append(d.b, "[]"...)
		return
	}
	d.b = append(d.b, '[')
	for i, e := range es {
		if i > 0 {
			d.b = append(d.b, d.item...)
		}
		d.newline(depth + 1)
		d.dump(e, depth+1)
	}
	d.newline(depth)
	d.b = append(d.b, ']')
}

func (d *dumper) dict(m *dict, depth int) {
	es := m.entries()
	if len(es) == 0 {
		d.b = append(d.b, "{}"...)
		return
	}
	if d.sortKeys {
		es = append([]entry(nil), es...)
		d.r.sortBy(es, func(e entry) value { return e.key }, false)
	}
	d.b = append(d.b, '{')
	for i, e := range es {
		if i > 0 {
			d.b = append(d.b, d.item...)
		}
		d.newline(depth + 1)
		d.key(e.key)
		d.b = append(d.b, d.pair...)
		d.dump(e.val, depth+1)
	}
	d.newline(depth)
	d.b = append(d.b, '}')
}

func (d *dumper) key(k value) {
	switch k.k {
	case kStr:
		d.str(k.s)
	case kNone, kBool, kInt, kBig, kFloat:
		d.b = append(d.b, '"')
		d.dump(k, 0)
		d.b = append(d.b, '"')
	default:
		refuse("TypeError: keys must be str, int, float, bool or None, not %s", typeName(k))
	}
}

func (d *dumper) str(s string) {
	const hex = "0123456789abcdef"
	d.r.charge(len(s) / 16)
	d.b = append(d.b, '"')
	from := 0
	flush := func(i int) { d.b = append(d.b, s[from:i]...) }
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < 0x7f {
			i++
			continue
		}
		if c >= 0x7f && !d.ascii {
			i++
			continue
		}
		flush(i)
		n := 1
		switch {
		case c == '"' || c == '\\':
			d.b = append(d.b, '\\', c)
		case c == '\n':
			d.b = append(d.b, `\n`...)
		case c == '\r':
			d.b = append(d.b, `\r`...)
		case c == '\t':
			d.b = append(d.b, `\t`...)
		case c == '\f':
			d.b = append(d.b, `\f`...)
		case c == '\b':
			d.b = append(d.b, `\b`...)
		case c < ' ':
			d.b = append(d.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c == 0x7f:
			d.b = append(d.b, c)
		default:
			var r rune
			r, n = decode(s[i:])
			if r >= 0x10000 {
				r -= 0x10000
				d.escape(0xD800 + r>>10)
				r = 0xDC00 + r&0x3FF
			}
			d.escape(r)
		}
		i += n
		from = i
	}
	flush(len(s))
	d.b = append(d.b, '"')
}

func (d *dumper) escape(r rune) {
	const hex = "0123456789abcdef"
	d.b = append(d.b, '\\', 'u', hex[r>>12], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// toJSON is Hugging Face's tojson filter.
func toJSON(r *run, v value, a args) value {
	p := a.bind("tojson", "ensure_ascii", "indent", "separators", "sort_keys")
	d := &dumper{r: r, b: r.scratch[:0], ascii: p[0].k != kMissing && truth(p[0]), sortKeys: p[3].k != kMissing && truth(p[3]), item: ", ", pair: ": "}
	switch indent := p[1]; indent.k {
	case kMissing, kNone:
	case kInt, kBool:
		if indent.n > 1000 {
			refuse("MemoryError: indented by %d", indent.n)
		}
		d.pretty, d.item = true, ","
		d.indent = strings.Repeat(" ", int(max(indent.n, 0)))
	case kStr:
		d.pretty, d.item, d.indent = true, ",", indent.s
	default:
		refuse("TypeError: indent of type %s", typeName(indent))
	}
	if sep := p[2]; sep.k != kMissing && sep.k != kNone {
		es := r.list(sep)
		if len(es) != 2 || es[0].k != kStr || es[1].k != kStr {
			refuse("ValueError: separators must be two strings")
		}
		d.item, d.pair = es[0].s, es[1].s
	}
	d.dump(v, 0)
	r.scratch = d.b[:0]
	r.grow(len(d.b))
	return strOf(string(d.b))
}
