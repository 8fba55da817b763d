package ojson

import (
	"strconv"
	"strings"
)

// Equal is equality by value: numbers as exact decimals (60000.0 = 6e4), strings by decoded text, objects without order
// and with the last of duplicate keys. true is not 1, null is not absent; two zero Values are equal.
func Equal(a, b Value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case Bool:
		return a.Bool() == b.Bool()
	case Number:
		return a.text == b.text || equalNumbers(a.text, b.text)
	case String:
		return a.Str() == b.Str()
	case Array:
		x, y := a.Elems(), b.Elems()
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if !Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case Object:
		return equalObjects(a.Members(), b.Members())
	}
	return true
}

func equalObjects(x, y []Member) bool {
	if len(x) == len(y) && sameKeys(x, y) {
		for i := range x {
			if !Equal(x[i].Value, y[i].Value) {
				return false
			}
		}
		return true
	}
	p, q := lastOf(x), lastOf(y)
	if len(p) != len(q) {
		return false
	}
	for k, i := range p {
		j, ok := q[k]
		if !ok || !Equal(x[i].Value, y[j].Value) {
			return false
		}
	}
	return true
}

// sameKeys is whether x and y hold the same keys in the same order and none twice.
func sameKeys(x, y []Member) bool {
	if len(x) > 16 {
		return false
	}
	for i := range x {
		if x[i].Key != y[i].Key {
			return false
		}
		for j := range i {
			if x[i].Key == x[j].Key {
				return false
			}
		}
	}
	return true
}

func lastOf(m []Member) map[string]int {
	last := make(map[string]int, len(m))
	for i := range m {
		last[m[i].Key] = i
	}
	return last
}

func equalNumbers(a, b string) bool {
	x, y := decimal(a), decimal(b)
	return x == y && x.exact
}

// dec is digits × 10^exp, digits without zeros at either end; zero has no digits, no sign and exponent 0.
type dec struct {
	neg    bool
	digits string
	exp    int64
	exact  bool // false where the exponent itself has more than 18 digits: such a number equals only its own spelling
}

func decimal(s string) dec {
	d := dec{exact: true}
	s, d.neg = strings.CutPrefix(s, "-")
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e := strings.TrimPrefix(s[i+1:], "+")
		digits, minus := strings.CutPrefix(e, "-")
		digits = strings.TrimLeft(digits, "0")
		d.exact = len(digits) <= 18
		d.exp, _ = strconv.ParseInt("0"+digits, 10, 64)
		if minus {
			d.exp = -d.exp
		}
		s = s[:i]
	}
	if whole, frac, ok := strings.Cut(s, "."); ok {
		s = whole + frac
		d.exp -= int64(len(frac))
	}
	s = strings.TrimLeft(s, "0")
	d.digits = strings.TrimRight(s, "0")
	d.exp += int64(len(s) - len(d.digits))
	if d.digits == "" {
		return dec{exact: true}
	}
	return d
}
