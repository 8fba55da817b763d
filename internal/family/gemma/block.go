package gemma

import (
	"slices"
	"strings"

	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/ojson"
)

const blanks = " \t\r\n"

// block reads one call: call:NAME{key:value,…}. Inside a string any token is text; <|"|> itself is, where no comma or
// closing bracket follows. But a string that holds the opening of a call is taken for one that was not closed, so
// there it ends nothing and the call is broken.
type block struct {
	in     bool // a string
	ending bool // <|"|> came in a string: what comes now says whether it was its end
	after  byte // the last byte outside strings that is not blank
	nested bool // the string holds the opening of a call
	broken bool
}

func (b *block) Text(s string) {
	for i := range len(s) {
		if strings.IndexByte(blanks, s[i]) >= 0 {
			continue
		}
		if b.ending {
			b.in, b.ending = !ends(s[i]), false
			b.broken = b.broken || b.in && b.nested
		}
		if !b.in {
			b.after = s[i]
		}
	}
}

// ends is whether c may follow a string.
func ends(c byte) bool { return c == ',' || c == '}' || c == ']' || c == ':' }

func (b *block) Token(spelled string) {
	switch {
	case spelled == quote && b.ending: // the one before was text
		b.broken = b.broken || b.nested
	case spelled == quote && b.in:
		b.ending = true
	case spelled == quote:
		b.in, b.nested = true, false
	case b.in:
		b.broken = b.broken || b.ending && b.nested
		b.ending, b.nested = false, b.nested || spelled == callOpen
	default:
		b.broken = true
	}
}

// Open says that the opening of a call is text inside a string alone.
func (b *block) Open() family.Verdict {
	if b.in {
		return family.Inside
	}
	return family.Broken
}

// Close says that the end of a call ends it, unless it stands in a string that goes on.
func (b *block) Close() family.Verdict {
	switch {
	case b.in:
		return family.Maybe
	case b.after == '}' && !b.broken:
		return family.Whole
	}
	return family.Broken
}

func (b *block) Dead() bool { return b.broken }

// Read reads a whole call. Arguments that cannot be read are handed on as they were said, where the name is known.
func (b *block) Read(s *family.Stretch, tools *family.Tools) ([]family.Attempt, []string) {
	s.Each(func(t string, special bool) {
		if special {
			b.Token(t)
		} else {
			b.Text(t)
		}
	})
	r := newReader(s)
	name, from := r.head()
	args, ok := r.whole(from)
	text := s.String()
	switch {
	case from < 0, b.broken:
		return []family.Attempt{{Status: family.AttemptMalformed, Name: name}}, nil
	case name == "":
		return []family.Attempt{{Status: family.AttemptMissingName}}, nil
	case !ok:
		a := family.JSONCall(name, text[from:], tools)
		if a.Status != family.AttemptInvalidJSON {
			a.Status = family.AttemptMalformed // JSON in place of the notation
		}
		return []family.Attempt{a}, nil
	}
	return []family.Attempt{family.JSONCall(name, args, tools)}, nil
}

// Name is what stands between call: and the arguments.
func (b *block) Name(s *family.Stretch) string {
	name, _ := newReader(s).head()
	return name
}

// Said lists the name, then keys and strings in order.
func (b *block) Said(s *family.Stretch, mark rune) [][]string {
	r := newReader(s)
	name, from := r.head()
	if from < 0 {
		return nil
	}
	r.whole(from)
	texts := []string{name}
	for _, e := range r.texts {
		texts = append(texts, s.Marked(e.from, e.to, mark))
	}
	return [][]string{texts}
}

type extent struct{ from, to int }

// reader reads the notation, and spells it as JSON.
type reader struct {
	text   string
	quotes []int // where <|"|> stands as a token, in order
	opens  []int // where the opening of a call does
	at     int
	out    []byte
	texts  []extent // keys and strings
}

func newReader(s *family.Stretch) *reader {
	r := &reader{text: s.String()}
	at := 0
	s.Each(func(t string, special bool) {
		if special && t == quote {
			r.quotes = append(r.quotes, at)
		}
		if special && t == callOpen {
			r.opens = append(r.opens, at)
		}
		at += len(t)
	})
	return r
}

// head gives the name, and where the arguments begin: -1 where there are none.
func (r *reader) head() (name string, from int) {
	s := strings.TrimLeft(r.text, blanks)
	rest, ok := strings.CutPrefix(s, "call:")
	name, _, found := strings.Cut(rest, "{")
	name = strings.Trim(name, blanks)
	if !ok || strings.ContainsAny(name, blanks) {
		return "", -1
	}
	if !found {
		return name, -1
	}
	return name, strings.IndexByte(r.text, '{')
}

// whole reads the arguments from there to the end, as JSON.
func (r *reader) whole(from int) (json string, ok bool) {
	if from < 0 {
		return "", false
	}
	const deep = 100
	r.at = from
	ok = r.object(deep)
	r.blank()
	return string(r.out), ok && r.at == len(r.text)
}

func (r *reader) blank() {
	for r.at < len(r.text) && strings.IndexByte(blanks, r.text[r.at]) >= 0 {
		r.at++
	}
}

// eat takes the byte c, behind blanks.
func (r *reader) eat(c byte) bool {
	r.blank()
	if r.at == len(r.text) || r.text[r.at] != c {
		return false
	}
	r.at++
	return true
}

func (r *reader) value(depth int) bool {
	r.blank()
	switch {
	case depth == 0 || r.at == len(r.text):
		return false
	case r.isQuote(r.at):
		return r.quoted()
	case r.text[r.at] == '{':
		return r.object(depth)
	case r.text[r.at] == '[':
		return r.list(depth)
	}
	return r.scalar()
}

func (r *reader) object(depth int) bool {
	return r.items('{', '}', func() bool { return r.key() && r.eat(':') && r.colon() && r.value(depth-1) })
}

func (r *reader) colon() bool { r.out = append(r.out, ": "...); return true }

func (r *reader) list(depth int) bool {
	return r.items('[', ']', func() bool { return r.value(depth - 1) })
}

func (r *reader) items(open, close byte, item func() bool) bool {
	if !r.eat(open) {
		return false
	}
	r.out = append(r.out, open)
	for first := true; ; first = false {
		if r.eat(close) {
			if !first {
				return false // behind a comma
			}
			r.out = append(r.out, close)
			return true
		}
		if !item() {
			return false
		}
		if r.eat(close) {
			r.out = append(r.out, close)
			return true
		}
		if !r.eat(',') {
			return false
		}
		r.out = append(r.out, ", "...)
	}
}

// key reads a key: bare, or between quotes.
func (r *reader) key() bool {
	r.blank()
	if r.isQuote(r.at) {
		return r.quoted()
	}
	from := r.at
	n := strings.IndexAny(r.text[from:], "{}[],:")
	if n <= 0 || r.text[from+n] != ':' {
		return false
	}
	r.at = from + n
	key := strings.TrimRight(r.text[from:r.at], blanks)
	if within(r.quotes, from, r.at) {
		return false
	}
	r.texts = append(r.texts, extent{from, from + len(key)})
	r.out = ojson.AppendString(r.out, key)
	return key != ""
}

func (r *reader) isQuote(at int) bool {
	_, ok := slices.BinarySearch(r.quotes, at)
	return ok
}

// within is whether one of places, which are in order, lies from one place up to another.
func within(places []int, from, to int) bool {
	i, _ := slices.BinarySearch(places, from)
	return i < len(places) && places[i] < to
}

// quoted reads a string, up to the first <|"|> behind which it may end.
func (r *reader) quoted() bool {
	from := r.at + len(quote)
	i, _ := slices.BinarySearch(r.quotes, from)
	for _, to := range r.quotes[i:] {
		rest := strings.TrimLeft(r.text[to+len(quote):], blanks)
		if rest == "" || r.isQuote(len(r.text)-len(rest)) || !ends(rest[0]) {
			if within(r.opens, from, to) {
				return false
			}
			continue
		}
		r.texts = append(r.texts, extent{from, to})
		r.out = ojson.AppendString(r.out, r.text[from:to])
		r.at = to + len(quote)
		return true
	}
	return false
}

// scalar reads a number, true, false or null, as it is spelled; None is null.
func (r *reader) scalar() bool {
	n := strings.IndexAny(r.text[r.at:], "{}[],")
	if n < 0 {
		return false
	}
	s := strings.TrimRight(r.text[r.at:r.at+n], blanks)
	if within(r.quotes, r.at, r.at+n) {
		return false
	}
	r.at += n
	if s == "None" {
		s = "null"
	}
	v, err := ojson.Parse([]byte(s))
	if err != nil || v.Kind() == ojson.String {
		return false
	}
	r.out = append(r.out, s...)
	return true
}
