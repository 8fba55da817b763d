package template

// body resolves the statements of scope s. soft is whether an if encloses them: there, Jinja2 lets an unknown filter or
// test pass until it is reached.
func (r *resolver) body(s *scope, body []stmt, soft bool) {
	for _, st := range body {
		r.stmt(s, st, soft)
	}
}

func (r *resolver) stmt(s *scope, st stmt, soft bool) {
	switch st := st.(type) {
	case *outStmt:
		r.expr(s, st.e, soft)
	case *setStmt:
		r.expr(s, st.e, soft)
		r.expr(s, st.target, soft)
		st.export = r.export && s == r.root
	case *setBlock:
		r.setBlock(s, st)
	case *forStmt:
		r.forLoop(s, st, soft)
	case *ifStmt:
		r.expr(s, st.test, true)
		r.body(s, st.body, true)
		r.body(s, st.orElse, true)
	case *withStmt:
		for _, v := range st.vals {
			r.expr(s, v, soft)
		}
		st.scope = newScope(s, s.fn)
		for _, t := range st.targets {
			st.scope.params(t)
		}
		st.scope.analyse(st.body)
		r.seal(st.scope)
		for _, t := range st.targets {
			r.expr(st.scope, t, false)
		}
		r.body(st.scope, st.body, false)
	case *macroStmt:
		r.expr(s, st.target, soft)
		st.export = r.export && s == r.root
		r.macro(s, st.def)
	case *callStmt:
		r.macro(s, st.def)
		r.expr(s, st.call, soft)
	case *generationStmt:
		r.macro(s, st.def)
	case *filterStmt:
		st.scope = newScope(s, s.fn)
		st.scope.analyse(st.body)
		st.scope.loads(st.filter)
		r.seal(st.scope)
		r.body(st.scope, st.body, false)
		r.expr(st.scope, st.filter, false)
	case *scopeStmt:
		st.scope = newScope(s, s.fn)
		st.scope.analyse(st.body)
		r.seal(st.scope)
		r.body(st.scope, st.body, false)
	case *blockStmt:
		st.fn = &funcInfo{}
		st.fn.scope = newScope(nil, st.fn)
		st.fn.scope.analyse(st.body)
		r.seal(st.fn.scope)
		r.body(st.fn.scope, st.body, false)
	case *refuseStmt:
		r.expr(s, st.e, soft)
	}
}

func (r *resolver) setBlock(s *scope, st *setBlock) {
	st.scope = newScope(s, s.fn)
	st.scope.analyse(st.body)
	st.scope.loads(st.filter)
	r.seal(st.scope)
	r.body(st.scope, st.body, false)
	r.expr(st.scope, st.filter, false)
	r.expr(s, st.target, false)
	st.export = r.export && s == r.root
}

func (r *resolver) forLoop(s *scope, st *forStmt, soft bool) {
	fn := s.fn
	if st.recursive {
		fn = &funcInfo{}
		st.fn = fn
	}
	r.expr(s, st.iter, soft)
	noLoopTarget(st.target, st.line)
	noLoopTargets(st.body)
	noLoopTargets(st.orElse)
	st.scope = newScope(s, fn)
	if st.recursive || mentions(st.body, "loop") {
		st.loopSlot = st.scope.param("loop")
	}
	st.scope.params(st.target)
	st.scope.analyse(st.body)
	r.seal(st.scope)
	r.expr(st.scope, st.target, false)
	if st.test != nil {
		st.testScope = newScope(s, fn)
		st.testScope.params(st.testTarget)
		st.testScope.loads(st.test)
		r.seal(st.testScope)
		r.expr(st.testScope, st.testTarget, false)
		r.expr(st.testScope, st.test, false)
	}
	r.body(st.scope, st.body, false)
	st.elseScope = newScope(s, fn)
	st.elseScope.analyse(st.orElse)
	r.seal(st.elseScope)
	r.body(st.elseScope, st.orElse, false)
}

// noLoopTarget refuses an assignment to loop, which Jinja2 reserves within for.
func noLoopTarget(target expr, line int) {
	walk(target, func(e expr) {
		if n, ok := e.(*nameExpr); ok && n.name == "loop" {
			panic(badTemplate(line, "nothing can be assigned to 'loop' within a loop"))
		}
	})
}

func noLoopTargets(body []stmt) {
	eachStmt(body, func(st stmt) {
		switch st := st.(type) {
		case *setStmt:
			noLoopTarget(st.target, st.line)
		case *setBlock:
			noLoopTarget(st.target, st.line)
		}
	})
}

func (r *resolver) macro(s *scope, d *macroDef) {
	d.fn = &funcInfo{}
	in := newScope(s, d.fn)
	d.fn.scope = in
	d.caller, d.kwargs, d.vargs = -1, -1, -1
	has := map[string]int{}
	for i, p := range d.params {
		in.param(p.name)
		has[p.name] = i + 1
	}
	if at := has["caller"]; at > 0 {
		d.explicitCaller = true
		if mentions(d.body, "caller") && at <= len(d.params)-len(d.defaults) {
			panic(badTemplate(d.line, "the parameter 'caller' needs a default"))
		}
	} else if mentions(d.body, "caller") {
		d.caller = in.param("caller")
	}
	if has["kwargs"] == 0 && mentions(d.body, "kwargs") {
		d.kwargs = in.param("kwargs")
	}
	if has["varargs"] == 0 && mentions(d.body, "varargs") {
		d.vargs = in.param("varargs")
	}
	for _, e := range d.defaults {
		in.loads(e)
	}
	in.analyse(d.body)
	r.seal(in)
	for _, p := range d.params {
		r.expr(in, p, false)
	}
	for _, e := range d.defaults {
		r.expr(in, e, false)
	}
	r.body(in, d.body, false)
}

// expr fills in the slots of names, and the functions of filters and tests.
func (r *resolver) expr(s *scope, e expr, soft bool) {
	walk(e, func(e expr) {
		switch e := e.(type) {
		case *nameExpr:
			r.name(s, e)
		case *nsTarget:
			r.name(s, e.name)
		case *filterExpr:
			e.fn = lib.filters[e.name]
		case *testExpr:
			e.fn = lib.tests[e.name]
		}
	})
	if !soft {
		r.known(e)
	}
}

func (r *resolver) name(s *scope, n *nameExpr) {
	at := s.find(n.name)
	if at == nil {
		panic(badTemplate(n.line, "the name '%s' cannot be resolved", n.name))
	}
	n.up, n.slot = s.level-at.level, at.slots[n.name]
}

// known refuses unknown filters and tests. In a conditional expression they pass until they are reached.
func (r *resolver) known(e expr) {
	switch e := e.(type) {
	case nil, *condExpr:
		return
	case *filterExpr:
		if e.fn == nil {
			panic(badTemplate(e.line, "no filter named '%s'", e.name))
		}
	case *testExpr:
		if e.fn == nil {
			panic(badTemplate(e.line, "no test named '%s'", e.name))
		}
	}
	children(e, r.known)
}
