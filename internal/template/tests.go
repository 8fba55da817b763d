package template

import "math/big"

func makeTests() map[string]testFunc {
	// plain is a test without arguments.
	plain := func(name string, f func(r *run, v value) bool) testFunc {
		return func(r *run, v value, a args) bool {
			a.positional("test "+name, 0, 0)
			return f(r, v)
		}
	}
	is := func(name string, kinds ...kind) testFunc {
		return plain(name, func(r *run, v value) bool {
			for _, k := range kinds {
				if v.k == k {
					return true
				}
			}
			return false
		})
	}
	// versus is a test against one other value.
	versus := func(name string, f func(r *run, v, x value) bool) testFunc {
		return func(r *run, v value, a args) bool {
			a.positional("test "+name, 1, 1)
			return f(r, v, a.pos[0])
		}
	}
	eq := versus("eq", func(r *run, v, x value) bool { return equal(v, x) })
	ne := versus("ne", func(r *run, v, x value) bool { return !equal(v, x) })
	cmp := func(op string) testFunc {
		return versus(op, func(r *run, v, x value) bool { return order(op, v, x) })
	}
	modulo := func(r *run, v, by value) value { return r.binary("%", v, by) }
	return map[string]testFunc{
		"defined":   plain("defined", func(r *run, v value) bool { return v.k > kUndef }),
		"undefined": plain("undefined", func(r *run, v value) bool { return v.k <= kUndef }),
		"none":      is("none", kNone),
		"boolean":   is("boolean", kBool),
		"true":      plain("true", func(r *run, v value) bool { return v.k == kBool && v.n != 0 }),
		"false":     plain("false", func(r *run, v value) bool { return v.k == kBool && v.n == 0 }),
		"integer":   is("integer", kInt, kBig),
		"float":     is("float", kFloat),
		"number":    is("number", kInt, kBig, kFloat, kBool),
		"string":    is("string", kStr),
		"mapping":   is("mapping", kDict),
		"sequence":  plain("sequence", isSequence),
		"iterable": plain("iterable", func(r *run, v value) bool {
			_, ok := r.tryIterate(v)
			return ok || v.k == kLoop
		}),
		"callable":    plain("callable", isCallable),
		"lower":       plain("lower", func(r *run, v value) bool { return isLowerStr(r.str(v)) }),
		"upper":       plain("upper", func(r *run, v value) bool { return isUpperStr(r.str(v)) }),
		"odd":         plain("odd", func(r *run, v value) bool { return equal(modulo(r, v, intOf(2)), intOf(1)) }),
		"even":        plain("even", func(r *run, v value) bool { return equal(modulo(r, v, intOf(2)), intOf(0)) }),
		"divisibleby": versus("divisibleby", func(r *run, v, x value) bool { return equal(modulo(r, v, x), intOf(0)) }),
		"sameas":      versus("sameas", func(r *run, v, x value) bool { return sameAs(v, x) }),
		"escaped":     plain("escaped", func(r *run, v value) bool { return v.k == kStr && v.safe }),
		"in":          versus("in", func(r *run, v, x value) bool { return r.contains(x, v) }),
		"filter":      plain("filter", func(r *run, v value) bool { return hashed(v) && r.lib.filters[v.s] != nil && v.k == kStr }),
		"test":        plain("test", func(r *run, v value) bool { return hashed(v) && r.lib.tests[v.s] != nil && v.k == kStr }),
		"eq":          eq, "equalto": eq, "==": eq,
		"ne": ne, "!=": ne,
		"gt": cmp(">"), "greaterthan": cmp(">"), ">": cmp(">"),
		"lt": cmp("<"), "lessthan": cmp("<"), "<": cmp("<"),
		"ge": cmp(">="), ">=": cmp(">="),
		"le": cmp("<="), "<=": cmp("<="),
	}
}

func hashed(v value) bool {
	hash(v, 0)
	return true
}

func isSequence(r *run, v value) bool {
	switch v.k {
	case kMissing, kUndef, kStr, kList, kTuple, kDict, kRange:
		return true
	}
	return false
}

func isCallable(r *run, v value) bool {
	switch v.k {
	case kFunc, kMacro, kLoop, kMissing, kUndef:
		return true
	case kObject:
		_, ok := v.o.(*joiner)
		return ok
	}
	return false
}

// sameAs is Python's identity where it does not depend on the interpreter: small constants, and the same object.
func sameAs(a, b value) bool {
	if a.k != b.k {
		return false
	}
	switch a.k {
	case kNone:
		return true
	case kBool, kInt, kFloat:
		return a.n == b.n
	case kBig:
		return a.o.(*big.Int).Cmp(b.o.(*big.Int)) == 0
	case kStr:
		return a.s == b.s
	case kMissing, kUndef:
		return false
	}
	return a.o == b.o
}
