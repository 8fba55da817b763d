package family

import "strings"

// Section reads a block of calls that each have a head and a rest: (CallOpen head Separator rest CallClose)+, with white space
// between calls. A token inside a string of the rest's JSON is text. It is the part of a [Block] that such formats share.
type Section struct {
	CallOpen, Separator, CallClose string

	unaware bool // of strings
	st      sectionState
	n       int
	calls   []SectionCall
	json    Strings
}

type sectionState uint8

const (
	sectionBetween sectionState = iota // calls
	sectionHead
	sectionRest
	sectionBroken
)

// SectionCall is one call: where its head and its rest stand in the block's text.
type SectionCall struct{ Head, Rest Extent }

// Extent is a part of a text, in bytes.
type Extent struct{ From, To int }

// Of is that part of text.
func (e Extent) Of(text string) string { return text[e.From:e.To] }

// Marked is that part of s as [Stretch.Marked] gives it.
func (e Extent) Marked(s *Stretch, mark rune) string { return s.Marked(e.From, e.To, mark) }

const sectionBlanks = " \t\r\n"

// Text reads text.
func (c *Section) Text(s string) {
	switch c.st {
	case sectionBetween:
		if strings.Trim(s, sectionBlanks) != "" {
			c.st = sectionBroken
		}
	case sectionRest:
		c.json.Text(s)
	}
	c.n += len(s)
}

// Token reads an added token.
func (c *Section) Token(spelled string) {
	from, to := c.n, c.n+len(spelled)
	c.n = to
	switch {
	case c.st == sectionBroken:
	case c.st == sectionBetween && spelled == c.CallOpen:
		c.st = sectionHead
		c.calls = append(c.calls, SectionCall{Head: Extent{to, to}})
	case c.st == sectionHead && spelled == c.Separator:
		call := &c.calls[len(c.calls)-1]
		call.Head.To, call.Rest, c.st, c.json = from, Extent{to, to}, sectionRest, Strings{}
	case c.inString():
		c.json.Text(spelled)
	case c.st == sectionRest && spelled == c.CallClose:
		c.calls[len(c.calls)-1].Rest.To, c.st = from, sectionBetween
	default:
		c.st = sectionBroken
	}
}

func (c *Section) inString() bool { return !c.unaware && c.st == sectionRest && c.json.In }

// Open says that the opening of a section is text inside a string alone.
func (c *Section) Open() Verdict {
	if c.inString() {
		return Inside
	}
	return Broken
}

// Close says that the end of a section ends it, unless it stands in a string that goes on.
func (c *Section) Close() Verdict {
	switch {
	case c.st == sectionBetween && len(c.calls) > 0:
		return Whole
	case c.inString():
		return Maybe
	}
	return Broken
}

// Dead is whether nothing can make a whole section of it any more.
func (c *Section) Dead() bool { return c.st == sectionBroken }

func (c *Section) again(s *Stretch, unaware bool) *Section {
	r := &Section{CallOpen: c.CallOpen, Separator: c.Separator, CallClose: c.CallClose, unaware: unaware}
	s.Each(func(t string, special bool) {
		if special {
			r.Token(t)
		} else {
			r.Text(t)
		}
	})
	return r
}

// Calls reads a block that has ended: by its strings, and where they do not fit, by its tokens alone.
func (c *Section) Calls(s *Stretch) (calls []SectionCall, ok bool) {
	for _, unaware := range []bool{false, true} {
		if r := c.again(s, unaware); r.Close() == Whole {
			return r.calls, true
		}
	}
	return nil, false
}

// First is the first call of a block, whole or not. Where the block ends in the rest of its only call, that rest goes to
// the block's end.
func (c *Section) First(s *Stretch) (call SectionCall, ok bool) {
	r := c.again(s, false)
	if len(r.calls) == 0 {
		return SectionCall{}, false
	}
	call = r.calls[0]
	if call.Rest.To < call.Rest.From || r.st == sectionRest && len(r.calls) == 1 {
		call.Rest.To = len(s.String())
	}
	return call, true
}
