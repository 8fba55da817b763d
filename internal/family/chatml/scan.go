package chatml

import "github.com/tito-rl/tito/internal/family"

// scanner follows JSON text byte by byte: it says whether what came so far can still become valid JSON values in a row,
// and whether it is inside a string. It decides which closing tag ends a call; reading the values is ojson's work.
type scanner struct {
	state scanState
	stack []byte // open containers: '{' or '['
	rest  string // of a literal: what must still come
	hex   int    // digits of a \u escape that must still come
	ends  []int  // offsets at which top-level values ended
	n     int    // bytes read
}

type scanState uint8

const (
	wantValue scanState = iota // at the top, after ':' or after ',' in an array
	wantValueOrEnd
	wantKey
	wantKeyOrEnd
	wantColon
	wantComma // or the container's end
	inString
	inKey
	inEscape
	inKeyEscape
	inNumber
	inLiteral
	broken
)

// Text reads more of the block.
func (s *scanner) Text(t string) {
	for i := range len(t) {
		s.byte(t[i])
		s.n++
	}
}

// Token reads an added token: inside a string it is text like any other.
func (s *scanner) Token(spelled string) { s.Text(spelled) }

// Open says that an opening tag is text inside a string alone.
func (s *scanner) Open() family.Verdict {
	if s.inText() {
		return family.Inside
	}
	return family.Broken
}

// Close says that a closing tag ends the block, unless it stands in a string that goes on.
func (s *scanner) Close() family.Verdict {
	switch {
	case s.whole():
		return family.Whole
	case s.inText():
		return family.Maybe
	}
	return family.Broken
}

// Dead is whether what came can become no JSON.
func (s *scanner) Dead() bool { return s.state == broken }

func (s *scanner) inText() bool {
	return s.state == inString || s.state == inKey || s.state == inEscape || s.state == inKeyEscape
}

// whole is whether at least one value came and none is open.
func (s *scanner) whole() bool {
	return s.state == wantValue && len(s.stack) == 0 && len(s.ends) > 0
}

func (s *scanner) byte(c byte) {
	switch s.state {
	case broken:
	case inString, inKey:
		s.inside(c)
	case inEscape, inKeyEscape:
		s.escape(c)
	case inLiteral:
		if c != s.rest[0] {
			s.state = broken
		} else if s.rest = s.rest[1:]; s.rest == "" {
			s.ended(1)
		}
	case inNumber:
		switch {
		case c >= '0' && c <= '9', c == '.', c == 'e', c == 'E', c == '+', c == '-':
			return
		}
		s.ended(0)
		s.byte(c)
	default:
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			s.token(c)
		}
	}
}

func (s *scanner) inside(c byte) {
	switch {
	case c == '\\':
		s.state += inEscape - inString
	case c == '"' && s.state == inKey:
		s.state = wantColon
	case c == '"':
		s.ended(1)
	case c < ' ':
		s.state = broken
	}
}

func (s *scanner) escape(c byte) {
	back := s.state - (inEscape - inString)
	switch {
	case s.hex > 0:
		if c-'0' >= 10 && (c|0x20 < 'a' || c|0x20 > 'f') {
			s.state = broken
		} else if s.hex--; s.hex == 0 {
			s.state = back
		}
	case c == 'u':
		s.hex = 4
	case c == '"', c == '\\', c == '/', c == 'b', c == 'f', c == 'n', c == 'r', c == 't':
		s.state = back
	default:
		s.state = broken
	}
}

func (s *scanner) token(c byte) {
	switch st := s.state; {
	case (st == wantValueOrEnd && c == ']') || (st == wantKeyOrEnd && c == '}'):
		s.pop()
	case st == wantComma && (c == ']' && s.top() == '[' || c == '}' && s.top() == '{'):
		s.pop()
	case st == wantComma && c == ',' && s.top() == '[':
		s.state = wantValue
	case st == wantComma && c == ',':
		s.state = wantKey
	case st == wantColon && c == ':':
		s.state = wantValue
	case (st == wantKey || st == wantKeyOrEnd) && c == '"':
		s.state = inKey
	case st == wantValue || st == wantValueOrEnd:
		s.value(c)
	default:
		s.state = broken
	}
}

func (s *scanner) value(c byte) {
	switch {
	case c == '{':
		s.stack, s.state = append(s.stack, c), wantKeyOrEnd
	case c == '[':
		s.stack, s.state = append(s.stack, c), wantValueOrEnd
	case c == '"':
		s.state = inString
	case c == 't':
		s.rest, s.state = "rue", inLiteral
	case c == 'f':
		s.rest, s.state = "alse", inLiteral
	case c == 'n':
		s.rest, s.state = "ull", inLiteral
	case c == '-' || c >= '0' && c <= '9':
		s.state = inNumber
	default:
		s.state = broken
	}
}

func (s *scanner) top() byte { return s.stack[len(s.stack)-1] }

func (s *scanner) pop() {
	s.stack = s.stack[:len(s.stack)-1]
	s.ended(1)
}

// ended says that a value ended; last is 1 where its last byte is the one being read.
func (s *scanner) ended(last int) {
	if len(s.stack) > 0 {
		s.state = wantComma
		return
	}
	s.ends = append(s.ends, s.n+last)
	s.state = wantValue
}
