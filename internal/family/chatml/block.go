package chatml

import (
	"strings"

	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
)

const blanks = " \t\r\n"

// Read reads what stands between a call's tags. It is calls only if every attempt in it is one.
func (*scanner) Read(b *family.Stretch, tools *family.Tools) ([]family.Attempt, []string) {
	as := read(b.String(), tools)
	var issues []string
	if len(as) > 1 {
		issues = append(issues, family.IssueManyInBlock)
	}
	for _, a := range as {
		if a.Arguments == "{}" && !strings.Contains(b.String(), `"arguments"`) {
			issues = append(issues, family.IssueNoArguments)
		}
	}
	return as, issues
}

// Name is the name at the head of a block that never ended.
func (*scanner) Name(b *family.Stretch) string {
	name, _, _ := readHead(strings.Trim(b.String(), blanks))
	return name
}

// Said lists each call's name and the strings of its arguments.
func (*scanner) Said(b *family.Stretch, mark rune) (out [][]string) {
	for _, a := range read(b.Marked(0, b.Len(), mark), nil) {
		texts := []string{a.Name}
		if v, ok := family.ArgumentsObject(a.Arguments); ok {
			family.EachString(v, func(s string) { texts = append(texts, s) })
		} else {
			texts = append(texts, a.Arguments)
		}
		out = append(out, texts)
	}
	return out
}

func read(inner string, tools *family.Tools) []family.Attempt {
	s := strings.Trim(inner, blanks)
	values, ok := split(s)
	if !ok {
		return []family.Attempt{readBroken(s, tools)}
	}
	out := make([]family.Attempt, 0, len(values))
	for _, v := range values {
		out = append(out, readCall(v, tools))
	}
	return out
}

// split reads s as JSON values in a row, at least one.
func split(s string) ([]ojson.Value, bool) {
	if v, err := ojson.Parse([]byte(s)); err == nil {
		return []ojson.Value{v}, true
	}
	var sc scanner
	sc.Text(s)
	if !sc.whole() {
		return nil, false
	}
	var out []ojson.Value
	from := 0
	for _, end := range sc.ends {
		v, err := ojson.Parse([]byte(s[from:end]))
		if err != nil {
			return nil, false
		}
		out, from = append(out, v), end
	}
	return out, true
}

func readCall(v ojson.Value, tools *family.Tools) family.Attempt {
	a := family.Attempt{Status: family.AttemptOK, IsCall: true}
	if v.Kind() != ojson.Object {
		return family.Attempt{Status: family.AttemptMalformed}
	}
	name, _ := v.Get("name")
	if a.Name = name.Str(); a.Name == "" {
		return family.Attempt{Status: family.AttemptMissingName}
	}
	args, has := v.Get("arguments")
	switch {
	case !has && v.Len() > 1: // parameters under another key: not to be run without them
		return family.Attempt{Status: family.AttemptMalformed, Name: a.Name}
	case !has:
		a.Arguments = "{}"
	case args.Kind() == ojson.String:
		if a.Arguments = args.Str(); !isObject(a.Arguments) {
			a.Status = family.AttemptInvalidJSON
		}
	case args.Kind() == ojson.Object:
		a.Arguments = string(args.Raw())
	default:
		a.Arguments, a.Status = string(args.Raw()), family.AttemptMalformed
	}
	switch {
	case a.Status != family.AttemptOK:
	case !tools.Knows(a.Name):
		a.Status = family.AttemptUnknownTool
	case v.HasDuplicates() || family.Duplicates(args):
		a.Status = family.AttemptDuplicateKey
	}
	return a
}

func isObject(s string) bool {
	v, err := ojson.Parse([]byte(s))
	return err == nil && v.Kind() == ojson.Object
}

// readBroken reads a block that is no JSON. Where it begins as the template begins a call, and the name is known, it is a
// call whose arguments are the rest of the text, less the brace that closes the whole: the template writes that brace
// again.
func readBroken(s string, tools *family.Tools) family.Attempt {
	name, args, ok := readHead(s)
	if !ok || !tools.Knows(name) {
		return family.Attempt{Status: family.AttemptMalformed, Name: name}
	}
	args = strings.TrimSuffix(args, "}")
	return family.Attempt{Status: family.AttemptInvalidJSON, Name: name, Arguments: args, IsCall: true}
}

// readHead reads {"name": "…", "arguments": and gives the rest.
func readHead(s string) (name, rest string, ok bool) {
	eat := func(lit string) bool {
		s = strings.TrimLeft(s, blanks)
		var found bool
		s, found = strings.CutPrefix(s, lit)
		return found
	}
	if !eat("{") || !eat(`"name"`) || !eat(":") || !eat(`"`) {
		return "", "", false
	}
	end := 0
	for end < len(s) && s[end] != '"' {
		if s[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(s) {
		return "", "", false
	}
	v, err := ojson.Parse([]byte(`"` + s[:end] + `"`))
	if err != nil || v.Str() == "" {
		return "", "", false
	}
	name, s = v.Str(), s[end+1:]
	if !eat(",") || !eat(`"arguments"`) || !eat(":") {
		return name, "", false
	}
	return name, strings.TrimLeft(s, blanks), true
}
