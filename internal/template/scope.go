package template

// Names are resolved before rendering. A scope (template, loop body, macro, with, set block, …) gives each name that it
// sets, or is first to read, a slot in the frame of its function. On entry to the scope every slot starts from the
// enclosing scope's value, from the template's variables, or empty: Python's Jinja2 compiles to the same copies, and the
// order in which it meets names decides which, so the walk below keeps that order.
type scope struct {
	parent *scope
	fn     *funcInfo
	level  int // how many functions enclose fn
	slots  map[string]int
	sym    *symbols
	inits  []initSlot
}

type symbols struct {
	refs, stores map[string]bool
	loads        map[string]loadKind
	order        []string
}

type loadKind uint8

const (
	loadParam loadKind = iota
	loadVar            // from the template's variables
	loadOuter          // a copy of the enclosing scope's
	loadEmpty
)

// initSlot is what happens to one slot on entry.
type initSlot struct {
	slot  int
	kind  loadKind
	up    int // of the outer slot
	outer int // its slot, or the index of the variable
}

// resolver walks the tree and fills in slots.
type resolver struct {
	vars   map[string]int
	names  []string
	export bool // the template has blocks, which see its top-level variables
	root   *scope
}

func newScope(parent *scope, fn *funcInfo) *scope {
	s := &scope{parent: parent, fn: fn, slots: map[string]int{}}
	s.sym = &symbols{refs: map[string]bool{}, stores: map[string]bool{}, loads: map[string]loadKind{}}
	if parent != nil {
		s.level = parent.level
		if parent.fn != fn {
			s.level++
		}
	}
	return s
}

func (s *symbols) clone() *symbols {
	c := &symbols{refs: map[string]bool{}, stores: map[string]bool{}, loads: map[string]loadKind{}}
	for k := range s.refs {
		c.refs[k] = true
	}
	for k := range s.stores {
		c.stores[k] = true
	}
	for k, v := range s.loads {
		c.loads[k] = v
	}
	c.order = append(c.order, s.order...)
	return c
}

func (s *scope) define(name string, k loadKind) int {
	slot, ok := s.slots[name]
	if !ok {
		slot = s.fn.slots
		s.fn.slots++
		s.slots[name] = slot
	}
	if !s.sym.refs[name] {
		s.sym.order = append(s.sym.order, name)
	}
	s.sym.refs[name] = true
	s.sym.loads[name] = k
	return slot
}

// find is the scope that holds name.
func (s *scope) find(name string) *scope {
	for ; s != nil; s = s.parent {
		if s.sym.refs[name] {
			return s
		}
	}
	return nil
}

func (s *scope) load(name string) {
	if s.find(name) == nil {
		s.define(name, loadVar)
	}
}

func (s *scope) store(name string) {
	s.sym.stores[name] = true
	if s.sym.refs[name] {
		return
	}
	if s.parent.find(name) != nil {
		s.define(name, loadOuter)
	} else {
		s.define(name, loadEmpty)
	}
}

func (s *scope) param(name string) int {
	s.sym.stores[name] = true
	return s.define(name, loadParam)
}

// branches analyses the arms of an if, which share the scope.
func (s *scope) branches(arms ...func()) {
	before := s.sym
	var after []*symbols
	for _, arm := range arms {
		s.sym = before.clone()
		arm()
		after = append(after, s.sym)
	}
	s.sym = before
	fresh := map[string]bool{}
	for _, a := range after {
		for _, name := range a.order {
			if a.stores[name] && !before.stores[name] {
				fresh[name] = true
			}
		}
	}
	had := before.clone().stores
	for _, a := range after {
		for _, name := range a.order {
			if !before.refs[name] {
				before.refs[name] = true
				before.order = append(before.order, name)
			}
			before.loads[name] = a.loads[name]
		}
		for name := range a.stores {
			before.stores[name] = true
		}
	}
	for _, name := range before.order {
		if !fresh[name] || had[name] {
			continue
		}
		if s.parent.find(name) != nil {
			before.loads[name] = loadOuter
		} else {
			before.loads[name] = loadVar
		}
	}
}

// seal fixes what happens on entry, after the whole scope was analysed.
func (r *resolver) seal(s *scope) {
	for _, name := range s.sym.order {
		in := initSlot{slot: s.slots[name], kind: s.sym.loads[name]}
		switch in.kind {
		case loadParam:
			continue
		case loadVar:
			in.outer = r.variable(name)
		case loadOuter:
			o := s.parent.find(name)
			in.up, in.outer = s.level-o.level, o.slots[name]
		}
		s.inits = append(s.inits, in)
	}
}

func (r *resolver) variable(name string) int {
	i, ok := r.vars[name]
	if !ok {
		i = len(r.names)
		r.vars[name] = i
		r.names = append(r.names, name)
	}
	return i
}

// analyse meets the names of statements that belong to scope s itself.
func (s *scope) analyse(body []stmt) {
	for _, st := range body {
		switch st := st.(type) {
		case *outStmt:
			s.loads(st.e)
		case *setStmt:
			s.loads(st.e)
			s.stores(st.target)
		case *setBlock:
			s.stores(st.target)
		case *forStmt:
			s.loads(st.iter)
		case *ifStmt:
			s.loads(st.test)
			s.branches(func() { s.analyse(st.body) }, func() { s.analyse(st.orElse) })
		case *withStmt:
			for _, v := range st.vals {
				s.loads(v)
			}
		case *macroStmt:
			s.store(st.def.name)
		case *callStmt:
			s.loads(st.call)
		case *filterStmt:
			s.loads(st.filter)
		case *refuseStmt:
			s.loads(st.e)
		}
	}
}

func (s *scope) loads(e expr) {
	walk(e, func(e expr) {
		if n, ok := e.(*nameExpr); ok {
			s.load(n.name)
		}
	})
}

func (s *scope) stores(target expr) {
	walk(target, func(e expr) {
		switch e := e.(type) {
		case *nameExpr:
			s.store(e.name)
		case *nsTarget:
			s.load(e.name.name)
		}
	})
}

func (s *scope) params(target expr) {
	walk(target, func(e expr) {
		if n, ok := e.(*nameExpr); ok {
			s.param(n.name)
		}
	})
}

// walk calls f for e and every expression in it, in the order in which Python's Jinja2 meets names.
func walk(e expr, f func(expr)) {
	if e == nil {
		return
	}
	f(e)
	children(e, func(c expr) { walk(c, f) })
}

// children calls f for the parts of e.
func children(e expr, f func(expr)) {
	each := func(es ...expr) {
		for _, e := range es {
			if e != nil {
				f(e)
			}
		}
	}
	args := func(a *callArgs) {
		each(a.pos...)
		for _, k := range a.kw {
			each(k.e)
		}
		each(a.star, a.dstar)
	}
	switch e := e.(type) {
	case *seqExpr:
		each(e.items...)
	case *dictExpr:
		for i := range e.keys {
			each(e.keys[i], e.vals[i])
		}
	case *condExpr:
		each(e.test, e.yes, e.no)
	case *logicExpr:
		each(e.a, e.b)
	case *notExpr:
		each(e.e)
	case *cmpExpr:
		each(e.first)
		for _, o := range e.ops {
			each(o.e)
		}
	case *addExpr:
		each(e.terms...)
	case *binExpr:
		each(e.a, e.b)
	case *concatExpr:
		each(e.parts...)
	case *signExpr:
		each(e.e)
	case *attrExpr:
		each(e.e)
	case *itemExpr:
		each(e.e, e.key)
	case *sliceExpr:
		each(e.e, e.lo, e.hi, e.step)
	case *callExpr:
		each(e.fn)
		args(&e.args)
	case *filterExpr:
		each(e.e)
		args(&e.args)
	case *testExpr:
		each(e.e)
		args(&e.args)
	}
}

// eachStmt calls f for the statements of body and of the bodies in them, but for named blocks.
func eachStmt(body []stmt, f func(stmt)) {
	for _, st := range body {
		f(st)
		switch st := st.(type) {
		case *setBlock:
			eachStmt(st.body, f)
		case *forStmt:
			eachStmt(st.body, f)
			eachStmt(st.orElse, f)
		case *ifStmt:
			eachStmt(st.body, f)
			eachStmt(st.orElse, f)
		case *withStmt:
			eachStmt(st.body, f)
		case *macroStmt:
			eachStmt(st.def.body, f)
		case *callStmt:
			eachStmt(st.def.body, f)
		case *generationStmt:
			eachStmt(st.def.body, f)
		case *filterStmt:
			eachStmt(st.body, f)
		case *scopeStmt:
			eachStmt(st.body, f)
		}
	}
}

// mentions is whether body reads name anywhere but in named blocks.
func mentions(body []stmt, name string) bool {
	found := false
	see := func(es ...expr) {
		for _, e := range es {
			walk(e, func(e expr) {
				if n, ok := e.(*nameExpr); ok && n.name == name {
					found = true
				}
			})
		}
	}
	eachStmt(body, func(st stmt) {
		switch st := st.(type) {
		case *outStmt:
			see(st.e)
		case *setStmt:
			see(st.e)
		case *setBlock:
			see(st.filter)
		case *forStmt:
			see(st.iter, st.test)
		case *ifStmt:
			see(st.test)
		case *withStmt:
			see(st.vals...)
		case *macroStmt:
			see(st.def.defaults...)
		case *callStmt:
			see(st.call)
			see(st.def.defaults...)
		case *filterStmt:
			see(st.filter)
		case *refuseStmt:
			see(st.e)
		}
	})
	return found
}
