package rehearsal

import (
	"slices"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
)

// BookFormat is the value of a book's "format" key.
const BookFormat = "tito-rehearsal/1"

// DefaultScene names the replies of a conversation that no scene covers.
const DefaultScene = "default"

// Book lists what the policy may say, situation by situation.
type Book struct {
	Scenes  []Scene
	Default []Reply // where no scene or no step fits; empty = one reply that says so
	Faults  []Fault // what the engine that plays the book does wrong on purpose
}

// Scene is one kind of conversation, such as one task under one harness. The first scene of a book that fits is played.
type Scene struct {
	Name  string   // unique in the book
	Match []string // each must occur in the decoded prompt
	Steps []Step
}

// Step is one situation of a scene. The first step that fits is played.
type Step struct {
	When    When
	Replies []Reply
}

// When says which prompts of a scene a step answers.
type When struct {
	Turn     int    // assistant messages that the prompt already holds; -1 = any number
	Contains string // must occur in the text after the last assistant message; "" = any text
}

// Reply is one candidate. Its ids are those of its parts as the chat format speaks them, and after them those of its raw
// text.
type Reply struct {
	Name      string // unique in its step; "" = its index
	Reasoning chat.Text
	Content   chat.Text
	Calls     []chat.Call
	Raw       chat.Text // special spellings are read as special ids; a stop is added where none ends it
	Cut       int       // > 0: the completion ends, by length, after this many ids
	Split     string    // the ids that spell this text are replaced by one encoding a character: same text, other ids
	Weight    float64   // initial logit
}

// Merge joins books: their scenes, defaults and faults in order. Two scenes of one name are a [fault.BadConfig].
func Merge(books ...*Book) (*Book, error) {
	var m Book
	names := map[string]bool{}
	for _, b := range books {
		for _, s := range b.Scenes {
			if names[s.Name] {
				return nil, fault.New(fault.BadConfig, "two books have a scene named %q", s.Name)
			}
			names[s.Name] = true
		}
		m.Scenes = append(m.Scenes, b.Scenes...)
		m.Default = append(m.Default, b.Default...)
		m.Faults = append(m.Faults, b.Faults...)
	}
	m.Default = slices.Clip(m.Default)
	return &m, nil
}
