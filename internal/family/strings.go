package family

import (
	"strings"

	"github.com/tito-rl/tito/internal/ojson"
)

// Strings follows JSON text just far enough to know whether it stands inside a string. The zero value has read nothing.
type Strings struct {
	In      bool
	escaped bool
}

// Text reads more.
func (s *Strings) Text(t string) {
	for i := range len(t) {
		switch {
		case s.escaped:
			s.escaped = false
		case s.In && t[i] == '\\':
			s.escaped = true
		case t[i] == '"':
			s.In = !s.In
		}
	}
}

// JSONCall is the attempt of a call whose arguments came as JSON text. White space around them is left out; what is no
// JSON is a call all the same where the name is known, so that the harness sees what was said.
func JSONCall(name, args string, tools *Tools) Attempt {
	a := Attempt{Status: AttemptOK, Name: name, Arguments: strings.Trim(args, " \t\r\n"), IsCall: true}
	v, err := ojson.Parse([]byte(a.Arguments))
	switch {
	case name == "":
		return Attempt{Status: AttemptMissingName}
	case err != nil && !tools.Knows(name):
		return Attempt{Status: AttemptMalformed, Name: name}
	case err != nil:
		a.Status = AttemptInvalidJSON
	case v.Kind() != ojson.Object:
		a.Status = AttemptMalformed
	case !tools.Knows(name):
		a.Status = AttemptUnknownTool
	case Duplicates(v):
		a.Status = AttemptDuplicateKey
	}
	return a
}

// JSONSaid lists what was handed to the template of one call: its name, then the strings of its arguments, or the text
// that is no JSON.
func JSONSaid(name, args string) []string {
	texts := []string{name}
	if v, ok := ArgumentsObject(args); ok {
		EachString(v, func(s string) { texts = append(texts, s) })
		return texts
	}
	return append(texts, args)
}
