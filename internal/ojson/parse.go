package ojson

import (
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/fault"
)

// Limits that keep a hostile document from costing much more memory than its size.
const (
	MaxDepth  = 1000    // of nested arrays and objects
	MaxValues = 1 << 23 // in one document
)

// Parse reads exactly one value, with white space around it. It copies b once and keeps nothing of it. Errors are
// [fault.BadRequest] and name the byte.
func Parse(b []byte) (Value, error) {
	p := parser{s: string(b)}
	if !utf8.ValidString(p.s) {
		return Value{}, p.fail(invalidAt(p.s), "invalid UTF-8")
	}
	p.space()
	v, err := p.value(0)
	if err != nil {
		return Value{}, err
	}
	p.space()
	if p.i < len(p.s) {
		return Value{}, p.fail(p.i, "more text after the value")
	}
	return v, nil
}

func invalidAt(s string) int {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(s)
}

// parser scans s once. Finished values of open containers wait on stacks, and move to their own slice, carved from a
// larger block, when the container closes.
type parser struct {
	s     string
	i     int
	n     int // values so far
	vals  []Value
	mems  []Member
	valB  []Value
	memB  []Member
	kidsB []kids
	buf   []byte
}

func (p *parser) fail(at int, msg string) error {
	return fault.New(fault.BadRequest, "invalid JSON at byte %d: %s", at, msg)
}

func (p *parser) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\n', '\r', '\t':
			p.i++
		default:
			return
		}
	}
}

func (p *parser) value(depth int) (Value, error) {
	if p.i >= len(p.s) {
		return Value{}, p.fail(p.i, "the text ends where a value is due")
	}
	if p.n++; p.n > MaxValues {
		return Value{}, p.fail(p.i, "too many values")
	}
	start := p.i
	switch c := p.s[p.i]; c {
	case '{':
		return p.object(depth + 1)
	case '[':
		return p.array(depth + 1)
	case '"':
		return p.str()
	case 't':
		return p.word("true", Bool)
	case 'f':
		return p.word("false", Bool)
	case 'n':
		return p.word("null", Null)
	default:
		end, ok := scanNumber(p.s, start)
		if !ok {
			return Value{}, p.fail(end, "not a value")
		}
		p.i = end
		return Value{kind: Number, form: parsed, text: p.s[start:end]}, nil
	}
}

func (p *parser) word(w string, k Kind) (Value, error) {
	if len(p.s)-p.i < len(w) || p.s[p.i:p.i+len(w)] != w {
		return Value{}, p.fail(p.i, "not a value")
	}
	p.i += len(w)
	return Value{kind: k, form: parsed, text: p.s[p.i-len(w) : p.i]}, nil
}

// scanNumber returns the end of the JSON number at s[i:]; when there is none, the place where that became clear.
func scanNumber(s string, i int) (int, bool) {
	digits := func() bool {
		from := i
		for i < len(s) && s[i]-'0' < 10 {
			i++
		}
		return i > from
	}
	if i < len(s) && s[i] == '-' {
		i++
	}
	if i < len(s) && s[i] == '0' {
		i++
	} else if !digits() {
		return i, false
	}
	if i < len(s) && s[i] == '.' {
		i++
		if !digits() {
			return i, false
		}
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if !digits() {
			return i, false
		}
	}
	return i, true
}

func (p *parser) array(depth int) (Value, error) {
	start, base := p.i, len(p.vals)
	if depth > MaxDepth {
		return Value{}, p.fail(start, "nested too deep")
	}
	p.i++
	p.space()
	for first := true; ; first = false {
		if p.i < len(p.s) && p.s[p.i] == ']' && first {
			break
		}
		v, err := p.value(depth)
		if err != nil {
			return Value{}, err
		}
		p.vals = append(p.vals, v)
		p.space()
		if p.i < len(p.s) && p.s[p.i] == ']' {
			break
		}
		if p.i >= len(p.s) || p.s[p.i] != ',' {
			return Value{}, p.fail(p.i, "a comma or ] is due")
		}
		p.i++
		p.space()
	}
	p.i++
	v := Value{kind: Array, form: parsed, text: p.s[start:p.i]}
	if len(p.vals) > base {
		v.kids = p.newKids()
		v.kids.arr = carve(&p.valB, p.vals[base:])
		p.vals = p.vals[:base]
	}
	return v, nil
}

func (p *parser) object(depth int) (Value, error) {
	start, base := p.i, len(p.mems)
	if depth > MaxDepth {
		return Value{}, p.fail(start, "nested too deep")
	}
	p.i++
	p.space()
	for first := true; ; first = false {
		if p.i < len(p.s) && p.s[p.i] == '}' && first {
			break
		}
		m, err := p.member(depth)
		if err != nil {
			return Value{}, err
		}
		p.mems = append(p.mems, m)
		p.space()
		if p.i < len(p.s) && p.s[p.i] == '}' {
			break
		}
		if p.i >= len(p.s) || p.s[p.i] != ',' {
			return Value{}, p.fail(p.i, "a comma or } is due")
		}
		p.i++
		p.space()
	}
	p.i++
	v := Value{kind: Object, form: parsed, text: p.s[start:p.i]}
	if len(p.mems) > base {
		v.kids = p.newKids()
		v.kids.obj = carve(&p.memB, p.mems[base:])
		p.mems = p.mems[:base]
	}
	return v, nil
}

func (p *parser) member(depth int) (Member, error) {
	if p.i >= len(p.s) || p.s[p.i] != '"' {
		return Member{}, p.fail(p.i, "a key is due")
	}
	key, err := p.str()
	if err != nil {
		return Member{}, err
	}
	p.space()
	if p.i >= len(p.s) || p.s[p.i] != ':' {
		return Member{}, p.fail(p.i, "a colon is due")
	}
	p.i++
	p.space()
	v, err := p.value(depth)
	return Member{Key: key.Str(), Value: v}, err
}

// Blocks keep the number of allocations far below the number of values.
const maxBlock = 512

func (p *parser) newKids() *kids {
	if len(p.kidsB) == cap(p.kidsB) {
		p.kidsB = make([]kids, 0, min(max(4, 2*cap(p.kidsB)), maxBlock))
	}
	p.kidsB = p.kidsB[:len(p.kidsB)+1]
	return &p.kidsB[len(p.kidsB)-1]
}

// carve copies src to the free end of *block, with no room to grow.
func carve[T any](block *[]T, src []T) []T {
	b := *block
	if cap(b)-len(b) < len(src) {
		b = make([]T, 0, max(len(src), min(max(8, 2*cap(b)), maxBlock)))
	}
	from := len(b)
	b = append(b, src...)
	*block = b
	return b[from:len(b):len(b)]
}
