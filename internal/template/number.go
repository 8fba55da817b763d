package template

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

const (
	maxIntDigits = 4300      // Python's own limit on int <-> str
	maxIntBits   = 1 << 17   // of a power's or product's result
	maxString    = 256 << 20 // bytes in one string that a template makes
)

// binary is Python's a op b for + - * / // % **.
func (r *run) binary(op string, a, b value) value {
	if a.k <= kUndef {
		refuseUndefined(a)
	}
	if b.k <= kUndef && (op != "%" || a.k != kStr) {
		refuseUndefined(b)
	}
	switch {
	case a.k == kInt && b.k == kInt && op != "**":
		if v, ok := smallInts(op, a.n, b.n); ok {
			return v
		}
		return bigInts(op, a.big(), b.big())
	case a.isInt() && b.isInt():
		return bigInts(op, a.big(), b.big())
	case a.isNumber() && b.isNumber():
		return floats(op, toFloat(a), toFloat(b))
	}
	switch op {
	case "+":
		switch {
		case a.k == kStr && b.k == kStr:
			return r.concat(a, b)
		case a.k == b.k && (a.k == kList || a.k == kTuple):
			x, y := a.seq(), b.seq()
			r.cells(len(x) + len(y))
			es := append(append(make([]value, 0, len(x)+len(y)), x...), y...)
			return value{k: a.k, o: &seq{elems: es}}
		}
	case "*":
		if b.isInt() {
			if v, ok := r.repeat(a, b); ok {
				return v
			}
		} else if a.isInt() {
			if v, ok := r.repeat(b, a); ok {
				return v
			}
		}
	case "%":
		if a.k == kStr {
			return strOf(r.percent(a.s, b))
		}
	}
	refuse("TypeError: unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
	return value{}
}

func (r *run) concat(a, b value) value {
	if a.safe != b.safe {
		if a.safe {
			b = escape(b)
		} else {
			a = escape(a)
		}
	}
	if a.s == "" {
		return b
	}
	if b.s == "" {
		return a
	}
	r.grow(len(a.s) + len(b.s))
	return value{k: kStr, safe: a.safe, s: a.s + b.s}
}

func (r *run) repeat(v, times value) (value, bool) {
	n := times.n
	if times.k == kBig || n < 0 {
		if times.k == kBig && times.big().Sign() > 0 {
			refuse("MemoryError: repeated too often")
		}
		n = 0
	}
	switch v.k {
	case kStr:
		if len(v.s) > 0 && n > int64(maxString/len(v.s)) {
			refuse("MemoryError: a string of more than %d bytes", maxString)
		}
		r.grow(len(v.s) * int(n))
		return value{k: kStr, safe: v.safe, s: strings.Repeat(v.s, int(n))}, true
	case kList, kTuple:
		es := v.seq()
		if len(es) > 0 && n > int64(maxElems/len(es)) {
			refuse("MemoryError: a list of more than %d elements", maxElems)
		}
		r.cells(len(es) * int(n))
		out := make([]value, 0, len(es)*int(n))
		for range n {
			out = append(out, es...)
		}
		return value{k: v.k, o: &seq{elems: out}}, true
	}
	return value{}, false
}

// smallInts computes in int64 where nothing can overflow.
func smallInts(op string, a, b int64) (value, bool) {
	const safe = 1 << 31
	if a <= -safe || a >= safe || b <= -safe || b >= safe {
		return value{}, false
	}
	switch op {
	case "+":
		return int64Of(a + b), true
	case "-":
		return int64Of(a - b), true
	case "*":
		return int64Of(a * b), true
	case "/":
		if b != 0 {
			return floatOf(float64(a) / float64(b)), true
		}
	case "//", "%":
		if b != 0 {
			q, m := a/b, a%b
			if m != 0 && (m < 0) != (b < 0) {
				q, m = q-1, m+b
			}
			if op == "//" {
				return int64Of(q), true
			}
			return int64Of(m), true
		}
	}
	return value{}, false
}

func bigInts(op string, a, b *big.Int) value {
	z := new(big.Int)
	switch op {
	case "+":
		return bigOf(z.Add(a, b))
	case "-":
		return bigOf(z.Sub(a, b))
	case "*":
		if a.BitLen()+b.BitLen() > maxIntBits {
			refuse("MemoryError: an integer of more than %d bits", maxIntBits)
		}
		return bigOf(z.Mul(a, b))
	case "**":
		return power(a, b)
	}
	if b.Sign() == 0 {
		refuse("ZeroDivisionError: division by zero")
	}
	if op == "/" {
		f, _ := new(big.Rat).SetFrac(a, b).Float64()
		if math.IsInf(f, 0) {
			refuse("OverflowError: integer division result too large for a float")
		}
		return floatOf(f)
	}
	m := new(big.Int)
	z.QuoRem(a, b, m)
	if m.Sign() != 0 && m.Sign() != b.Sign() {
		z.Sub(z, big.NewInt(1))
		m.Add(m, b)
	}
	if op == "//" {
		return bigOf(z)
	}
	return bigOf(m)
}

func power(a, b *big.Int) value {
	if b.Sign() < 0 {
		return floats("**", bigFloat(a), bigFloat(b))
	}
	if a.BitLen() > 1 && (!b.IsInt64() || b.Int64() > int64(maxIntBits/(a.BitLen()-1))) {
		refuse("MemoryError: an integer of more than %d bits", maxIntBits)
	}
	if a.BitLen() <= 1 && b.Sign() > 0 { // of -1, 0 and 1 only the exponent's parity counts
		b = new(big.Int).SetUint64(2 - uint64(b.Bit(0)))
	}
	return bigOf(new(big.Int).Exp(a, b, nil))
}

func bigFloat(n *big.Int) float64 {
	f, _ := new(big.Float).SetInt(n).Float64()
	if math.IsInf(f, 0) {
		refuse("OverflowError: int too large to convert to float")
	}
	return f
}

// toFloat is Python's float() of a number.
func toFloat(v value) float64 {
	switch v.k {
	case kFloat:
		return v.float()
	case kBig:
		return bigFloat(v.big())
	}
	return float64(v.n)
}

func floats(op string, a, b float64) value {
	switch op {
	case "+":
		return floatOf(a + b)
	case "-":
		return floatOf(a - b)
	case "*":
		return floatOf(a * b)
	case "**":
		return floatPower(a, b)
	}
	if b == 0 {
		refuse("ZeroDivisionError: float division by zero")
	}
	switch op {
	case "/":
		return floatOf(a / b)
	case "%":
		return floatOf(floatMod(a, b))
	}
	m := math.Mod(a, b)
	div := (a - m) / b
	if m != 0 && (b < 0) != (m < 0) {
		div--
	}
	if div == 0 {
		return floatOf(math.Copysign(0, a/b))
	}
	q := math.Floor(div)
	if div-q > 0.5 {
		q++
	}
	return floatOf(q)
}

func floatMod(a, b float64) float64 {
	m := math.Mod(a, b)
	if m == 0 {
		return math.Copysign(0, b)
	}
	if (b < 0) != (m < 0) {
		m += b
	}
	return m
}

func floatPower(a, b float64) value {
	if a == 0 && b < 0 {
		refuse("ZeroDivisionError: 0.0 cannot be raised to a negative power")
	}
	if a < 0 && b != math.Trunc(b) && !math.IsInf(a, 0) && !math.IsInf(b, 0) {
		refuse("complex numbers are not supported")
	}
	f := math.Pow(a, b)
	if math.IsInf(f, 0) && !math.IsInf(a, 0) && !math.IsInf(b, 0) {
		refuse("OverflowError: numerical result out of range")
	}
	return floatOf(f)
}

func negate(v value) value {
	switch v.k {
	case kBool, kInt, kBig:
		return bigOf(new(big.Int).Neg(v.big()))
	case kFloat:
		return floatOf(-v.float())
	}
	if v.k <= kUndef {
		refuseUndefined(v)
	}
	refuse("TypeError: bad operand type for unary -: '%s'", typeName(v))
	return value{}
}

// floatRepr is Python's repr of a float.
func floatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		s := strconv.FormatFloat(f, 'e', -1, 64)
		return s // Go, as Python, writes at least two digits of exponent
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// intRepr is Python's str of an int.
func intRepr(v value) string {
	if v.k == kBig {
		n := v.o.(*big.Int)
		if n.BitLen() > maxIntDigits*10/3+16 {
			refuse("ValueError: an integer of more than %d digits", maxIntDigits)
		}
		s := n.String()
		if len(strings.TrimPrefix(s, "-")) > maxIntDigits {
			refuse("ValueError: an integer of more than %d digits", maxIntDigits)
		}
		return s
	}
	return strconv.FormatInt(v.n, 10)
}

// parseInt is Python's int(s, base).
func parseInt(s string, base int) (value, bool) {
	s = strings.TrimFunc(s, isSpace)
	neg := false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	if len(s) > 2 && s[0] == '0' {
		want := map[byte]int{'x': 16, 'o': 8, 'b': 2}[s[1]|0x20]
		if want != 0 && (base == want || base == 0) {
			base = want
			s = strings.TrimPrefix(s[2:], "_")
		}
	}
	if base == 0 {
		if len(s) > 1 && s[0] == '0' && strings.Trim(s, "0_") != "" {
			return value{}, false
		}
		base = 10
	}
	if base < 2 || base > 36 {
		return value{}, false
	}
	if s == "" || s[0] == '_' || strings.HasSuffix(s, "_") || strings.Contains(s, "__") || s[0] == '-' || s[0] == '+' {
		return value{}, false
	}
	s = strings.ReplaceAll(s, "_", "")
	if len(s) > maxIntDigits {
		return value{}, false
	}
	n, ok := new(big.Int).SetString(s, base)
	if !ok {
		return value{}, false
	}
	if neg {
		n.Neg(n)
	}
	return bigOf(n), true
}

// parseFloat is Python's float(s).
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	if strings.ContainsAny(s, "xXpP") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return 0, false
	}
	for i := range len(s) {
		if s[i] == '_' && (!isDecimal(s[i-1]) || !isDecimal(s[i+1])) {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// roundTo is Python's round(f, digits): half to even on the exact decimal value.
func roundTo(f float64, digits int) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) || digits > 400 {
		return f
	}
	if digits >= 0 {
		g, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
		return g
	}
	if digits < -400 {
		return math.Copysign(0, f)
	}
	x, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'f', -1, 64))
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil)
	x.Quo(x, new(big.Rat).SetInt(scale))
	n := roundHalfEven(x)
	g, _ := new(big.Rat).SetInt(n.Mul(n, scale)).Float64()
	return math.Copysign(g, f)
}

func roundHalfEven(x *big.Rat) *big.Int {
	half := big.NewRat(1, 2)
	floor := new(big.Int).Div(x.Num(), x.Denom())
	rest := new(big.Rat).Sub(x, new(big.Rat).SetInt(floor))
	if c := rest.Cmp(half); c > 0 || c == 0 && floor.Bit(0) == 1 {
		floor.Add(floor, big.NewInt(1))
	}
	return floor
}
