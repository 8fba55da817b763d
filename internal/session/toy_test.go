package session

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
)

// toy is a chat format for traces: a token is a word. Its options are what real templates do to a history.
type toy struct {
	words *[]string // by id
	ids   map[string]token.ID

	strip bool // reasoning before the last user message is left out, as Qwen3's template does
	lean  bool // reasoning of earlier answers is never rendered
}

// The special tokens.
const (
	toyStop      = "<.>"
	toyAssistant = "<A>"
	toyThink     = "<t>"
	toyThinkEnd  = "</t>"
	toyCall      = "<c>"
	toyCallEnd   = "</c>"
)

var toyRoles = map[chat.Role]string{chat.System: "<S>", chat.User: "<U>", chat.Assistant: toyAssistant, chat.Tool: "<T>"}

var toySpecials = []string{toyStop, "<S>", "<U>", "<T>", toyAssistant, toyThink, toyThinkEnd, toyCall, toyCallEnd}

func newToy() *toy {
	f := &toy{words: new([]string), ids: map[string]token.ID{}}
	for _, w := range toySpecials {
		f.id(w)
	}
	return f
}

func (f *toy) id(word string) token.ID {
	id, ok := f.ids[word]
	if !ok {
		id = token.ID(len(*f.words))
		f.ids[word] = id
		*f.words = append(*f.words, word)
	}
	return id
}

func (f *toy) encode(text string) (ids []token.ID) {
	for _, w := range strings.Fields(text) {
		ids = append(ids, f.id(w))
	}
	return ids
}

func (f *toy) Decode(ids []token.ID) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = (*f.words)[id]
	}
	return strings.Join(words, " ")
}

func (f *toy) Name() string { return "toy" }
func (f *toy) Stops() []family.Stop {
	return []family.Stop{{ID: f.id(toyStop), Text: toyStop, Kind: family.StopClose}}
}
func (f *toy) Speak(r chat.Reply) ([]token.ID, error) {
	return f.encode(f.assistant(r.Reasoning.S, r.Content.S, r.Calls, nil, true)), nil
}

func (f *toy) Render(c family.Conversation) (family.Rendered, error) {
	lastUser := -1
	for i, m := range c.Messages {
		if m.Role == chat.User {
			lastUser = i
		}
	}
	var b strings.Builder
	if v, ok := c.Kwargs.Get("mode"); ok {
		b.WriteString("mode:" + v.Str() + " ")
	}
	for _, t := range c.Tools {
		b.WriteString("tool:" + t.Str() + " ")
	}
	for i, m := range c.Messages {
		b.WriteString(toyRoles[m.Role] + " ")
		if m.Role == chat.Assistant {
			think := !f.lean && (!f.strip || i > lastUser)
			b.WriteString(f.assistant(m.Reasoning.S, m.Content.S, m.Calls, c.Sampled[i], think) + " ")
			continue
		}
		b.WriteString(f.body(m.Content.S, nil) + " " + toyStop + " ")
	}
	b.WriteString(toyAssistant)
	return family.Rendered{Text: b.String(), IDs: f.encode(b.String())}, nil
}

func (f *toy) assistant(reasoning, content string, calls []chat.Call, sampled []token.ID, think bool) string {
	var out []string
	if think && strings.TrimSpace(reasoning) != "" {
		out = append(out, toyThink, f.body(reasoning, sampled), toyThinkEnd)
	}
	out = append(out, f.body(content, sampled))
	for _, c := range calls {
		out = append(out, toyCall, c.Name, c.Arguments, toyCallEnd)
	}
	return strings.Join(append(out, toyStop), " ")
}

// body keeps the spelling of a special token as text, except where the policy itself sampled that token.
func (f *toy) body(text string, sampled []token.ID) string {
	words := strings.Fields(text)
	for i, w := range words {
		for _, s := range toySpecials {
			if w == s && !strings.Contains(" "+f.Decode(sampled)+" ", " "+s+" ") {
				words[i] = "'" + w + "'"
			}
		}
	}
	return strings.Join(words, " ")
}

func (f *toy) Parse(family.ParseInput) family.Parser { return &toyParser{f: f} }

type toyParser struct {
	f      *toy
	ids    []token.ID
	inCall bool
}

func (p *toyParser) Add(ids []token.ID) []family.Event {
	var out []family.Event
	for _, id := range ids {
		w := (*p.f.words)[id]
		p.inCall = w == toyCall || p.inCall && w != toyCallEnd
		if !p.inCall && !strings.HasPrefix(w, "<") {
			out = append(out, family.Event{Kind: family.EventContent, Text: w})
		}
	}
	p.ids = append(p.ids, ids...)
	return out
}

func (p *toyParser) Done(stopped bool) (family.Parsed, []family.Event) {
	out := family.Parsed{End: family.EndTruncated}
	if stopped {
		out.End, out.Stop = family.EndStop, p.f.id(toyStop)
	}
	var content, think []string
	into, call := &content, -1
	for i, id := range p.ids {
		w := (*p.f.words)[id]
		switch {
		case w == toyThink:
			into = &think
		case w == toyThinkEnd:
			into = &content
		case w == toyCall:
			call = i
		case w == toyCallEnd && call >= 0:
			out.Calls = append(out.Calls, p.attempt(call, i+1))
			call = -1
		case call < 0 && w != toyStop:
			*into = append(*into, w)
		}
	}
	if call >= 0 { // never closed: it stays visible as text
		raw := p.f.Decode(p.ids[call:])
		content = append(content, raw)
		out.Calls = append(out.Calls, family.Attempt{Status: family.AttemptUnclosed, Raw: raw, Span: token.Span{Start: call, End: len(p.ids)}})
	}
	if len(content) > 0 || len(out.Calls) == 0 {
		out.Content = chat.T(strings.Join(content, " "))
	} else {
		out.Content = chat.Text{Presence: chat.Null}
	}
	if len(think) > 0 {
		out.Reasoning = chat.T(strings.Join(think, " "))
	}
	return out, nil
}

func (p *toyParser) attempt(start, end int) family.Attempt {
	name, args, _ := strings.Cut(p.f.Decode(p.ids[start+1:end-1]), " ")
	a := family.Attempt{Status: family.AttemptOK, Name: name, Arguments: args, IsCall: true, Span: token.Span{Start: start, End: end}}
	if _, err := ojson.Parse([]byte(args)); err != nil {
		a.Status = family.AttemptInvalidJSON
	}
	return a
}
