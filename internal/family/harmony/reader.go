package harmony

import (
	"strings"

	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
)

// The issues of this format.
const (
	issueHeader  = "header_malformed"     // a message whose header cannot be read: kept as content
	issueBetween = "text_between"         // text between two messages: kept as content
	issueMany    = "messages_in_a_row"    // several messages of one kind: joined with a blank line
	issueOpen    = "message_unclosed"     // a message that the next one, or the end, cut off
	issueNoStop  = "call_without_its_end" // a call that ended with another token than <|call|>
)

type state uint8

const (
	inHeader state = iota
	inReasoning
	inContent
	inCall
	inOther // a message that is none of these: it becomes content whole
	between
)

// reader reads messages. The first header has begun in the prompt.
type reader struct {
	reply    *family.Reply
	st       state
	from     int            // where the message's first id is
	raw      family.Stretch // the message so far, header included
	before   []byte         // of its header: before <|channel|>
	after    []byte         // behind it
	channels int
	body     family.Stretch // of a call
	name     string
	reasoned bool
	said     bool
}

// Text reads ordinary text.
func (r *reader) Text(s string) {
	switch r.st {
	case inReasoning:
		r.reply.Reason(s, false)
	case inContent:
		r.reply.Say(s, false)
	case between:
		r.reply.Issue(issueBetween)
		r.reply.Say(s, false)
	default:
		r.raw.Push(s, false)
		switch {
		case r.st == inCall:
			r.body.Push(s, false)
		case r.st == inHeader && r.channels == 0:
			r.before = append(r.before, s...)
		case r.st == inHeader:
			r.after = append(r.after, s...)
		}
	}
}

// Token reads an added token.
func (r *reader) Token(s string) {
	switch {
	case s == start:
		if r.st != between {
			r.close("", r.reply.At()-1)
			r.reply.Issue(issueOpen)
		}
		*r = reader{reply: r.reply, from: r.reply.At() - 1, reasoned: r.reasoned, said: r.said}
		r.raw.Push(s, true)
		return
	case r.st == between:
		r.reply.Issue(family.IssueSpecialInText)
		r.reply.Say(s, true)
		return
	case s == end && r.st != inHeader:
		r.close(s, r.reply.At())
		return
	case r.st == inReasoning:
		r.reply.Issue(family.IssueSpecialInText)
		r.reply.Reason(s, true)
		return
	case r.st == inContent:
		r.reply.Issue(family.IssueSpecialInText)
		r.reply.Say(s, true)
		return
	}
	r.raw.Push(s, true)
	switch {
	case r.st == inCall:
		r.reply.Issue(family.IssueSpecialInText)
		r.body.Push(s, true)
	case r.st != inHeader:
		r.reply.Issue(family.IssueSpecialInText)
	case s == message:
		r.open()
	case s == channel:
		r.channels++
	case s == constrain && r.channels > 0:
		r.after = append(r.after, ' ')
	default:
		r.channels = 2 // no header has this
	}
}

// open ends a header. Of the role only what the policy may say counts: nothing, or assistant behind <|start|>.
func (r *reader) open() {
	head, to := recipient(strings.TrimPrefix(string(r.before), "assistant"))
	kind, other := recipient(string(r.after))
	if to == "" {
		to = other
	} else if other != "" {
		to = "?"
	}
	words := strings.Fields(kind)
	form := strings.Join(words[min(1, len(words)):], " ")
	name, function := strings.CutPrefix(to, "functions.")
	switch {
	case r.channels != 1, len(words) == 0, strings.TrimSpace(head) != "", form != "" && form != "json":
		r.st = inOther
	case words[0] == "analysis" && to == "" && form == "":
		r.st = inReasoning
		if r.reasoned {
			r.reply.Issue(issueMany)
			r.reply.Reason("\n\n", false)
		}
		r.reasoned = true
		r.reply.Reason("", false)
	case (words[0] == "final" || words[0] == "commentary") && to == "" && form == "":
		r.st = inContent
		if r.said {
			r.reply.Issue(issueMany)
			r.reply.Say("\n\n", false)
		}
		r.said = true
	case words[0] == "commentary" && function && name != "":
		r.st, r.name = inCall, name
	default:
		r.st = inOther
	}
}

// recipient takes to=… out of a part of a header.
func recipient(s string) (rest, to string) {
	before, after, found := strings.Cut(s, "to=")
	if !found || before != "" && !strings.HasSuffix(before, " ") {
		return s, ""
	}
	to, rest, _ = strings.Cut(after, " ")
	return before + " " + rest, to
}

// close ends a message, whose last id is before to, by a token, or by none.
func (r *reader) close(by string, to int) {
	switch r.st {
	case inHeader, inOther:
		if r.raw.Len() > 0 {
			r.reply.Issue(issueHeader)
			r.reply.SayAll(&r.raw)
			if by == end {
				r.reply.Say(by, true)
			}
		}
	case inCall:
		r.call(by, to)
	}
	r.st = between
}

func (r *reader) call(by string, to int) {
	tools, none := r.reply.Tools()
	a := family.Attempt{Status: family.AttemptOK, Name: r.name, Arguments: r.body.String(), IsCall: true}
	v, err := ojson.Parse([]byte(a.Arguments))
	switch {
	case by == "":
		a.Status, a.IsCall = family.AttemptUnclosed, false
	case by != stopCall:
		r.reply.Issue(issueNoStop)
		a.Status, a.IsCall = family.AttemptMalformed, false
	case none:
		a.Status, a.IsCall = family.AttemptUnknownTool, false
	case err != nil:
		a.Status, a.IsCall = family.AttemptInvalidJSON, tools.Knows(r.name)
	case v.Kind() != ojson.Object:
		a.Status = family.AttemptMalformed
	case !tools.Knows(r.name):
		a.Status = family.AttemptUnknownTool
	case family.Duplicates(v):
		a.Status = family.AttemptDuplicateKey
	}
	if !a.IsCall {
		r.reply.SayAll(&r.raw)
		if by == end {
			r.reply.Say(by, true)
		}
	}
	said := r.body
	r.reply.Attempt(a, r.from, to, &said)
}

// End ends the reply.
func (r *reader) End(stop string, stopped bool) {
	if r.st == between {
		return
	}
	to := r.reply.At()
	switch {
	case stop != "":
		to--
	case stopped && r.st == inCall:
		stop = stopCall // the engine kept it
	case r.st != inHeader:
		r.reply.Issue(issueOpen)
	}
	r.close(stop, to)
}

// block reads a call's arguments again, for the special tokens in them.
type block struct{}

func (block) Text(string)                 {}
func (block) Token(string)                {}
func (block) Open() family.Verdict        { return family.Inside }
func (block) Close() family.Verdict       { return family.Inside }
func (block) Dead() bool                  { return false }
func (block) Name(*family.Stretch) string { return "" }

func (block) Read(*family.Stretch, *family.Tools) ([]family.Attempt, []string) { return nil, nil }

// Said lists the strings of the arguments.
func (block) Said(s *family.Stretch, mark rune) [][]string {
	text := s.Marked(0, s.Len(), mark)
	var texts []string
	if v, ok := family.ArgumentsObject(text); ok {
		family.EachString(v, func(s string) { texts = append(texts, s) })
	} else {
		texts = append(texts, text)
	}
	return [][]string{texts}
}
