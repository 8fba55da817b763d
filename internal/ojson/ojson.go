// Package ojson reads and writes JSON without losing anything: order of keys, spelling of numbers (1.0, 1e7, integers of
// any size), duplicate keys, escapes, and the raw bytes of every value survive.
//
// JSON that can reach a prompt goes through this package alone. It is pure. Values are immutable and safe for concurrent
// use; they share memory with the document that they were parsed from, so a small value keeps its whole document alive.
package ojson

import "slices"

// Kind is the type of a Value.
type Kind uint8

// The kinds. The zero Value is Invalid: no value at all, as opposed to null.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"nothing", "null", "a boolean", "a number", "a string", "an array", "an object"}[min(k, Object)]
}

// Member is one key of an object with its value. Keys may repeat.
type Member struct {
	Key   string
	Value Value
}

// Value is one JSON value. Compare with [Equal], never with ==.
type Value struct {
	kind Kind
	form form
	text string // raw text when parsed; a built string's content; a number's spelling
	kids *kids  // of an array, an object, or a string with escapes
}

// form says how text is to be read.
type form uint8

const (
	built   form = iota
	parsed       // text is the exact source
	escaped      // parsed, a string whose content is kids.str
)

type kids struct {
	str string
	arr []Value
	obj []Member
}

// Kind is the type of v.
func (v Value) Kind() Kind { return v.kind }

// IsValid is whether v is a value at all; null is one.
func (v Value) IsValid() bool { return v.kind != Invalid }

// Bool is whether v is true.
func (v Value) Bool() bool { return v.kind == Bool && v.text == "true" }

// Str is a string's decoded text, "" for anything else. A lone surrogate escape gives its three WTF-8 bytes.
func (v Value) Str() string {
	switch {
	case v.kind != String:
		return ""
	case v.form == parsed:
		return v.text[1 : len(v.text)-1]
	case v.form == escaped:
		return v.kids.str
	}
	return v.text
}

// Num is a number's exact spelling, "" for anything else.
func (v Value) Num() string {
	if v.kind != Number {
		return ""
	}
	return v.text
}

// Len counts an array's elements or an object's members, duplicates included.
func (v Value) Len() int { return len(v.Elems()) + len(v.Members()) }

// At is element i of an array, the zero Value out of range.
func (v Value) At(i int) Value {
	if e := v.Elems(); i >= 0 && i < len(e) {
		return e[i]
	}
	return Value{}
}

// Elems are an array's elements, nil for anything else. The slice is shared: do not change it.
func (v Value) Elems() []Value {
	if v.kind != Array || v.kids == nil {
		return nil
	}
	return v.kids.arr
}

// Members are an object's members in order, duplicates included, nil for anything else. The slice is shared: do not
// change it.
func (v Value) Members() []Member {
	if v.kind != Object || v.kids == nil {
		return nil
	}
	return v.kids.obj
}

// Get is the value of the last member called key.
func (v Value) Get(key string) (Value, bool) {
	m := v.Members()
	for i := len(m) - 1; i >= 0; i-- {
		if m[i].Key == key {
			return m[i].Value, true
		}
	}
	return Value{}, false
}

// HasDuplicates is whether v itself, not what is in it, is an object with a key that occurs twice.
func (v Value) HasDuplicates() bool {
	m := v.Members()
	if len(m) <= 16 {
		for i := range m {
			for j := range i {
				if m[i].Key == m[j].Key {
					return true
				}
			}
		}
		return false
	}
	seen := make(map[string]struct{}, len(m))
	for i := range m {
		seen[m[i].Key] = struct{}{}
	}
	return len(seen) < len(m)
}

// NullOf builds null.
func NullOf() Value { return Value{kind: Null, text: "null"} }

// BoolOf builds true or false.
func BoolOf(b bool) Value {
	if b {
		return Value{kind: Bool, text: "true"}
	}
	return Value{kind: Bool, text: "false"}
}

// StringOf builds a string from its text.
func StringOf(s string) Value { return Value{kind: String, text: s} }

// NumberOf builds a number from its JSON spelling; what is no JSON number gives the zero Value.
func NumberOf(lit string) Value {
	if n, ok := scanNumber(lit, 0); !ok || n != len(lit) {
		return Value{}
	}
	return Value{kind: Number, text: lit}
}

// IntOf builds an integer.
func IntOf(i int64) Value { return Value{kind: Number, text: itoa(i)} }

// ArrayOf builds an array. It keeps a copy of elems.
func ArrayOf(elems ...Value) Value {
	return Value{kind: Array, kids: &kids{arr: slices.Clone(elems)}}
}

// ObjectOf builds an object. It keeps a copy of members, in their order.
func ObjectOf(members ...Member) Value {
	return Value{kind: Object, kids: &kids{obj: slices.Clone(members)}}
}

// Size is the length of v's source in bytes, a rough measure of how much text it holds. It is 0 for built arrays and
// objects.
func (v Value) Size() int { return len(v.text) }
