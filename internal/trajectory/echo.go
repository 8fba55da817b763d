package trajectory

import (
	"crypto/sha256"
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
		for _, w := range *list {
			if w == word {
				return
			}
		}
		*list = append(*list, word)
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

// saidBy is what an echo must agree in to be found by content: the text, with blank as empty, and the names of the calls.
// Arguments are compared afterwards, by value.
func saidBy(r *Reply) Hash {
	calls := returned(r)
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = c.Name
	}
	return said(r.Content.S, names)
}

func saidIn(m *chat.Message) Hash {
	names := make([]string, len(m.Calls))
	for i := range m.Calls {
		names[i] = m.Calls[i].Name
	}
	return said(m.Content.S, names)
}

func said(content string, names []string) Hash {
	if blank(content) {
		content = ""
	}
	h := sha256.New()
	h.Write([]byte(content))
	for _, n := range names {
		h.Write([]byte{0xff}) // in no UTF-8 text
		h.Write([]byte(n))
	}
	return Hash(h.Sum(nil))
}
