package tokenizer

import (
	"strconv"
	"strings"
)

// shown is how the tokens of a vocabulary that is not byte-level read in text.
type shown struct {
	steps []shower
	arena []byte
	spans []span

	// What begins a text reads otherwise.
	first   bool   // the first token's own rule
	content string // taken off the start,
	most    int    // up to so many times
}

// A shower changes the text of one token. first is whether it is the text's first.
type shower interface {
	show(s string, first bool) string
}

func (t *Tokenizer) readDecoder(f file) error {
	steps := flatten(f.top["decoder"], "decoders")
	if t.byteLevel {
		for _, d := range steps {
			if typeOf(d) != "ByteLevel" && typeOf(d) != "Fuse" {
				return unsupported("decoder %s with a byte-level alphabet", typeOf(d))
			}
		}
		return nil
	}
	if len(steps) == 0 {
		return unsupported("a vocabulary that is not byte-level, and no decoder")
	}
	sh := &shown{}
	fused := false
	for _, d := range steps {
		m, _ := d.(map[string]any)
		if typeOf(d) == "Fuse" {
			fused = true
			continue
		}
		if fused {
			if err := sh.readStart(m); err != nil {
				return err
			}
			continue
		}
		step, err := showerOf(m)
		if err != nil {
			return err
		}
		if x, ok := step.(spaceMark); ok && x.drop {
			sh.first = true
		}
		sh.steps = append(sh.steps, step)
	}
	t.shown = sh
	sh.fill(t.model.vocab)
	return nil
}

// readStart reads the one step that may follow Fuse: a Strip at the start.
func (sh *shown) readStart(m map[string]any) error {
	content, _ := m["content"].(string)
	start, _ := m["start"].(float64)
	_, one := oneRune(content)
	if typeOf(m) != "Strip" || m["stop"] != 0.0 || !one || sh.most > 0 || start < 0 || start > 1<<20 {
		return unsupported("decoder %s after Fuse, with %v", typeOf(m), m)
	}
	sh.content, sh.most = content, int(start)
	return nil
}

func showerOf(m map[string]any) (shower, error) {
	switch typeOf(m) {
	case "ByteFallback":
		return byteToken{}, nil
	case "Replace":
		n, err := replaceOf(m, "decoder")
		if err != nil {
			return nil, err
		}
		return rewritten{n}, nil
	case "Metaspace":
		x, err := metaspaceOf(m)
		return spaceMark{x.mark, x.scheme != "never"}, err
	}
	return nil, unsupported("decoder %s", typeOf(m))
}

type rewritten struct{ normalizer }

func (r rewritten) show(s string, _ bool) string { return r.normal(s) }

// byteToken reads <0xAB> as the byte 0xAB.
type byteToken struct{}

func (byteToken) show(s string, _ bool) string {
	if len(s) == 6 && s[:3] == "<0x" && s[5] == '>' {
		if b, err := strconv.ParseUint(s[3:5], 16, 8); err == nil {
			return string([]byte{byte(b)})
		}
	}
	return s
}

// spaceMark reads a mark as a space; with drop the first token has none.
type spaceMark struct {
	mark string
	drop bool
}

func (x spaceMark) show(s string, first bool) string {
	if first && x.drop {
		return strings.ReplaceAll(s, x.mark, "")
	}
	return strings.ReplaceAll(s, x.mark, " ")
}

func (sh *shown) fill(v *vocab) {
	sh.spans = make([]span, len(v.spans))
	for id, s := range v.spans {
		if s.n == 0 {
			continue
		}
		off := uint32(len(sh.arena))
		sh.arena = append(sh.arena, sh.text(v, uint32(id), false)...)
		sh.spans[id] = span{off, present | uint32(len(sh.arena)) - off}
	}
}

func (sh *shown) text(v *vocab, id uint32, first bool) string {
	s := string(v.bytes(id))
	for _, step := range sh.steps {
		s = step.show(s, first)
	}
	return s
}

// start is where in a text a decoder stands.
type start struct {
	begun    bool // a token has been read
	past     bool // text has been read
	stripped int
}

// appendShown appends the text of one token that the vocabulary has.
func (t *Tokenizer) appendShown(dst []byte, id uint32, at *start) []byte {
	b := t.bytes(id)
	sh := t.shown
	if sh == nil || at.begun && at.past {
		return append(dst, b...)
	}
	if !at.begun && sh.first {
		b = []byte(sh.text(t.model.vocab, id, true))
	}
	at.begun = true
	for at.stripped < sh.most && strings.HasPrefix(string(b), sh.content) {
		b = b[len(sh.content):]
		at.stripped++
	}
	at.past = len(b) > 0 || at.stripped == sh.most
	return append(dst, b...)
}

// bytes are those that an id of the vocabulary reads as inside a text.
func (t *Tokenizer) bytes(id uint32) []byte {
	if t.shown == nil {
		return t.model.vocab.bytes(id)
	}
	s := t.shown.spans[id]
	end := s.off + s.n&^present
	return t.shown.arena[s.off:end:end]
}
