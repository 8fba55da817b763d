// Package tokenizer turns text into token ids and back, exactly as Hugging Face's tokenizers does for the same
// tokenizer.json. What it does not implement it refuses at load, by name; it never approximates.
//
// It is pure. A Tokenizer is immutable and safe for concurrent use; one table serves every trajectory.
package tokenizer

import "github.com/tito-rl/tito/internal/token"

// AddedToken is one entry of added_tokens. Text that contains its content becomes its id before any merging.
type AddedToken struct {
	ID         token.ID
	Content    string
	Special    bool // left out of decoded text by decoders that are asked to skip special tokens; no other effect
	Normalized bool // matched in the normalised text, after those that are not
	LStrip     bool // takes the white space on its left
	RStrip     bool // takes the white space on its right
	SingleWord bool // matches only where no word character touches it
}

// Tokenizer is one loaded tokenizer.json.
type Tokenizer struct{}

// Load reads a tokenizer.json. It keeps no part of data. A file that is not one, or contradicts itself, is
// fault.BadTokenizer; a construct that is not implemented is fault.UnsupportedTokenizer and is named.
func Load(data []byte) (*Tokenizer, error) { return nil, nil }

// Encode is Hugging Face's encode(text, add_special_tokens=False): added tokens found in the text match. A byte of text
// that is not UTF-8 becomes the token of that byte.
func (t *Tokenizer) Encode(text string) []token.ID { return t.AppendEncode(nil, text) }

// AppendEncode is Encode, appending to dst.
func (t *Tokenizer) AppendEncode(dst []token.ID, text string) []token.ID { return nil }

// EncodeMarked is Encode of text without its marks, but no added token matches across a place where a mark stood. A
// caller puts a mark inside what only spells an added token; the mark must be a rune that the text itself does not have.
func (t *Tokenizer) EncodeMarked(text string, mark rune) []token.ID { return nil }

// EncodeBody is Encode with no added token matched at all.
func (t *Tokenizer) EncodeBody(text string) []token.ID { return nil }

// Decode gives the bytes that ids stand for, special tokens included. They need not be valid UTF-8; see [Decoder]. Ids
// outside the vocabulary give nothing.
func (t *Tokenizer) Decode(ids []token.ID) []byte { return nil }

// Bytes gives the bytes of one id; the caller must not change them. It is false for an id outside the vocabulary.
func (t *Tokenizer) Bytes(id token.ID) ([]byte, bool) { return nil, false }

// Lookup finds the id of a token: an added token by its content, else an entry of the vocabulary as the file spells it.
func (t *Tokenizer) Lookup(tok string) (token.ID, bool) { return 0, false }

// Added lists the added tokens in the order of their ids. The slice belongs to the caller.
func (t *Tokenizer) Added() []AddedToken { return nil }

// VocabSize is 1 + the highest id.
func (t *Tokenizer) VocabSize() int { return 0 }

// NewDecoder starts a streaming decoder.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{t: t} }

// Decoder turns ids into text as they come. An incomplete UTF-8 sequence is held back until it is whole, so the joined
// text does not depend on how the ids are cut, and equals Python's bytes.decode("utf-8", "replace") of all the bytes.
// It is not safe for concurrent use.
type Decoder struct {
	t    *Tokenizer
	held []byte
}

// Add decodes more ids and returns the text that has become certain.
func (d *Decoder) Add(ids ...token.ID) string { return "" }

// Done ends the text: what is still held back is incomplete and becomes U+FFFD. The decoder may be used again.
func (d *Decoder) Done() string { return "" }
