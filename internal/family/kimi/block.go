package kimi

import (
	"strings"

	"github.com/tito-rl/tito/internal/family"
)

const blanks = " \t\r\n"

type state uint8

const (
	between state = iota // calls
	inID
	inArgs
	broken
)

// block reads a section: (<|tool_call_begin|> id <|tool_call_argument_begin|> JSON <|tool_call_end|>)+, with white space
// between calls. A token inside a string of the JSON is text.
type block struct {
	aware bool // of strings
	st    state
	n     int
	calls []call
	json  family.Strings
}

type call struct{ id, args extent }

type extent struct{ from, to int }

func (b *block) Text(s string) {
	switch b.st {
	case between:
		if strings.Trim(s, blanks) != "" {
			b.st = broken
		}
	case inArgs:
		b.json.Text(s)
	}
	b.n += len(s)
}

func (b *block) Token(spelled string) {
	from, to := b.n, b.n+len(spelled)
	b.n = to
	switch {
	case b.st == broken:
	case b.st == between && spelled == callOpen:
		b.st = inID
		b.calls = append(b.calls, call{id: extent{to, to}})
	case b.st == inID && spelled == argsOpen:
		c := &b.calls[len(b.calls)-1]
		c.id.to, c.args, b.st, b.json = from, extent{to, to}, inArgs, family.Strings{}
	case b.inString():
		b.json.Text(spelled)
	case b.st == inArgs && spelled == callClose:
		b.calls[len(b.calls)-1].args.to, b.st = from, between
	default:
		b.st = broken
	}
}

func (b *block) inString() bool { return b.aware && b.st == inArgs && b.json.In }

// Open says that the opening of a section is text inside a string alone.
func (b *block) Open() family.Verdict {
	if b.inString() {
		return family.Inside
	}
	return family.Broken
}

// Close says that the end of a section ends it, unless it stands in a string that goes on.
func (b *block) Close() family.Verdict {
	switch {
	case b.st == between && len(b.calls) > 0:
		return family.Whole
	case b.inString():
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

// whole reads a block that has ended: by its strings, and where they do not fit, by its tokens alone.
func whole(s *family.Stretch) (calls []call, ok bool) {
	for _, aware := range []bool{true, false} {
		b := block{aware: aware}
		b.replay(s)
		if b.Close() == family.Whole {
			return b.calls, true
		}
	}
	return nil, false
}

// Read reads a whole section.
func (b *block) Read(s *family.Stretch, tools *family.Tools) ([]family.Attempt, []string) {
	calls, ok := whole(s)
	if !ok {
		return []family.Attempt{{Status: family.AttemptMalformed, Name: b.Name(s)}}, nil
	}
	text := s.String()
	var out []family.Attempt
	for _, c := range calls {
		id := strings.Trim(text[c.id.from:c.id.to], blanks)
		a := family.JSONCall(nameIn(id), text[c.args.from:c.args.to], tools)
		a.ModelID = id
		out = append(out, a)
	}
	return out, nil
}

// Name is the first call's.
func (b *block) Name(s *family.Stretch) string {
	r := block{aware: true}
	r.replay(s)
	if len(r.calls) == 0 {
		return ""
	}
	return nameIn(strings.Trim(s.String()[r.calls[0].id.from:r.calls[0].id.to], blanks))
}

// Said lists each call's name and the strings of its arguments.
func (b *block) Said(s *family.Stretch, mark rune) (out [][]string) {
	calls, _ := whole(s)
	for _, c := range calls {
		name := nameIn(strings.Trim(s.Marked(c.id.from, c.id.to, mark), blanks))
		out = append(out, family.JSONSaid(name, s.Marked(c.args.from, c.args.to, mark)))
	}
	return out
}
