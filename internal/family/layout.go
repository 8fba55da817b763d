package family

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
)

// Words that no template writes by itself: where they come out is where a body went.
const (
	probeReasoning = "Rzqj"
	probeContent   = "Czqj"
)

// Learn reads from the template what it writes around the parts of a reply, and makes it the format's layout. What the
// template does not show (reasoning that it leaves out) stays as it was. calls are two to probe with, or none for a
// format without. Where the template writes anything but newlines there, the error is fault.UnknownFamily.
func (k *Kit) Learn(calls ...chat.Call) error {
	opening, err := k.opening()
	if err != nil {
		return err
	}
	l := k.Layout
	header := opening
	if i := strings.Index(opening, k.Think); k.thinks && i >= 0 {
		header, l.Opening = opening[:i], opening[i:]
	} else if i := strings.Index(opening, k.Thought); k.thinks && i >= 0 {
		header, l.Opening = opening[:i], opening[i:]
	}
	full, err := k.reply(probeReasoning, probeContent, calls)
	if err != nil {
		return err
	}
	before, after, ok := strings.Cut(full, probeContent)
	if !ok {
		return k.Refuse("the template leaves out what an assistant says")
	}
	thinks := k.thinks && strings.Contains(before, probeReasoning) && strings.Contains(before, k.Thought)
	if thinks {
		l.Lead, _, _ = strings.Cut(before, k.Think)
		l.Lead = strings.TrimPrefix(l.Lead, header)
		l.ThinkOpen = strings.TrimPrefix(cut(before, k.Think, probeReasoning), k.ThinkWord)
		l.ThinkClose = cut(before, probeReasoning, k.Thought)
		l.ThinkEnd = cut(before, k.Thought, "")
		l.ThinkAlone = l.ThinkEnd
		if alone, err := k.reply(probeReasoning, "", nil); err == nil {
			l.ThinkAlone = k.upToTag(cut(alone, k.Thought, ""))
		}
	} else if k.thinks && strings.Contains(before, k.Think) {
		return k.Refuse("the template writes reasoning in another form")
	}
	if len(calls) > 0 {
		if err := k.learnCalls(&l, header, after, thinks, calls); err != nil {
			return err
		}
	}
	if _, behind, ok := strings.Cut(after, k.Close); ok {
		l.AfterStop = k.upToTag(behind)
	}
	for _, s := range []string{l.Lead, l.ThinkOpen, l.ThinkClose, l.ThinkEnd, l.ThinkAlone, l.First, l.Bare, l.Next, l.Tail, l.AfterStop} {
		if strings.Trim(s, "\n") != "" {
			return k.Refuse("the template writes " + quote(s) + " between the parts of a reply")
		}
	}
	k.Layout = l
	return nil
}

func (k *Kit) learnCalls(l *Layout, header, after string, thinks bool, calls []chat.Call) error {
	var ok bool
	if l.First, after, ok = strings.Cut(after, k.Call); !ok {
		return k.Refuse("the template writes calls in another form")
	}
	last := strings.LastIndex(after, k.Called)
	if last < 0 {
		return k.Refuse("the template does not close calls with " + k.Called)
	}
	if first := strings.Index(after, k.Called); first < last {
		l.Next = cut(after[first:last], k.Called, k.Call)
	}
	l.Tail = k.upToTag(after[last+len(k.Called):])
	bare, err := k.reply(probeReasoning, "", calls)
	if err != nil {
		return err
	}
	if bare, _, ok = strings.Cut(bare, k.Call); !ok {
		return k.Refuse("the template drops calls without content")
	}
	if thinks {
		bare = strings.TrimPrefix(cut(bare, k.Thought, ""), l.ThinkEnd)
	} else {
		bare = strings.TrimPrefix(strings.TrimPrefix(bare, header), l.Opening)
	}
	l.Bare = bare
	return nil
}

// opening is what the prompt for a reply ends with, behind the token that opens the assistant's turn.
func (k *Kit) opening() (string, error) {
	c := Probe()
	c.Messages = c.Messages[:1]
	text, err := k.Text(c)
	if err != nil {
		return "", k.Refuse("the template fails on a single message: " + err.Error())
	}
	i := strings.LastIndex(text, k.Turn)
	if i < 0 {
		return "", k.Refuse("the template writes no " + k.Turn)
	}
	return text[i+len(k.Turn):], nil
}

// reply is how the template writes a reply in history, behind the token that opens its turn.
func (k *Kit) reply(reasoning, content string, calls []chat.Call) (string, error) {
	c := Probe(calls...)
	c.Messages[1].Reasoning, c.Messages[1].Content = chat.T(reasoning), chat.T(content)
	text, err := k.Text(c)
	if err != nil {
		return "", k.Refuse("the template fails on a reply: " + err.Error())
	}
	before := c
	before.Messages = c.Messages[:1]
	start, err := k.Text(before)
	if err != nil {
		return "", err
	}
	if i := strings.LastIndex(start, k.Turn); i >= 0 && strings.HasPrefix(text, start[:i+len(k.Turn)]) {
		return text[i+len(k.Turn):], nil
	}
	return "", k.Refuse("the template writes what comes before a reply in another way behind it")
}

// upToTag is s up to the next added token.
func (k *Kit) upToTag(s string) string {
	if at, _ := k.spell.next(s, 0); at >= 0 {
		return s[:at]
	}
	return s
}

// cut is what stands between two words, up to the end where to is "".
func cut(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	if to != "" {
		s, _, _ = strings.Cut(s, to)
	}
	return s
}

func quote(s string) string {
	const most = 40
	if len(s) > most {
		s = s[:most] + "…"
	}
	return "\"" + strings.ReplaceAll(s, "\n", `\n`) + "\""
}
