package explain

import (
	"slices"
	"strings"
	"unicode"

	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/trajectory"
)

const incremental = "incremental prompts reuse the sampled ids (not built yet)"

// avoidBy says what would avoid each class. What is as it should be has no entry.
var avoidBy = map[Class]string{
	ThinkingStripped:  "let the harness send the reasoning back, and use a template that keeps it; or " + incremental,
	NewlineOrEndToken: incremental,
	BPEMerge:          incremental,
	ArgumentReserial:  incremental,
	BooleanCase:       incremental,
	VolatileHeader:    "pin what changes in the harness's system prompt (date, session id, header)",
	ToolResultOrder:   "let the harness send tool results in one order",
	Truncation:        "a larger limit on output tokens or context, or a harness that does not cut its history",
	InjectedSpecial:   "do not render with native bodies: there a special token's spelling in a text becomes the token",
	ToolsChanged:      "declare the same tools on every call",
	SettingsChanged:   "keep the template settings and pin the clock",
	HistoryRewritten:  "a harness that sends the policy's messages back unchanged",
	MessageEdited:     "a harness that does not edit earlier messages",
	Compaction:        "a larger context, or compaction switched off in the harness",
}

// rootClasses reads the reason of a root.
var rootClasses = map[string]Class{
	trajectory.WhyAskedAgain:     AskedAgain,
	trajectory.WhyAuxiliary:      AuxiliaryCall,
	trajectory.WhySubAgent:       SubAgent,
	trajectory.WhyTruncatedFront: Truncation,
	trajectory.WhyRewritten:      HistoryRewritten,
	trajectory.WhyAnswerMissing:  HistoryRewritten,
	trajectory.WhyCompaction:     Compaction,
	trajectory.WhyNewPrompt:      NewConversation,
}

// classify names the class, and in a few words what it was seen by.
func (d *diff) classify(it Item) (Class, string) {
	if d.c.Kind == trajectory.Root {
		if c, ok := rootClasses[d.c.Reason]; ok {
			return c, ""
		}
		return NewConversation, ""
	}
	parent := d.t.Turn(d.n.Parent)
	if d.owner == nil { // the difference lies in ids that nobody sampled
		switch {
		case d.n.Tools != parent.Tools:
			return ToolsChanged, ""
		case d.n.Settings != parent.Settings:
			return SettingsChanged, ""
		}
		return d.classifyPrompt()
	}
	return d.classifySampled(it)
}

// classifySampled judges a difference in what a turn sampled.
func (d *diff) classifySampled(it Item) (Class, string) {
	echo := d.echoOf(d.owner.Seq)
	if echo != nil && echo.Verdict == trajectory.EchoRewritten {
		if slices.Contains(echo.Which, trajectory.EditArguments) && d.caseOnly() {
			return BooleanCase, ""
		}
		return HistoryRewritten, strings.Join(echo.Which, ", ")
	}
	switch {
	case d.stripped(it, echo):
		return ThinkingStripped, ""
	case d.caseOnly():
		return BooleanCase, ""
	case d.injected():
		return InjectedSpecial, "the text spells a special token"
	case d.owner.Finish != trajectory.FinishStop && strings.HasPrefix(d.nowText, d.wasText) && it.Field == fieldEnd:
		return Truncation, "the answer was cut"
	case it.Field == fieldArguments:
		if c, ok := d.sameText(); ok {
			return c, "the same text in other ids"
		}
		return ArgumentReserial, ""
	case it.Field == fieldEnd || strings.TrimSpace(d.wasText) == "" || d.onlyBlankDiffers():
		return NewlineOrEndToken, ""
	}
	if c, ok := d.sameText(); ok {
		return c, "the same text in other ids"
	}
	if d.owner.Finish != trajectory.FinishStop {
		return Truncation, "the answer was cut"
	}
	if echo == nil && d.edited >= 0 {
		return d.classifyPrompt()
	}
	return RenderedDifferently, ""
}

func (d *diff) echoOf(seq trajectory.Seq) *trajectory.Echo {
	for _, e := range d.t.Echoes(d.n.Seq) {
		if e.Turn == seq {
			return &e
		}
	}
	return nil
}

// stripped is whether the difference is reasoning that was sampled and is no longer there.
func (d *diff) stripped(it Item, echo *trajectory.Echo) bool {
	reasoning := strings.TrimSpace(d.owner.Reply.Reasoning.S)
	if reasoning == "" {
		return false
	}
	if echo != nil && slices.Contains(echo.Which, trajectory.SameReasoning) && it.Field != fieldArguments && it.Field != fieldEnd {
		return true
	}
	return (it.Field == fieldReasoning || strings.Contains(d.wasText, reasoning)) && !strings.Contains(d.nowText, reasoning)
}

var words = map[string]bool{"true": true, "false": true, "null": true, "none": true, "nil": true}

// caseOnly is whether the two sides begin with the same literal in another case: true and True, null and None.
func (d *diff) caseOnly() bool {
	a, b := literal(d.wasText), literal(d.nowText)
	if a == b || !words[strings.ToLower(a)] || !words[strings.ToLower(b)] {
		return false
	}
	low := func(s string) string {
		if s = strings.ToLower(s); s == "none" || s == "nil" {
			return "null"
		}
		return s
	}
	return low(a) == low(b)
}

func literal(s string) string {
	s = strings.TrimLeft(s, " \t\n")
	end := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
	if end < 0 {
		return s
	}
	return s[:end]
}

// injected is whether both sides read the same, and what they read is one special token on one side and text on the other.
func (d *diff) injected() bool {
	was, now := d.o.Decode(stretch(d.was, d.at, d.at+1)), d.o.Decode(stretch(d.now, d.at, d.at+1))
	token := was
	if len(now) > len(was) {
		token = now
	}
	return special(token) && strings.HasPrefix(d.wasText, token) && strings.HasPrefix(d.nowText, token)
}

// special is whether an id's text looks like a special token.
func special(s string) bool {
	return len(s) > 2 && (s[0] == '<' && s[len(s)-1] == '>' || s[0] == '[' && s[len(s)-1] == ']')
}

// sameText is whether what was sampled from the difference on, its closing token aside, reads the same in the prompt.
func (d *diff) sameText() (Class, bool) {
	end := d.ownerEnd
	if d.owner.Stop >= 0 {
		end--
	}
	was := d.o.Decode(stretch(d.was, d.at, end))
	if was == "" || !strings.HasPrefix(d.nowText, was) {
		// a merge across a border: the first ids share text
		first := d.o.Decode(stretch(d.was, d.at, d.at+1))
		other := d.o.Decode(stretch(d.now, d.at, d.at+1))
		n := commonText(d.wasText, d.nowText)
		return BPEMerge, first != "" && other != "" && n >= max(len(first), len(other)) && n > 0
	}
	return BPEMerge, true
}

// mergedAtBorder is whether the difference begins in the last ids of the parent's prompt and both sides read the same there:
// the encoder joins across the border what engine and policy kept apart.
func (d *diff) mergedAtBorder() (Class, bool) {
	first := d.o.Decode(stretch(d.was, d.at, d.at+1))
	other := d.o.Decode(stretch(d.now, d.at, d.at+1))
	n := commonText(d.wasText, d.nowText)
	return BPEMerge, first != "" && other != "" && n >= max(len(first), len(other))
}

func commonText(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// onlyBlankDiffers is whether the two sides differ in white space, and what follows it is the same.
func (d *diff) onlyBlankDiffers() bool {
	a, b := strings.TrimLeft(d.wasText, blanks), strings.TrimLeft(d.nowText, blanks)
	gapA, gapB := d.wasText[:len(d.wasText)-len(a)], d.nowText[:len(d.nowText)-len(b)]
	return gapA != gapB && a != "" && commonText(a, b) >= min(len(a), len(b), 8)
}

const blanks = " \t\r\n"

// classifyPrompt judges a difference in a message that no turn of the branch sampled.
func (d *diff) classifyPrompt() (Class, string) {
	if d.edited >= 0 && permuted(d.wasMsgs, d.nowMsgs, d.edited) {
		return ToolResultOrder, "the same messages in another order"
	}
	if d.c.Reason == trajectory.ReasonTruncatedFront {
		return Truncation, "earlier messages were left out"
	}
	if d.edited < 0 {
		if d.injected() {
			return InjectedSpecial, "the text spells a special token"
		}
		if c, ok := d.mergedAtBorder(); ok {
			return c, "the prompt's last ids and the answer's first are one id when the text is encoded again"
		}
		return RenderedDifferently, "the messages are the same"
	}
	was, now := &d.wasMsgs[d.edited], &d.nowMsgs[d.edited]
	for _, e := range d.t.Echoes(d.n.Seq) {
		if e.Message != d.edited {
			continue
		}
		switch {
		case e.Verdict == trajectory.EchoRewritten || e.Verdict == trajectory.EchoForeign:
			return HistoryRewritten, "message " + itoa(d.edited)
		case slices.Contains(e.Which, trajectory.SameReasoning):
			return ThinkingStripped, ""
		case slices.Contains(e.Which, trajectory.SameArguments):
			return ArgumentReserial, ""
		}
	}
	a, b := was.field(fieldContent), now.field(fieldContent)
	switch {
	case was.role != now.role || !was.value.IsValid() || !now.value.IsValid():
	case was.role == "assistant":
		return d.classifyAssistant(was, now)
	case cut(a, b):
		return Truncation, "message " + itoa(d.edited) + " was cut"
	case volatile(a, b):
		return VolatileHeader, "message " + itoa(d.edited)
	}
	return MessageEdited, "message " + itoa(d.edited)
}

// classifyAssistant compares two copies of an assistant message.
func (d *diff) classifyAssistant(was, now *message) (Class, string) {
	x, errX := ojson.Parse([]byte(was.field(fieldArguments)))
	y, errY := ojson.Parse([]byte(now.field(fieldArguments)))
	switch {
	case was.field(fieldReasoning) != "" && now.field(fieldReasoning) == "" && was.field(fieldContent) == now.field(fieldContent):
		return ThinkingStripped, ""
	case was.field(fieldContent) == now.field(fieldContent) && errX == nil && errY == nil && ojson.Equal(x, y):
		return ArgumentReserial, ""
	}
	return HistoryRewritten, "message " + itoa(d.edited)
}

// permuted is whether the tool results from message i on are the same messages in another order.
func permuted(was, now []message, i int) bool {
	run := func(ms []message) []message {
		end := i
		for end < len(ms) && (ms[end].role == "tool" || ms[end].role == "function") {
			end++
		}
		return ms[i:end]
	}
	a, b := run(was), run(now)
	if len(a) < 2 || len(a) != len(b) {
		return false
	}
	count := map[trajectory.Hash]int{}
	for k := range a {
		count[a[k].hash]++
		count[b[k].hash]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// cut is whether b is a with a good part left out: both begin the same, b is much shorter.
func cut(a, b string) bool {
	return len(b) < len(a) && (strings.HasPrefix(a, b) || commonText(a, b) >= 16 && 2*len(b) < len(a))
}

// volatile is whether two texts differ in one short stretch that holds digits: a date, a counter, an id.
func volatile(a, b string) bool {
	n := commonText(a, b)
	a, b = a[n:], b[n:]
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	digit := func(s string) bool { return strings.ContainsFunc(s, unicode.IsDigit) }
	return len(a) <= 64 && len(b) <= 64 && (digit(a) || digit(b))
}
