package trajectory

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/ojson"
)

// The named equivalences: differences between an echo and what was sampled that change no meaning.
const (
	SameContentEmpty  = "content_empty"      // null, "" and absent
	SameContentBlank  = "content_whitespace" // nothing but white space became nothing, or the reverse
	SameReasoning     = "reasoning_dropped"  // reasoning was left out
	SameReasoningNone = "reasoning_empty"    // null, "" and absent reasoning
	SameArguments     = "arguments_json"     // equal by value: white space, escapes, order of keys, spelling of numbers
	SameArgumentsNone = "arguments_empty"    // "" became {}
	SameParts         = "parts_flattened"    // text came as a list of parts
	SameCallIDs       = "call_ids"           // found by content: the ids are not ours
)

// The fields of an echo that can be rewritten.
const (
	EditContent   = "content"
	EditReasoning = "reasoning"
	EditCalls     = "calls" // another number of calls
	EditName      = "name"
	EditArguments = "arguments"
)

// compare judges an echo of a turn. by is "ids" or "content".
func compare(m *chat.Message, r *Reply, by string) (Verdict, []string) {
	var same, edits []string
	note := func(list *[]string, word string) {
		if !slices.Contains(*list, word) {
			*list = append(*list, word)
		}
	}
	switch {
	case m.Content == r.Content:
	case m.Content.S == r.Content.S && m.Content.S == "":
		note(&same, SameContentEmpty)
	case blank(m.Content.S) && blank(r.Content.S):
		note(&same, SameContentBlank)
	default:
		note(&edits, EditContent)
	}
	switch {
	case m.Reasoning == r.Reasoning:
	case m.Reasoning.S == r.Reasoning.S && m.Reasoning.S == "":
		note(&same, SameReasoningNone)
	case blank(m.Reasoning.S):
		note(&same, SameReasoning)
	default:
		note(&edits, EditReasoning)
	}
	calls := returned(r)
	if len(calls) != len(m.Calls) {
		note(&edits, EditCalls)
	}
	for i := range min(len(calls), len(m.Calls)) {
		a, b := &m.Calls[i], calls[i]
		if a.ID != b.ID {
			if by == "ids" {
				note(&edits, EditCalls)
				continue
			}
			note(&same, SameCallIDs)
		}
		if a.Name != b.Name {
			note(&edits, EditName)
		}
		switch same1, ok := sameArguments(a.Arguments, b.Arguments); {
		case !ok:
			note(&edits, EditArguments)
		case same1 != "":
			note(&same, same1)
		}
	}
	if m.Parts {
		note(&same, SameParts)
	}
	switch {
	case len(edits) > 0:
		return EchoRewritten, edits
	case len(same) > 0:
		return EchoEquivalent, same
	}
	return EchoExact, nil
}

// sameArguments is whether two argument texts mean the same, and the equivalence that makes them so ("" = equal bytes).
func sameArguments(a, b string) (string, bool) {
	if a == b {
		return "", true
	}
	if emptyArguments(a) && emptyArguments(b) {
		return SameArgumentsNone, true
	}
	x, err := ojson.Parse([]byte(a))
	if err != nil {
		return "", false
	}
	y, err := ojson.Parse([]byte(b))
	if err != nil || !ojson.Equal(x, y) {
		return "", false
	}
	return SameArguments, true
}

func emptyArguments(s string) bool { s = strings.TrimSpace(s); return s == "" || s == "{}" }

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// returned lists the attempts of r that the harness saw as calls.
func returned(r *Reply) []*CallFact {
	var out []*CallFact
	for i := range r.Calls {
		if r.Calls[i].ID != "" {
			out = append(out, &r.Calls[i])
		}
	}
	return out
}

// textKey finds turns by what they said: under a given parent, or anywhere.
type textKey struct {
	under  bool
	parent Seq
	said   Hash
}

// saidBy is what an echo must agree in to be found by content: the text, with blank as empty, and the calls' names and
// arguments, but for their numbers. Those are compared afterwards, by value.
func saidBy(r *Reply) Hash {
	b := saidText(r.Content.S)
	for _, c := range returned(r) {
		b = saidCall(b, c.Name, c.Arguments)
	}
	return sha256.Sum256(b)
}

func saidIn(m *chat.Message) Hash {
	b := saidText(m.Content.S)
	for i := range m.Calls {
		b = saidCall(b, m.Calls[i].Name, m.Calls[i].Arguments)
	}
	return sha256.Sum256(b)
}

func saidText(content string) []byte {
	if blank(content) {
		return nil
	}
	return []byte(content)
}

// saidCall appends a call; 0xff is in no UTF-8 text.
func saidCall(b []byte, name, arguments string) []byte {
	b = append(append(append(b, 0xff), name...), 0xff)
	if emptyArguments(arguments) {
		return append(b, "{}"...)
	}
	v, err := ojson.Parse([]byte(arguments))
	if err != nil {
		return append(b, arguments...)
	}
	return shape(b, v)
}

// shape appends a form of v that is the same for values that are equal, and differs for most that are not.
func shape(b []byte, v ojson.Value) []byte {
	switch v.Kind() {
	case ojson.Number:
		return append(b, '#')
	case ojson.String:
		return append(append(append(b, '"'), v.Str()...), 0xff)
	case ojson.Bool:
		if v.Bool() {
			return append(b, 't')
		}
		return append(b, 'f')
	case ojson.Array:
		b = append(b, '[')
		for _, e := range v.Elems() {
			b = shape(b, e)
		}
		return append(b, ']')
	case ojson.Object:
		last := map[string]ojson.Value{}
		for _, m := range v.Members() {
			last[m.Key] = m.Value
		}
		b = append(b, '{')
		for _, k := range slices.Sorted(maps.Keys(last)) {
			b = shape(append(append(b, k...), 0xff), last[k])
		}
		return append(b, '}')
	}
	return append(b, 'n')
}
