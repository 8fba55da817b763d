// Package tokenizer turns text into token ids and back, exactly as Hugging Face's tokenizers does for the same
// tokenizer.json. What it does not implement it refuses at load, by name; it never approximates.
//
// It is pure. A Tokenizer is immutable and safe for concurrent use; one table serves every trajectory.
package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/token"
)

// Tokenizer is one loaded file: a tokenizer.json, tiktoken ranks, or a tekken.json.
type Tokenizer struct {
	added      []AddedToken // in the order of their ids
	byContent  map[string]token.ID
	raw        *matcher // tokens matched in the text as it is; nil for none
	normalized *matcher // tokens matched in the normalised text; nil for none
	forms      []normalizer
	splits     []splitter
	scan       scanner // does all that splits do; nil where there is none that can
	slices     bool    // see slice
	byteLevel  bool    // text is merged from its bytes, else from its code points
	model      bpe
	recipe     []byte // the file without its large sections, for Compiled
	shown      *shown // nil for a byte-level vocabulary
}

// Encode is Hugging Face's encode(text, add_special_tokens=False): added tokens found in the text match. A byte of text
// that is not UTF-8 becomes the token of that byte.
func (t *Tokenizer) Encode(text string) []token.ID { return t.AppendEncode(nil, text) }

// AppendEncode is Encode, appending to dst.
func (t *Tokenizer) AppendEncode(dst []token.ID, text string) []token.ID {
	if t.slices {
		return t.encodeSlices(dst, text, nil)
	}
	return t.encode(dst, text, nil)
}

// EncodeMarked is Encode of text without its marks, but no added token matches across a place where a mark stood. A
// caller puts a mark inside what only spells an added token, between two ASCII characters; the mark must be a rune that
// the text itself does not have.
func (t *Tokenizer) EncodeMarked(text string, mark rune) []token.ID {
	m := string(mark)
	if !strings.Contains(text, m) {
		return t.Encode(text)
	}
	var clean strings.Builder
	var cuts []int
	for {
		before, after, found := strings.Cut(text, m)
		clean.WriteString(before)
		if !found {
			break
		}
		cuts = append(cuts, clean.Len())
		text = after
	}
	if t.slices {
		return t.encodeSlices(nil, clean.String(), cuts)
	}
	return t.encode(nil, clean.String(), cuts)
}

// EncodeBody is Encode with no added token matched at all.
func (t *Tokenizer) EncodeBody(text string) []token.ID {
	var w scratch
	var dst []token.ID
	for n, from := 0, 0; text != ""; text = text[n:] {
		n = len(text)
		if t.slices {
			n, from = slice(text, from)
		}
		dst = t.body(dst, t.normalize(text[:n]), len(dst) == 0, &w)
	}
	return dst
}

func (t *Tokenizer) encodeSlices(dst []token.ID, text string, cuts []int) []token.ID {
	done := 0
	for n, from := 0, 0; done < len(text); done += n {
		n, from = slice(text[done:], from)
		var inside []int
		for _, c := range cuts {
			if c > done && c < done+n {
				inside = append(inside, c-done)
			}
		}
		dst = t.encode(dst, text[done:done+n], inside)
	}
	return dst
}

func (t *Tokenizer) encode(dst []token.ID, text string, cuts []int) []token.ID {
	var w scratch
	done := 0
	if t.raw != nil {
		for at := 0; ; {
			f, ok := t.raw.find(text, at, done, cuts)
			if !ok {
				break
			}
			if done < f.start {
				dst = t.between(dst, text, done, f.start, cuts, &w)
			}
			dst = append(dst, f.id)
			at, done = f.next, f.stop
		}
	}
	if done < len(text) {
		dst = t.between(dst, text, done, len(text), cuts, &w)
	}
	return dst
}

// between appends the tokens of a stretch of text without raw added tokens.
func (t *Tokenizer) between(dst []token.ID, text string, from, to int, cuts []int, w *scratch) []token.ID {
	s := text[from:to]
	form := t.normalize(s)
	if t.normalized == nil {
		return t.body(dst, form, from == 0, w)
	}
	if len(cuts) > 0 {
		cuts = t.movedCuts(cuts, s, from, form)
	}
	done := 0
	for at := 0; ; {
		f, ok := t.normalized.find(form, at, done, cuts)
		if !ok {
			break
		}
		if done < f.start {
			dst = t.body(dst, form[done:f.start], from == 0 && done == 0, w)
		}
		dst = append(dst, f.id)
		at, done = f.next, f.stop
	}
	if done < len(form) {
		dst = t.body(dst, form[done:], from == 0 && done == 0, w)
	}
	return dst
}

// movedCuts carries cuts of the text into the normal form of its stretch s, which begins at offset.
func (t *Tokenizer) movedCuts(cuts []int, s string, offset int, form string) []int {
	var moved []int
	for _, c := range cuts {
		if c -= offset; c > 0 && c < len(s) {
			if form != s {
				c = min(len(t.normalize(s[:c])), len(form))
			}
			moved = append(moved, c)
		}
	}
	return moved
}

func (t *Tokenizer) normalize(s string) string {
	for _, f := range t.forms {
		s = f.normal(s)
	}
	return s
}

// body appends the tokens of normalised text between added tokens. first is whether it begins the whole text.
func (t *Tokenizer) body(dst []token.ID, s string, first bool, w *scratch) []token.ID {
	if t.scan != nil {
		for at, limit := 0, 0; at < len(s); {
			var end int
			end, limit = t.scan.next(s, at, limit)
			dst = t.model.append(dst, s[at:end], w)
			at = end
		}
		return dst
	}
	if len(t.splits) == 0 {
		if s == "" {
			return dst
		}
		return t.model.append(dst, s, w)
	}
	return t.bodyInSteps(dst, s, first)
}

func (t *Tokenizer) bodyInSteps(dst []token.ID, s string, first bool) []token.ID {
	var w scratch
	t.pieces(s, first, func(piece string) { dst = t.model.append(dst, piece, &w) })
	return dst
}

// pieces calls each with the stretches of s that are merged on their own. A pre-tokenizer cuts the pieces of the one
// before it.
func (t *Tokenizer) pieces(s string, first bool, each func(string)) {
	for i, sp := range slices.Backward(t.splits) {
		next := each
		each = func(piece string) { sp.split(piece, first && i == 0, next) }
	}
	if s != "" {
		each(s)
	}
}

// Pieces are the stretches of text, normalised, that are merged each on its own where no added token matches.
func (t *Tokenizer) Pieces(text string) []string {
	var out []string
	t.pieces(t.normalize(text), true, func(piece string) { out = append(out, piece) })
	return out
}

// Decode gives the bytes that ids stand for as a text of their own, special tokens included. They need not be valid
// UTF-8; see [Decoder]. Ids outside the vocabulary give nothing. Some vocabularies read the start of a text otherwise
// than its inside, mostly without its first space; [Tokenizer.Bytes] gives the inside.
func (t *Tokenizer) Decode(ids []token.ID) []byte {
	var out []byte
	var at start
	for _, id := range ids {
		if t.known(id) {
			out = t.appendShown(out, uint32(id), &at)
		}
	}
	return out
}

func (t *Tokenizer) known(id token.ID) bool {
	return t.model.vocab.has(uint32(id))
}

// Bytes gives the bytes of one id inside a text; the caller must not change them. It is false for an id outside the
// vocabulary.
func (t *Tokenizer) Bytes(id token.ID) ([]byte, bool) {
	if !t.known(id) {
		return nil, false
	}
	return t.bytes(uint32(id)), true
}

// Lookup finds the id of a token: an added token by its content, else an entry of the vocabulary as the file spells it.
func (t *Tokenizer) Lookup(tok string) (token.ID, bool) {
	if id, ok := t.byContent[tok]; ok {
		return id, true
	}
	id, _, ok := t.model.vocab.spelled([]byte(tok), nil)
	return token.ID(id), ok
}

// Added lists the added tokens in the order of their ids. The slice belongs to the caller.
func (t *Tokenizer) Added() []AddedToken { return slices.Clone(t.added) }

// VocabSize is 1 + the highest id.
func (t *Tokenizer) VocabSize() int { return len(t.model.vocab.spans) }

// NewDecoder starts a streaming decoder.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{t: t} }

// Decoder turns ids into text as they come. An incomplete UTF-8 sequence is held back until it is whole, so the joined
// text does not depend on how the ids are cut, and equals Python's bytes.decode("utf-8", "replace") of all the bytes.
// It is not safe for concurrent use.
type Decoder struct {
	t    *Tokenizer
	at   start
	held []byte // at most three bytes between calls
}

// Add decodes more ids and returns the text that has become certain.
func (d *Decoder) Add(ids ...token.ID) string {
	b := d.held
	for _, id := range ids {
		if d.t.known(id) {
			b = d.t.appendShown(b, uint32(id), &d.at)
		}
	}
	text, rest := validUTF8(b)
	d.held = append(d.held[:0], rest...)
	return text
}

// Done ends the text: what is still held back is incomplete and becomes U+FFFD. The decoder may be used again.
func (d *Decoder) Done() string {
	d.at = start{}
	if len(d.held) == 0 {
		return ""
	}
	d.held = d.held[:0]
	return string(utf8.RuneError)
}

// validUTF8 is b as text, with U+FFFD for each longest part that begins a sequence and cannot go on, and what is left of
// b where it ends inside a sequence that may still go on.
func validUTF8(b []byte) (string, []byte) {
	var out []byte
	start := 0 // of the valid stretch that is not yet in out
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			i++
			continue
		}
		n, whole := sequence(b[i:])
		switch {
		case whole:
			i += n
		case i+n == len(b) && n > 0:
			return string(append(out, b[start:i]...)), b[i:]
		default:
			out = append(out, b[start:i]...)
			out = utf8.AppendRune(out, utf8.RuneError)
			i += max(n, 1)
			start = i
		}
	}
	return string(append(out, b[start:]...)), nil
}

// sequence reads the UTF-8 sequence that begins b: how many bytes of it are right, and whether it is whole. A byte that
// begins no sequence gives 0.
func sequence(b []byte) (n int, whole bool) {
	lo, hi, size := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		size = 2
	case c >= 0xE0 && c <= 0xEF:
		size = 3
		if c == 0xE0 {
			lo = 0xA0
		} else if c == 0xED {
			hi = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		size = 4
		if c == 0xF0 {
			lo = 0x90
		} else if c == 0xF4 {
			hi = 0x8F
		}
	default:
		return 0, false
	}
	for n = 1; n < size && n < len(b); n++ {
		if b[n] < lo || b[n] > hi {
			return n, false
		}
		lo, hi = 0x80, 0xBF
	}
	return n, n == size
}
