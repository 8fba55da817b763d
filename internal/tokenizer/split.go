package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// A scanner cuts text as one pattern does, or several in sequence: its matches and the gaps between them.
type scanner interface {
	// next is the end of the piece at byte at, which is less than len(s). limit is what the call before gave, at first 0.
	next(s string, at, limit int) (end, newLimit int)
}

// scanned is a scanner as one pre-tokenizer of several.
type scanned struct{ scanner }

func (x scanned) split(s string, _ bool, each func(string)) {
	for at, limit := 0, 0; at < len(s); {
		var end int
		end, limit = x.next(s, at, limit)
		each(s[at:end])
		at = end
	}
}

// The patterns that have a scanner of their own. Another spelling of the same pattern goes to the regex engine.
const (
	patternQwen   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternCL     = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternO200   = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternTekken = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternKimi   = `[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
)

// patternsDeepSeek cut one after the other.
var patternsDeepSeek = [...]string{
	`\p{N}{1,3}`,
	`[一-龥぀-ゟ゠-ヿ]+`,
	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
}

// scannerOf is the scanner of a pattern, or nil.
func scannerOf(pattern string) scanner {
	switch pattern {
	case patternQwen:
		return cl100k{digits: 1}
	case patternCL:
		return cl100k{digits: 3}
	case patternO200:
		return o200k{digits: 3, slash: true, suffix: true}
	case patternTekken:
		return o200k{digits: 1, slash: true}
	case patternKimi:
		return o200k{digits: 3, suffix: true, han: true}
	}
	return nil
}

// cl100k scans patternQwen and patternCL, which differ in how many digits stay together.
type cl100k struct{ digits int }

func (c cl100k) next(s string, at, _ int) (end, limit int) { return c.end(s, at), 0 }

func (c cl100k) end(s string, at int) int {
	class, n := classAt(s[at:])
	end := at + n
	if s[at] == '\'' {
		if k := contraction(s[end:]); k > 0 {
			return end + k
		}
	}
	switch {
	case class&anyLetter != 0:
		return run(s, end, anyLetter)
	case class == number:
		return numbers(s, end, c.digits)
	}
	if s[at] != '\r' && s[at] != '\n' && end < len(s) {
		if follow, k := classAt(s[end:]); follow&anyLetter != 0 {
			return run(s, end+k, anyLetter)
		}
	}
	if class == space {
		if s[at] != ' ' || end >= len(s) {
			return spaces(s, at)
		}
		follow, k := classAt(s[end:])
		if follow&(space|anyLetter|number) != 0 {
			return spaces(s, at)
		}
		end += k
	}
	return newlines(s, others(s, end), false)
}

// o200k scans patternO200, and patternTekken and patternKimi, which differ in these ways.
type o200k struct {
	digits int  // how many stay together
	slash  bool // slashes go with the line ends after punctuation
	suffix bool // contractions go with their word
	han    bool // Chinese characters stand alone, in no word
}

const (
	upperRun = upper | letter | mark // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	lowerRun = lower | letter | mark // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
)

func (o o200k) next(s string, at, _ int) (end, limit int) { return o.end(s, at), 0 }

func (o o200k) end(s string, at int) int {
	class, n := classAt(s[at:])
	end := at + n
	if o.han && isHan(s[at:]) {
		for end < len(s) && isHan(s[end:]) {
			_, n := classAt(s[end:])
			end += n
		}
		return end
	}
	prefix := class&(anyLetter|number) == 0 && s[at] != '\r' && s[at] != '\n'
	// The first word pattern with and without its prefix, then the second in the same way.
	if prefix {
		if e := o.lowerWord(s, end); e > 0 {
			return e
		}
	}
	if e := o.lowerWord(s, at); e > 0 {
		return e
	}
	if prefix {
		if e := o.upperWord(s, end); e > 0 {
			return e
		}
	}
	if e := o.upperWord(s, at); e > 0 {
		return e
	}
	switch class {
	case number:
		return numbers(s, end, o.digits)
	case space:
		if s[at] != ' ' || end >= len(s) {
			return spaces(s, at)
		}
		follow, k := classAt(s[end:])
		if follow&(space|anyLetter|number) != 0 {
			return spaces(s, at)
		}
		end += k
	}
	return newlines(s, others(s, end), o.slash)
}

// run is the end of the code points from at that are in set, and in a word.
func (o o200k) run(s string, at int, set uint8) int {
	for at < len(s) {
		class, n := classAt(s[at:])
		if class&set == 0 || o.han && isHan(s[at:]) {
			break
		}
		at += n
	}
	return at
}

// lowerWord matches upperRun* lowerRun+ and a contraction at byte at, and is the end or 0. Backtracking gives back only
// as many of the first run as the second needs: its last code point that is in both sets.
func (o o200k) lowerWord(s string, at int) int {
	both := -1 // end of the last code point of the first run that is in the second set too
	i := at
	for i < len(s) {
		class, n := classAt(s[i:])
		if class&upperRun == 0 || o.han && isHan(s[i:]) {
			break
		}
		i += n
		if class&lowerRun != 0 {
			both = i
		}
	}
	if end := o.run(s, i, lowerRun); end > i {
		return o.contracted(s, end)
	}
	if both < 0 {
		return 0
	}
	return o.contracted(s, both)
}

// upperWord matches upperRun+ lowerRun* and a contraction.
func (o o200k) upperWord(s string, at int) int {
	i := o.run(s, at, upperRun)
	if i == at {
		return 0
	}
	return o.contracted(s, o.run(s, i, lowerRun))
}

// contracted is the end of a word with its contraction.
func (o o200k) contracted(s string, at int) int {
	if o.suffix && at < len(s) && s[at] == '\'' {
		if k := contraction(s[at+1:]); k > 0 {
			return at + 1 + k
		}
	}
	return at
}

// isHan is whether s begins with a code point of the script Han.
func isHan(s string) bool {
	if s[0] < 0xE2 {
		return false
	}
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.Is(unicode.Han, r) || r >= 0x2EBF0 && r <= 0x2EE5D // Unicode 15.1's
}

// gpt2 scans patternGPT2, which ByteLevel applies itself when use_regex is set.
type gpt2 struct{}

func (g gpt2) next(s string, at, _ int) (end, limit int) { return g.end(s, at), 0 }

func (gpt2) end(s string, at int) int {
	class, n := classAt(s[at:])
	end := at + n
	if s[at] == '\'' {
		if k := contraction(s[end:]); k > 0 && lowercase(s[end:end+k]) {
			return end + k
		}
	}
	if class == space {
		if s[at] != ' ' || end >= len(s) {
			return plainSpaces(s, at)
		}
		follow, k := classAt(s[end:])
		if follow == space {
			return plainSpaces(s, at)
		}
		class, end = follow, end+k
	}
	switch {
	case class&anyLetter != 0:
		return run(s, end, anyLetter)
	case class == number:
		return run(s, end, number)
	}
	return others(s, end)
}

func lowercase(s string) bool {
	for i := range len(s) {
		if s[i] < 'a' || s[i] > 'z' {
			return false
		}
	}
	return true
}

// contraction is the length of (?i:s|t|re|ve|m|ll|d) at the start of s, or 0. Case folding makes U+017F an s.
func contraction(s string) int {
	if s == "" {
		return 0
	}
	if len(s) >= 2 {
		switch pair := [2]byte{s[0] | 0x20, s[1] | 0x20}; {
		case pair == [2]byte{'r', 'e'}, pair == [2]byte{'v', 'e'}, pair == [2]byte{'l', 'l'}:
			return 2
		case s[0] == 0xC5 && s[1] == 0xBF:
			return 2
		}
	}
	switch s[0] | 0x20 {
	case 's', 't', 'm', 'd':
		return 1
	}
	return 0
}

// run is the end of the code points from at that are in set.
func run(s string, at int, set uint8) int {
	for at < len(s) {
		class, n := classAt(s[at:])
		if class&set == 0 {
			break
		}
		at += n
	}
	return at
}

// numbers is the end of a run of which one number was read and at most most may be.
func numbers(s string, at, most int) int {
	for k := 1; k < most && at < len(s); k++ {
		class, n := classAt(s[at:])
		if class != number {
			break
		}
		at += n
	}
	return at
}

// others is the end of [^\s\p{L}\p{N}]*.
func others(s string, at int) int {
	for at < len(s) {
		class, n := classAt(s[at:])
		if class&(space|anyLetter|number) != 0 {
			break
		}
		at += n
	}
	return at
}

// newlines is the end of [\r\n]*, or of [\r\n/]*.
func newlines(s string, at int, slash bool) int {
	for at < len(s) && (s[at] == '\r' || s[at] == '\n' || slash && s[at] == '/') {
		at++
	}
	return at
}

// spaces matches \s*[\r\n]+|\s+(?!\S)|\s+ at a space: up to the last line end of the run; else the run without its last
// code point, which goes with what follows, unless nothing follows or nothing would be left.
func spaces(s string, at int) int {
	end, last, line := at, at, 0
	for end < len(s) {
		class, n := classAt(s[end:])
		if class != space {
			break
		}
		last = end
		end += n
		if s[last] == '\r' || s[last] == '\n' {
			line = end
		}
	}
	switch {
	case line > 0:
		return line
	case end == len(s) || last == at:
		return end
	}
	return last
}

// plainSpaces matches \s+(?!\S)|\s+.
func plainSpaces(s string, at int) int {
	end, last := at, at
	for end < len(s) {
		class, n := classAt(s[end:])
		if class != space {
			break
		}
		last = end
		end += n
	}
	if end == len(s) || last == at {
		return end
	}
	return last
}
