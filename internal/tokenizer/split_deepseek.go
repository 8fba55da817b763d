package tokenizer

// deepSeek scans patternsDeepSeek in one pass: up to three numbers stand alone; the rest falls into stretches with and
// without Chinese and Japanese, which the third pattern cuts as if each were a text of its own.
type deepSeek struct{}

// next keeps in limit where its stretch ends.
func (d deepSeek) next(s string, at, limit int) (end, newLimit int) {
	if at >= limit {
		class, n := classAt(s[at:])
		if class == number {
			end = numbers(s, at+n, 3)
			return end, end
		}
		limit = at + stretchEnd(s[at:])
	}
	s = s[:limit]
	if end = d.match(s, at); end > at {
		return end, limit
	}
	// What nothing matches stays together.
	for end = at; end < limit && d.match(s, end) == end; {
		_, n := classAt(s[end:])
		end += n
	}
	return end, limit
}

// stretchEnd is how far s goes on without a number and without a change into or out of Chinese and Japanese.
func stretchEnd(s string) int {
	cjk := isCJK(s)
	for i := 0; i < len(s); {
		class, n := classAt(s[i:])
		if class == number || n > 1 && isCJK(s[i:]) != cjk || n == 1 && cjk {
			return i
		}
		i += n
	}
	return len(s)
}

// isCJK is whether s begins with one of U+4E00 to U+9FA5 or U+3040 to U+30FF.
func isCJK(s string) bool {
	if len(s) < 3 || s[0] < 0xE3 || s[0] > 0xE9 {
		return false
	}
	_, n := classAt(s)
	if n != 3 {
		return false
	}
	r := rune(s[0]&0x0F)<<12 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
	return r >= 0x4E00 && r <= 0x9FA5 || r >= 0x3040 && r <= 0x30FF
}

// match is the end of the third pattern's match at byte at, or at itself.
func (deepSeek) match(s string, at int) int {
	class, n := classAt(s[at:])
	end := at + n
	if n == 1 && class&(punct|symbol) != 0 {
		if e := latin(s, end); e > end {
			return e
		}
	}
	if class&(anyLetter|punct|symbol) == 0 && s[at] != '\r' && s[at] != '\n' {
		if e := run(s, end, anyLetter|mark); e > end {
			return e
		}
	}
	switch {
	case class&(anyLetter|mark) != 0:
		return run(s, end, anyLetter|mark)
	case class&(punct|symbol) != 0:
		return newlines(s, run(s, end, punct|symbol), false)
	case class != space:
		return at
	}
	if s[at] == ' ' {
		if e := run(s, end, punct|symbol); e > end {
			return newlines(s, e, false)
		}
	}
	return spaces(s, at)
}

// latin is the end of [A-Za-z]*.
func latin(s string, at int) int {
	for at < len(s) && s[at]|0x20 >= 'a' && s[at]|0x20 <= 'z' {
		at++
	}
	return at
}
