package template

import (
	"math"
	"math/big"
	"strings"
)

// maxDepth bounds how deep values may nest where they are walked.
const maxDepth = 1200

func deeper(depth int) {
	if depth > maxDepth {
		refuse("RecursionError: values nested deeper than %d", maxDepth)
	}
}

// equal is Python's a == b.
func equal(a, b value) bool { return equalAt(a, b, 0) }

func equalAt(a, b value, depth int) bool {
	if a.k == kStr && b.k == kStr {
		return a.s == b.s
	}
	if a.isNumber() && b.isNumber() {
		c, ok := compareNumbers(a, b)
		return ok && c == 0
	}
	if a.k <= kUndef || b.k <= kUndef {
		return a.k <= kUndef && b.k <= kUndef
	}
	if a.k != b.k {
		return false
	}
	switch a.k {
	case kNone:
		return true
	case kList, kTuple:
		x, y := a.seq(), b.seq()
		if len(x) != len(y) {
			return false
		}
		deeper(depth)
		for i := range x {
			if !equalAt(x[i], y[i], depth+1) {
				return false
			}
		}
		return true
	case kDict:
		x, y := a.dict(), b.dict()
		if x.len() != y.len() {
			return false
		}
		deeper(depth)
		for _, e := range x.entries() {
			v, ok := y.get(e.key)
			if !ok || !equalAt(e.val, v, depth+1) {
				return false
			}
		}
		return true
	case kRange:
		x, y := a.o.(*rangeObj), b.o.(*rangeObj)
		n := x.len()
		return n == y.len() && (n == 0 || x.start == y.start && (n == 1 || x.step == y.step))
	case kView:
		return equalViews(a.o.(*view), b.o.(*view), depth)
	case kFunc:
		return a.o.(*function).same(b.o.(*function))
	}
	return a.o == b.o
}

// equalViews compares keys and items as sets; values are only the same as themselves.
func equalViews(a, b *view, depth int) bool {
	if a.what == "values" || b.what == "values" {
		return a == b
	}
	if a.what != b.what || a.d.len() != b.d.len() {
		return false
	}
	deeper(depth)
	for _, e := range a.d.entries() {
		v, ok := b.d.get(e.key)
		if !ok || a.what == "items" && !equalAt(e.val, v, depth+1) {
			return false
		}
	}
	return true
}

// compareNumbers is exact across int and float; it is not ok where one is not a number.
func compareNumbers(a, b value) (int, bool) {
	if a.k != kFloat && b.k != kFloat {
		if a.k != kBig && b.k != kBig {
			return cmpInt(a.n, b.n), true
		}
		return a.big().Cmp(b.big()), true
	}
	if a.k == kFloat && b.k == kFloat {
		return cmpFloat(a.float(), b.float())
	}
	if b.k == kFloat {
		c, ok := compareNumbers(b, a)
		return -c, ok
	}
	f := a.float()
	switch {
	case math.IsNaN(f):
		return 0, false
	case math.IsInf(f, 1):
		return 1, true
	case math.IsInf(f, -1):
		return -1, true
	}
	return new(big.Float).SetFloat64(f).Cmp(new(big.Float).SetInt(b.big())), true
}

func cmpInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func cmpFloat(a, b float64) (int, bool) {
	switch {
	case a < b:
		return -1, true
	case a > b:
		return 1, true
	}
	return 0, a == b
}

// order is Python's a op b for < <= > >=.
func order(op string, a, b value) bool { return orderAt(op, a, b, 0) }

func orderAt(op string, a, b value, depth int) bool {
	c := 0
	switch {
	case a.k <= kUndef:
		refuseUndefined(a)
	case b.k <= kUndef:
		refuseUndefined(b)
	case a.isNumber() && b.isNumber():
		var ok bool
		if c, ok = compareNumbers(a, b); !ok {
			return false
		}
	case a.k == kStr && b.k == kStr:
		c = strings.Compare(a.s, b.s)
	case a.k == b.k && (a.k == kList || a.k == kTuple):
		deeper(depth)
		x, y := a.seq(), b.seq()
		for i := range min(len(x), len(y)) {
			if !equalAt(x[i], y[i], depth+1) {
				return orderAt(op, x[i], y[i], depth+1)
			}
		}
		c = len(x) - len(y)
	default:
		refuse("TypeError: '%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
	}
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// contains is Python's needle in hay.
func (r *run) contains(hay, needle value) bool {
	switch hay.k {
	case kMissing, kUndef:
		return false
	case kStr:
		if needle.k != kStr {
			refuse("TypeError: 'in <string>' requires string as left operand, not %s", typeName(needle))
		}
		r.charge(len(hay.s) / 64)
		return strings.Contains(hay.s, needle.s)
	case kDict:
		_, ok := hay.dict().get(needle)
		return ok
	case kRange:
		return rangeHas(hay.o.(*rangeObj), needle)
	case kView:
		if w := hay.o.(*view); w.what == "keys" {
			_, ok := w.d.get(needle)
			return ok
		}
	case kList, kTuple, kIter, kLoop:
	default:
		refuse("TypeError: argument of type '%s' is not iterable", typeName(hay))
	}
	it := r.iterate(hay)
	for {
		v, ok := it.next()
		if !ok {
			return false
		}
		r.charge(1)
		if equal(v, needle) {
			return true
		}
	}
}

func rangeHas(g *rangeObj, v value) bool {
	if v.k == kFloat && v.float() == math.Trunc(v.float()) {
		v = int64Of(int64(v.float()))
	}
	if v.k != kInt && v.k != kBool || g.len() == 0 {
		return false
	}
	d := v.n - g.start
	return d%g.step == 0 && d/g.step >= 0 && d/g.step < int64(g.len())
}
