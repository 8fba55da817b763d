package family

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// parser reads ids one by one; what it holds depends on their order alone. It may go back: a block whose closing tag
// seemed to stand inside a value is read again when that turns out to lead nowhere.
type parser struct {
	k     *Kit
	in    ParseInput
	tools *Tools
	dec   *tokenizer.Decoder
	ids   []token.ID
	pos   int // of the next id to read

	mode      mode
	mayThink  bool // a think block may still open the reply
	reasoned  bool
	skip      int    // newlines that the template puts here
	word      string // what must still come of ThinkWord
	held      string // what came of it
	reasoning Stretch
	thinkCall int // where a call inside reasoning began, -1 = none
	content   Stretch
	run       int // where in content the text since the last call begins
	calls     int

	reader  Reader // of another grammar; nil is this one
	begun   int    // position of the first id of content
	led     bool   // something but white space was said
	leading bool   // the block has no tags
	block   Stretch
	inner   Block
	opened  int // position of the block's opening tag
	close1  int // position of the first closing tag inside a value, -1 = none
	cut     int // the block's length there
	called  []*Stretch

	out    Parsed
	events []Event
}

// Parse starts the reading of one completion.
//
// The grammar is the template's: an optional think block, content, call blocks. Of the newlines that the template puts
// around them (see [Layout]), those it puts are left out of the texts, and no more. Whatever does not fit stays in
// content verbatim. A closing tag inside a value is text if a later one makes the block whole.
func (k *Kit) Parse(in ParseInput) Parser { return k.parser(in) }

func (k *Kit) parser(in ParseInput) *parser {
	p := &parser{k: k, in: in, tools: newTools(in.Tools), dec: k.tok.NewDecoder(), thinkCall: -1, close1: -1,
		mayThink: k.thinks, skip: len(k.Layout.Lead)}
	if k.NewReader != nil {
		p.reader = k.NewReader(&Reply{p})
		return p
	}
	p.prompt()
	return p
}

// prompt looks at how the prompt opened the reply.
func (p *parser) prompt() {
	k, ids := p.k, p.in.Prompt
	if !k.thinks {
		return
	}
	for i := len(ids) - 1; i >= 0 && (k.Turn == "" || ids[i] != k.turn.ID) && !k.isStop(ids[i]); i-- {
		if ids[i] != k.think && ids[i] != k.thought {
			continue
		}
		after := k.Decode(ids[i+1:])
		if rest, ok := strings.CutPrefix(k.ThinkWord, after); ok && ids[i] == k.think {
			p.word, after = rest, ""
		} else if ids[i] == k.think {
			after = strings.TrimPrefix(after, k.ThinkWord)
		}
		p.mayThink, p.skip = false, 0
		want := k.Layout.ThinkEnd
		if ids[i] == k.think {
			p.mode, p.reasoned = inReasoning, true
			want = k.Layout.ThinkOpen
		}
		if strings.Trim(after, "\n") == "" {
			p.skip = max(len(want)-len(after), 0)
		}
		return
	}
}

// Add reads more ids.
func (p *parser) Add(ids []token.ID) []Event {
	p.events = p.events[:0]
	p.ids = append(p.ids, ids...)
	p.drain()
	p.emit()
	return p.events
}

func (p *parser) drain() {
	for p.pos < len(p.ids) {
		id := p.ids[p.pos]
		p.pos++
		p.step(id)
	}
}

// Done ends the reading.
func (p *parser) Done(stopped bool) (Parsed, []Event) {
	p.events = p.events[:0]
	for p.mode != ended {
		if p.flush() && p.mode == inBlock && p.close1 >= 0 {
			p.back()
		}
		if p.pos < len(p.ids) {
			p.drain()
			continue
		}
		p.finish(stopped)
		p.out.End = EndTruncated
		if stopped {
			p.out.End, p.out.Stop = EndStop, p.k.stops[0].ID
			p.issue(IssueNoStop)
		}
	}
	p.emit()
	if p.content.Len() > 0 {
		p.out.Content = chat.T(p.content.String())
	}
	if p.reasoned {
		p.out.Reasoning = chat.T(p.reasoning.String())
	}
	return p.out, p.events
}

func (p *parser) issue(word string) {
	for _, w := range p.out.Issues {
		if w == word {
			return
		}
	}
	p.out.Issues = append(p.out.Issues, word)
}

// flush ends a run of ordinary ids: bytes still held back will not become a character any more. It is false where that
// made the parser go back.
func (p *parser) flush() bool {
	at := p.pos
	p.text(p.dec.Done())
	return p.pos == at
}

// emit sends what has become certain.
func (p *parser) emit() {
	hold := 0
	if p.mode == inReasoning {
		hold = p.reasonFrame()
	}
	p.say(&p.reasoning, EventReasoning, hold)
	hold = 0
	switch {
	case p.mode == ended:
	case p.mayLead():
		hold = p.content.Len()
	default:
		hold = max(p.callFrame(), p.tailFrame())
	}
	p.say(&p.content, EventContent, hold)
}

func (p *parser) say(b *Stretch, kind EventKind, hold int) {
	if n := b.Len() - hold; n > b.sent {
		p.events = append(p.events, Event{Kind: kind, Text: string(b.text[b.sent:n])})
		b.sent = n
	}
}
