package rehearsal

import (
	"slices"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// State is the situation that a prompt is in. It belongs to the policy that gave it. The zero State is the default one.
type State struct {
	Scene string // [DefaultScene] where no scene or step fits
	Step  int
	Turn  int // assistant messages that the prompt already holds
	node  int
}

// State reads the situation from a prompt. It costs one decoding of the prompt where the book has scenes.
func (p *Policy) State(prompt []token.ID) State {
	def := State{Scene: DefaultScene}
	opens := find(prompt, p.format.Opener)
	def.Turn = max(0, len(opens)-1)
	if len(p.scenes) == 0 {
		return def
	}
	text := p.format.Decode(prompt)
	for i := range p.scenes {
		sc := &p.scenes[i]
		if !containsAll(text, sc.match) {
			continue
		}
		tail := p.format.Decode(p.tail(prompt, opens))
		for j, w := range sc.steps {
			if (w.Turn < 0 || w.Turn == def.Turn) && strings.Contains(tail, w.Contains) {
				return State{Scene: sc.name, Step: j, Turn: def.Turn, node: sc.first + j}
			}
		}
		return def
	}
	return def
}

// tail is what the prompt holds between the stop of its last assistant message and the opener of the one to come. A prompt
// without assistant messages is all tail.
func (p *Policy) tail(prompt []token.ID, opens []int) []token.ID {
	if len(opens) == 0 {
		return prompt
	}
	end := opens[len(opens)-1]
	if len(opens) == 1 {
		return prompt[:end]
	}
	from := opens[len(opens)-2] + len(p.format.Opener)
	if i := slices.IndexFunc(prompt[from:end], p.IsStop); i >= 0 {
		from += i + 1
	}
	return prompt[from:end]
}

func find(ids, seq []token.ID) []int {
	var at []int
	for i := 0; i+len(seq) <= len(ids); i++ {
		if ids[i] == seq[0] && slices.Equal(ids[i:i+len(seq)], seq) {
			at = append(at, i)
			i += len(seq) - 1
		}
	}
	return at
}

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// FindOpener derives from a chat format what opens an assistant message: the longest run of ids that ends the prompt of
// two conversations alike, follows no stop, and also stands before an earlier assistant message.
func FindOpener(render func([]chat.Message) ([]token.ID, error), stops []token.ID) ([]token.ID, error) {
	user := func(s string) chat.Message { return chat.Message{Role: chat.User, Content: chat.T(s)} }
	one, err := render([]chat.Message{user("one")})
	if err != nil {
		return nil, err
	}
	// The answer begins with a line break, which must not join with the opener's own.
	two, err := render([]chat.Message{user("one"), {Role: chat.Assistant, Content: chat.T("\n\ntwo")}, user("three")})
	if err != nil {
		return nil, err
	}
	n := 0
	for n < min(len(one), len(two)) && one[len(one)-1-n] == two[len(two)-1-n] && !slices.Contains(stops, one[len(one)-1-n]) {
		n++
	}
	for opener := one[len(one)-n:]; len(opener) > 0; opener = opener[:len(opener)-1] {
		if len(find(one, opener)) == 1 && len(find(two, opener)) == 2 {
			return slices.Clone(opener), nil
		}
	}
	return nil, fault.New(fault.BadModel, "rehearsal: nothing in the prompts of this chat format opens each assistant message and nothing else")
}
