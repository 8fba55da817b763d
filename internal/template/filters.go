package template

import (
	"math"
	"sort"
	"strings"
	"unicode"
)

func makeFilters() map[string]filterFunc {
	length := func(r *run, v value, a args) value {
		a.positional("length", 0, 0)
		n, ok := pyLen(v)
		if !ok {
			refuse("TypeError: object of type '%s' has no len()", typeName(v))
		}
		return intOf(n)
	}
	return map[string]filterFunc{
		"abs": absFilter, "attr": attrFilter, "batch": batchFilter, "capitalize": text("capitalize", capitalize),
		"center": centerFilter, "count": length, "d": defaultFilter, "default": defaultFilter, "dictsort": dictSort,
		"e": escapeFilter, "escape": escapeFilter, "filesizeformat": fileSize, "first": firstFilter, "float": floatFilter,
		"forceescape": forceEscape, "format": formatFilter, "groupby": groupBy, "indent": indentFilter, "int": intFilter,
		"items": itemsFilter, "join": joinFilter, "last": lastFilter, "length": length, "list": listFilter,
		"lower": text("lower", lower), "map": mapFilter, "max": extreme("max"), "min": extreme("min"), "pprint": pprintFilter,
		"random": randomFilter, "reject": selector("reject", false, false), "rejectattr": selector("rejectattr", false, true),
		"replace": replaceFilter, "reverse": reverseFilter, "round": roundFilter, "safe": safeFilter,
		"select": selector("select", true, false), "selectattr": selector("selectattr", true, true), "slice": sliceFilter,
		"sort": sortFilter, "string": stringFilter, "striptags": stripTags, "sum": sumFilter, "title": text("title", titleFilter),
		"tojson": toJSON, "trim": trimFilter, "truncate": truncateFilter, "unique": uniqueFilter, "upper": text("upper", upper),
		"urlencode": urlEncode, "wordcount": wordCount, "wordwrap": wordWrap, "xmlattr": xmlAttr,
	}
}

// text is a filter without arguments from str(v) to a string.
func text(name string, f func(string) string) filterFunc {
	return func(r *run, v value, a args) value {
		a.positional(name, 0, 0)
		s := r.str(v)
		r.grow(len(s))
		return value{k: kStr, safe: v.safe && v.k == kStr, s: f(s)}
	}
}

func absFilter(r *run, v value, a args) value {
	a.positional("abs", 0, 0)
	switch {
	case v.isInt():
		if v.big().Sign() < 0 {
			return negate(v)
		}
		return bigOf(v.big())
	case v.k == kFloat:
		return floatOf(math.Abs(v.float()))
	}
	refuse("TypeError: bad operand type for abs(): '%s'", typeName(v))
	return value{}
}

func attrFilter(r *run, v value, a args) value {
	p := a.bind("attr", "name")
	name := strArg("attr", need("attr", "name", p[0]))
	if v.k <= kUndef {
		refuseUndefined(v)
	}
	if x, ok := r.attribute(v, name); ok {
		return x
	}
	return noAttribute(v, name)
}

func batchFilter(r *run, v value, a args) value {
	p := a.bind("batch", "linecount", "fill_with")
	n := r.intArg("batch", need("batch", "linecount", p[0]))
	src := r.iterate(v)
	over := false
	return r.generator(func() (value, bool) {
		if over {
			return value{}, false
		}
		var row []value
		for n < 1 || int64(len(row)) < n {
			x, ok := src.next()
			if !ok {
				over = true
				break
			}
			r.charge(1)
			row = append(row, x)
		}
		if len(row) == 0 {
			return value{}, false
		}
		if p[1].k != kMissing && p[1].k != kNone {
			r.cells(int(min(max(n, 0), 2*maxElems)))
			for int64(len(row)) < n {
				row = append(row, p[1])
			}
		}
		return listOf(row...), true
	})
}

func (r *run) generator(next func() (value, bool)) value {
	return value{k: kIter, o: &iterator{name: "generator", next: func() (value, bool) {
		if r.nest++; r.nest > maxNest {
			refuse("RecursionError: more than %d generators within each other", maxNest)
		}
		v, ok := next()
		r.nest--
		return v, ok
	}}}
}

func centerFilter(r *run, v value, a args) value {
	p := a.bind("center", "width")
	width := int64(80)
	if p[0].k != kMissing {
		width = r.intArg("center", p[0])
	}
	return strOf(r.pad("center", r.str(v), width, " "))
}

func defaultFilter(r *run, v value, a args) value {
	p := a.bind("default", "default_value", "boolean")
	if v.k <= kUndef || p[1].k != kMissing && truth(p[1]) && !truth(v) {
		if p[0].k == kMissing {
			return strOf("")
		}
		return p[0]
	}
	return v
}

// ignoreCase is what filters that sort without regard to case compare.
func ignoreCase(v value) value {
	if v.k == kStr {
		return strOf(lower(v.s))
	}
	return v
}

// sortBy sorts stably by key, in Python's order.
func (r *run) sortBy(es []entry, key func(entry) value, reverse bool) {
	type item struct {
		e entry
		k value
	}
	items := make([]item, len(es))
	for i, e := range es {
		items[i] = item{e, key(e)}
	}
	r.cells(len(es))
	r.charge(len(es) * 16)
	less := func(i, j int) bool { return order("<", items[i].k, items[j].k) }
	if reverse {
		less = func(i, j int) bool { return order("<", items[j].k, items[i].k) }
	}
	sort.SliceStable(items, less)
	for i := range items {
		es[i] = items[i].e
	}
}

func (r *run) sorted(vs []value, key func(value) value, reverse bool) []value {
	es := make([]entry, len(vs))
	for i, v := range vs {
		es[i].val = v
	}
	r.sortBy(es, func(e entry) value { return key(e.val) }, reverse)
	out := make([]value, len(vs))
	for i := range es {
		out[i] = es[i].val
	}
	return out
}

func isSet(v value) bool { return v.k != kMissing && truth(v) }

func dictSort(r *run, v value, a args) value {
	p := a.bind("dictsort", "case_sensitive", "by", "reverse")
	by := strOf("key")
	if p[1].k != kMissing {
		by = p[1]
	}
	if by.k != kStr || by.s != "key" && by.s != "value" {
		refuse("FilterArgumentError: you can only sort by either \"key\" or \"value\"")
	}
	if v.k <= kUndef {
		refuseUndefined(v)
	}
	if v.k != kDict {
		refuse("AttributeError: '%s' object has no attribute 'items'", typeName(v))
	}
	es := append([]entry(nil), v.dict().entries()...)
	r.sortBy(es, func(e entry) value {
		k := e.key
		if by.s == "value" {
			k = e.val
		}
		if !isSet(p[0]) {
			k = ignoreCase(k)
		}
		return k
	}, isSet(p[2]))
	out := make([]value, len(es))
	for i, e := range es {
		out[i] = tupleOf(e.key, e.val)
	}
	return listOf(out...)
}

func firstFilter(r *run, v value, a args) value {
	a.positional("first", 0, 0)
	src := r.iterate(v)
	if x, ok := src.next(); ok {
		return x
	}
	return undefined("No first item, sequence was empty.")
}

func lastFilter(r *run, v value, a args) value {
	a.positional("last", 0, 0)
	if es := r.backwards(v); len(es) > 0 {
		return es[len(es)-1]
	}
	return undefined("No last item, sequence was empty.")
}

// backwards is what Python's reversed() takes: its elements in their own order.
func (r *run) backwards(v value) []value {
	switch v.k {
	case kStr, kList, kTuple, kDict, kRange, kView:
		return r.list(v)
	case kMissing, kUndef:
		return nil // it has a length of 0
	}
	refuse("TypeError: '%s' object is not reversible", typeName(v))
	return nil
}

func floatFilter(r *run, v value, a args) value {
	p := a.bind("float", "default")
	switch {
	case v.k == kStr:
		if f, ok := parseFloat(v.s); ok {
			return floatOf(f)
		}
	case v.isNumber():
		return floatOf(toFloat(v))
	case v.k <= kUndef:
		refuseUndefined(v)
	}
	if p[0].k == kMissing {
		return floatOf(0)
	}
	return p[0]
}

func intFilter(r *run, v value, a args) value {
	p := a.bind("int", "default", "base")
	def, base := intOf(0), 10
	if p[0].k != kMissing {
		def = p[0]
	}
	if p[1].k != kMissing {
		base = int(r.intArg("int", p[1]))
	}
	switch {
	case v.k == kStr:
		if n, ok := parseInt(v.s, base); ok {
			return n
		}
		if f, ok := parseFloat(v.s); ok && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return truncate(f)
		}
		return def
	case v.isInt():
		return bigOf(v.big())
	case v.k == kFloat:
		if f := v.float(); math.IsNaN(f) {
			return def
		} else if math.IsInf(f, 0) {
			refuse("OverflowError: cannot convert float infinity to integer")
		}
		return truncate(v.float())
	case v.k <= kUndef:
		refuseUndefined(v)
	}
	return def
}

func itemsFilter(r *run, v value, a args) value {
	a.positional("items", 0, 0)
	var es []entry
	started := false
	return r.generator(func() (value, bool) {
		if !started {
			started = true
			if v.k == kDict {
				es = v.dict().entries()
			} else if v.k > kUndef {
				refuse("TypeError: can only get item pairs from a mapping")
			}
		}
		if len(es) == 0 {
			return value{}, false
		}
		e := es[0]
		es = es[1:]
		return tupleOf(e.key, e.val), true
	})
}

func joinFilter(r *run, v value, a args) value {
	p := a.bind("join", "d", "attribute")
	sep := ""
	if p[0].k != kMissing {
		sep = r.str(p[0])
	}
	src := r.iterate(v)
	get := r.getter(p[1])
	var b []byte
	for n := 0; ; n++ {
		x, ok := src.next()
		if !ok {
			break
		}
		r.charge(1)
		if n > 0 {
			b = append(b, sep...)
		}
		b = append(b, r.str(get(x))...)
		if len(b) > maxString {
			refuse("MemoryError: a string of more than %d bytes", maxString)
		}
	}
	r.grow(len(b))
	return strOf(string(b))
}

// getter looks up attribute, a dotted path or an integer; the zero value and none give the element itself.
func (r *run) getter(attribute value) func(value) value {
	var parts []value
	switch attribute.k {
	case kMissing, kNone:
		return func(v value) value { return v }
	case kStr:
		parts = pathOf(attribute.s)
	default:
		parts = []value{attribute}
	}
	return func(v value) value {
		for _, p := range parts {
			v = r.getitem(v, p)
		}
		return v
	}
}

func pathOf(s string) []value {
	var parts []value
	for _, p := range strings.Split(s, ".") {
		if p != "" && strings.IndexFunc(p, func(r rune) bool { return !isDigitRune(r) }) < 0 {
			n, ok := parseInt(p, 10)
			if !ok {
				refuse("ValueError: invalid literal for int(): '%s'", p)
			}
			parts = append(parts, n)
		} else {
			parts = append(parts, strOf(p))
		}
	}
	return parts
}

// defaulted is a getter that replaces undefined values on the way, unless def is left out or none.
func (r *run) defaulted(attribute, def value) func(value) value {
	if def.k == kMissing || def.k == kNone || attribute.k == kNone || attribute.k == kMissing {
		return r.getter(attribute)
	}
	parts := []value{attribute}
	if attribute.k == kStr {
		parts = pathOf(attribute.s)
	}
	return func(v value) value {
		for _, p := range parts {
			if v = r.getitem(v, p); v.k <= kUndef {
				v = def
			}
		}
		return v
	}
}

func listFilter(r *run, v value, a args) value {
	a.positional("list", 0, 0)
	return listOf(r.list(v)...)
}

func copyArgs(a args) args {
	return args{pos: append([]value(nil), a.pos...), kw: a.kw}
}

func mapFilter(r *run, v value, a args) value {
	a = copyArgs(a)
	var src source
	var f func(value) value
	return r.generator(func() (value, bool) {
		if f == nil {
			if !truth(v) {
				return value{}, false
			}
			f = r.mapper(a)
			src = r.iterate(v)
		}
		x, ok := src.next()
		if !ok {
			return x, false
		}
		r.charge(1)
		return f(x), true
	})
}

// mapper is what map applies: an attribute, or a filter by name.
func (r *run) mapper(a args) func(value) value {
	if len(a.pos) == 0 {
		var attribute, def value
		for _, k := range a.kw {
			switch k.name {
			case "attribute":
				attribute = k.v
			case "default":
				def = k.v
			default:
				refuse("FilterArgumentError: unexpected keyword argument '%s'", k.name)
			}
		}
		if attribute.k == kMissing {
			refuse("FilterArgumentError: map requires a filter argument")
		}
		return r.defaulted(attribute, def)
	}
	name, rest := a.pos[0], args{a.pos[1:], a.kw}
	f := r.lib.filters[name.s]
	if name.k != kStr || f == nil {
		refuse("TemplateRuntimeError: no filter named '%s'", name.s)
	}
	return func(v value) value { return f(r, v, rest) }
}

// selector is select, reject, selectattr and rejectattr.
func selector(name string, keep, byAttr bool) filterFunc {
	return func(r *run, v value, a args) value {
		a = copyArgs(a)
		var src source
		var ok func(value) bool
		return r.generator(func() (value, bool) {
			if ok == nil {
				if !truth(v) {
					return value{}, false
				}
				ok = r.condition(a, byAttr)
				src = r.iterate(v)
			}
			for {
				x, more := src.next()
				if !more {
					return x, false
				}
				r.charge(1)
				if ok(x) == keep {
					return x, true
				}
			}
		})
	}
}

func (r *run) condition(a args, byAttr bool) func(value) bool {
	get := func(v value) value { return v }
	if byAttr {
		if len(a.pos) == 0 {
			refuse("FilterArgumentError: missing parameter for attribute name")
		}
		get = r.getter(a.pos[0])
		a.pos = a.pos[1:]
	}
	if len(a.pos) == 0 {
		return func(v value) bool { return truth(get(v)) }
	}
	name, rest := a.pos[0], args{a.pos[1:], a.kw}
	t := r.lib.tests[name.s]
	if name.k != kStr || t == nil {
		refuse("TemplateRuntimeError: no test named '%s'", name.s)
	}
	return func(v value) bool { return t(r, get(v), rest) }
}

func extreme(name string) filterFunc {
	return func(r *run, v value, a args) value {
		p := a.bind(name, "case_sensitive", "attribute")
		es := r.list(v)
		if len(es) == 0 {
			return undefined("No aggregated item, sequence was empty.")
		}
		get := r.getter(p[1])
		key := func(v value) value {
			v = get(v)
			if !isSet(p[0]) {
				v = ignoreCase(v)
			}
			return v
		}
		best, bestKey := es[0], key(es[0])
		for _, e := range es[1:] {
			k := key(e)
			if name == "max" && order(">", k, bestKey) || name == "min" && order("<", k, bestKey) {
				best, bestKey = e, k
			}
		}
		return best
	}
}

func randomFilter(r *run, v value, a args) value {
	refuse("the random filter is random")
	return value{}
}

func replaceFilter(r *run, v value, a args) value {
	p := a.bind("replace", "old", "new", "count")
	count := int64(-1)
	if p[2].k != kMissing && p[2].k != kNone {
		count = r.intArg("replace", p[2])
	}
	return strOf(r.replace(r.str(v), r.str(need("replace", "old", p[0])), r.str(need("replace", "new", p[1])), count))
}

func reverseFilter(r *run, v value, a args) value {
	a.positional("reverse", 0, 0)
	if v.k == kStr {
		return strOf(r.sliceStr(v.s, 0, 0, -1, false, false))
	}
	switch v.k {
	case kMissing, kUndef, kList, kTuple, kDict, kRange, kView:
		es := r.backwards(v)
		return value{k: kIter, o: &iterator{name: "reversed", next: func() (value, bool) {
			if len(es) == 0 {
				return value{}, false
			}
			x := es[len(es)-1]
			es = es[:len(es)-1]
			return x, true
		}}}
	}
	es := r.list(v)
	out := make([]value, len(es))
	for i, e := range es {
		out[len(es)-1-i] = e
	}
	return listOf(out...)
}

func roundFilter(r *run, v value, a args) value {
	p := a.bind("round", "precision", "method")
	digits, how := int64(0), "common"
	if p[0].k != kMissing {
		digits = r.intArg("round", p[0])
	}
	if p[1].k != kMissing {
		how = strArg("round", p[1])
	}
	if how != "common" && how != "ceil" && how != "floor" {
		refuse("FilterArgumentError: method must be common, ceil or floor")
	}
	if v.k <= kUndef {
		refuse("TypeError: type Undefined doesn't define __round__ method")
	}
	if !v.isNumber() {
		refuse("TypeError: type %s doesn't define __round__ method", typeName(v))
	}
	digits = min(max(digits, -10000), 10000)
	if how == "common" {
		if v.k == kFloat {
			return floatOf(roundTo(v.float(), int(digits)))
		}
		return roundInt(v, int(digits))
	}
	scale := r.binary("**", intOf(10), int64Of(digits))
	x := r.binary("*", v, scale)
	if x.k == kFloat {
		f := math.Floor(x.float())
		if how == "ceil" {
			f = math.Ceil(x.float())
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			refuse("OverflowError: cannot convert float to integer")
		}
		x = truncate(f)
	}
	return r.binary("/", x, scale)
}

func safeFilter(r *run, v value, a args) value {
	a.positional("safe", 0, 0)
	return value{k: kStr, safe: true, s: r.str(v)}
}

func sliceFilter(r *run, v value, a args) value {
	p := a.bind("slice", "slices", "fill_with")
	n := r.intArg("slice", need("slice", "slices", p[0]))
	var es []value
	at, i := 0, int64(-1)
	return r.generator(func() (value, bool) {
		if i < 0 {
			i = 0
			es = r.list(v)
			if n == 0 {
				refuse("ZeroDivisionError: integer division or modulo by zero")
			}
		}
		if i >= n {
			return value{}, false
		}
		size, extra := len(es)/int(n), int64(len(es))%n
		if i < extra {
			size++
		}
		row := append([]value(nil), es[at:at+size]...)
		if i >= extra && p[1].k != kMissing && p[1].k != kNone {
			row = append(row, p[1])
		}
		at += size
		i++
		r.charge(1 + size)
		return listOf(row...), true
	})
}

func sortFilter(r *run, v value, a args) value {
	p := a.bind("sort", "reverse", "case_sensitive", "attribute")
	var paths []func(value) value
	if p[2].k == kStr {
		for _, s := range strings.Split(p[2].s, ",") {
			paths = append(paths, r.getter(strOf(s)))
		}
	} else {
		paths = append(paths, r.getter(p[2]))
	}
	return listOf(r.sorted(r.list(v), func(v value) value {
		keys := make([]value, len(paths))
		for i, get := range paths {
			keys[i] = get(v)
			if !isSet(p[1]) {
				keys[i] = ignoreCase(keys[i])
			}
		}
		return listOf(keys...)
	}, isSet(p[0]))...)
}

func stringFilter(r *run, v value, a args) value {
	a.positional("string", 0, 0)
	if v.k == kStr {
		return v
	}
	return strOf(r.str(v))
}

func sumFilter(r *run, v value, a args) value {
	p := a.bind("sum", "attribute", "start")
	acc := intOf(0)
	if p[1].k != kMissing {
		acc = p[1]
	}
	if acc.k == kStr {
		refuse("TypeError: sum() can't sum strings")
	}
	get := r.getter(p[0])
	for _, e := range r.list(v) {
		acc = r.binary("+", acc, get(e))
	}
	return acc
}

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

func uniqueFilter(r *run, v value, a args) value {
	p := a.bind("unique", "case_sensitive", "attribute")
	get := r.getter(p[1])
	seen := map[hashKey]bool{}
	var src source
	started := false
	return r.generator(func() (value, bool) {
		if !started {
			started, src = true, r.iterate(v)
		}
		for {
			x, ok := src.next()
			if !ok {
				return x, false
			}
			r.charge(1)
			k := get(x)
			if !isSet(p[0]) {
				k = ignoreCase(k)
			}
			if h := hash(k, 0); !seen[h] {
				seen[h] = true
				return x, true
			}
		}
	})
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
