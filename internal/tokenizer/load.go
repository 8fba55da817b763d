package tokenizer

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// Load reads a tokenizer.json. It keeps no part of data. A file that is not one, or contradicts itself, is
// fault.BadTokenizer; a construct that is not implemented is fault.UnsupportedTokenizer and is named.
func Load(data []byte) (*Tokenizer, error) {
	f, err := sections(data)
	if err != nil {
		return nil, err
	}
	recipe := f.recipe(data)
	t := &Tokenizer{byContent: map[string]token.ID{}}
	for _, step := range []func(file) error{t.readRefused, t.readNormalizer, t.readPreTokenizer, t.readModel, t.readAdded, t.readDecoder} {
		if err := step(f); err != nil {
			return nil, err
		}
	}
	t.recipe = recipe
	return t, nil
}

// file is a tokenizer.json by its sections. The model's two large ones stay JSON; the rest are trees.
type file struct {
	top, model    map[string]any
	vocab, merges *cursor
}

func sections(data []byte) (file, error) {
	f := file{top: map[string]any{}, model: map[string]any{}}
	c := &cursor{b: bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF")), name: "tokenizer.json"}
	once := func(m map[string]any, key []byte) string {
		if _, twice := m[string(key)]; twice {
			c.fail("key %q comes twice", key)
		}
		m[string(key)] = nil
		return string(key)
	}
	model := func(raw []byte) {
		k := once(f.model, raw)
		switch k {
		case "vocab":
			f.vocab = c.skip()
		case "merges":
			f.merges = c.skip()
		default:
			f.model[k] = c.value(0, true)
		}
	}
	c.object(func(raw []byte) {
		k := once(f.top, raw)
		if k == "model" {
			c.object(model)
			return
		}
		f.top[k] = c.value(0, true)
	})
	if c.err == nil && c.peek() != 0 {
		c.fail("something follows the JSON value")
	}
	if _, ok := f.top["model"]; c.err == nil && !ok {
		return f, bad("no model: this is not a tokenizer.json")
	}
	return f, c.err
}

// recipe is the file without its two large sections.
func (f file) recipe(data []byte) []byte {
	if f.vocab == nil || f.merges == nil {
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))
	first, second, a, b := f.vocab, f.merges, "{}", "[]"
	if first.i > second.i {
		first, second, a, b = second, first, b, a
	}
	out := append([]byte(nil), data[:first.i]...)
	out = append(append(out, a...), data[len(first.b):second.i]...)
	return append(append(out, b...), data[len(second.b):]...)
}

func bad(format string, args ...any) error {
	return fault.New(fault.BadTokenizer, "tokenizer.json: "+format, args...)
}

func unsupported(format string, args ...any) error {
	return fault.New(fault.UnsupportedTokenizer, "tokenizer.json: "+format, args...)
}

// readRefused checks the sections that would change ids in ways not implemented.
func (t *Tokenizer) readRefused(f file) error {
	for _, key := range []string{"truncation", "padding"} {
		if f.top[key] != nil {
			return unsupported("%s is set", key)
		}
	}
	// Post-processors only add special tokens and move offsets, neither of which is asked for here.
	for _, p := range flatten(f.top["post_processor"], "processors") {
		switch typeOf(p) {
		case "ByteLevel", "TemplateProcessing", "RobertaProcessing", "BertProcessing":
		default:
			return unsupported("post_processor %s", typeOf(p))
		}
	}
	return nil
}

// typeOf names a component for messages and switches.
func typeOf(v any) string {
	m, _ := v.(map[string]any)
	s, ok := m["type"].(string)
	if !ok {
		return "without a type"
	}
	return s
}

// flatten is the steps of a component, itself where it is not a Sequence, none where it is null.
func flatten(v any, key string) []any {
	if v == nil {
		return nil
	}
	if typeOf(v) != "Sequence" {
		return []any{v}
	}
	steps, _ := v.(map[string]any)[key].([]any)
	var out []any
	for _, s := range steps {
		out = append(out, flatten(s, key)...)
	}
	return out
}

func (t *Tokenizer) readModel(f file) error {
	m := f.model
	if kind := m["type"]; kind != nil && kind != "BPE" {
		return unsupported("model %v", kind)
	}
	if f.vocab == nil || f.merges == nil {
		return bad("the model has no vocab or no merges")
	}
	for _, key := range []string{"dropout", "continuing_subword_prefix", "end_of_word_suffix"} {
		if v := m[key]; v != nil && v != "" && v != 0.0 {
			return unsupported("model BPE with %s", key)
		}
	}
	t.model.ignoreMerges = m["ignore_merges"] == true
	if err := t.model.readVocab(f.vocab, t.byteLevel); err != nil {
		return err
	}
	if err := t.model.readUnits(m, t.byteLevel); err != nil {
		return err
	}
	if err := t.model.readMerges(f.merges); err != nil {
		return err
	}
	t.model.markWhole()
	return nil
}

func (m *bpe) readVocab(c *cursor, byteLevel bool) error {
	v := newVocab(bytes.Count(c.b[c.i:], []byte{':'}), byteLevel)
	v.arena = make([]byte, 0, (len(c.b)-c.i)/3)
	c.object(func(key []byte) {
		off := uint32(len(v.arena))
		var plain bool
		if v.arena, plain = v.appendBytes(v.arena, key); !plain {
			if !utf8.Valid(key) {
				c.fail("an entry of vocab is not UTF-8")
				return
			}
			v.arena = append(v.arena[:off], key...)
		}
		id := c.uint()
		switch {
		case c.err != nil:
		case id > maxID:
			c.fail("id %d is above %d", id, maxID)
		case !v.place(off, id):
			c.fail("id %d comes twice in vocab", id)
		case plain && !v.index(id), !plain && !v.keepOdd(id):
			c.fail("an entry of vocab comes twice: %q", v.bytes(id))
		}
	})
	if c.err != nil {
		return c.err
	}
	m.vocab = v
	return nil
}

// readUnits reads what text is before any merging: bytes, or code points and what stands for those without a token.
func (m *bpe) readUnits(section map[string]any, byteLevel bool) error {
	if !byteLevel {
		return m.readChars(section)
	}
	if section["byte_fallback"] == true {
		return unsupported("model BPE with byte_fallback and a byte-level alphabet")
	}
	for b := range m.single {
		id, ok := m.vocab.find(string([]byte{byte(b)}))
		if !ok {
			return unsupported("vocab without a token for byte 0x%02X", b)
		}
		m.single[b] = id
	}
	return nil
}

func (m *bpe) readChars(section map[string]any) error {
	c := &chars{fuse: section["fuse_unk"] == true, unk: noToken}
	if name, ok := section["unk_token"].(string); ok {
		id, known := m.vocab.find(name)
		if !known {
			return bad("unk_token %q is not in vocab", name)
		}
		c.unk = id
	}
	for b := range c.bytes {
		c.bytes[b] = noToken
		if id, ok := m.vocab.find(fmt.Sprintf("<0x%02X>", b)); ok && section["byte_fallback"] == true {
			c.bytes[b] = id
		}
	}
	for id, s := range m.vocab.spans {
		if s.n == 0 {
			continue
		}
		b := m.vocab.bytes(uint32(id))
		if r, n := utf8.DecodeRune(b); n > 0 && n == len(b) {
			c.set(r, uint32(id))
		}
	}
	m.chars = c
	return nil
}

// merge joins tokens a and b to one.
type merge struct{ a, b, to uint32 }

// readMerges reads merges written as "a b" or as ["a", "b"].
func (m *bpe) readMerges(c *cursor) error {
	var list []merge
	var buf, both []byte
	id := func(spelling []byte) (id uint32) {
		var ok bool
		if id, buf, ok = m.vocab.spelled(spelling, buf); !ok {
			c.fail("merge %d: %q is not in vocab", len(list), spelling)
		}
		return id
	}
	c.array(func() {
		var a, b uint32
		if c.peek() == '[' {
			c.expect('[')
			both = append(both[:0], c.str()...)
			a = id(both)
			c.expect(',')
			second := c.str()
			b = id(second)
			both = append(both, second...)
			c.expect(']')
		} else {
			line := c.str()
			if bytes.HasPrefix(line, []byte("#version")) {
				return
			}
			first, second, ok := bytes.Cut(line, []byte{' '})
			if !ok || bytes.IndexByte(second, ' ') >= 0 {
				c.fail("merge %d is not two tokens: %q", len(list), line)
				return
			}
			a, b = id(first), id(second)
			both = append(append(both[:0], first...), second...)
		}
		list = append(list, merge{a, b, id(both)})
	})
	if c.err != nil {
		return c.err
	}
	m.merges = newPairs(len(list))
	for rank, g := range list {
		m.merges.set(g.a, g.b, uint64(rank)<<32|uint64(g.to))
	}
	if m.chars != nil {
		m.chars.joins = m.joins(list)
	}
	return nil
}

func (t *Tokenizer) readAdded(f file) error {
	list, ok := f.top["added_tokens"].([]any)
	if !ok && f.top["added_tokens"] != nil {
		return bad("added_tokens is no list")
	}
	v := t.model.vocab
	next := uint32(0) // the id that the reference gives to a token that is not in vocab
	for _, s := range v.spans {
		if s.n != 0 {
			next++
		}
	}
	for _, item := range list {
		a, err := addedOf(item)
		if err != nil {
			return err
		}
		if old, twice := t.byContent[a.Content]; twice {
			if old != a.ID {
				return bad("added token %q has ids %d and %d", a.Content, old, a.ID)
			}
			continue
		}
		id, _, known := v.spelled([]byte(a.Content), nil)
		switch {
		case known && token.ID(id) != a.ID:
			return bad("added token %q has id %d, and %d in vocab", a.Content, a.ID, id)
		case !known && t.recipe != nil: // the tables hold it
			if !v.has(uint32(a.ID)) || string(v.bytes(uint32(a.ID))) != a.Content {
				return bad("added token %q is not in the tables", a.Content)
			}
		case !known && token.ID(next) != a.ID:
			return bad("added token %q has id %d where %d is next", a.Content, a.ID, next)
		case !known:
			off := uint32(len(v.arena))
			v.arena = append(v.arena, a.Content...)
			if !v.place(off, next) {
				return bad("added token %q has the id %d of another token", a.Content, next)
			}
			next++
		}
		t.byContent[a.Content] = a.ID
		t.added = append(t.added, a)
	}
	slices.SortStableFunc(t.added, func(a, b AddedToken) int { return cmp.Compare(a.ID, b.ID) })
	t.makeMatchers()
	return nil
}

func addedOf(item any) (AddedToken, error) {
	m, _ := item.(map[string]any)
	content, ok := m["content"].(string)
	id, isNumber := m["id"].(float64)
	if !ok || content == "" || !isNumber || id < 0 || id > maxID || id != float64(uint32(id)) {
		return AddedToken{}, bad("an added token needs a content and an id: %v", item)
	}
	flag := func(key string) bool { return m[key] == true }
	a := AddedToken{
		ID: token.ID(id), Content: content, Special: flag("special"), Normalized: flag("normalized"),
		LStrip: flag("lstrip"), RStrip: flag("rstrip"), SingleWord: flag("single_word"),
	}
	return a, nil
}

func (t *Tokenizer) makeMatchers() {
	var raw, normalized []AddedToken
	var rawText, normalizedText []string
	for _, a := range t.added {
		if a.Normalized {
			normalized = append(normalized, a)
			normalizedText = append(normalizedText, t.normalize(a.Content))
		} else {
			raw = append(raw, a)
			rawText = append(rawText, a.Content)
		}
	}
	if raw != nil {
		t.raw = newMatcher(raw, rawText)
	}
	if normalized != nil {
		t.normalized = newMatcher(normalized, normalizedText)
	}
}
