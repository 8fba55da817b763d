package template

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

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

// truncate is Python's int(f).
func truncate(f float64) value {
	n, _ := big.NewFloat(f).Int(nil)
	return bigOf(n)
}

// roundInt is Python's round(n, digits) of an int.
func roundInt(v value, digits int) value {
	if digits >= 0 {
		return bigOf(v.big())
	}
	if digits < -maxIntDigits {
		return intOf(0)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil)
	n := roundHalfEven(new(big.Rat).SetFrac(v.big(), scale))
	return bigOf(n.Mul(n, scale))
}

func fileSize(r *run, v value, a args) value {
	p := a.bind("filesizeformat", "binary")
	f := 0.0
	switch {
	case v.k == kStr:
		ok := false
		if f, ok = parseFloat(v.s); !ok {
			refuse("ValueError: could not convert string to float")
		}
	case v.isNumber():
		f = toFloat(v)
	default:
		refuse("TypeError: float() argument must be a string or a real number, not '%s'", typeName(v))
	}
	base, units := 1000.0, "kB MB GB TB PB EB ZB YB"
	if isSet(p[0]) {
		base, units = 1024.0, "KiB MiB GiB TiB PiB EiB ZiB YiB"
	}
	if f == 1 {
		return strOf("1 Byte")
	}
	if f < base {
		if math.IsInf(f, 0) {
			refuse("OverflowError: cannot convert float infinity to integer")
		}
		return strOf(intRepr(truncate(f)) + " Bytes")
	}
	if math.IsNaN(f) {
		return strOf("nan YB")
	}
	names := strings.Fields(units)
	for i, name := range names {
		unit := math.Pow(base, float64(i+2))
		if f < unit || i == len(names)-1 {
			return strOf(strconv.FormatFloat(base*f/unit, 'f', 1, 64) + " " + name)
		}
	}
	return value{}
}
