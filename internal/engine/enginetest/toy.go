package enginetest

import (
	"sort"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/token"
)

// The special ids of the toy format. Ids below 256 are bytes, ids from [ToyPieces] on are longer pieces.
const (
	ToyOpen   token.ID = 256
	ToyStop   token.ID = 257 // the ordinary stop
	ToyEnd    token.ID = 258 // another one
	ToyPieces token.ID = 300
)

var toyPieces = []string{"hello", "he", " world", "echo ", `{"command": "`, "the ", "answer", "ans"}

var toySpecial = map[string]token.ID{"<|open|>": ToyOpen, "<|stop|>": ToyStop, "<|end|>": ToyEnd}

// Toy is a chat format small enough to be read by eye: messages are <|open|>U…<|stop|> and <|open|>A…<|stop|>, text is
// encoded greedily in bytes and a few longer pieces.
func Toy() rehearsal.Format {
	return rehearsal.Format{
		Speak:  toySpeak,
		Encode: func(s string) ([]token.ID, error) { return toyEncode(s, true), nil },
		Decode: toyDecode,
		Opener: []token.ID{ToyOpen, 'A'},
		Stops:  []token.ID{ToyStop, ToyEnd},
	}
}

// Prompt is a conversation as prompt ids: user and assistant messages in turn, ready for the next assistant message.
func Prompt(messages ...string) []token.ID {
	var ids []token.ID
	for i, m := range messages {
		ids = append(ids, ToyOpen, token.ID("UA"[i%2]))
		ids = append(ids, toyEncode(m, false)...)
		ids = append(ids, ToyStop)
	}
	return append(ids, ToyOpen, 'A')
}

func toySpeak(r chat.Reply) ([]token.ID, error) {
	var s strings.Builder
	if r.Reasoning.S != "" {
		s.WriteString("(" + r.Reasoning.S + ")")
	}
	s.WriteString(r.Content.S)
	for _, c := range r.Calls {
		if c.Name == "" {
			return nil, fault.New(fault.BadRequest, "a call without a name")
		}
		s.WriteString("[" + c.Name + c.Arguments + "]")
	}
	return append(toyEncode(s.String(), false), ToyStop), nil
}

func toyEncode(s string, special bool) []token.ID {
	order := make([]int, len(toyPieces))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return len(toyPieces[order[a]]) > len(toyPieces[order[b]]) })
	var ids []token.ID
next:
	for s != "" {
		if special {
			for text, id := range toySpecial {
				if strings.HasPrefix(s, text) {
					ids, s = append(ids, id), s[len(text):]
					continue next
				}
			}
		}
		for _, i := range order {
			if strings.HasPrefix(s, toyPieces[i]) {
				ids, s = append(ids, ToyPieces+token.ID(i)), s[len(toyPieces[i]):]
				continue next
			}
		}
		ids, s = append(ids, token.ID(s[0])), s[1:]
	}
	return ids
}

func toyDecode(ids []token.ID) string {
	var b []byte
	for _, id := range ids {
		switch {
		case id < 256:
			b = append(b, byte(id))
		case id >= ToyPieces && int(id-ToyPieces) < len(toyPieces):
			b = append(b, toyPieces[id-ToyPieces]...)
		default:
			for text, special := range toySpecial {
				if special == id {
					b = append(b, text...)
				}
			}
		}
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
