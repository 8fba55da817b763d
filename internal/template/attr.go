package template

import (
	"math"
	"strings"
)

// unsafeNames are methods that the immutable sandbox refuses: reading one gives an undefined value.
var unsafeNames = map[kind]map[string]bool{
	kDict: {"clear": true, "pop": true, "popitem": true, "setdefault": true, "update": true},
	kList: {"append": true, "clear": true, "pop": true, "reverse": true, "insert": true, "sort": true, "extend": true, "remove": true},
}

// methodOf is the method that v.name is, nil where it is none.
func (r *run) methodOf(v value, name string) method {
	switch v.k {
	case kStr:
		return r.lib.str[name]
	case kDict:
		return dictMethods[name]
	case kList:
		return listMethods[name]
	case kTuple:
		if name != "copy" {
			return listMethods[name]
		}
	case kInt, kBool, kBig:
		return intMethods[name]
	case kFloat:
		return floatMethods[name]
	case kLoop:
		return loopMethods[name]
	case kRange:
		return rangeMethods[name]
	}
	return nil
}

func isDunder(name string) bool {
	return len(name) > 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
}

// attribute is Python's getattr on the object itself, under the sandbox.
func (r *run) attribute(v value, name string) (value, bool) {
	if v.k == kLoop {
		return v.o.(*loop).attr(name)
	}
	if m := r.methodOf(v, name); m != nil {
		return value{k: kFunc, o: &function{name, v, m}}, true
	}
	if unsafeNames[v.k][name] || isDunder(name) && dunders[name] {
		return undefined("access to attribute '" + name + "' of '" + typeName(v) + "' object is unsafe."), true
	}
	switch v.k {
	case kSpace:
		return v.o.(*space).d.getStr(name)
	case kMacro:
		return v.o.(*macro).attr(name)
	case kObject:
		return v.o.(object).attr(name)
	case kRange:
		g := v.o.(*rangeObj)
		switch name {
		case "start":
			return int64Of(g.start), true
		case "stop":
			return int64Of(g.stop), true
		case "step":
			return int64Of(g.step), true
		}
	case kTuple:
		if es := v.seq(); v.safe && len(es) == 2 { // a group of groupby
			switch name {
			case "grouper":
				return es[0], true
			case "list":
				return es[1], true
			}
		}
	case kInt, kBool, kBig, kFloat:
		return numberAttr(v, name)
	}
	return value{}, false
}

// dunders are attributes that every Python object has.
var dunders = map[string]bool{"__class__": true, "__doc__": true, "__init__": true, "__str__": true, "__repr__": true, "__eq__": true,
	"__hash__": true, "__dir__": true, "__new__": true, "__reduce__": true, "__sizeof__": true, "__getattribute__": true, "__format__": true,
	"__setattr__": true, "__delattr__": true, "__ne__": true, "__lt__": true, "__le__": true, "__gt__": true, "__ge__": true,
	"__init_subclass__": true, "__subclasshook__": true, "__reduce_ex__": true}

func numberAttr(v value, name string) (value, bool) {
	if v.k == kBool {
		v.k = kInt
	}
	switch name {
	case "real":
		return v, true
	case "imag":
		if v.k == kFloat {
			return floatOf(0), true
		}
		return intOf(0), true
	case "numerator":
		return v, v.k != kFloat
	case "denominator":
		return intOf(1), v.k != kFloat
	}
	return value{}, false
}

func noAttribute(v value, name string) value {
	return value{k: kUndef, s: name, n: int64(v.k), o: noName}
}

// getattr is v.name: the object's own attribute first, then its item.
func (r *run) getattr(v value, name string) value {
	if v.k <= kUndef {
		refuseUndefined(v)
	}
	if x, ok := r.attribute(v, name); ok {
		return x
	}
	if v.k == kDict {
		if x, ok := v.dict().getStr(name); ok {
			return x
		}
	}
	return noAttribute(v, name)
}

// getitem is v[key]: the item first, then the attribute of that name.
func (r *run) getitem(v, key value) value {
	switch v.k {
	case kMissing, kUndef:
		refuseUndefined(v)
	case kDict:
		if hashable(key) {
			if x, ok := v.dict().get(key); ok {
				return x
			}
		}
	case kList, kTuple:
		if i, ok := indexOf(key); ok {
			es := v.seq()
			if i < 0 {
				i += int64(len(es))
			}
			if i >= 0 && i < int64(len(es)) {
				return es[i]
			}
		}
	case kStr:
		if i, ok := indexOf(key); ok {
			if c, ok := charAt(v.s, i); ok {
				return value{k: kStr, safe: v.safe, s: c}
			}
		}
	case kRange:
		if i, ok := indexOf(key); ok {
			g := v.o.(*rangeObj)
			if i < 0 {
				i += int64(g.len())
			}
			if i >= 0 && i < int64(g.len()) {
				return int64Of(g.start + i*g.step)
			}
		}
	}
	if key.k == kStr {
		if x, ok := r.attribute(v, key.s); ok {
			return x
		}
		return noAttribute(v, key.s)
	}
	return undefined("'" + typeName(v) + " object' has no such element")
}

func indexOf(key value) (int64, bool) { return key.n, key.k == kInt || key.k == kBool }

func hashable(v value) bool {
	switch v.k {
	case kList, kDict, kView:
		return false
	case kTuple:
		for _, e := range v.seq() {
			if !hashable(e) {
				return false
			}
		}
	}
	return true
}

// charAt is character i of s, from the end where i is negative.
func charAt(s string, i int64) (string, bool) {
	if !isASCII(s) {
		rs := runes(s)
		if i < 0 {
			i += int64(len(rs))
		}
		if i < 0 || i >= int64(len(rs)) {
			return "", false
		}
		return fromRunes(rs[i : i+1]), true
	}
	if i < 0 {
		i += int64(len(s))
	}
	if i < 0 || i >= int64(len(s)) {
		return "", false
	}
	return s[i : i+1], true
}

// bounds turns Python's slice bounds into those within n elements, as slice.indices does.
func bounds(n, lo, hi, step int64, hasLo, hasHi bool) (start, stop int64) {
	low, high := int64(0), n
	if step < 0 {
		low, high = -1, n-1
	}
	clamp := func(i int64) int64 {
		if i < 0 {
			return max(i+n, low)
		}
		return min(i, high)
	}
	start, stop = low, high
	if step < 0 {
		start, stop = high, low
	}
	if hasLo {
		start = clamp(lo)
	}
	if hasHi {
		stop = clamp(hi)
	}
	return start, stop
}

// sliceRange is the first index of a slice and the number of its elements.
func sliceRange(n, lo, hi, step int64, hasLo, hasHi bool) (start, count int64) {
	start, stop := bounds(n, lo, hi, step, hasLo, hasHi)
	switch {
	case step > 0 && stop > start:
		return start, (stop-start-1)/step + 1
	case step < 0 && stop < start:
		return start, (start-stop-1)/-step + 1
	}
	return start, 0
}

func (r *run) slice(v value, lo, hi, step int64, hasLo, hasHi bool) value {
	switch v.k {
	case kMissing, kUndef:
		refuseUndefined(v)
	case kStr:
		return value{k: kStr, safe: v.safe, s: r.sliceStr(v.s, lo, hi, step, hasLo, hasHi)}
	case kList, kTuple:
		es := v.seq()
		start, count := sliceRange(int64(len(es)), lo, hi, step, hasLo, hasHi)
		if step == 1 {
			return value{k: v.k, o: &seq{elems: es[start : start+count : start+count]}}
		}
		r.cells(int(count))
		out := make([]value, count)
		for i := range out {
			out[i] = es[start+int64(i)*step]
		}
		return value{k: v.k, o: &seq{elems: out}}
	case kRange:
		g := v.o.(*rangeObj)
		start, stop := bounds(int64(g.len()), lo, hi, step, hasLo, hasHi)
		return value{k: kRange, o: &rangeObj{g.start + start*g.step, g.start + stop*g.step, step * g.step}}
	}
	refuse("TypeError: '%s' object is not subscriptable", typeName(v))
	return value{}
}

func (r *run) sliceStr(s string, lo, hi, step int64, hasLo, hasHi bool) string {
	if isASCII(s) {
		start, count := sliceRange(int64(len(s)), lo, hi, step, hasLo, hasHi)
		if step == 1 {
			return s[start : start+count]
		}
		r.grow(int(count))
		b := make([]byte, count)
		for i := range b {
			b[i] = s[start+int64(i)*step]
		}
		return string(b)
	}
	rs := runes(s)
	r.grow(len(rs))
	start, count := sliceRange(int64(len(rs)), lo, hi, step, hasLo, hasHi)
	b := make([]byte, 0, count)
	for i := range count {
		b = appendRune(b, rs[start+i*step])
	}
	return string(b)
}

var dictMethods = map[string]method{
	"get": func(r *run, self value, a args) value {
		a.positional("get", 1, 2)
		if v, ok := self.dict().get(a.pos[0]); ok {
			return v
		}
		if len(a.pos) == 2 {
			return a.pos[1]
		}
		return none
	},
	"keys":   viewMethod("keys"),
	"values": viewMethod("values"),
	"items":  viewMethod("items"),
	"copy": func(r *run, self value, a args) value {
		a.positional("copy", 0, 0)
		return self
	},
	"fromkeys": func(r *run, self value, a args) value {
		a.positional("fromkeys", 1, 2)
		d, v := &dict{}, none
		if len(a.pos) == 2 {
			v = a.pos[1]
		}
		for _, k := range r.list(a.pos[0]) {
			d.set(k, v)
		}
		return value{k: kDict, o: d}
	},
}

func viewMethod(what string) method {
	return func(r *run, self value, a args) value {
		a.positional(what, 0, 0)
		return value{k: kView, o: &view{self.dict(), what}}
	}
}

var listMethods = map[string]method{
	"index": func(r *run, self value, a args) value {
		a.positional("index", 1, 3)
		es := self.seq()
		lo, n := int64(0), int64(len(es))
		hi := n
		if len(a.pos) > 1 {
			lo = r.intArg("index", a.pos[1])
		}
		if len(a.pos) > 2 {
			hi = r.intArg("index", a.pos[2])
		}
		start, count := sliceRange(n, lo, hi, 1, true, true)
		for i := start; i < start+count; i++ {
			if equal(es[i], a.pos[0]) {
				return int64Of(i)
			}
		}
		refuse("ValueError: not in the list")
		return value{}
	},
	"count": func(r *run, self value, a args) value {
		a.positional("count", 1, 1)
		n := 0
		for _, e := range self.seq() {
			if equal(e, a.pos[0]) {
				n++
			}
		}
		return intOf(n)
	},
	"copy": func(r *run, self value, a args) value {
		a.positional("copy", 0, 0)
		return self
	},
}

var rangeMethods = map[string]method{
	"count": func(r *run, self value, a args) value {
		a.positional("count", 1, 1)
		if rangeHas(self.o.(*rangeObj), a.pos[0]) {
			return intOf(1)
		}
		return intOf(0)
	},
	"index": func(r *run, self value, a args) value {
		a.positional("index", 1, 1)
		g := self.o.(*rangeObj)
		if !rangeHas(g, a.pos[0]) {
			refuse("ValueError: not in range")
		}
		return int64Of((int64(toFloat(a.pos[0])) - g.start) / g.step)
	},
}

var intMethods = map[string]method{
	"bit_length": func(r *run, self value, a args) value {
		a.positional("bit_length", 0, 0)
		return intOf(self.big().BitLen())
	},
	"conjugate": func(r *run, self value, a args) value {
		a.positional("conjugate", 0, 0)
		return bigOf(self.big())
	},
}

var floatMethods = map[string]method{
	"is_integer": func(r *run, self value, a args) value {
		a.positional("is_integer", 0, 0)
		f := self.float()
		return boolOf(f == math.Trunc(f) && !math.IsInf(f, 0))
	},
	"conjugate": func(r *run, self value, a args) value {
		a.positional("conjugate", 0, 0)
		return self
	},
}

// intArg is an argument that must be an int.
func (r *run) intArg(fn string, v value) int64 {
	switch v.k {
	case kInt, kBool:
		return v.n
	case kBig:
		if v.big().Sign() < 0 {
			return -1 << 62
		}
		return 1 << 62
	case kMissing, kUndef:
		refuse("TypeError: '%s' needs an integer, got Undefined", fn)
	}
	refuse("TypeError: %s() needs an integer, got '%s'", fn, typeName(v))
	return 0
}
