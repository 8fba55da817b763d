package vllm

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/token"
)

// scanner walks one JSON text without building anything. After the first failure bad is set and nothing more is read.
// Numbers that JSON has not, NaN and ±Infinity, are read as Python writes them.
type scanner struct {
	s   string
	i   int
	bad bool
}

func (p *scanner) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// peek is the next byte that is not space, 0 at the end or after a failure.
func (p *scanner) peek() byte {
	p.space()
	if p.bad || p.i >= len(p.s) {
		return 0
	}
	return p.s[p.i]
}

func (p *scanner) take(c byte) bool {
	if p.peek() != c {
		p.bad = true
		return false
	}
	p.i++
	return true
}

// object calls f for each key, which must read the value. f may keep nothing.
func (p *scanner) object(f func(key string)) {
	if !p.take('{') {
		return
	}
	if p.peek() == '}' {
		p.i++
		return
	}
	for {
		key := p.str()
		if !p.take(':') {
			return
		}
		f(key)
		if p.peek() != ',' {
			p.take('}')
			return
		}
		p.i++
	}
}

// array calls f for each element, which must read it. null is an empty array, and false.
func (p *scanner) array(f func()) bool {
	if p.null() {
		return false
	}
	if !p.take('[') {
		return false
	}
	if p.peek() == ']' {
		p.i++
		return true
	}
	for {
		f()
		if p.peek() != ',' {
			return p.take(']')
		}
		p.i++
	}
}

// null reads null where it stands.
func (p *scanner) null() bool {
	if p.peek() == 'n' && strings.HasPrefix(p.s[p.i:], "null") {
		p.i += 4
		return true
	}
	return false
}

// raw reads a string and gives what stands between its quotes, escapes as they are.
func (p *scanner) raw() string {
	if !p.take('"') {
		return ""
	}
	start := p.i
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case '\\':
			p.i++
		case '"':
			p.i++
			return p.s[start : p.i-1]
		}
		p.i++
	}
	p.i, p.bad = len(p.s), true
	return ""
}

// str reads a string. One with escapes is decoded, which costs a copy.
func (p *scanner) str() string {
	p.space()
	start := p.i
	raw := p.raw()
	if p.bad || !strings.Contains(raw, `\`) {
		return raw
	}
	var s string
	p.bad = json.Unmarshal([]byte(p.s[start:p.i]), &s) != nil
	return s
}

// word reads a number or a literal.
func (p *scanner) word() string {
	p.space()
	start := p.i
	for p.i < len(p.s) && strings.IndexByte(",]}: \t\r\n", p.s[p.i]) < 0 {
		p.i++
	}
	if p.bad || p.i == start {
		p.bad = true
		return ""
	}
	return p.s[start:p.i]
}

// float reads a log probability as the nearest float32. null and NaN are NaN. vLLM writes -inf as -9999.0.
func (p *scanner) float() float32 {
	switch w := p.word(); w {
	case "null", "NaN":
		return float32(math.NaN())
	case "Infinity":
		return float32(math.Inf(1))
	case "-Infinity", "-9999.0", "-9999":
		return float32(math.Inf(-1))
	default:
		f, err := strconv.ParseFloat(w, 32)
		if err != nil && !math.IsInf(f, 0) {
			p.bad = true
		}
		return float32(f)
	}
}

// id reads a token id.
func (p *scanner) id() token.ID {
	p.space()
	start, n := p.i, uint64(0)
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' && p.i-start < 11 {
		n = n*10 + uint64(p.s[p.i]-'0')
		p.i++
	}
	if p.i == start || n > math.MaxUint32 {
		p.bad = true
	}
	return token.ID(n)
}

// ids calls f for each id of an array. null is an empty array, and false.
func (p *scanner) ids(f func(token.ID)) bool {
	if p.null() || !p.take('[') {
		return false
	}
	if p.peek() == ']' {
		p.i++
		return true
	}
	for !p.bad {
		f(p.id())
		if p.i < len(p.s) && p.s[p.i] == ',' { // the usual case, without a look for space
			p.i++
			continue
		}
		if p.peek() != ',' {
			return p.take(']')
		}
		p.i++
	}
	return false
}

func (p *scanner) int() int {
	n, err := strconv.Atoi(p.word())
	p.bad = p.bad || err != nil
	return n
}

// skip reads any value and forgets it.
func (p *scanner) skip() {
	for depth := 0; ; {
		switch p.peek() {
		case 0:
			p.bad = true
		case '{', '[':
			depth++
			p.i++
		case '}', ']':
			depth--
			p.i++
		case ',', ':':
			if depth == 0 {
				p.bad = true
			}
			p.i++
		case '"':
			p.raw()
		default:
			p.word()
		}
		if p.bad || depth < 0 {
			p.bad = true
			return
		}
		if depth == 0 {
			return
		}
	}
}
