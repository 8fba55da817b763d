package tokenizer

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/fault"
)

// cursor reads JSON in place. A tokenizer.json holds hundreds of thousands of short strings, so vocabulary and merges are
// read straight from the bytes; the few small sections become trees. The first error sticks, and ends every loop.
type cursor struct {
	b    []byte
	i    int
	buf  []byte // of the last string that had escapes
	name string // of the file, in messages
	err  error
}

const maxDepth = 64

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fault.New(fault.BadTokenizer, c.name+", byte "+strconv.Itoa(c.i)+": "+format, args...)
	}
	c.i = len(c.b)
}

// peek skips white space and is the next byte, 0 at the end.
func (c *cursor) peek() byte {
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return c.b[c.i]
		}
	}
	return 0
}

func (c *cursor) accept(want byte) bool {
	if c.err == nil && c.peek() == want {
		c.i++
		return true
	}
	return false
}

func (c *cursor) expect(want byte) {
	if !c.accept(want) {
		c.fail("expected %q", want)
	}
}

// object calls f with each key; f reads the value. The key is valid until f reads.
func (c *cursor) object(f func(key []byte)) {
	c.expect('{')
	if c.accept('}') {
		return
	}
	for c.err == nil {
		key := c.str()
		c.expect(':')
		if c.err == nil {
			f(key)
		}
		if c.accept('}') {
			return
		}
		c.expect(',')
	}
}

// array calls f at each element; f reads it.
func (c *cursor) array(f func()) {
	c.expect('[')
	if c.accept(']') {
		return
	}
	for c.err == nil {
		f()
		if c.accept(']') {
			return
		}
		c.expect(',')
	}
}

// str reads a string. The bytes are valid until the next call.
func (c *cursor) str() []byte {
	c.expect('"')
	start := c.i
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; {
		case ch == '"':
			c.i++
			return c.b[start : c.i-1]
		case ch == '\\':
			return c.escaped(start)
		case ch < ' ':
			c.fail("control character in a string")
		default:
			c.i++
		}
	}
	c.fail("a string is not closed")
	return nil
}

// escaped reads the rest of a string that has an escape at c.i and began at start.
func (c *cursor) escaped(start int) []byte {
	c.buf = append(c.buf[:0], c.b[start:c.i]...)
	for c.i < len(c.b) {
		ch := c.b[c.i]
		c.i++
		switch {
		case ch == '"':
			return c.buf
		case ch < ' ':
			c.fail("control character in a string")
		case ch != '\\':
			c.buf = append(c.buf, ch)
		default:
			c.escape()
		}
	}
	c.fail("a string is not closed")
	return nil
}

func (c *cursor) escape() {
	if c.i >= len(c.b) {
		return
	}
	ch := c.b[c.i]
	c.i++
	switch ch {
	case '"', '\\', '/':
		c.buf = append(c.buf, ch)
	case 'b':
		c.buf = append(c.buf, '\b')
	case 'f':
		c.buf = append(c.buf, '\f')
	case 'n':
		c.buf = append(c.buf, '\n')
	case 'r':
		c.buf = append(c.buf, '\r')
	case 't':
		c.buf = append(c.buf, '\t')
	case 'u':
		r := c.hex4()
		if utf16.IsSurrogate(r) {
			if c.i+1 < len(c.b) && c.b[c.i] == '\\' && c.b[c.i+1] == 'u' {
				c.i += 2
				r = utf16.DecodeRune(r, c.hex4())
			} else {
				r = utf8.RuneError
			}
			if r == utf8.RuneError {
				c.fail("a lone surrogate in a string")
			}
		}
		c.buf = utf8.AppendRune(c.buf, r)
	default:
		c.fail("bad escape \\%c", ch)
	}
}

func (c *cursor) hex4() rune {
	if c.i+4 > len(c.b) {
		c.fail("bad \\u escape")
		return 0
	}
	n, err := strconv.ParseUint(string(c.b[c.i:c.i+4]), 16, 16)
	if err != nil {
		c.fail("bad \\u escape")
		return 0
	}
	c.i += 4
	return rune(n)
}

// uint reads a whole number from 0 to 2^32-1.
func (c *cursor) uint() uint32 {
	c.peek()
	start, n := c.i, uint64(0)
	for c.i < len(c.b) && c.b[c.i]-'0' < 10 && c.i-start < 10 {
		n = n*10 + uint64(c.b[c.i]-'0')
		c.i++
	}
	if c.i == start || n > 1<<32-1 {
		c.fail("expected an id")
		return 0
	}
	return uint32(n)
}

// skip passes over one value and returns a cursor that reads it, nil after an error.
func (c *cursor) skip() *cursor {
	c.peek()
	start := c.i
	c.value(0, false)
	if c.err != nil {
		return nil
	}
	return &cursor{b: c.b[:c.i], i: start, name: c.name}
}

// value is a JSON value: nil, bool, float64, string, []any or map[string]any. Without keep it is only checked.
func (c *cursor) value(depth int, keep bool) any {
	if depth > maxDepth {
		c.fail("nested too deep")
		return nil
	}
	switch ch := c.peek(); {
	case ch == '{':
		m := map[string]any{}
		c.object(func(key []byte) {
			if !keep {
				c.value(depth+1, false)
				return
			}
			k := string(key)
			if _, twice := m[k]; twice {
				c.fail("key %q comes twice", k)
			}
			m[k] = c.value(depth+1, true)
		})
		return m
	case ch == '[':
		var a []any
		c.array(func() {
			if v := c.value(depth+1, keep); keep {
				a = append(a, v)
			}
		})
		return a
	case ch == '"':
		s := c.str()
		if !keep {
			return nil
		}
		if !utf8.Valid(s) {
			c.fail("a string is not UTF-8")
		}
		return string(s)
	default:
		return c.scalar()
	}
}

func (c *cursor) scalar() any {
	start := c.i
	for c.i < len(c.b) {
		if ch := c.b[c.i]; ch|0x20 >= 'a' && ch|0x20 <= 'z' || ch-'0' < 10 || ch == '-' || ch == '+' || ch == '.' {
			c.i++
			continue
		}
		break
	}
	switch word := string(c.b[start:c.i]); word {
	case "null":
		return nil
	case "true":
		return true
	case "false":
		return false
	default:
		f, err := strconv.ParseFloat(word, 64)
		if err != nil || word[0] == '+' || word[0]|0x20 >= 'a' {
			c.fail("expected a value")
		}
		return f
	}
}
