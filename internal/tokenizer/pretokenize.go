package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A splitter is one pre-tokenizer: it cuts text into pieces. first is whether s is where the whole text begins.
type splitter interface {
	split(s string, first bool, each func(piece string))
}

// readPreTokenizer reads the pre-tokenizer, or the steps of one. ByteLevel, where it is, is the last: what follows it
// would see the text in the byte-level alphabet.
func (t *Tokenizer) readPreTokenizer(f file) error {
	steps := flatten(f.top["pre_tokenizer"], "pretokenizers")
	if isDeepSeek(steps) {
		t.splits = []splitter{scanned{deepSeek{}}}
		steps = steps[len(patternsDeepSeek):]
	}
	for i, p := range steps {
		m, _ := p.(map[string]any)
		if typeOf(p) == "ByteLevel" {
			if i != len(steps)-1 {
				return unsupported("pre_tokenizer: a step after ByteLevel")
			}
			t.readByteLevel(m)
			break
		}
		s, err := splitterOf(m)
		if err != nil {
			return err
		}
		if x, ok := s.(metaspace); ok && x.scheme == "first" && (len(t.splits) > 0 || !keepsStart(t.forms)) {
			return unsupported("pre_tokenizer Metaspace with prepend_scheme first, after a step that may take the start away")
		}
		t.splits = append(t.splits, s)
	}
	t.chooseScanner()
	return nil
}

func (t *Tokenizer) readByteLevel(m map[string]any) {
	t.byteLevel = true
	if m["add_prefix_space"] != false {
		t.splits = append(t.splits, prefixSpace{})
	}
	if m["use_regex"] != false {
		t.splits = append(t.splits, scanned{gpt2{}})
	}
}

// chooseScanner takes the one scanner that does all the cutting, where there is one.
func (t *Tokenizer) chooseScanner() {
	t.splits = slices.DeleteFunc(t.splits, t.findsNothing)
	if len(t.splits) == 1 {
		if s, ok := t.splits[0].(scanned); ok {
			t.scan = s.scanner
		}
	}
}

// findsNothing is whether a splitter looks for a string that the last normalizer has replaced by another.
func (t *Tokenizer) findsNothing(s splitter) bool {
	d, ok := s.(delimiter)
	if !ok || len(t.forms) == 0 {
		return false
	}
	gone, ok := t.forms[len(t.forms)-1].(replace)
	return ok && len(gone.old) == 1 && d.finder == literal(gone.old) && !strings.Contains(gone.new, gone.old) && !d.invert
}

// isDeepSeek is whether the first steps are those that one scanner does together.
func isDeepSeek(steps []any) bool {
	if len(steps) < len(patternsDeepSeek) {
		return false
	}
	for i, want := range patternsDeepSeek {
		m, _ := steps[i].(map[string]any)
		pattern, _ := m["pattern"].(map[string]any)
		if typeOf(steps[i]) != "Split" || m["behavior"] != "Isolated" || pattern["Regex"] != want {
			return false
		}
	}
	return true
}

func splitterOf(m map[string]any) (splitter, error) {
	switch typeOf(m) {
	case "Split":
		return splitOf(m)
	case "Metaspace":
		return metaspaceOf(m)
	case "Digits":
		if m["individual_digits"] == true {
			return delimiter{finder: classes(number), behavior: "Isolated"}, nil
		}
		return delimiter{finder: classes(number), behavior: "Contiguous"}, nil
	case "Punctuation":
		behavior, ok := m["behavior"].(string)
		if !ok {
			behavior = "Isolated"
		}
		return delimiterOf(punctuation{}, behavior, false)
	case "Whitespace":
		return delimiter{finder: words{}, behavior: "Removed", invert: true}, nil
	case "WhitespaceSplit":
		return delimiter{finder: classes(space), behavior: "Removed"}, nil
	case "CharDelimiterSplit":
		d, _ := m["delimiter"].(string)
		if _, ok := oneRune(d); !ok {
			return nil, unsupported("pre_tokenizer CharDelimiterSplit at %q", d)
		}
		return delimiter{finder: literal(d), behavior: "Removed"}, nil
	}
	return nil, unsupported("pre_tokenizer %s", typeOf(m))
}

func splitOf(m map[string]any) (splitter, error) {
	behavior, _ := m["behavior"].(string)
	pattern, _ := m["pattern"].(map[string]any)
	if s, ok := pattern["String"].(string); ok {
		return delimiterOf(literal(s), behavior, m["invert"] == true)
	}
	re, ok := pattern["Regex"].(string)
	if !ok {
		return nil, unsupported("pre_tokenizer Split with pattern %v", m["pattern"])
	}
	if s := scannerOf(re); s != nil && behavior == "Isolated" {
		return scanned{s}, nil // it leaves no gaps, so invert changes nothing
	}
	x, err := compileRegex(re)
	if err != nil {
		return nil, err
	}
	return delimiterOf(x, behavior, m["invert"] == true)
}

func delimiterOf(f finder, behavior string, invert bool) (splitter, error) {
	switch behavior {
	case "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous":
		return delimiter{f, behavior, invert}, nil
	}
	return nil, unsupported("pre_tokenizer with behavior %q", behavior)
}

// A finder finds the matches of a pattern, in order.
type finder interface {
	find(s string, each func(start, end int))
}

// literal matches a string; the empty one never.
type literal string

func (l literal) find(s string, each func(start, end int)) {
	if l == "" {
		return
	}
	for at := 0; ; {
		i := strings.Index(s[at:], string(l))
		if i < 0 {
			return
		}
		at += i + len(l)
		each(at-len(l), at)
	}
}

// classes matches each code point of a set of classes.
type classes uint8

func (c classes) find(s string, each func(start, end int)) {
	for at := 0; at < len(s); {
		class, n := classAt(s[at:])
		if class&uint8(c) != 0 {
			each(at, at+n)
		}
		at += n
	}
}

// words matches \w+|[^\w\s]+.
type words struct{}

func (words) find(s string, each func(start, end int)) {
	const blank, word, other = 0, 1, 2
	last, from := blank, 0
	for at := 0; at < len(s); {
		class, n := classAt(s[at:])
		kind := other
		if r, _ := utf8.DecodeRuneInString(s[at:]); class == space {
			kind = blank
		} else if isWord(r) {
			kind = word
		}
		if kind != last {
			if last != blank {
				each(from, at)
			}
			last, from = kind, at
		}
		at += n
	}
	if last != blank {
		each(from, len(s))
	}
}

// delimiter cuts at the matches of a pattern. What becomes of a match is its behavior; with invert the matches and the
// gaps between them change places.
type delimiter struct {
	finder
	behavior string
	invert   bool
}

type stretch struct {
	start, end int
	match      bool
}

func (d delimiter) stretches(s string) []stretch {
	var all []stretch
	done := 0
	d.find(s, func(start, end int) {
		if done < start {
			all = append(all, stretch{done, start, d.invert})
		}
		all = append(all, stretch{start, end, !d.invert})
		done = end
	})
	if done < len(s) {
		all = append(all, stretch{done, len(s), d.invert})
	}
	return all
}

func (d delimiter) split(s string, _ bool, each func(string)) {
	all := d.stretches(s)
	for i := 0; i < len(all); i++ {
		x := all[i]
		joins := func(next stretch) bool { return false }
		switch d.behavior {
		case "Removed":
			if x.match {
				continue
			}
		case "Contiguous":
			joins = func(next stretch) bool { return next.match == x.match }
		case "MergedWithPrevious": // a match joins what is before it, unless that ends in a match
			joins = func(next stretch) bool { return next.match && !all[i].match }
		case "MergedWithNext": // a match joins what is after it, unless that is a match
			joins = func(next stretch) bool { return all[i].match && !next.match }
		}
		for i+1 < len(all) && joins(all[i+1]) {
			i++
			x.end = all[i].end
		}
		each(s[x.start:x.end])
	}
}

// metaspace writes spaces as another character, and cuts before each.
type metaspace struct {
	mark   string
	scheme string // always, first or never: whether the mark is put before text that does not begin with it
	cut    bool
}

func metaspaceOf(m map[string]any) (metaspace, error) {
	x := metaspace{scheme: "always", cut: m["split"] != false}
	x.mark, _ = m["replacement"].(string)
	if s, ok := m["prepend_scheme"].(string); ok {
		x.scheme = s
	}
	if _, ok := oneRune(x.mark); !ok {
		return x, unsupported("Metaspace with replacement %q", x.mark)
	}
	switch {
	case x.scheme != "always" && x.scheme != "first" && x.scheme != "never":
		return x, unsupported("Metaspace with prepend_scheme %q", x.scheme)
	case m["add_prefix_space"] == false && x.scheme != "never":
		return x, unsupported("Metaspace with prepend_scheme %q and no add_prefix_space", x.scheme)
	}
	return x, nil
}

func (x metaspace) split(s string, first bool, each func(string)) {
	s = strings.ReplaceAll(s, " ", x.mark)
	if x.scheme == "always" || x.scheme == "first" && first {
		if !strings.HasPrefix(s, x.mark) {
			s = x.mark + s
		}
	}
	if !x.cut {
		each(s)
		return
	}
	delimiter{finder: literal(x.mark), behavior: "MergedWithNext"}.split(s, false, each)
}

// prefixSpace puts a space before a piece that does not begin with one.
type prefixSpace struct{}

func (prefixSpace) split(s string, _ bool, each func(string)) {
	if !strings.HasPrefix(s, " ") {
		s = " " + s
	}
	each(s)
}
