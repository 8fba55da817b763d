package template

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

func isSet(v value) bool { return v.k != kMissing && truth(v) }

func safeFilter(r *run, v value, a args) value {
	a.positional("safe", 0, 0)
	return value{k: kStr, safe: true, s: r.str(v)}
}

func stringFilter(r *run, v value, a args) value {
	a.positional("string", 0, 0)
	if v.k == kStr {
		return v
	}
	return strOf(r.str(v))
}
