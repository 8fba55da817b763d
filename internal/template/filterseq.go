package template

import (
	"sort"
	"strings"
)

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

func listFilter(r *run, v value, a args) value {
	a.positional("list", 0, 0)
	return listOf(r.list(v)...)
}

func randomFilter(r *run, v value, a args) value {
	refuse("the random filter is random")
	return value{}
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
