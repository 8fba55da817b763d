package template

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/ojson"
)

// kind is the Python type of a value, as far as templates can tell types apart.
type kind uint8

const (
	kMissing kind = iota // a variable without a value
	kUndef               // Jinja's Undefined; s says what was undefined
	kNone
	kBool   // n
	kInt    // n
	kBig    // o is *big.Int, outside int64
	kFloat  // n holds the bits
	kStr    // s; safe marks Markup
	kList   // o is *seq
	kTuple  // o is *seq
	kDict   // o is *dict
	kRange  // o is *rangeObj
	kView   // o is *view: dict.keys(), .values(), .items()
	kIter   // o is *iterator: a generator, used up once
	kFunc   // o is *function
	kMacro  // o is *macro
	kSpace  // o is *space: a namespace
	kLoop   // o is *loop
	kObject // o is object: cycler, joiner
)

// value is a Python value. It is passed by copy; what o points to is never changed after it was made, but for
// namespaces, loops, iterators and objects.
type value struct {
	k    kind
	safe bool
	n    int64
	s    string
	o    any
}

// seq holds the elements of a list or tuple; those of a parsed list are made when first asked for.
type seq struct {
	elems []value
	src   ojson.Value
}

func (s *seq) items() []value {
	if s.elems == nil && s.src.Len() > 0 {
		es := make([]value, s.src.Len())
		for i, e := range s.src.Elems() {
			es[i] = fromJSON(e)
		}
		s.elems = es
	}
	return s.elems
}

type rangeObj struct{ start, stop, step int64 }

func (r *rangeObj) len() int {
	switch {
	case r.step > 0 && r.start < r.stop:
		return int((uint64(r.stop)-uint64(r.start)-1)/uint64(r.step) + 1)
	case r.step < 0 && r.start > r.stop:
		return int((uint64(r.start)-uint64(r.stop)-1)/(-uint64(r.step)) + 1)
	}
	return 0
}

type view struct {
	d    *dict
	what string // keys, values, items
}

func (w *view) items() []value {
	es := w.d.entries()
	out := make([]value, len(es))
	for i, e := range es {
		switch w.what {
		case "keys":
			out[i] = e.key
		case "values":
			out[i] = e.val
		default:
			out[i] = tupleOf(e.key, e.val)
		}
	}
	return out
}

// iterator is a Python iterator.
type iterator struct {
	next func() (value, bool)
	name string // its Python type
}

type space struct{ d dict }

var (
	none  = value{k: kNone}
	true_ = value{k: kBool, n: 1}
)

func boolOf(b bool) value {
	if b {
		return true_
	}
	return value{k: kBool}
}

func intOf(n int) value { return value{k: kInt, n: int64(n)} }

func int64Of(n int64) value { return value{k: kInt, n: n} }

func floatOf(f float64) value { return value{k: kFloat, n: int64(math.Float64bits(f))} }

func strOf(s string) value { return value{k: kStr, s: s} }

func listOf(es ...value) value { return value{k: kList, o: &seq{elems: es}} }

func tupleOf(es ...value) value { return value{k: kTuple, o: &seq{elems: es}} }

func undefined(what string) value { return value{k: kUndef, s: what} }

// bigOf is n as an int, small where it fits.
func bigOf(n *big.Int) value {
	if n.IsInt64() {
		return int64Of(n.Int64())
	}
	return value{k: kBig, o: n}
}

func (v value) float() float64 { return math.Float64frombits(uint64(v.n)) }

func (v value) seq() []value { return v.o.(*seq).items() }

func (v value) dict() *dict { return v.o.(*dict) }

// isInt is Python's isinstance(v, int): bools count.
func (v value) isInt() bool { return v.k == kInt || v.k == kBool || v.k == kBig }

func (v value) isNumber() bool { return v.isInt() || v.k == kFloat }

// big is an int of any size.
func (v value) big() *big.Int {
	if v.k == kBig {
		return v.o.(*big.Int)
	}
	return big.NewInt(v.n)
}

// fromJSON is what Python's json.loads gives for j.
func fromJSON(j ojson.Value) value {
	switch j.Kind() {
	case ojson.Null:
		return none
	case ojson.Bool:
		return boolOf(j.Bool())
	case ojson.String:
		return strOf(j.Str())
	case ojson.Number:
		return parseNumber(j.Num())
	case ojson.Array:
		return value{k: kList, o: &seq{src: j}}
	case ojson.Object:
		return value{k: kDict, o: &dict{src: j}}
	}
	return value{}
}

func parseNumber(s string) value {
	if strings.ContainsAny(s, ".eE") {
		f, _ := strconv.ParseFloat(s, 64) // out of range gives an infinity, as in Python
		return floatOf(f)
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return int64Of(n)
	}
	if len(s) > maxIntDigits {
		refuse("ValueError: an integer of more than %d digits", maxIntDigits)
	}
	n, _ := new(big.Int).SetString(s, 10)
	return bigOf(n)
}

// typeName is the Python type's name, for messages.
func typeName(v value) string {
	switch v.k {
	case kMissing, kUndef:
		return "Undefined"
	case kNone:
		return "NoneType"
	case kBool:
		return "bool"
	case kInt, kBig:
		return "int"
	case kFloat:
		return "float"
	case kStr:
		return "str"
	case kList:
		return "list"
	case kTuple:
		return "tuple"
	case kDict:
		return "dict"
	case kRange:
		return "range"
	case kView:
		if w, ok := v.o.(*view); ok {
			return "dict_" + w.what
		}
	case kIter:
		if i, ok := v.o.(*iterator); ok {
			return i.name
		}
	case kFunc:
		return "function"
	case kMacro:
		return "Macro"
	case kSpace:
		return "Namespace"
	case kLoop:
		return "LoopContext"
	}
	return "object"
}

// truth is Python's bool(v).
func truth(v value) bool {
	switch v.k {
	case kMissing, kUndef, kNone:
		return false
	case kBool, kInt:
		return v.n != 0
	case kFloat:
		return v.float() != 0
	case kStr:
		return v.s != ""
	case kList, kTuple:
		s := v.o.(*seq)
		return len(s.elems) > 0 || s.src.Len() > 0
	case kDict:
		return v.dict().len() > 0
	case kRange:
		return v.o.(*rangeObj).len() > 0
	case kView:
		return v.o.(*view).d.len() > 0
	case kLoop:
		return v.o.(*loop).length() > 0
	}
	return true
}

// pyLen is len(v), and whether it has one.
func pyLen(v value) (int, bool) {
	switch v.k {
	case kUndef:
		return 0, true
	case kStr:
		return runeCount(v.s), true
	case kList, kTuple:
		if s := v.o.(*seq); s.elems == nil {
			return s.src.Len(), true
		}
		return len(v.seq()), true
	case kDict:
		return v.dict().len(), true
	case kRange:
		return v.o.(*rangeObj).len(), true
	case kView:
		return v.o.(*view).d.len(), true
	case kLoop:
		return v.o.(*loop).length(), true
	}
	return 0, false
}
