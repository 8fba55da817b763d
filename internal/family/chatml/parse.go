package chatml

import (
	"strings"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// The issues that a parse may report.
const (
	issueReasoningUnclosed = "reasoning_unclosed"   // the completion ended inside <think>
	issueCallInReasoning   = "call_in_reasoning"    // a call block inside <think>: not a call
	issueThinkInContent    = "think_in_content"     // a think tag where none belongs: kept as text
	issueCloseInContent    = "call_close_unopened"  // </tool_call> without its opening: kept as text
	issueSpecialInText     = "special_in_text"      // another special token inside a text: kept as text
	issueManyInBlock       = "calls_share_a_block"  // several JSON objects between one pair of tags
	issueNoArguments       = "arguments_missing"    // a call with a name alone: read as {}
	issueNoStop            = "stop_missing"         // the engine stopped, but returned no stop id
	issueTextAfterStop     = "text_after_stop"      // ids after the stop: in no part of the reply
	issueCallClosedByText  = "call_closed_in_value" // a closing tag inside a JSON string was taken as text
)

type mode uint8

const (
	inContent mode = iota
	inReasoning
	inBlock
	ended
)

// body is a text with the places at which special ids, not spellings, stand in it.
type body struct {
	text    []byte
	special []int
	sent    int
}

func (b *body) add(s string) { b.text = append(b.text, s...) }

func (b *body) token(s string) {
	b.special = append(b.special, len(b.text))
	b.add(s)
}

func (b *body) join(o *body) {
	for _, at := range o.special {
		b.special = append(b.special, len(b.text)+at)
	}
	b.text = append(b.text, o.text...)
}

// marked is the text with mark inside each special token.
func (b *body) marked(mark rune) string {
	var out strings.Builder
	from := 0
	for _, at := range b.special {
		if at >= len(b.text) {
			break
		}
		_, n := utf8.DecodeRune(b.text[at:])
		out.Write(b.text[from : at+n])
		out.WriteRune(mark)
		from = at + n
	}
	out.Write(b.text[from:])
	return out.String()
}

// parser reads ids one by one; what it holds depends on their order alone. It may go back: a block whose closing tag
// seemed to stand inside a JSON string is read again when that turns out to lead nowhere.
type parser struct {
	f     *Family
	in    family.ParseInput
	names map[string]bool
	dec   *tokenizer.Decoder
	ids   []token.ID
	pos   int // of the next id to read

	mode      mode
	mayThink  bool // <think> may still open the reply
	reasoned  bool
	skip      int  // newlines that the template puts here
	reasoning body // of reasoning, the last newline may be the template's
	thinkCall int  // where a call inside reasoning began, -1 = none
	content   body
	run       int // where in content the text since the last call begins
	calls     int

	block  body
	opened int // position of the block's opening tag
	scan   scanner
	close1 int // position of the first closing tag inside a JSON string, -1 = none
	cut    int // len(block.text) there
	called []*body

	out    family.Parsed
	events []family.Event
}

// Parse starts the reading of one completion.
//
// The grammar is the template's: an optional think block, content, call blocks. Of the newlines that the template puts
// around them, those it puts are left out of the texts, and no more: one after <think>, one before </think>, two after
// it, one before a call unless it would be all the content, one between calls. Whatever does not fit stays in content
// verbatim. A closing tag inside a JSON string is text if a later one makes the block valid JSON.
func (f *Family) Parse(in family.ParseInput) family.Parser { return f.parser(in) }

func (f *Family) parser(in family.ParseInput) *parser {
	p := &parser{f: f, in: in, names: toolNames(in.Tools), dec: f.tok.NewDecoder(), thinkCall: -1, close1: -1, mayThink: f.thinks}
	p.prompt()
	return p
}

// prompt looks at how the prompt opened the reply.
func (p *parser) prompt() {
	f, ids := p.f, p.in.Prompt
	for i := len(ids) - 1; i >= 0 && ids[i] != f.turn.ID; i-- {
		if !f.thinks || ids[i] != f.think && ids[i] != f.thought {
			continue
		}
		after := f.Decode(ids[i+1:])
		p.mayThink = false
		if ids[i] == f.think {
			p.mode, p.reasoned = inReasoning, true
			if after == "" {
				p.skip = 1
			}
		} else if strings.Trim(after, "\n") == "" {
			p.skip = max(2-len(after), 0)
		}
		return
	}
}

// Add reads more ids.
func (p *parser) Add(ids []token.ID) []family.Event {
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
func (p *parser) Done(stopped bool) (family.Parsed, []family.Event) {
	p.events = p.events[:0]
	for p.mode != ended {
		if p.flush() && p.mode == inBlock && p.close1 >= 0 {
			p.back()
		}
		if p.pos < len(p.ids) {
			p.drain()
			continue
		}
		p.finish()
		p.out.End = family.EndTruncated
		if stopped {
			p.out.End, p.out.Stop = family.EndStop, p.f.stops[0].ID
			p.issue(issueNoStop)
		}
	}
	p.emit()
	if len(p.content.text) > 0 {
		p.out.Content = chat.T(string(p.content.text))
	}
	if p.reasoned {
		p.out.Reasoning = chat.T(string(p.reasoning.text))
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

func (p *parser) step(id token.ID) {
	spelled, added := p.f.added[id]
	switch {
	case p.mode == ended:
		p.issue(issueTextAfterStop)
	case !added:
		p.text(p.dec.Add(id))
	case !p.flush():
	case !p.f.isStop(id):
		p.tag(id, spelled)
	case p.mode == inBlock && p.close1 >= 0:
		p.back()
	default:
		p.finish()
		p.out.End, p.out.Stop = family.EndStop, id
	}
}

// flush ends a run of ordinary ids: bytes still held back will not become a character any more. It is false where that
// made the parser go back.
func (p *parser) flush() bool {
	at := p.pos
	p.text(p.dec.Done())
	return p.pos == at
}

// text adds decoded text to where the parser stands.
func (p *parser) text(s string) {
	for p.skip > 0 && s != "" {
		if s[0] != '\n' {
			p.skip = 0
			break
		}
		s = s[1:]
		p.skip--
	}
	if s == "" {
		return
	}
	p.mayThink = false
	switch p.mode {
	case inReasoning:
		p.reasoning.add(s)
	case inContent:
		p.content.add(s)
	case inBlock:
		p.block.add(s)
		p.scan.text(s)
		if p.close1 >= 0 && p.scan.state == broken {
			p.back()
		}
	}
}

// tag reads an added token.
func (p *parser) tag(id token.ID, spelled string) {
	first := p.mayThink
	p.mayThink, p.skip = false, 0
	f := p.f
	think, thought := f.thinks && id == f.think, f.thinks && id == f.thought
	switch p.mode {
	case inReasoning:
		p.thinkTag(id, spelled, thought)
	case inContent:
		switch {
		case think && first:
			p.mode, p.reasoned, p.skip = inReasoning, true, 1
		case id == f.open:
			p.mode, p.opened, p.block, p.scan, p.close1 = inBlock, p.pos-1, body{}, scanner{}, -1
		default:
			p.content.token(spelled)
			p.issue(p.stray(think || thought, id == f.close))
		}
	case inBlock:
		p.blockTag(id, spelled)
	}
}

func (p *parser) stray(think, close bool) string {
	switch {
	case think:
		return issueThinkInContent
	case close:
		return issueCloseInContent
	}
	return issueSpecialInText
}

func (p *parser) thinkTag(id token.ID, spelled string, thought bool) {
	switch {
	case thought:
		if n := len(p.reasoning.text); n > p.reasoning.sent && p.reasoning.text[n-1] == '\n' {
			p.reasoning.text = p.reasoning.text[:n-1]
		}
		p.thoughtCall(p.pos - 1)
		p.mode, p.skip = inContent, 2
		return
	case id == p.f.open:
		p.thoughtCall(p.pos - 1)
		p.thinkCall = p.pos - 1
		p.issue(issueCallInReasoning)
	case id == p.f.close && p.thinkCall >= 0:
		p.thoughtCall(p.pos)
	default:
		p.issue(issueSpecialInText)
	}
	p.reasoning.token(spelled)
}

// thoughtCall records the call inside reasoning that goes on up to end, if there is one.
func (p *parser) thoughtCall(end int) {
	if p.thinkCall < 0 {
		return
	}
	span := token.Span{Start: p.thinkCall, End: end}
	p.out.Calls = append(p.out.Calls, family.Attempt{Status: family.AttemptInReasoning, Raw: p.f.Decode(p.ids[span.Start:span.End]), Span: span})
	p.thinkCall = -1
}

func (p *parser) blockTag(id token.ID, spelled string) {
	isText := p.scan.inText()
	switch {
	case id == p.f.close && (p.scan.whole() || !isText && p.close1 < 0):
		if p.close1 >= 0 {
			p.issue(issueCallClosedByText)
		}
		p.resolve()
		return
	case id == p.f.close && !isText:
		p.back()
		return
	case id == p.f.close && p.close1 < 0:
		p.close1, p.cut = p.pos-1, len(p.block.text)
	case id == p.f.open && !isText:
		if p.close1 >= 0 {
			p.back()
			return
		}
		p.unclosed(p.pos - 1)
		p.tag(id, spelled)
		return
	}
	p.block.token(spelled)
	p.scan.text(spelled)
	if p.close1 >= 0 && p.scan.state == broken {
		p.back()
	}
}

// back ends the block at its first closing tag after all, and goes on reading behind it.
func (p *parser) back() {
	p.dec.Done()
	p.pos = p.close1 + 1
	p.block.text = p.block.text[:p.cut]
	for n := len(p.block.special); n > 0 && p.block.special[n-1] >= p.cut; n-- {
		p.block.special = p.block.special[:n-1]
	}
	p.resolve()
}

// resolve reads a closed block, whose closing tag was the last id read.
func (p *parser) resolve() {
	span := token.Span{Start: p.opened, End: p.pos}
	raw := callOpen + string(p.block.text) + callClose
	as := p.f.read(string(p.block.text), p.names)
	isCall := true
	for i := range as {
		as[i].Raw, as[i].Span = raw, span
		if p.in.NoCalls {
			as[i].IsCall, as[i].Status = false, family.AttemptUnknownTool
		}
		isCall = isCall && as[i].IsCall
	}
	p.mode, p.close1 = inContent, -1
	if !isCall {
		for i := range as {
			if as[i].IsCall { // a whole call beside one that is none
				as[i].IsCall, as[i].Status = false, family.AttemptMalformed
			}
		}
		p.out.Calls = append(p.out.Calls, as...)
		p.content.token(callOpen)
		p.content.join(&p.block)
		p.content.token(callClose)
		return
	}
	if len(as) > 1 {
		p.issue(issueManyInBlock)
	}
	if n := p.framed(); n > 0 {
		p.content.text = p.content.text[:len(p.content.text)-n]
	}
	p.say(&p.reasoning, family.EventReasoning, 0)
	p.say(&p.content, family.EventContent, 0)
	for _, a := range as {
		if a.Arguments == "{}" && !strings.Contains(string(p.block.text), `"arguments"`) {
			p.issue(issueNoArguments)
		}
		p.events = append(p.events, family.Event{Kind: family.EventCall, Call: len(p.out.Calls)})
		p.out.Calls = append(p.out.Calls, a)
	}
	b := p.block
	p.called = append(p.called, &b)
	p.run, p.calls = len(p.content.text), p.calls+len(as)
}

// framed is 1 where content ends in a newline that the template would put before a call, else 0.
func (p *parser) framed() int {
	n := len(p.content.text)
	if n > p.run && p.content.text[n-1] == '\n' && (p.calls > 0 || n > 1) {
		return 1
	}
	return 0
}

// unclosed gives up an open block that ends at end: what it says stays visible as text.
func (p *parser) unclosed(end int) {
	name, _, _ := readHead(strings.Trim(string(p.block.text), blanks))
	p.out.Calls = append(p.out.Calls, family.Attempt{Status: family.AttemptUnclosed, Name: name,
		Raw: callOpen + string(p.block.text), Span: token.Span{Start: p.opened, End: end}})
	p.content.token(callOpen)
	p.content.join(&p.block)
	p.mode = inContent
}

// finish ends the reply where the parser stands.
func (p *parser) finish() {
	end := len(p.ids)
	if p.pos > 0 && p.f.isStop(p.ids[p.pos-1]) {
		end = p.pos - 1
	}
	switch p.mode {
	case inReasoning:
		p.thoughtCall(end)
		p.issue(issueReasoningUnclosed)
	case inBlock:
		p.unclosed(end)
	}
	p.mode = ended
}

// emit sends what has become certain.
func (p *parser) emit() {
	hold := 0
	if n := len(p.reasoning.text); p.mode == inReasoning && n > 0 && p.reasoning.text[n-1] == '\n' {
		hold = 1
	}
	p.say(&p.reasoning, family.EventReasoning, hold)
	hold = 0
	if p.mode != ended {
		hold = p.framed()
	}
	p.say(&p.content, family.EventContent, hold)
}

func (p *parser) say(b *body, kind family.EventKind, hold int) {
	if n := len(b.text) - hold; n > b.sent {
		p.events = append(p.events, family.Event{Kind: kind, Text: string(b.text[b.sent:n])})
		b.sent = n
	}
}
