package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// A normalizer rewrites the text between added tokens before it is cut.
type normalizer interface{ normal(s string) string }

// readNormalizer reads the normalizer, or the steps of one.
func (t *Tokenizer) readNormalizer(f file) error {
	for _, n := range flatten(f.top["normalizer"], "normalizers") {
		m, _ := n.(map[string]any)
		form, err := normalizerOf(m)
		if err != nil {
			return err
		}
		t.forms = append(t.forms, form)
	}
	return nil
}

func normalizerOf(m map[string]any) (normalizer, error) {
	switch typeOf(m) {
	case "NFC":
		return formC{}, nil
	case "NFD":
		return form{}, nil
	case "NFKD":
		return form{compat: true}, nil
	case "NFKC":
		return form{compat: true, compose: true}, nil
	case "Lowercase":
		return lowered{}, nil
	case "StripAccents":
		return stripAccents{}, nil
	case "Prepend":
		s, _ := m["prepend"].(string)
		return prepend(s), nil
	case "Strip":
		return strip{left: m["strip_left"] == true, right: m["strip_right"] == true}, nil
	case "Replace":
		return replaceOf(m, "normalizer")
	}
	return nil, unsupported("normalizer %s", typeOf(m))
}

// replaceOf reads a Replace, which is a normalizer and a decoder. Group references in its content are refused: the
// reference's versions differ on them.
func replaceOf(m map[string]any, what string) (normalizer, error) {
	pattern, _ := m["pattern"].(map[string]any)
	content, ok := m["content"].(string)
	if old, isString := pattern["String"].(string); isString && ok && old != "" {
		return replace{old, content}, nil
	}
	re, isRegex := pattern["Regex"].(string)
	if !isRegex || !ok || strings.Contains(content, "$") {
		return nil, unsupported("%s Replace of %v by %v", what, m["pattern"], m["content"])
	}
	x, err := compileRegex(re)
	if err != nil {
		return nil, err
	}
	return replaceRegex{x, content}, nil
}

type formC struct{}

func (formC) normal(s string) string { return nfc(s) }

type replace struct{ old, new string }

func (r replace) normal(s string) string { return strings.ReplaceAll(s, r.old, r.new) }

type replaceRegex struct {
	re      regex
	content string
}

func (r replaceRegex) normal(s string) string {
	var out strings.Builder
	done := 0
	r.re.find(s, func(start, end int) {
		out.WriteString(s[done:start])
		out.WriteString(r.content)
		done = end
	})
	if done == 0 && out.Len() == 0 {
		return s
	}
	out.WriteString(s[done:])
	return out.String()
}

// prepend puts itself before text that is not empty.
type prepend string

func (p prepend) normal(s string) string {
	if s == "" {
		return s
	}
	return string(p) + s
}

// strip takes white space off the ends.
type strip struct{ left, right bool }

func (x strip) normal(s string) string {
	if x.left {
		s = s[run(s, 0, space):]
	}
	if x.right {
		s = s[:spacesBefore(s)]
	}
	return s
}

// keepsStart is whether the steps never take away what begins the text: only then is the first piece of the text that
// which begins it.
func keepsStart(forms []normalizer) bool {
	for _, f := range forms {
		switch f := f.(type) {
		case formC:
		case replace:
			if f.new == "" {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// oneRune is the code point of a string that holds just one.
func oneRune(s string) (rune, bool) {
	r, n := utf8.DecodeRuneInString(s)
	return r, n > 0 && n == len(s) && r != utf8.RuneError
}
