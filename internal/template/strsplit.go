package template

import (
	"strings"
)

func (r *run) strs(parts []string, safe bool) value {
	r.cells(len(parts))
	es := make([]value, len(parts))
	for i, p := range parts {
		es[i] = value{k: kStr, safe: safe, s: p}
	}
	return listOf(es...)
}

func splitMethod(fn string, last bool) method {
	return func(r *run, self value, a args) value {
		p := a.bind(fn, "sep", "maxsplit")
		most := -1
		if p[1].k != kMissing {
			most = int(max(min(r.intArg(fn, p[1]), 1<<30), -1))
		}
		var parts []string
		if p[0].k == kMissing || p[0].k == kNone {
			parts = splitSpace(self.s, most, last)
		} else {
			sep := strArg(fn, p[0])
			if sep == "" {
				refuse("ValueError: empty separator")
			}
			parts = splitSep(self.s, sep, most, last)
		}
		r.charge(len(self.s) / 256)
		return r.strs(parts, self.safe)
	}
}

func splitSep(s, sep string, most int, last bool) []string {
	if most < 0 {
		return strings.Split(s, sep)
	}
	if !last {
		return strings.SplitN(s, sep, most+1)
	}
	var back []string
	for ; most > 0; most-- {
		i := strings.LastIndex(s, sep)
		if i < 0 {
			break
		}
		back = append(back, s[i+len(sep):])
		s = s[:i]
	}
	return reversed(append(back, s))
}

func reversed(s []string) []string {
	for i, j := 0, len(s)-1; i < j; i, j = i+1, j-1 {
		s[i], s[j] = s[j], s[i]
	}
	return s
}

func splitSpace(s string, most int, last bool) []string {
	if most < 0 {
		return strings.FieldsFunc(s, isSpace)
	}
	var out []string
	if !last {
		for s = strings.TrimLeftFunc(s, isSpace); s != ""; most-- {
			i := strings.IndexFunc(s, isSpace)
			if i < 0 || most == 0 {
				return append(out, s)
			}
			out = append(out, s[:i])
			s = strings.TrimLeftFunc(s[i:], isSpace)
		}
		return out
	}
	for s = strings.TrimRightFunc(s, isSpace); s != ""; most-- {
		i := strings.LastIndexFunc(s, isSpace)
		if i < 0 || most == 0 {
			out = append(out, s)
			break
		}
		_, n := decode(s[i:])
		out = append(out, s[i+n:])
		s = strings.TrimRightFunc(s[:i], isSpace)
	}
	return reversed(out)
}

func splitLinesMethod(r *run, self value, a args) value {
	p := a.bind("splitlines", "keepends")
	lines := splitLines(self.s, p[0].k != kMissing && truth(p[0]))
	r.charge(len(self.s) / 64)
	return r.strs(lines, self.safe)
}

func partition(fn string, index func(s, sep string) int) method {
	return func(r *run, self value, a args) value {
		a.positional(fn, 1, 1)
		sep := strArg(fn, a.pos[0])
		if sep == "" {
			refuse("ValueError: empty separator")
		}
		i := index(self.s, sep)
		switch {
		case i >= 0:
			return tupleOf(strOf(self.s[:i]), strOf(sep), strOf(self.s[i+len(sep):]))
		case fn == "partition":
			return tupleOf(self, strOf(""), strOf(""))
		}
		return tupleOf(strOf(""), strOf(""), self)
	}
}
