package rehearsal

import (
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	policy "github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// FormatOf tells the policy of a model's tokenizer and chat format.
func FormatOf(tok *tokenizer.Tokenizer, f family.Family) (policy.Format, error) {
	format := policy.Format{
		Speak:  f.Speak,
		Encode: func(text string) ([]token.ID, error) { return tok.Encode(text), nil },
		Decode: f.Decode,
	}
	for _, s := range f.Stops() {
		format.Stops = append(format.Stops, s.ID)
	}
	render := func(ms []chat.Message) ([]token.ID, error) {
		r, err := f.Render(family.Conversation{Messages: ms})
		return r.IDs, err
	}
	var err error
	format.Opener, err = policy.FindOpener(render, format.Stops)
	return format, err
}
