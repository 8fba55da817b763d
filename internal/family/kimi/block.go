package kimi

import (
	"strings"

	"github.com/tito-rl/tito/internal/family"
)

const blanks = " \t\r\n"

// block reads a section of calls whose head is the id, from which the name comes, and whose rest is the JSON.
type block struct{ family.Section }

func newBlock() family.Block {
	return &block{family.Section{CallOpen: callOpen, Separator: argsOpen, CallClose: callClose}}
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
		id := strings.Trim(c.Head.Of(text), blanks)
		a := family.JSONCall(nameIn(id), c.Rest.Of(text), tools)
		a.ModelID = id
		out = append(out, a)
	}
	return out, nil
}

// Name is the first call's.
func (b *block) Name(s *family.Stretch) string {
	c, ok := b.First(s)
	if !ok {
		return ""
	}
	return nameIn(strings.Trim(c.Head.Of(s.String()), blanks))
}

// Said lists each call's name and the strings of its arguments.
func (b *block) Said(s *family.Stretch, mark rune) (out [][]string) {
	calls, _ := b.Calls(s)
	for _, c := range calls {
		name := nameIn(strings.Trim(c.Head.Marked(s, mark), blanks))
		out = append(out, family.JSONSaid(name, c.Rest.Marked(s, mark)))
	}
	return out
}
