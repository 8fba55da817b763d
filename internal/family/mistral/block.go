package mistral

import (
	"strings"

	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
)

const blanks = " \t\r\n"

// block reads one call: name, perhaps [CALL_ID] and an id, [ARGS] and JSON. A token inside a string is text.
type block struct {
	n      int
	id     extent // of the id; from is 0 where there is none
	args   int    // where the arguments begin, 0 before [ARGS]
	name   int    // where the name ends
	json   family.Strings
	broken bool // a token stands where none belongs
}

type extent struct{ from, to int }

func (b *block) Text(s string) {
	if b.args > 0 {
		b.json.Text(s)
	}
	b.n += len(s)
}

func (b *block) Token(spelled string) {
	from := b.n
	b.n += len(spelled)
	switch {
	case b.json.In:
		b.json.Text(spelled)
	case b.args > 0:
		b.broken = true
	case spelled == argsOpen:
		b.args = b.n
		if b.id.from > 0 {
			b.id.to = from
		} else {
			b.name = from
		}
	case spelled == idOpen && b.id.from == 0:
		b.name, b.id.from = from, b.n
	default:
		b.broken = true
	}
}

func (b *block) Open() family.Verdict {
	if b.json.In {
		return family.Inside
	}
	return family.Broken
}

func (b *block) Close() family.Verdict {
	switch {
	case b.json.In:
		return family.Inside
	case b.args > 0 && !b.broken:
		return family.Whole
	}
	return family.Broken
}

func (b *block) Dead() bool { return b.broken }

func (b *block) replay(s *family.Stretch) {
	s.Each(func(t string, special bool) {
		if special {
			b.Token(t)
		} else {
			b.Text(t)
		}
	})
}

// Read reads a whole block.
func (b *block) Read(s *family.Stretch, tools *family.Tools) ([]family.Attempt, []string) {
	b.replay(s)
	text := s.String()
	name := strings.Trim(text[:b.name], blanks)
	if b.args == 0 || b.broken || strings.ContainsAny(name, blanks) {
		return []family.Attempt{{Status: family.AttemptMalformed, Name: name}}, nil
	}
	a := family.JSONCall(name, text[b.args:], tools)
	a.ModelID = strings.Trim(text[b.id.from:b.id.to], blanks)
	return []family.Attempt{a}, nil
}

// Name is what stands before [ARGS].
func (b *block) Name(s *family.Stretch) string {
	b.replay(s)
	return strings.Trim(s.String()[:b.name], blanks)
}

// Said lists the name and the strings of the arguments.
func (b *block) Said(s *family.Stretch, mark rune) [][]string {
	b.replay(s)
	return [][]string{family.JSONSaid(s.Marked(0, b.name, mark), s.Marked(b.args, s.Len(), mark))}
}

// list reads a JSON array of calls.
type list struct {
	json   family.Strings
	broken bool
}

func (l *list) Text(s string) { l.json.Text(s) }

func (l *list) Token(spelled string) {
	l.broken = l.broken || !l.json.In
	l.json.Text(spelled)
}

func (l *list) Open() family.Verdict {
	if l.json.In {
		return family.Inside
	}
	return family.Broken
}

func (l *list) Close() family.Verdict {
	if l.json.In {
		return family.Inside
	}
	return family.Whole
}

func (l *list) Dead() bool { return l.broken }

// Read reads a whole array. What is no JSON is no call: where one call's arguments would end cannot be known.
func (l *list) Read(s *family.Stretch, tools *family.Tools) ([]family.Attempt, []string) {
	v, err := ojson.Parse([]byte(strings.Trim(s.String(), blanks)))
	if err != nil || v.Kind() != ojson.Array || v.Len() == 0 {
		return []family.Attempt{{Status: family.AttemptMalformed, Name: l.Name(s)}}, nil
	}
	var out []family.Attempt
	var issues []string
	for _, e := range v.Elems() {
		name, _ := e.Get("name")
		id, _ := e.Get("id")
		args, has := e.Get("arguments")
		switch {
		case e.Kind() != ojson.Object:
			out = append(out, family.Attempt{Status: family.AttemptMalformed})
			continue
		case !has && (e.Len() > 2 || e.Len() == 2 && id.Kind() != ojson.String): // parameters under another key
			out = append(out, family.Attempt{Status: family.AttemptMalformed, Name: name.Str()})
			continue
		case !has:
			issues = append(issues, family.IssueNoArguments)
		}
		text := string(args.Raw())
		if args.Kind() == ojson.String {
			text = args.Str()
		}
		if !has {
			text = "{}"
		}
		a := family.JSONCall(name.Str(), text, tools)
		if a.ModelID = id.Str(); a.Status == family.AttemptOK && e.HasDuplicates() {
			a.Status = family.AttemptDuplicateKey
		}
		out = append(out, a)
	}
	return out, issues
}

// Name is the first call's, where the block begins as the template begins it.
func (l *list) Name(s *family.Stretch) string {
	_, rest, ok := strings.Cut(s.String(), `[{"name": "`)
	name, _, ended := strings.Cut(rest, `"`)
	if !ok || !ended {
		return ""
	}
	return name
}

// Said lists each call's name and the strings of its arguments.
func (l *list) Said(s *family.Stretch, mark rune) (out [][]string) {
	v, err := ojson.Parse([]byte(strings.Trim(s.Marked(0, s.Len(), mark), blanks)))
	if err != nil {
		return nil
	}
	for _, e := range v.Elems() {
		name, _ := e.Get("name")
		args, _ := e.Get("arguments")
		text := string(args.Raw())
		if args.Kind() == ojson.String {
			text = args.Str()
		}
		out = append(out, family.JSONSaid(name.Str(), text))
	}
	return out
}
