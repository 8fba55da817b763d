package family

import (
	"strings"
	"unicode/utf8"
)

// Stretch is text that a policy said, with the places at which special ids, not mere spellings, stand in it. The zero
// value is empty.
type Stretch struct {
	text    []byte
	special []place
	sent    int // how much of it events have told
}

// place is where a special id stands, and how long its spelling is.
type place struct{ at, n int }

// String is the text.
func (b *Stretch) String() string { return string(b.text) }

// Len is the text's length in bytes.
func (b *Stretch) Len() int { return len(b.text) }

func (b *Stretch) add(s string) { b.text = append(b.text, s...) }

func (b *Stretch) token(s string) {
	b.special = append(b.special, place{len(b.text), len(s)})
	b.add(s)
}

func (b *Stretch) join(o *Stretch) {
	for _, p := range o.special {
		b.special = append(b.special, place{len(b.text) + p.at, p.n})
	}
	b.text = append(b.text, o.text...)
}

// cut keeps the first n bytes.
func (b *Stretch) cut(n int) {
	b.text = b.text[:n]
	for k := len(b.special); k > 0 && b.special[k-1].at >= n; k-- {
		b.special = b.special[:k-1]
	}
}

// Each calls do for the pieces of b in order: ordinary text, and special ids by their spelling.
func (b *Stretch) Each(do func(s string, special bool)) {
	from := 0
	for _, p := range b.special {
		if p.at > from {
			do(string(b.text[from:p.at]), false)
		}
		do(string(b.text[p.at:p.at+p.n]), true)
		from = p.at + p.n
	}
	if from < len(b.text) {
		do(string(b.text[from:]), false)
	}
}

// Marked is the bytes from..to of the text, with mark inside each special token that begins there.
func (b *Stretch) Marked(from, to int, mark rune) string {
	var out strings.Builder
	for _, p := range b.special {
		if p.at < from || p.at >= to {
			continue
		}
		_, n := utf8.DecodeRune(b.text[p.at:])
		out.Write(b.text[from : p.at+n])
		out.WriteRune(mark)
		from = p.at + n
	}
	out.Write(b.text[from:to])
	return out.String()
}

// newlines is how many newlines end the text behind from.
func (b *Stretch) newlines(from int) int {
	n := len(b.text)
	for n > from && b.text[n-1] == '\n' {
		n--
	}
	return len(b.text) - n
}
