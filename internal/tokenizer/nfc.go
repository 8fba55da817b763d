package tokenizer

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// nfc is Unicode normalisation form C with the reference's old tables, and without the joiners that x/text puts into
// long runs of combining marks.
func nfc(s string) string {
	if allBelowMarks(s) {
		return s
	}
	var out []byte
	done := 0 // bytes of s that are in out
	for at := 0; at < len(s); {
		end, skip := nextSkip(s, at)
		if piece := s[at:end]; !isNFC(piece) {
			out = append(out, s[done:at]...)
			out = appendNFC(out, piece)
			done = end
		}
		at = end + skip
	}
	if done == 0 && out == nil {
		return s
	}
	return string(append(out, s[done:]...))
}

// allBelowMarks is whether all of s is below U+0300, where every text is in form C.
func allBelowMarks(s string) bool {
	for i := range len(s) {
		if s[i] >= 0xCC {
			return false
		}
	}
	return true
}

// nextSkip finds the next code point of nfcSkip: where it is, and its width, 0 at the end.
func nextSkip(s string, at int) (pos, width int) {
	for i := at; i < len(s); {
		if s[i] < 0xDF { // U+07FD, the lowest, begins so
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if inRanges(nfcSkip[:], r) {
			return i, n
		}
		i += n
	}
	return len(s), 0
}

func isNFC(s string) bool { return norm.NFC.IsNormalString(s) }

// longRun is how many combining marks may follow each other before text is composed here: x/text breaks runs of more
// than 30, and a mark can decompose into three.
const longRun = 8

func appendNFC(dst []byte, s string) []byte {
	if !hasLongRun(s) {
		return append(dst, norm.NFC.String(s)...) // AppendString would order marks across the end of dst
	}
	return appendComposed(dst, s)
}

func hasLongRun(s string) bool {
	run := 0
	for i := 0; i < len(s); {
		p := norm.NFC.PropertiesString(s[i:])
		if p.CCC() == 0 && p.LeadCCC() == 0 && p.BoundaryBefore() {
			run = 0
		} else if run++; run > longRun {
			return true
		}
		i += max(p.Size(), 1)
	}
	return false
}

// composing is a code point with its canonical combining class.
type composing struct {
	r   rune
	ccc uint8
}

// appendComposed is the definition of form C, step by step: decompose, order the marks, compose.
func appendComposed(dst []byte, s string) []byte {
	var run []composing
	flush := func() {
		order(run)
		for _, m := range compose(run) {
			dst = utf8.AppendRune(dst, m.r)
		}
		run = run[:0]
	}
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		p := norm.NFC.PropertiesString(s[i:])
		if p.Size() == 0 { // not UTF-8: stays as it is, and nothing composes across it
			flush()
			dst = append(dst, s[i])
			i++
			continue
		}
		dec := p.Decomposition()
		if dec == nil {
			dec = norm.NFD.Bytes([]byte(s[i : i+n]))
		}
		for len(dec) > 0 {
			r, k := utf8.DecodeRune(dec)
			run = append(run, composing{r, norm.NFC.Properties(dec).CCC()})
			dec = dec[k:]
		}
		i += n
	}
	flush()
	return dst
}

// order puts the marks of a decomposed text in canonical order.
func order(text []composing) {
	for i := 0; i < len(text); {
		if text[i].ccc == 0 {
			i++
			continue
		}
		end := i
		for end < len(text) && text[end].ccc != 0 {
			end++
		}
		slices.SortStableFunc(text[i:end], func(a, b composing) int { return int(a.ccc) - int(b.ccc) })
		i = end
	}
}

// compose composes a decomposed and ordered text in place.
func compose(text []composing) []composing {
	out := text[:0]
	starter := -1
	for _, m := range text {
		if starter >= 0 {
			last := out[len(out)-1]
			blocked := len(out)-1 > starter && (last.ccc >= m.ccc || last.ccc == 0)
			if r, ok := primary(out[starter].r, m.r); ok && !blocked {
				out[starter].r = r
				continue
			}
		}
		out = append(out, m)
		if m.ccc == 0 {
			starter = len(out) - 1
		}
	}
	return out
}

// primary is the primary composite of a starter and what follows it.
func primary(a, b rune) (rune, bool) {
	c := norm.NFC.String(string(a) + string(b))
	r, n := utf8.DecodeRuneInString(c)
	return r, n == len(c)
}
