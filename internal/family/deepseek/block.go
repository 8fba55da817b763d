package deepseek

import (
	"strings"

	"github.com/tito-rl/tito/internal/family"
)

const blanks = " \t\r\n"

// block reads a section of calls: head and rest as the form has them.
type block struct {
	family.Section
	form
}

func newBlock(f form) *block {
	return &block{family.Section{CallOpen: callOpen, Separator: callSep, CallClose: callClose}, f}
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
	calls, ok := b.Calls(s)
	if !ok {
		return []family.Attempt{{Status: family.AttemptMalformed, Name: b.Name(s)}}, nil
	}
	text := s.String()
	var out []family.Attempt
	for _, c := range calls {
		name, args, ok := b.parts(c.Head.Of(text), c.Rest.Of(text))
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
	c, ok := b.First(s)
	if !ok || c.Head.To == c.Head.From {
		return ""
	}
	name, _, _ := b.parts(c.Head.Of(s.String()), c.Rest.Of(s.String()))
	return name
}

// Said lists each call's name and the text of its arguments, which the template is handed as text.
func (b *block) Said(s *family.Stretch, mark rune) (out [][]string) {
	calls, _ := b.Calls(s)
	for _, c := range calls {
		name, args, _ := b.parts(c.Head.Marked(s, mark), c.Rest.Marked(s, mark))
		out = append(out, []string{name, args})
	}
	return out
}
