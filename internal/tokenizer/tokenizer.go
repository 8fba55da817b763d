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

// Tokenizer is one loaded tokenizer.json.
type Tokenizer struct {
	added      []AddedToken // in the order of their ids
	byContent  map[string]token.ID
	raw        *matcher // tokens matched in the text as it is; nil for none
	normalized *matcher // tokens matched in the normalised text; nil for none
	nfc        bool
	splits     []splitter
	model      bpe
}

// Encode is Hugging Face's encode(text, add_special_tokens=False): added tokens found in the text match. A byte of text
// that is not UTF-8 becomes the token of that byte.
func (t *Tokenizer) Encode(text string) []token.ID { return t.AppendEncode(nil, text) }

// AppendEncode is Encode, appending to dst.
func (t *Tokenizer) AppendEncode(dst []token.ID, text string) []token.ID {
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
	return t.encode(nil, clean.String(), cuts)
}

// EncodeBody is Encode with no added token matched at all.
func (t *Tokenizer) EncodeBody(text string) []token.ID { return t.body(nil, t.normalize(text)) }

func (t *Tokenizer) encode(dst []token.ID, text string, cuts []int) []token.ID {
	add := func(id token.ID) { dst = append(dst, id) }
	inNormalized := func(s string, offset int) {
		form := t.normalize(s)
		if t.normalized == nil {
			dst = t.body(dst, form)
			return
		}
		t.normalized.each(form, t.movedCuts(cuts, s, offset, form), func(s string, _ int) { dst = t.body(dst, s) }, add)
	}
	if t.raw == nil {
		if text != "" {
			inNormalized(text, 0)
		}
		return dst
	}
	t.raw.each(text, cuts, inNormalized, add)
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
	if t.nfc {
		return nfc(s)
	}
	return s
}

// body appends the tokens of normalised text between added tokens.
func (t *Tokenizer) body(dst []token.ID, s string) []token.ID {
	t.pieces(s, func(piece string) { dst = t.model.append(dst, piece) })
	return dst
}

// pieces calls each with the stretches of s that are merged on their own. A pre-tokenizer cuts the pieces of the one
// before it.
func (t *Tokenizer) pieces(s string, each func(string)) {
	for _, sp := range slices.Backward(t.splits) {
		next := each
		each = func(piece string) { sp.split(piece, next) }
	}
	if s != "" {
		each(s)
	}
}

// Pieces are the stretches of text, normalised, that are merged each on its own where no added token matches.
func (t *Tokenizer) Pieces(text string) []string {
	var out []string
	t.pieces(t.normalize(text), func(piece string) { out = append(out, piece) })
	return out
}

// Decode gives the bytes that ids stand for, special tokens included. They need not be valid UTF-8; see [Decoder]. Ids
// outside the vocabulary give nothing.
func (t *Tokenizer) Decode(ids []token.ID) []byte {
	var out []byte
	for _, id := range ids {
		b, _ := t.Bytes(id)
		out = append(out, b...)
	}
	return out
}

// Bytes gives the bytes of one id; the caller must not change them. It is false for an id outside the vocabulary.
func (t *Tokenizer) Bytes(id token.ID) ([]byte, bool) {
	if int(id) >= len(t.model.vocab.spans) || t.model.vocab.spans[id].n == 0 {
		return nil, false
	}
	return t.model.vocab.bytes(uint32(id)), true
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
	held []byte // at most three bytes between calls
}

// Add decodes more ids and returns the text that has become certain.
func (d *Decoder) Add(ids ...token.ID) string {
	b := d.held
	for _, id := range ids {
		more, _ := d.t.Bytes(id)
		b = append(b, more...)
	}
	text, rest := validUTF8(b)
	d.held = append(d.held[:0], rest...)
	return text
}

// Done ends the text: what is still held back is incomplete and becomes U+FFFD. The decoder may be used again.
func (d *Decoder) Done() string {
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
