// Package ojson reads and writes JSON without losing anything: order of keys, spelling of numbers (1.0, 1e7, integers of
// any size), duplicate keys, escapes, and the raw bytes of every value survive.
//
// JSON that can reach a prompt goes through this package alone. It is pure. A parsed Value refers to the bytes that it was
// parsed from; the caller must not change them afterwards. Values are immutable and safe for concurrent use.
package ojson

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

// Member is one key of an object with its value. Keys may repeat.
type Member struct {
	Key   string
	Value Value
}

// Value is one JSON value.
type Value struct {
	kind Kind
	raw  []byte // exact bytes, when parsed
	str  string // decoded string, or a number's spelling, or "true"/"false"
	arr  []Value
	obj  []Member
}
