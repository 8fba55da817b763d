package template

// source gives the elements of something iterable one by one.
type source struct {
	es  []value
	gen func() (value, bool) // where es is nil
	n   int                  // len(), -1 where Python has none
}

func (s *source) next() (value, bool) {
	if s.gen != nil {
		return s.gen()
	}
	if len(s.es) == 0 {
		return value{}, false
	}
	v := s.es[0]
	s.es = s.es[1:]
	return v, true
}

// tryIterate is Python's iter(v); it is not ok where v cannot be iterated.
func (r *run) tryIterate(v value) (source, bool) {
	switch v.k {
	case kMissing, kUndef:
		return source{}, true
	case kList, kTuple:
		es := v.seq()
		return source{es: es, n: len(es)}, true
	case kDict:
		es := v.dict().entries()
		keys := make([]value, len(es))
		for i := range es {
			keys[i] = es[i].key
		}
		return source{es: keys, n: len(es)}, true
	case kView:
		es := v.o.(*view).items()
		return source{es: es, n: len(es)}, true
	case kStr:
		s := v.s
		return source{n: runeCount(s), gen: func() (value, bool) {
			if s == "" {
				return value{}, false
			}
			_, n := decode(s)
			c := strOf(s[:n])
			s = s[n:]
			return c, true
		}}, true
	case kRange:
		g := v.o.(*rangeObj)
		i, n := 0, g.len()
		return source{n: n, gen: func() (value, bool) {
			if i >= n {
				return value{}, false
			}
			i++
			return int64Of(g.start + int64(i-1)*g.step), true
		}}, true
	case kIter:
		return source{n: -1, gen: v.o.(*iterator).next}, true
	}
	return source{}, false
}

func (r *run) iterate(v value) source {
	s, ok := r.tryIterate(v)
	if !ok {
		refuse("TypeError: '%s' object is not iterable", typeName(v))
	}
	return s
}

// list is Python's list(v). The result may be shared: it must not be changed.
func (r *run) list(v value) []value {
	s := r.iterate(v)
	if s.gen == nil {
		r.charge(len(s.es))
		return s.es
	}
	return r.drain(&s)
}

func (r *run) drain(s *source) []value {
	var out []value
	for {
		v, ok := s.next()
		if !ok {
			return out
		}
		out = append(out, v)
		if len(out)%1024 == 0 {
			r.cells(1024)
		}
		if len(out) > maxElems {
			refuse("MemoryError: a list of more than %d elements", maxElems)
		}
	}
}

// loop is Jinja's loop variable.
type loop struct {
	r         *run
	src       source
	index0    int
	cur, prev value
	peeked    bool
	ahead     value
	hasAhead  bool
	known     bool // len is known
	len       int
	depth0    int
	recurse   func(v value, depth0 int) value
	changed   []value
	asked     bool // changed was called
}

func (l *loop) next() (value, bool) {
	v, ok := l.peek()
	l.peeked = false
	if ok {
		l.index0++
		l.prev, l.cur = l.cur, v
	}
	return v, ok
}

func (l *loop) peek() (value, bool) {
	if !l.peeked || !l.hasAhead {
		l.ahead, l.hasAhead = l.src.next()
		l.peeked = true
	}
	return l.ahead, l.hasAhead
}

func (l *loop) length() int {
	if !l.known {
		l.known, l.len = true, l.src.n
		if l.src.n < 0 {
			rest := l.r.drain(&l.src)
			l.src = source{es: rest, n: len(rest)}
			l.len = len(rest) + l.index0 + 1
			if l.peeked && l.hasAhead {
				l.len++
			}
		}
	}
	return l.len
}

func (l *loop) attr(name string) (value, bool) {
	switch name {
	case "index":
		return intOf(l.index0 + 1), true
	case "index0":
		return intOf(l.index0), true
	case "first":
		return boolOf(l.index0 == 0), true
	case "last":
		_, more := l.peek()
		return boolOf(!more), true
	case "length":
		return intOf(l.length()), true
	case "revindex":
		return intOf(l.length() - l.index0), true
	case "revindex0":
		return intOf(l.length() - l.index0 - 1), true
	case "depth":
		return intOf(l.depth0 + 1), true
	case "depth0":
		return intOf(l.depth0), true
	case "previtem":
		if l.index0 == 0 {
			return undefined("there is no previous item"), true
		}
		return l.prev, true
	case "nextitem":
		v, ok := l.peek()
		if !ok {
			return undefined("there is no next item"), true
		}
		return v, true
	case "cycle", "changed":
		return value{k: kFunc, o: &function{name: name, self: value{k: kLoop, o: l}, m: loopMethods[name]}}, true
	}
	return value{}, false
}

var loopMethods = map[string]method{
	"cycle": func(r *run, self value, a args) value {
		a.noKeywords("cycle")
		if len(a.pos) == 0 {
			refuse("TypeError: no items for cycling given")
		}
		return a.pos[self.o.(*loop).index0%len(a.pos)]
	},
	"changed": func(r *run, self value, a args) value {
		a.noKeywords("changed")
		l := self.o.(*loop)
		if l.asked && equal(tupleOf(l.changed...), tupleOf(a.pos...)) {
			return boolOf(false)
		}
		l.asked, l.changed = true, append([]value(nil), a.pos...)
		return true_
	},
}

func (s *forStmt) exec(r *run, f *frame) control {
	r.line = s.line
	v := s.iter.eval(r, f)
	if s.recursive {
		r.write(s.recurse(r, f, v, 0).s)
		return next
	}
	return s.run(r, f, v, 0, nil)
}

// recurse renders a recursive loop, each level in a frame of its own.
func (s *forStmt) recurse(r *run, f *frame, v value, depth0 int) value {
	r.callIn()
	defer r.callOut()
	return strOf(r.capture(func() {
		in := &frame{slots: make([]value, s.fn.slots), parent: f}
		s.run(r, in, v, depth0, func(v value, depth0 int) value { return s.recurse(r, f, v, depth0) })
	}))
}

func (s *forStmt) run(r *run, f *frame, v value, depth0 int, recurse func(value, int) value) control {
	src := r.iterate(v)
	if s.test != nil {
		src = s.filtered(r, f, src)
	}
	var l *loop
	if s.loopSlot >= 0 {
		l = &loop{r: r, src: src, index0: -1, depth0: depth0, recurse: recurse}
	}
	done := false // a turn ran to its end; a loop without one runs its else
	for {
		var item value
		var ok bool
		if l != nil {
			item, ok = l.next()
		} else {
			item, ok = src.next()
		}
		if !ok {
			break
		}
		r.charge(1)
		r.assign(s.target, item, f)
		if l != nil {
			f.slots[s.loopSlot] = value{k: kLoop, o: l}
		}
		r.enter(s.scope, f)
		c := r.exec(s.body, f)
		if c == breakLoop {
			break
		}
		done = done || c == next
	}
	if done || len(s.orElse) == 0 {
		return next
	}
	r.enter(s.elseScope, f)
	return r.exec(s.orElse, f)
}

// filtered is a loop's own if: Python's generator, asked for one element at a time.
func (s *forStmt) filtered(r *run, f *frame, src source) source {
	return source{n: -1, gen: func() (value, bool) {
		for {
			v, ok := src.next()
			if !ok {
				return v, false
			}
			r.charge(1)
			r.assign(s.testTarget, v, f)
			r.enter(s.testScope, f)
			if truth(s.test.eval(r, f)) {
				return v, true
			}
		}
	}}
}
