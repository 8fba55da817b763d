package template

import (
	"strings"
)

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
