package family

import "github.com/tito-rl/tito/internal/token"

// Reader is the grammar of a reply that is not a think block, content and call blocks. Text and tokens come to it in
// order; what it reads it gives to the [Reply] that it was made with.
type Reader interface {
	Text(s string)
	Token(spelled string) // an added token that is no stop
	// End ends the reply, by a stop as it is spelled, or by "" where it was cut or the engine returned none. stopped says
	// whether the policy was done.
	End(stop string, stopped bool)
}

// Reply takes what a Reader reads.
type Reply struct{ p *parser }

// At is the position behind the last id that was read.
func (r *Reply) At() int { return r.p.pos }

// Reason adds to the reasoning; special says that s is a special token.
func (r *Reply) Reason(s string, special bool) {
	r.p.reasoned = true
	push(&r.p.reasoning, s, special)
}

// Say adds to the content.
func (r *Reply) Say(s string, special bool) { push(&r.p.content, s, special) }

func push(b *Stretch, s string, special bool) {
	if special {
		b.token(s)
	} else {
		b.add(s)
	}
}

// Push adds to b.
func (b *Stretch) Push(s string, special bool) { push(b, s, special) }

// SayAll adds a stretch to the content.
func (r *Reply) SayAll(b *Stretch) { r.p.content.join(b) }

// Issue reports a closed word.
func (r *Reply) Issue(word string) { r.p.issue(word) }

// Tools are those that the request declared; none is whether a call is impossible.
func (r *Reply) Tools() (tools *Tools, none bool) { return r.p.tools, r.p.in.NoCalls }

// Attempt records a try at a call, of the ids from..to. said is the block that a Block of the format can read again; it
// matters where the attempt is a call.
func (r *Reply) Attempt(a Attempt, from, to int, said *Stretch) {
	p := r.p
	a.Span = token.Span{Start: from, End: to}
	a.Raw = p.k.Decode(p.ids[a.Span.Start:a.Span.End])
	if a.IsCall {
		p.say(&p.reasoning, EventReasoning, 0)
		p.say(&p.content, EventContent, 0)
		p.events = append(p.events, Event{Kind: EventCall, Call: len(p.out.Calls)})
		p.called = append(p.called, said)
		p.calls++
	}
	p.out.Calls = append(p.out.Calls, a)
}
