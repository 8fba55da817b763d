package chatml

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
)

const blanks = " \t\r\n"

// read reads what stands between a call's tags, as attempts without span and raw text. names are the declared tools, nil
// where any name goes. The block is calls only if every attempt in it is one.
func (f *Family) read(inner string, names map[string]bool) []family.Attempt {
	s := strings.Trim(inner, blanks)
	values, ok := split(s)
	if !ok {
		return []family.Attempt{readBroken(s, names)}
	}
	out := make([]family.Attempt, 0, len(values))
	for _, v := range values {
		out = append(out, readCall(v, names))
	}
	return out
}

// split reads s as JSON values in a row, at least one.
func split(s string) ([]ojson.Value, bool) {
	if v, err := ojson.Parse([]byte(s)); err == nil {
		return []ojson.Value{v}, true
	}
	var sc scanner
	sc.text(s)
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

func readCall(v ojson.Value, names map[string]bool) family.Attempt {
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
	case names != nil && !names[a.Name]:
		a.Status = family.AttemptUnknownTool
	case v.HasDuplicates() || duplicates(args):
		a.Status = family.AttemptDuplicateKey
	}
	return a
}

func isObject(s string) bool {
	v, err := ojson.Parse([]byte(s))
	return err == nil && v.Kind() == ojson.Object
}

func duplicates(v ojson.Value) bool {
	if v.HasDuplicates() {
		return true
	}
	for _, m := range v.Members() {
		if duplicates(m.Value) {
			return true
		}
	}
	for _, e := range v.Elems() {
		if duplicates(e) {
			return true
		}
	}
	return false
}

// readBroken reads a block that is no JSON. Where it begins as the template begins a call, and the name is known, it is a
// call whose arguments are the rest of the text, less the brace that closes the whole: the template writes that brace
// again.
func readBroken(s string, names map[string]bool) family.Attempt {
	name, args, ok := readHead(s)
	if !ok || names != nil && !names[name] {
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

// toolNames is the set of declared names, nil where none are declared.
func toolNames(tools []ojson.Value) map[string]bool {
	if len(tools) == 0 {
		return nil
	}
	names := make(map[string]bool, len(tools))
	for _, t := range tools {
		names[chat.ToolName(t)] = true
	}
	return names
}
