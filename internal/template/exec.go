package template

func (r *run) exec(body []stmt, f *frame) control {
	for _, st := range body {
		if c := st.exec(r, f); c != next {
			return c
		}
	}
	return next
}

func (s *dataStmt) exec(r *run, f *frame) control {
	r.write(s.text)
	return next
}

func (s *outStmt) exec(r *run, f *frame) control {
	r.line = s.line
	r.charge(1)
	switch e := s.e.(type) {
	case *addExpr:
		r.writeSum(e, f)
	case *concatExpr:
		base := len(r.stack)
		for _, p := range e.parts {
			v := p.eval(r, f)
			r.stack = append(r.stack, v)
		}
		for _, v := range r.stack[base:] {
			r.write(r.str(v))
		}
		r.stack = r.stack[:base]
	default:
		r.write(r.str(e.eval(r, f)))
	}
	return next
}

// writeSum prints a + b + c without joining them where all are strings.
func (r *run) writeSum(e *addExpr, f *frame) {
	base := len(r.stack)
	strings := true
	for _, t := range e.terms {
		v := t.eval(r, f)
		strings = strings && v.k == kStr && !v.safe
		r.stack = append(r.stack, v)
	}
	vs := r.stack[base:]
	if strings {
		for i := range vs {
			r.write(vs[i].s)
		}
	} else {
		r.write(r.str(r.sum(vs)))
	}
	r.stack = r.stack[:base]
}

func (s *setStmt) exec(r *run, f *frame) control {
	r.line = s.line
	r.charge(1)
	r.checkSpaces(s.target, f)
	r.assign(s.target, s.e.eval(r, f), f)
	if s.export {
		r.export(s.target, f)
	}
	return next
}

func (s *setBlock) exec(r *run, f *frame) control {
	r.line = s.line
	r.enter(s.scope, f)
	c := next
	text := r.capture(func() { c = r.exec(s.body, f) })
	if c != next {
		return c
	}
	v := strOf(text)
	if s.filter != nil {
		v = r.filterText(s.filter, v, f)
	}
	r.checkSpaces(s.target, f)
	r.assign(s.target, v, f)
	if s.export {
		r.export(s.target, f)
	}
	return next
}

// filterText runs a chain of filters whose innermost has no expression of its own on v.
func (r *run) filterText(e expr, v value, f *frame) value {
	fe := e.(*filterExpr)
	if fe.e != nil {
		v = r.filterText(fe.e, v, f)
	}
	return fe.apply(r, f, v)
}

// checkSpaces refuses an assignment to an attribute of what is no namespace.
func (r *run) checkSpaces(target expr, f *frame) {
	switch t := target.(type) {
	case *nsTarget:
		if v := f.up(t.name.up).slots[t.name.slot]; v.k != kSpace {
			refuse("cannot assign an attribute of '%s', which is no namespace", t.name.name)
		}
	case *seqExpr:
		for _, e := range t.items {
			r.checkSpaces(e, f)
		}
	}
}

func (r *run) assign(target expr, v value, f *frame) {
	switch t := target.(type) {
	case *nameExpr:
		if v.k == kMissing {
			v.k = kUndef
		}
		f.up(t.up).slots[t.slot] = v
	case *nsTarget:
		f.up(t.name.up).slots[t.name.slot].o.(*space).d.set(strOf(t.attr), v)
	case *seqExpr:
		es := r.list(v)
		if len(es) != len(t.items) {
			refuse("ValueError: %d values to unpack into %d", len(es), len(t.items))
		}
		for i, e := range t.items {
			r.assign(e, es[i], f)
		}
	}
}

func (s *ifStmt) exec(r *run, f *frame) control {
	r.line = s.line
	r.charge(1)
	holds := truth(s.test.eval(r, f))
	if r.cover != nil {
		r.cover.mark(s, holds)
	}
	if holds {
		return r.exec(s.body, f)
	}
	return r.exec(s.orElse, f)
}

func (s *withStmt) exec(r *run, f *frame) control {
	r.enter(s.scope, f)
	for i, t := range s.targets {
		r.assign(t, s.vals[i].eval(r, f), f)
	}
	return r.exec(s.body, f)
}

func (s *scopeStmt) exec(r *run, f *frame) control {
	r.enter(s.scope, f)
	return r.exec(s.body, f)
}

func (s *filterStmt) exec(r *run, f *frame) control {
	r.line = s.line
	r.enter(s.scope, f)
	c := next
	text := r.capture(func() { c = r.exec(s.body, f) })
	if c == next {
		r.writeText(r.filterText(s.filter, strOf(text), f))
	}
	return c
}

func (s *macroStmt) exec(r *run, f *frame) control {
	r.assign(s.target, value{k: kMacro, o: &macro{s.def, f}}, f)
	if s.export {
		r.export(s.target, f)
	}
	return next
}

func (s *callStmt) exec(r *run, f *frame) control {
	r.line = s.line
	caller := value{k: kMacro, o: &macro{s.def, f}}
	r.writeText(s.call.invoke(r, f, &caller))
	return next
}

// writeText prints the result of a filter or call block, which Python does not turn into a string first.
func (r *run) writeText(v value) {
	if v.k != kStr {
		refuse("TypeError: expected str instance, %s found", typeName(v))
	}
	r.write(v.s)
}

func (s *generationStmt) exec(r *run, f *frame) control {
	r.line = s.line
	r.write((&macro{s.def, f}).call(r, args{}))
	return next
}

func (s *blockStmt) exec(r *run, f *frame) control {
	r.line = s.line
	in := &frame{slots: make([]value, s.fn.slots)}
	r.enter(s.fn.scope, in)
	r.exec(s.body, in)
	return next
}

func (s *loopControl) exec(r *run, f *frame) control {
	r.charge(1)
	return s.c
}

func (s *refuseStmt) exec(r *run, f *frame) control {
	r.line = s.line
	refuse("%s", s.msg)
	return next
}
