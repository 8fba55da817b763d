package template

// args are evaluated arguments. pos is only valid during the call: what keeps it must copy it.
type args struct {
	pos []value
	kw  []kwArg
}

type kwArg struct {
	name string
	v    value
}

type (
	method     func(r *run, self value, a args) value
	filterFunc func(r *run, v value, a args) value
	testFunc   func(r *run, v value, a args) bool
)

// function is a global function or a bound method.
type function struct {
	name string
	self value
	m    method
}

func (f *function) same(g *function) bool {
	return f == g || f.name == g.name && f.self.k == g.self.k && f.self.k != kMissing && f.self.s == g.self.s && f.self.n == g.self.n && f.self.o == g.self.o
}

// object is a small callable with attributes.
type object interface {
	attr(name string) (value, bool)
	call(r *run, a args) value
}

func (a *callArgs) eval(r *run, f *frame) args {
	if len(a.pos) == 0 && len(a.kw) == 0 && a.star == nil && a.dstar == nil {
		return args{}
	}
	base := len(r.stack)
	for _, e := range a.pos {
		v := e.eval(r, f)
		r.stack = append(r.stack, v)
	}
	var kw []kwArg
	if len(a.kw) > 0 {
		kw = make([]kwArg, len(a.kw))
		for i, k := range a.kw {
			kw[i] = kwArg{k.name, k.e.eval(r, f)}
		}
	}
	if a.star != nil {
		es := r.list(a.star.eval(r, f))
		r.stack = append(r.stack, es...)
	}
	if a.dstar != nil {
		kw = append(kw, r.spread(a.dstar.eval(r, f), kw)...)
	}
	return args{pos: r.stack[base:len(r.stack):len(r.stack)], kw: kw}
}

func (r *run) spread(v value, have []kwArg) []kwArg {
	if v.k != kDict {
		refuse("TypeError: argument after ** must be a mapping, not %s", typeName(v))
	}
	var kw []kwArg
	for _, e := range v.dict().entries() {
		if e.key.k != kStr {
			refuse("TypeError: keywords must be strings")
		}
		for _, h := range have {
			if h.name == e.key.s {
				refuse("TypeError: got multiple values for keyword argument '%s'", h.name)
			}
		}
		kw = append(kw, kwArg{e.key.s, e.val})
	}
	return kw
}

// bind gives each of params its argument, the zero value where it was left out. Only the callers know which are needed.
func (a args) bind(fn string, params ...string) []value {
	if len(a.pos) > len(params) {
		refuse("TypeError: %s() takes %d arguments, got %d", fn, len(params), len(a.pos))
	}
	out := make([]value, len(params))
	copy(out, a.pos)
	for _, k := range a.kw {
		i := 0
		for i < len(params) && params[i] != k.name {
			i++
		}
		if i == len(params) {
			refuse("TypeError: %s() got an unexpected keyword argument '%s'", fn, k.name)
		}
		if i < len(a.pos) {
			refuse("TypeError: %s() got multiple values for argument '%s'", fn, k.name)
		}
		out[i] = k.v
	}
	return out
}

// positional checks the number of arguments of a function that takes no keywords.
func (a args) positional(fn string, least, most int) {
	a.noKeywords(fn)
	if len(a.pos) < least || len(a.pos) > most {
		refuse("TypeError: %s() got %d arguments", fn, len(a.pos))
	}
}

func (a args) noKeywords(fn string) {
	if len(a.kw) > 0 {
		refuse("TypeError: %s() takes no keyword arguments", fn)
	}
}

func need(fn, param string, v value) value {
	if v.k == kMissing {
		refuse("TypeError: %s() missing the argument '%s'", fn, param)
	}
	return v
}

func (e *callExpr) eval(r *run, f *frame) value { return e.invoke(r, f, nil) }

func (e *callExpr) invoke(r *run, f *frame, caller *value) value {
	r.charge(1)
	base := len(r.stack)
	defer func() { r.stack = r.stack[:base] }()
	if at, ok := e.fn.(*attrExpr); ok {
		self := at.e.eval(r, f)
		if m := r.methodOf(self, at.name); m != nil && caller == nil {
			return m(r, self, e.args.eval(r, f))
		}
		return r.call(r.getattr(self, at.name), e.withCaller(r, f, caller))
	}
	fn := e.fn.eval(r, f)
	return r.call(fn, e.withCaller(r, f, caller))
}

func (e *callExpr) withCaller(r *run, f *frame, caller *value) args {
	a := e.args.eval(r, f)
	if caller != nil {
		a.kw = append(a.kw, kwArg{"caller", *caller})
	}
	return a
}

func (r *run) call(fn value, a args) value {
	switch fn.k {
	case kMissing, kUndef:
		refuseUndefined(fn)
	case kFunc:
		g := fn.o.(*function)
		return g.m(r, g.self, a)
	case kMacro:
		return strOf(fn.o.(*macro).call(r, a))
	case kLoop:
		l := fn.o.(*loop)
		if l.recurse == nil {
			refuse("TypeError: the loop must be marked 'recursive' to be called")
		}
		p := a.bind("loop", "iterable")
		return l.recurse(need("loop", "iterable", p[0]), l.depth0+1)
	case kObject:
		return fn.o.(object).call(r, a)
	}
	refuse("TypeError: '%s' object is not callable", typeName(fn))
	return value{}
}

func (r *run) callIn() {
	if r.calls++; r.calls > maxCalls {
		refuse("RecursionError: more than %d calls within each other", maxCalls)
	}
}

func (r *run) callOut() { r.calls-- }

// macro is a macro and the frame in which it was made.
type macro struct {
	def   *macroDef
	frame *frame
}

func (m *macro) call(r *run, a args) string {
	r.callIn()
	defer r.callOut()
	line := r.line
	d := m.def
	f := &frame{slots: make([]value, d.fn.slots), parent: m.frame}
	m.bind(f, a)
	r.enter(d.fn.scope, f)
	text := r.capture(func() {
		for i, p := range d.params {
			if f.slots[p.slot].k != kMissing {
				continue
			}
			if j := i - (len(d.params) - len(d.defaults)); j >= 0 {
				r.assign(p, d.defaults[j].eval(r, f), f)
			} else {
				f.slots[p.slot] = undefined("parameter '" + p.name + "' was not provided")
			}
		}
		r.exec(d.body, f)
	})
	r.line = line
	return text
}

// bind puts arguments into slots as Jinja's Macro does.
func (m *macro) bind(f *frame, a args) {
	d := m.def
	kw := a.kw
	take := func(name string) (value, bool) {
		for i, k := range kw {
			if k.name == name {
				kw = append(append([]kwArg(nil), kw[:i]...), kw[i+1:]...)
				return k.v, true
			}
		}
		return value{}, false
	}
	for i, p := range d.params {
		if i < len(a.pos) {
			f.slots[p.slot] = a.pos[i]
		} else if v, ok := take(p.name); ok {
			f.slots[p.slot] = v
		}
	}
	if d.caller >= 0 {
		v, ok := take("caller")
		if !ok || v.k == kNone {
			v = undefined("No caller defined")
		}
		f.slots[d.caller] = v
	}
	if d.kwargs >= 0 {
		es := make([]entry, len(kw))
		for i, k := range kw {
			es[i] = entry{strOf(k.name), k.v}
		}
		f.slots[d.kwargs] = dictOf(es...)
	} else if len(kw) > 0 {
		refuse("TypeError: macro '%s' takes no keyword argument '%s'", d.name, kw[0].name)
	}
	rest := a.pos[min(len(a.pos), len(d.params)):]
	if d.vargs >= 0 {
		f.slots[d.vargs] = tupleOf(append([]value(nil), rest...)...)
	} else if len(rest) > 0 {
		refuse("TypeError: macro '%s' takes not more than %d argument(s)", d.name, len(d.params))
	}
}

func (m *macro) attr(name string) (value, bool) {
	d := m.def
	switch name {
	case "name":
		if d.name == "" {
			return none, true
		}
		return strOf(d.name), true
	case "arguments":
		es := make([]value, len(d.params))
		for i, p := range d.params {
			es[i] = strOf(p.name)
		}
		return tupleOf(es...), true
	case "catch_kwargs":
		return boolOf(d.kwargs >= 0), true
	case "catch_varargs":
		return boolOf(d.vargs >= 0), true
	case "caller":
		return boolOf(d.caller >= 0), true
	case "explicit_caller":
		return boolOf(d.explicitCaller), true
	}
	return value{}, false
}
