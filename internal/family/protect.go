package family

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// speller finds the spellings of added tokens in text, and breaks them with a mark.
type speller struct {
	first [256]bool
	one   byte // the only first byte, where there is only one
	toks  map[byte][]string
	quote bool // a spelling holds what JSON escapes
}

func newSpeller(format string, all []tokenizer.AddedToken) (*speller, error) {
	sp := &speller{toks: map[byte][]string{}}
	for _, t := range all {
		if strings.TrimSpace(t.Content) == "" {
			continue // runs of white space are ordinary text in the tokenizers that add them
		}
		if utf8.RuneCountInString(t.Content) < 2 {
			return nil, fault.New(fault.UnsupportedTokenizer, "%s: added token %q is a single character: text that holds it cannot be kept apart", format, t.Content)
		}
		sp.quote = sp.quote || strings.ContainsAny(t.Content, `"\`)
		c := t.Content[0]
		sp.first[c], sp.one = true, c
		sp.toks[c] = append(sp.toks[c], t.Content)
	}
	return sp, nil
}

// next finds the first spelling in s at from or later, the longest at its place. at is -1 where there is none.
func (sp *speller) next(s string, from int) (at int, tok string) {
	for i := from; i < len(s); i++ {
		if len(sp.toks) == 1 {
			j := strings.IndexByte(s[i:], sp.one)
			if j < 0 {
				return -1, ""
			}
			i += j
		} else if !sp.first[s[i]] {
			continue
		}
		for _, t := range sp.toks[s[i]] {
			if len(t) > len(tok) && strings.HasPrefix(s[i:], t) {
				tok = t
			}
		}
		if tok != "" {
			return i, tok
		}
	}
	return -1, ""
}

// any is whether one of texts spells an added token, or may do so with a JSON escape.
func (sp *speller) any(texts []string) bool {
	for _, s := range texts {
		if at, _ := sp.next(s, 0); at >= 0 || strings.Contains(s, `\u`) || strings.Contains(s, `\/`) || sp.quote && strings.Contains(s, `\`) {
			return true
		}
	}
	return false
}

// mark is 0 where none of texts spells an added token, else a rune that none of them holds, not even as a JSON escape.
func (sp *speller) mark(texts []string) (rune, error) {
	if !sp.any(texts) {
		return 0, nil
	}
	for r := rune(0xFDD0); r <= 0xFDEF; r++ {
		free := true
		for _, s := range texts {
			free = free && !holds(s, r)
		}
		if free {
			return r, nil
		}
	}
	return 0, fault.New(fault.BadRequest, "the text holds every Unicode noncharacter from U+FDD0 to U+FDEF; one must be free")
}

func holds(s string, r rune) bool {
	if strings.ContainsRune(s, r) {
		return true
	}
	return strings.Contains(s, `\u`) && strings.Contains(strings.ToLower(s), `\u`+strconv.FormatInt(int64(r), 16))
}

// spoken says, for each spelling, whether its occurrences in what a policy said were special ids, in order.
type spoken map[string][]bool

// take is whether the next occurrence of tok was a special id.
func (k spoken) take(tok string) bool {
	q := k[tok]
	if len(q) == 0 {
		return false
	}
	k[tok] = q[1:]
	return q[0]
}

// protect puts mark into every spelling in s, so that it stays text, but for those that were said as special ids.
func (sp *speller) protect(s string, mark rune, k spoken) string {
	at, tok := sp.next(s, 0)
	if at < 0 || mark == 0 {
		return s
	}
	var b strings.Builder
	from := 0
	for at >= 0 {
		if !k.take(tok) {
			_, n := utf8.DecodeRuneInString(tok)
			b.WriteString(s[from : at+n])
			b.WriteRune(mark)
			from = at + n
		}
		at, tok = sp.next(s, at+1)
	}
	b.WriteString(s[from:])
	return b.String()
}

// listen adds the spellings in said to k. There, the special ones hold mark, as special leaves them.
func (sp *speller) listen(k spoken, said string, mark rune) {
	clean, special := said, map[int]bool{}
	if m := string(mark); strings.Contains(said, m) {
		var b strings.Builder
		for i, part := range strings.Split(said, m) {
			if i > 0 {
				_, n := utf8.DecodeLastRuneInString(b.String())
				special[b.Len()-n] = true
			}
			b.WriteString(part)
		}
		clean = b.String()
	}
	for at, tok := sp.next(clean, 0); at >= 0; at, tok = sp.next(clean, at+1) {
		k[tok] = append(k[tok], special[at])
	}
}

// mapStrings calls do for every string and key inside v, in order, and gives v with what do made of them.
func mapStrings(v ojson.Value, do func(string) string) ojson.Value {
	switch v.Kind() {
	case ojson.String:
		if s := v.Str(); s != "" {
			if t := do(s); t != s {
				return ojson.StringOf(t)
			}
		}
	case ojson.Array:
		out := make([]ojson.Value, v.Len())
		for i, e := range v.Elems() {
			out[i] = mapStrings(e, do)
		}
		return ojson.ArrayOf(out...)
	case ojson.Object:
		out := make([]ojson.Member, v.Len())
		for i, m := range v.Members() {
			key := do(m.Key)
			out[i] = ojson.Member{Key: key, Value: mapStrings(m.Value, do)}
		}
		return ojson.ObjectOf(out...)
	}
	return v
}
