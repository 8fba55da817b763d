package family

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/token"
)

// Bridger is a Family that can say what follows a checkpoint without rendering what came before it anew.
type Bridger interface {
	// Bridge gives the ids by which the prompt of after follows the checkpoint whose reply is the last message of before.
	// after is before with messages appended, under the same tools, settings and clock.
	//
	// The suffix is what the text of after has more than the text of before. It is exact because an isolating token stands
	// on its left: the stop, or else the suffix's own first token. fault.TemplateRefused: the text of before does not lead
	// into that of after, or the template refuses one of them; then there is no bridge, and the prompt is rendered whole.
	Bridge(before, after Conversation, end Ending) (Bridge, error)
	// Closing is the stop that a reply like m ends with. History writes it behind the reply, unless it opens the next message.
	Closing(m chat.Message) Stop
}

// Ending is how a completion ended.
type Ending struct {
	Stopped bool     // with a stop id; false: cut by length or abort
	Stop    token.ID // its last id, where it stopped
}

// Bridge is how a prompt follows a checkpoint: the checkpoint without its last Trim ids, then Insert, then Suffix. No
// policy sampled Insert or Suffix.
type Bridge struct {
	Trim   int // 0 or 1
	Insert []token.ID
	Suffix []token.ID
	Text   string // of Suffix
}

// Diverged is in the chain of the error of a Bridge whose texts part.
type Diverged struct {
	At            int    // bytes of the prompt's text
	Before, After string // the two texts
}

func (d *Diverged) Error() string { return "the texts part" }

var _ Bridger = (*Kit)(nil)

// Bridge follows the checkpoint by the format's junction: a stop that closes stays; one that is the next message's own
// opener is trimmed, as the suffix brings it; any other is trimmed, and the close put in its place; after a cut the close
// is inserted.
func (k *Kit) Bridge(before, after Conversation, end Ending) (Bridge, error) {
	if n := len(before.Messages); n == 0 || before.Messages[n-1].Role != chat.Assistant || len(after.Messages) <= n {
		return Bridge{}, fault.New(fault.BadRequest, "a bridge goes from a reply to messages behind it")
	}
	base, next, mark, err := k.sides(before, after)
	if err != nil {
		return Bridge{}, err
	}
	plain := unmark(next, mark)
	if !strings.HasPrefix(plain, base) {
		d := &Diverged{At: commonPrefix(base, plain), Before: base, After: plain}
		return Bridge{}, fault.Wrap(fault.TemplateRefused, d, "%s: the template writes what came before in another way", k.Format.Name)
	}
	b := Bridge{Text: plain[len(base):]}
	b.Suffix = encode(k.tok, next[marked(next, mark, len(base)):], mark)
	stop := k.Closing(before.Messages[len(before.Messages)-1])
	switch {
	case stop.Kind == StopNextRole:
		if len(b.Suffix) == 0 || !k.isolating(b.Suffix[0]) {
			return Bridge{}, fault.New(fault.TemplateRefused, "%s: what follows a reply does not begin with a token that stands alone", k.Format.Name)
		}
		if end.Stopped {
			b.Trim = 1
		}
	case !end.Stopped:
		b.Insert = []token.ID{stop.ID}
	case end.Stop != stop.ID:
		b.Trim, b.Insert = 1, []token.ID{stop.ID}
	}
	if end.Stopped && !k.isStop(end.Stop) {
		return Bridge{}, fault.New(fault.BadRequest, "%s: id %d ends no reply", k.Format.Name, end.Stop)
	}
	return b, nil
}

// sides are the text of before up to its close, without marks, and that of after with them.
func (k *Kit) sides(before, after Conversation) (base, next string, mark rune, err error) {
	before.Kwargs = ojson.ObjectOf(append(slices.Clone(before.Kwargs.Members()), ojson.Member{Key: "add_generation_prompt", Value: ojson.BoolOf(false)})...)
	text, m, err := k.text(before)
	if err != nil {
		return "", "", 0, err
	}
	if next, mark, err = k.text(after); err != nil {
		return "", "", 0, err
	}
	base = unmark(text, m)
	stop := k.Closing(before.Messages[len(before.Messages)-1])
	if stop.Kind == StopNextRole { // some templates write it behind a reply that nothing follows
		return strings.TrimSuffix(base, stop.Text), next, mark, nil
	}
	i := strings.LastIndex(base, stop.Text)
	if i < 0 {
		return "", "", 0, fault.New(fault.TemplateRefused, "%s: the template does not close a reply with %s", k.Format.Name, stop.Text)
	}
	if at, _ := k.spell.next(base, i+len(stop.Text)); at >= 0 {
		return "", "", 0, fault.New(fault.TemplateRefused, "%s: the template does not end a reply with %s", k.Format.Name, stop.Text)
	}
	return base[:i+len(stop.Text)], next, mark, nil
}

// Observed is k whose renders tell c which branches of the template they reach, and its template. It is not safe for
// concurrent use.
func (k *Kit) Observed(c *template.Coverage) (*Kit, *template.Template) {
	o := *k
	o.tpl = k.tpl.Observed(c)
	return &o, o.tpl
}

// Closing implements [Bridger].
func (k *Kit) Closing(m chat.Message) Stop {
	spelled := k.Close
	if len(m.Calls) > 0 {
		spelled = k.CloseCalls
	}
	for _, s := range k.stops {
		if s.Text == spelled {
			return s
		}
	}
	return Stop{ID: k.byText[spelled].ID, Text: spelled, Kind: StopClose}
}

func (k *Kit) isolating(id token.ID) bool {
	t, ok := k.byText[k.added[id]]
	return ok && Isolating(t, k.tok.Added())
}

func unmark(text string, mark rune) string {
	if mark == 0 {
		return text
	}
	return strings.ReplaceAll(text, string(mark), "")
}

// marked is where byte n of text without its marks stands in text.
func marked(text string, mark rune, n int) int {
	if mark == 0 {
		return n
	}
	size, at := utf8.RuneLen(mark), 0
	for n > 0 {
		if strings.HasPrefix(text[at:], string(mark)) {
			at += size
			continue
		}
		at, n = at+1, n-1
	}
	return at
}
