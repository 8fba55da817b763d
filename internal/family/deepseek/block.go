package deepseek

import (
	"strings"

	"github.com/tito-rl/tito/internal/family"
)

const blanks = " \t\r\n"

type state uint8

const (
	between state = iota // calls
	inHead
	inRest
	broken
)

// block reads a section: (call-begin head separator rest call-end)+, with white space between calls. A token inside a
// string of the JSON is text.
type block struct {
	form
	aware bool // of strings
	st    state
	n     int
	calls []call
	json  family.Strings
}

type call struct{ head, rest extent }

type extent struct{ from, to int }

func (b *block) Text(s string) {
	switch b.st {
	case between:
		if strings.Trim(s, blanks) != "" {
			b.st = broken
		}
	case inRest:
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
		b.st = inHead
		b.calls = append(b.calls, call{head: extent{to, to}})
	case b.st == inHead && spelled == callSep:
		c := &b.calls[len(b.calls)-1]
		c.head.to, c.rest, b.st, b.json = from, extent{to, to}, inRest, family.Strings{}
	case b.inString():
		b.json.Text(spelled)
	case b.st == inRest && spelled == callClose:
		b.calls[len(b.calls)-1].rest.to, b.st = from, between
	default:
		b.st = broken
	}
}

func (b *block) inString() bool { return b.aware && b.st == inRest && b.json.In }

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
func (b *block) whole(s *family.Stretch) (calls []call, ok bool) {
	for _, aware := range []bool{true, false} {
		r := block{form: b.form, aware: aware}
		r.replay(s)
		if r.Close() == family.Whole {
			return r.calls, true
		}
	}
	return nil, false
}

// parts are a call's name and arguments.
func (f form) parts(head, rest string) (name, args string, ok bool) {
	if !f.fenced {
		return head, rest, head != "" && !strings.ContainsAny(head, blanks)
	}
	if name, args, ok = strings.Cut(rest, fenceOpen); !ok {
		return "", "", false
	}
	args, closed := strings.CutSuffix(args, fenceClose)
	return name, args, closed && head == "function" && name != "" && !strings.ContainsAny(name, blanks)
}

// Read reads a whole section.
func (b *block) Read(s *family.Stretch, tools *family.Tools) ([]family.Attempt, []string) {
	calls, ok := b.whole(s)
	if !ok {
		return []family.Attempt{{Status: family.AttemptMalformed, Name: b.Name(s)}}, nil
	}
	text := s.String()
	var out []family.Attempt
	for _, c := range calls {
		name, args, ok := b.parts(text[c.head.from:c.head.to], text[c.rest.from:c.rest.to])
		if !ok {
			out = append(out, family.Attempt{Status: family.AttemptMalformed, Name: name})
			continue
		}
		out = append(out, family.JSONCall(name, args, tools))
	}
	return out, nil
}

// Name is the first call's.
func (b *block) Name(s *family.Stretch) string {
	r := block{form: b.form, aware: true}
	r.replay(s)
	if len(r.calls) == 0 || r.calls[0].head.to == r.calls[0].head.from {
		return ""
	}
	c, text := r.calls[0], s.String()
	if c.rest.to < c.rest.from || r.st == inRest && len(r.calls) == 1 {
		c.rest.to = len(text)
	}
	name, _, _ := b.parts(text[c.head.from:c.head.to], text[c.rest.from:c.rest.to])
	return name
}

// Said lists each call's name and the text of its arguments, which the template is handed as text.
func (b *block) Said(s *family.Stretch, mark rune) (out [][]string) {
	calls, _ := b.whole(s)
	for _, c := range calls {
		name, args, _ := b.parts(s.Marked(c.head.from, c.head.to, mark), s.Marked(c.rest.from, c.rest.to, mark))
		out = append(out, []string{name, args})
	}
	return out
}
