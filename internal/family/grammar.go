package family

import (
	"strings"

	"github.com/tito-rl/tito/internal/token"
)

// The issues that a parse may report.
const (
	IssueReasoningUnclosed = "reasoning_unclosed"   // the completion ended inside reasoning
	IssueCallInReasoning   = "call_in_reasoning"    // a call block inside reasoning: not a call
	IssueThinkInContent    = "think_in_content"     // a think tag where none belongs: kept as text
	IssueCloseInContent    = "call_close_unopened"  // a call's closing tag without its opening: kept as text
	IssueSpecialInText     = "special_in_text"      // another special token inside a text: kept as text
	IssueManyInBlock       = "calls_share_a_block"  // several calls between one pair of tags, where the template writes one
	IssueNoArguments       = "arguments_missing"    // a call with a name alone: read as {}
	IssueNoStop            = "stop_missing"         // the engine stopped, but returned no stop id
	IssueTextAfterStop     = "text_after_stop"      // ids after the stop: in no part of the reply
	IssueCallClosedByText  = "call_closed_in_value" // a closing tag inside a value was taken as text
	IssueValueType         = "value_not_of_type"    // a value fits none of its schema's types: read as a string
)

// Block reads what stands between a call's tags, as it comes. Which closing tag ends a block is its decision; until then
// every tag inside is given to it as a token.
type Block interface {
	Text(s string)        // ordinary text
	Token(spelled string) // an added token, a call's tags included where they are text
	// Open and Close say what a call's opening or closing tag would be here.
	Open() Verdict
	Close() Verdict
	// Dead is whether the block can no longer become whole.
	Dead() bool
	// Read reads a whole block, as attempts without span and raw text, and what is to be reported if they are calls.
	Read(b *Stretch, tools *Tools) ([]Attempt, []string)
	// Name is the name of the call in a block that never ended, "" where it is not there.
	Name(b *Stretch) string
	// Said lists, for each call in a whole block, the texts in it in the order in which the template is handed them: the
	// name, then keys and strings. In them, special tokens hold mark.
	Said(b *Stretch, mark rune) [][]string
}

// Verdict is what a tag is inside a block.
type Verdict uint8

// The verdicts.
const (
	Broken Verdict = iota // it ends the block, which is not whole
	Whole                 // it ends the block
	Maybe                 // it is text if a later tag makes the block whole, else it ended the block
	Inside                // it is text
)

// mode is where a parser stands.
type mode uint8

const (
	inContent mode = iota
	inReasoning
	inBlock
	ended
)

// step reads one id.
func (p *parser) step(id token.ID) {
	spelled, added := p.k.added[id]
	switch {
	case p.mode == ended:
		p.issue(IssueTextAfterStop)
	case !added:
		p.text(p.dec.Add(id))
	case !p.flush():
	case !p.k.isStop(id):
		p.tag(id, spelled)
	case p.mode == inBlock && p.close1 >= 0:
		p.back()
	default:
		p.finish(true)
		p.out.End, p.out.Stop = EndStop, id
	}
}

// expect takes what is to come of ThinkWord off s. What turns out to be something else is text.
func (p *parser) expect(s string) string {
	for p.word != "" && s != "" {
		if s[0] != p.word[0] {
			s = p.held + s
			p.word, p.held = "", ""
			break
		}
		p.held, p.word, s = p.held+s[:1], p.word[1:], s[1:]
	}
	if p.word == "" {
		p.held = ""
	}
	return s
}

// unexpect says that no more text comes here.
func (p *parser) unexpect() {
	p.reasoning.add(p.held)
	p.word, p.held = "", ""
}

// text adds decoded text to where the parser stands.
func (p *parser) text(s string) {
	s = p.expect(s)
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
	if p.reader != nil {
		p.reader.Text(s)
		return
	}
	switch p.mode {
	case inReasoning:
		p.reasoning.add(s)
	case inContent:
		if p.content.Len() == 0 {
			p.begun = p.pos - 1
		}
		p.content.add(s)
		p.lead()
	case inBlock:
		p.block.add(s)
		p.inner.Text(s)
		if p.close1 >= 0 && p.inner.Dead() {
			p.back()
		}
	}
}

// tag reads an added token.
func (p *parser) tag(id token.ID, spelled string) {
	if p.reader != nil {
		p.reader.Token(spelled)
		return
	}
	first := p.mayThink
	p.mayThink, p.skip = false, 0
	p.unexpect()
	k := p.k
	think, thought := k.thinks && id == k.think, k.thinks && id == k.thought
	switch p.mode {
	case inReasoning:
		p.thinkTag(id, spelled, thought)
	case inContent:
		switch {
		case think && first:
			p.mode, p.reasoned, p.skip, p.word = inReasoning, true, len(k.Layout.ThinkOpen), k.ThinkWord
		case k.calls && id == k.open:
			p.mode, p.opened, p.block, p.inner, p.close1 = inBlock, p.pos-1, Stretch{}, k.NewBlock(), -1
		default:
			p.content.token(spelled)
			p.issue(p.stray(think || thought, k.calls && id == k.close))
		}
	case inBlock:
		if p.leading {
			p.block.token(spelled)
			p.inner.Token(spelled)
			return
		}
		p.blockTag(id, spelled)
	}
}

// lead makes content that begins with { the block that it may be, in a format whose calls have no tags.
func (p *parser) lead() {
	if !p.mayLead() {
		return
	}
	s := strings.TrimLeft(p.content.String(), " \t\r\n")
	p.led = s != ""
	if !p.led || s[0] != '{' {
		return
	}
	p.mode, p.leading, p.opened, p.block, p.inner, p.close1 = inBlock, true, p.begun, p.content, p.k.NewBlock(), -1
	p.content = Stretch{}
	p.inner.Text(p.block.String())
}

// mayLead is whether nothing but white space was said, in a format whose calls have no tags.
func (p *parser) mayLead() bool {
	return p.k.Leading && !p.led && !p.in.NoCalls && len(p.content.special) == 0
}

// resolveLead reads a block without tags that ends at end. What is no call is content.
func (p *parser) resolveLead(end int, stopped bool) {
	as, issues := p.inner.Read(&p.block, p.tools)
	isCall := stopped && len(as) > 0
	for i := range as {
		as[i].Raw, as[i].Span = p.block.String(), token.Span{Start: p.opened, End: end}
		isCall = isCall && as[i].IsCall
	}
	p.leading = false
	for i := range as {
		if !isCall {
			if as[i].IsCall {
				as[i].Status = AttemptUnclosed
			}
			as[i].IsCall = false
		} else {
			p.events = append(p.events, Event{Kind: EventCall, Call: len(p.out.Calls)})
		}
		p.out.Calls = append(p.out.Calls, as[i])
	}
	if !isCall {
		p.content.join(&p.block)
		return
	}
	for _, word := range issues {
		p.issue(word)
	}
	b := p.block
	p.called, p.calls = append(p.called, &b), len(as)
}

func (p *parser) stray(think, close bool) string {
	switch {
	case think:
		return IssueThinkInContent
	case close:
		return IssueCloseInContent
	}
	return IssueSpecialInText
}

func (p *parser) thinkTag(id token.ID, spelled string, thought bool) {
	k := p.k
	switch {
	case thought:
		p.reasoning.text = p.reasoning.text[:p.reasoning.Len()-p.reasonFrame()]
		p.thoughtCall(p.pos - 1)
		p.mode, p.skip = inContent, len(k.Layout.ThinkEnd)
		return
	case k.calls && id == k.open:
		p.thoughtCall(p.pos - 1)
		p.thinkCall = p.pos - 1
		p.issue(IssueCallInReasoning)
	case k.calls && id == k.close && p.thinkCall >= 0:
		p.thoughtCall(p.pos)
	default:
		p.issue(IssueSpecialInText)
	}
	p.reasoning.token(spelled)
}

// thoughtCall records the call inside reasoning that goes on up to end, if there is one.
func (p *parser) thoughtCall(end int) {
	if p.thinkCall < 0 {
		return
	}
	span := token.Span{Start: p.thinkCall, End: end}
	p.out.Calls = append(p.out.Calls, Attempt{Status: AttemptInReasoning, Raw: p.k.Decode(p.ids[span.Start:span.End]), Span: span})
	p.thinkCall = -1
}

func (p *parser) blockTag(id token.ID, spelled string) {
	switch id {
	case p.k.close:
		switch p.inner.Close() {
		case Whole:
			if p.close1 >= 0 {
				p.issue(IssueCallClosedByText)
			}
			p.resolve(p.pos)
			return
		case Broken:
			if p.close1 >= 0 {
				p.back()
			} else {
				p.resolve(p.pos)
			}
			return
		case Maybe:
			if p.close1 < 0 {
				p.close1, p.cut = p.pos-1, p.block.Len()
			}
		case Inside:
		}
	case p.k.open:
		if p.inner.Open() == Broken {
			if p.close1 >= 0 {
				p.back()
				return
			}
			if p.k.Called == "" {
				p.resolve(p.pos - 1)
			} else {
				p.unclosed(p.pos - 1)
			}
			p.tag(id, spelled)
			return
		}
	}
	p.block.token(spelled)
	p.inner.Token(spelled)
	if p.close1 >= 0 && p.inner.Dead() {
		p.back()
	}
}

// back ends the block at its first closing tag after all, and goes on reading behind it.
func (p *parser) back() {
	p.dec.Done()
	p.pos = p.close1 + 1
	p.block.cut(p.cut)
	p.resolve(p.pos)
}

// resolve reads a closed block, which ends at end.
func (p *parser) resolve(end int) {
	span := token.Span{Start: p.opened, End: end}
	raw := p.k.Call + p.block.String() + p.k.Called
	as, issues := p.k.NewBlock().Read(&p.block, p.tools)
	isCall := true
	for i := range as {
		as[i].Raw, as[i].Span = raw, span
		if p.in.NoCalls {
			as[i].IsCall, as[i].Status = false, AttemptUnknownTool
		}
		isCall = isCall && as[i].IsCall
	}
	p.mode, p.close1 = inContent, -1
	if !isCall {
		for i := range as {
			if as[i].IsCall { // a whole call beside one that is none
				as[i].IsCall, as[i].Status = false, AttemptMalformed
			}
		}
		p.out.Calls = append(p.out.Calls, as...)
		p.content.token(p.k.Call)
		p.content.join(&p.block)
		if p.k.Called != "" {
			p.content.token(p.k.Called)
		}
		return
	}
	for _, word := range issues {
		p.issue(word)
	}
	p.content.text = p.content.text[:p.content.Len()-p.callFrame()]
	p.say(&p.reasoning, EventReasoning, 0)
	p.say(&p.content, EventContent, 0)
	for _, a := range as {
		p.events = append(p.events, Event{Kind: EventCall, Call: len(p.out.Calls)})
		p.out.Calls = append(p.out.Calls, a)
	}
	b := p.block
	p.called = append(p.called, &b)
	p.run, p.calls = p.content.Len(), p.calls+len(as)
}

// reasonFrame is how many newlines at the end of reasoning the template would put before its closing tag.
func (p *parser) reasonFrame() int {
	return min(p.reasoning.newlines(p.reasoning.sent), len(p.k.Layout.ThinkClose))
}

// callFrame is how many newlines at the end of content the template would put before a call that came now. Content that
// is nothing but newlines is none, as far as the template would put them there without any.
func (p *parser) callFrame() int {
	l := p.k.Layout
	n := p.content.newlines(p.run)
	switch {
	case p.calls > 0:
		return min(n, len(l.Next))
	case n == p.content.Len() && n <= len(l.Bare):
		return n
	case n == p.content.Len():
		return min(n-1, len(l.First))
	}
	return min(n, len(l.First))
}

// tailFrame is how many newlines at the end of content, behind the last call, the template would put before the stop.
func (p *parser) tailFrame() int {
	n := p.content.newlines(p.run)
	if p.calls == 0 || n < p.content.Len()-p.run {
		return 0
	}
	return min(n, len(p.k.Layout.Tail))
}

// unclosed gives up an open block that ends at end: what it says stays visible as text.
func (p *parser) unclosed(end int) {
	name := p.k.NewBlock().Name(&p.block)
	p.out.Calls = append(p.out.Calls, Attempt{Status: AttemptUnclosed, Name: name,
		Raw: p.k.Call + p.block.String(), Span: token.Span{Start: p.opened, End: end}})
	p.content.token(p.k.Call)
	p.content.join(&p.block)
	p.mode = inContent
}

// finish ends the reply where the parser stands; stopped says whether it was said to the end.
func (p *parser) finish(stopped bool) {
	end := len(p.ids)
	if p.pos > 0 && p.k.isStop(p.ids[p.pos-1]) {
		end = p.pos - 1
	}
	if p.reader != nil {
		stop := ""
		if end < len(p.ids) {
			stop = p.k.added[p.ids[end]]
		}
		p.reader.End(stop, stopped)
		p.mode = ended
		return
	}
	p.unexpect()
	switch p.mode {
	case inReasoning:
		p.thoughtCall(end)
		p.issue(IssueReasoningUnclosed)
	case inBlock:
		if p.leading {
			p.resolveLead(end, stopped)
		} else if p.k.Called == "" && stopped && p.inner.Close() != Inside {
			p.resolve(end)
		} else {
			p.unclosed(end)
		}
	case inContent:
		p.content.text = p.content.text[:p.content.Len()-p.tailFrame()]
	}
	p.mode = ended
}
