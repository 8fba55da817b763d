package template

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
)

// strArg is an argument that must be a string.
func strArg(fn string, v value) string {
	if v.k != kStr {
		refuse("TypeError: %s() needs a string, got '%s'", fn, typeName(v))
	}
	return v.s
}

// strip is Python's strip, lstrip and rstrip.
func strip(fn string, left, right bool) method {
	return func(r *run, self value, a args) value {
		a.positional(fn, 0, 1)
		s, cut := self.s, isSpace
		if len(a.pos) == 1 && a.pos[0].k != kNone {
			chars := strArg(fn, a.pos[0])
			cut = func(r rune) bool { return strings.ContainsRune(chars, r) }
		}
		r.charge(len(s) / 256)
		if left {
			s = strings.TrimLeftFunc(s, cut)
		}
		if right {
			s = strings.TrimRightFunc(s, cut)
		}
		return value{k: kStr, safe: self.safe, s: s}
	}
}

// affix is startswith and endswith.
func affix(fn string, has func(s, x string) bool) method {
	return func(r *run, self value, a args) value {
		a.positional(fn, 1, 3)
		s := self.s
		if len(a.pos) > 1 {
			n := int64(runeCount(s))
			lo, hi := int64(0), n
			if a.pos[1].k != kNone {
				lo = r.intArg(fn, a.pos[1])
			}
			if len(a.pos) > 2 && a.pos[2].k != kNone {
				hi = r.intArg(fn, a.pos[2])
			}
			if lo > n {
				return boolOf(false)
			}
			s = r.sliceStr(s, lo, hi, 1, true, true)
		}
		if a.pos[0].k == kTuple {
			for _, x := range a.pos[0].seq() {
				if has(s, strArg(fn, x)) {
					return true_
				}
			}
			return boolOf(false)
		}
		return boolOf(has(s, strArg(fn, a.pos[0])))
	}
}

// find is find, index, rfind, rindex and count on code points.
func find(fn string, last, must bool) method {
	return func(r *run, self value, a args) value {
		s, base := r.window(fn, self.s, a)
		i := 0
		if last {
			i = strings.LastIndex(s, strArg(fn, a.pos[0]))
		} else {
			i = strings.Index(s, strArg(fn, a.pos[0]))
		}
		if base < 0 || i < 0 {
			if must {
				refuse("ValueError: substring not found")
			}
			return intOf(-1)
		}
		return intOf(base + runeCount(s[:i]))
	}
}

// window is the part of s between the optional bounds of a search, and where it starts, -1 where that is past the end.
func (r *run) window(fn, s string, a args) (string, int) {
	a.positional(fn, 1, 3)
	r.charge(len(s) / 64)
	if len(a.pos) == 1 {
		return s, 0
	}
	n := int64(runeCount(s))
	lo, hi := int64(0), n
	if a.pos[1].k != kNone {
		lo = r.intArg(fn, a.pos[1])
	}
	if len(a.pos) > 2 && a.pos[2].k != kNone {
		hi = r.intArg(fn, a.pos[2])
	}
	if lo > n {
		return "", -1
	}
	start, count := sliceRange(n, lo, hi, 1, true, true)
	if count == 0 && lo > hi && hi >= 0 {
		return "", -1
	}
	return r.sliceStr(s, start, start+count, 1, true, true), int(start)
}

// every is a test of all characters of a string that has any.
func every(ok func(rune) bool) method {
	return func(r *run, self value, a args) value {
		a.positional("a string test", 0, 0)
		r.charge(len(self.s) / 64)
		return boolOf(self.s != "" && strings.IndexFunc(self.s, func(c rune) bool { return !ok(c) }) < 0)
	}
}

// mapped is a method without arguments that gives a new string.
func mapped(fn string, f func(string) string) method {
	return func(r *run, self value, a args) value {
		a.positional(fn, 0, 0)
		r.grow(len(self.s))
		return value{k: kStr, safe: self.safe, s: f(self.s)}
	}
}

func predicate(fn string, f func(string) bool) method {
	return func(r *run, self value, a args) value {
		a.positional(fn, 0, 0)
		r.charge(len(self.s) / 64)
		return boolOf(f(self.s))
	}
}

// pad is ljust, rjust and center.
func pad(fn string) method {
	return func(r *run, self value, a args) value {
		a.positional(fn, 1, 2)
		fill := " "
		if len(a.pos) == 2 {
			if fill = strArg(fn, a.pos[1]); runeCount(fill) != 1 {
				refuse("TypeError: the fill character must be exactly one character long")
			}
		}
		return strOf(r.pad(fn, self.s, r.intArg(fn, a.pos[0]), fill))
	}
}

func (r *run) pad(fn, s string, width int64, fill string) string {
	n := width - int64(runeCount(s))
	if n <= 0 {
		return s
	}
	if n > maxString {
		refuse("MemoryError: padded to %d", width)
	}
	r.grow(len(s) + int(n)*len(fill))
	left := int64(0)
	switch fn {
	case "rjust":
		left = n
	case "center":
		left = n/2 + n&width&1
	}
	return strings.Repeat(fill, int(left)) + s + strings.Repeat(fill, int(n-left))
}

func (r *run) replace(s, old, with string, count int64) string {
	n := int64(0)
	if old == "" {
		n = int64(runeCount(s)) + 1
	} else {
		n = int64(strings.Count(s, old))
	}
	if count >= 0 {
		n = min(n, count)
	}
	r.charge(len(s) / 64)
	if len(with) > len(old) && n > int64(maxString/(len(with)-len(old))) {
		refuse("MemoryError: a string of more than %d bytes", maxString)
	}
	if n == 0 {
		return s
	}
	r.grow(len(s) + int(n)*(len(with)-len(old)))
	return strings.Replace(s, old, with, int(n))
}

func makeStrMethods() map[string]method {
	return map[string]method{
		"strip":        strip("strip", true, true),
		"lstrip":       strip("lstrip", true, false),
		"rstrip":       strip("rstrip", false, true),
		"startswith":   affix("startswith", strings.HasPrefix),
		"endswith":     affix("endswith", strings.HasSuffix),
		"find":         find("find", false, false),
		"rfind":        find("rfind", true, false),
		"index":        find("index", false, true),
		"rindex":       find("rindex", true, true),
		"split":        splitMethod("split", false),
		"rsplit":       splitMethod("rsplit", true),
		"upper":        mapped("upper", upper),
		"lower":        mapped("lower", lower),
		"casefold":     mapped("casefold", func(s string) string { return cases.Fold().String(s) }),
		"capitalize":   mapped("capitalize", capitalize),
		"title":        mapped("title", titleWords),
		"swapcase":     mapped("swapcase", swapCase),
		"ljust":        pad("ljust"),
		"rjust":        pad("rjust"),
		"center":       pad("center"),
		"isalpha":      every(unicode.IsLetter),
		"isdigit":      every(isDigitRune),
		"isdecimal":    every(unicode.IsDigit),
		"isnumeric":    every(unicode.IsNumber),
		"isalnum":      every(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isspace":      every(isSpace),
		"isupper":      predicate("isupper", isUpperStr),
		"islower":      predicate("islower", isLowerStr),
		"istitle":      predicate("istitle", isTitleStr),
		"isascii":      predicate("isascii", isASCII),
		"isidentifier": predicate("isidentifier", isIdentifier),
		"isprintable": predicate("isprintable", func(s string) bool {
			return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
		}),
		"count":        countMethod,
		"replace":      replaceMethod,
		"join":         joinMethod,
		"splitlines":   splitLinesMethod,
		"partition":    partition("partition", strings.Index),
		"rpartition":   partition("rpartition", strings.LastIndex),
		"removeprefix": remove("removeprefix", strings.TrimPrefix),
		"removesuffix": remove("removesuffix", strings.TrimSuffix),
		"zfill":        zfill,
		"expandtabs":   expandTabs,
		"format":       formatMethod,
		"format_map":   formatMapMethod,
	}
}

func countMethod(r *run, self value, a args) value {
	s, base := r.window("count", self.s, a)
	sub := strArg("count", a.pos[0])
	if base < 0 {
		return intOf(0)
	}
	if sub == "" {
		return intOf(runeCount(s) + 1)
	}
	return intOf(strings.Count(s, sub))
}

func replaceMethod(r *run, self value, a args) value {
	a.positional("replace", 2, 3)
	count := int64(-1)
	if len(a.pos) == 3 {
		count = r.intArg("replace", a.pos[2])
	}
	return value{k: kStr, safe: self.safe, s: r.replace(self.s, strArg("replace", a.pos[0]), strArg("replace", a.pos[1]), count)}
}

func joinMethod(r *run, self value, a args) value {
	a.positional("join", 1, 1)
	es := r.list(a.pos[0])
	parts := make([]string, len(es))
	n := 0
	for i, e := range es {
		parts[i] = strArg("join", e)
		n += len(e.s) + len(self.s)
	}
	r.grow(n)
	return strOf(strings.Join(parts, self.s))
}

func remove(fn string, trim func(s, x string) string) method {
	return func(r *run, self value, a args) value {
		a.positional(fn, 1, 1)
		return strOf(trim(self.s, strArg(fn, a.pos[0])))
	}
}

func zfill(r *run, self value, a args) value {
	a.positional("zfill", 1, 1)
	s, sign := self.s, ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s, sign = s[1:], s[:1]
	}
	return strOf(sign + r.pad("rjust", s, r.intArg("zfill", a.pos[0])-int64(len(sign)), "0"))
}

func expandTabs(r *run, self value, a args) value {
	p := a.bind("expandtabs", "tabsize")
	size := int64(8)
	if p[0].k != kMissing {
		size = r.intArg("expandtabs", p[0])
	}
	if size > 1000 {
		refuse("MemoryError: tabs of %d", size)
	}
	var b []byte
	col := int64(0)
	for _, c := range runes(self.s) {
		switch {
		case c == '\t' && size > 0:
			n := size - col%size
			for range n {
				b = append(b, ' ')
			}
			col += n
			continue
		case c == '\t':
			continue
		case c == '\n' || c == '\r':
			col = -1
		}
		b = appendRune(b, c)
		col++
	}
	r.grow(len(b))
	return strOf(string(b))
}
