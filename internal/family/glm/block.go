package glm

import (
	"strings"

	"github.com/tito-rl/tito/internal/family"
)

type state uint8

const (
	inName   state = iota
	inKey          // behind <arg_key>
	afterKey       // behind </arg_key>
	inValue        // behind <arg_value>
	afterVal       // behind </arg_value>
	broken
)

// block reads name (<arg_key>key</arg_key> <arg_value>value</arg_value>)*, with white space between the tags. What ends
// a value is decided by position: </arg_value> ends it only where <arg_key> or the end of the block follows.
type block struct {
	st     state
	n      int
	depth  int  // of call tags inside a value
	closed bool // a closing call tag stood in a value: an opening one behind it begins another block
	name   extent
	args   []argument
}

type extent struct{ from, to int }

type argument struct{ key, value extent }

const blanks = " \t\r\n"

func (b *block) Text(s string) {
	if strings.Trim(s, blanks) != "" {
		switch b.st {
		case afterKey:
			b.st = broken
		case afterVal:
			b.st = inValue
		}
	}
	b.n += len(s)
	if b.st == inName {
		b.name.to = b.n
	}
}

func (b *block) Token(spelled string) {
	from, to := b.n, b.n+len(spelled)
	b.n = to
	if b.depth > 0 {
		switch spelled {
		case callOpen:
			b.depth++
		case callClose:
			b.depth--
		}
		return
	}
	switch {
	case spelled == keyOpen && (b.st == inName || b.st == afterVal):
		b.st = inKey
		b.args = append(b.args, argument{key: extent{to, to}})
	case spelled == keyClose && b.st == inKey:
		b.args[len(b.args)-1].key.to, b.st = from, afterKey
	case spelled == valOpen && b.st == afterKey:
		b.args[len(b.args)-1].value, b.st = extent{to, to}, inValue
	case b.st == inValue, b.st == afterVal:
		b.inside(spelled, from)
	default:
		b.st = broken
	}
}

// inside reads a token in a value, or behind what seemed to be its end.
func (b *block) inside(spelled string, from int) {
	b.st, b.closed = inValue, b.closed || spelled == callClose
	switch spelled {
	case valClose:
		b.args[len(b.args)-1].value.to, b.st = from, afterVal
	case callOpen:
		b.depth = 1
	}
}

func (b *block) Open() family.Verdict {
	if b.depth > 0 || b.st == inValue && !b.closed {
		return family.Inside
	}
	return family.Broken
}

func (b *block) Close() family.Verdict {
	switch {
	case b.depth > 0:
		return family.Inside
	case b.st == inName, b.st == afterVal:
		return family.Whole
	case b.st == inValue:
		return family.Maybe
	}
	return family.Broken
}

func (b *block) Dead() bool { return b.st == broken }

func (b *block) replay(s *family.Stretch) {
	s.Each(func(t string, special bool) {
		if special {
			b.Token(t)
		} else {
			b.Text(t)
		}
	})
}

// Read reads a whole block. A name that is empty or holds white space makes it malformed.
func (b *block) Read(s *family.Stretch, tools *family.Tools) ([]family.Attempt, []string) {
	name := b.Name(s)
	switch {
	case b.Close() != family.Whole, strings.ContainsAny(name, blanks):
		return []family.Attempt{{Status: family.AttemptMalformed, Name: name}}, nil
	case name == "":
		return []family.Attempt{{Status: family.AttemptMissingName}}, nil
	}
	text := s.String()
	var args []family.Argument
	for _, a := range b.args {
		args = append(args, family.Argument{Key: text[a.key.from:a.key.to], Value: text[a.value.from:a.value.to]})
	}
	a, issues := family.Assemble(name, args, tools)
	return []family.Attempt{a}, issues
}

// Name is what stands before the first key.
func (b *block) Name(s *family.Stretch) string {
	if b.n == 0 {
		b.replay(s)
	}
	return strings.Trim(s.String()[:b.name.to], "\n")
}

// Said lists the call's name, keys and values.
func (b *block) Said(s *family.Stretch, mark rune) [][]string {
	b.replay(s)
	texts := []string{s.Marked(0, b.name.to, mark)}
	for _, a := range b.args {
		texts = append(texts, s.Marked(a.key.from, a.key.to, mark), s.Marked(a.value.from, a.value.to, mark))
	}
	return [][]string{texts}
}
