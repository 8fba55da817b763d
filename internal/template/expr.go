package template

import "slices"

func (p *parser) plainName() *nameExpr {
	t := p.expectKind(tokName)
	p.assignable(t)
	return &nameExpr{name: t.text, line: t.line}
}

func (p *parser) assignable(t tok) {
	switch t.text {
	case "true", "false", "none", "True", "False", "None":
		p.fail(t.line, "cannot assign to '%s'", t.text)
	}
}

// target parses what a set or a loop assigns to.
func (p *parser) target(ends []string, namespaces bool) expr {
	line := p.cur().line
	e := p.tuple(true, ends, true)
	p.checkTarget(e, line, namespaces)
	return e
}

func (p *parser) checkTarget(e expr, line int, namespaces bool) {
	switch e := e.(type) {
	case *nameExpr:
		return
	case *nsTarget:
		if namespaces {
			return
		}
	case *seqExpr:
		if e.tuple {
			for _, i := range e.items {
				p.checkTarget(i, line, namespaces)
			}
			return
		}
	}
	p.fail(line, "cannot assign to this expression")
}

// tuple parses an expression, or several with commas between. simple allows names and literals only, as in targets.
func (p *parser) tuple(cond bool, ends []string, simple bool) expr {
	e, _ := p.tupleOr(cond, ends, simple)
	if e == nil {
		p.fail(p.cur().line, "an expression is due, got %s", p.cur().describe())
	}
	return e
}

func (p *parser) tupleOr(cond bool, ends []string, simple bool) (e expr, isTuple bool) {
	line := p.cur().line
	var items []expr
	for {
		if len(items) > 0 {
			p.expectOp(",")
		}
		if t := p.cur(); t.kind == tokVarEnd || t.kind == tokBlockEnd || t.isOp(")") || t.kind == tokName && slices.Contains(ends, t.text) {
			break
		}
		if simple {
			items = append(items, p.primary(true))
		} else {
			items = append(items, p.expression(cond))
		}
		if !p.cur().isOp(",") {
			break
		}
		isTuple = true
	}
	if !isTuple {
		if len(items) > 0 {
			return items[0], false
		}
		return nil, false
	}
	return &seqExpr{items: items, tuple: true, line: line}, true
}

func (p *parser) expression(cond bool) expr {
	p.enter()
	defer p.leave()
	e := p.or()
	if !cond {
		return e
	}
	for n := 0; p.skipName("if"); n++ {
		p.long(n)
		c := &condExpr{yes: e, test: p.or()}
		if p.skipName("else") {
			c.no = p.expression(true)
		}
		e = c
	}
	return e
}

// long bounds chains that make the tree deep without nesting in the source.
func (p *parser) long(n int) {
	if n > 500 {
		p.fail(p.cur().line, "an expression with too many parts")
	}
}

func (p *parser) or() expr {
	e := p.and()
	for n := 0; p.skipName("or"); n++ {
		p.long(n)
		e = &logicExpr{a: e, b: p.and()}
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for n := 0; p.skipName("and"); n++ {
		p.long(n)
		e = &logicExpr{a: e, b: p.not(), and: true}
	}
	return e
}

func (p *parser) not() expr {
	if !p.cur().isName("not") {
		return p.compare()
	}
	p.enter()
	defer p.leave()
	p.next()
	return &notExpr{p.not()}
}

func (p *parser) compare() expr {
	first := p.sum()
	var ops []cmpOp
	for {
		t := p.cur()
		op := ""
		switch {
		case t.kind == tokOp && (t.text == "==" || t.text == "!=" || t.text == "<" || t.text == "<=" || t.text == ">" || t.text == ">="):
			op = t.text
		case t.isName("in"):
			op = "in"
		case t.isName("not") && p.look().isName("in"):
			op = "not in"
			p.next()
		}
		if op == "" {
			break
		}
		p.next()
		ops = append(ops, cmpOp{op, p.sum()})
	}
	if len(ops) == 0 {
		return first
	}
	return &cmpExpr{first, ops}
}

func (p *parser) sum() expr {
	e := p.tilde()
	for n := 0; ; n++ {
		p.long(n)
		switch {
		case p.skipOp("+"):
			if a, ok := e.(*addExpr); ok && n > 0 {
				a.terms = append(a.terms, p.tilde())
			} else {
				e = &addExpr{[]expr{e, p.tilde()}}
			}
		case p.skipOp("-"):
			e = &binExpr{"-", e, p.tilde()}
		default:
			return e
		}
	}
}

func (p *parser) tilde() expr {
	parts := []expr{p.product()}
	for p.skipOp("~") {
		parts = append(parts, p.product())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return &concatExpr{parts}
}

func (p *parser) product() expr {
	e := p.pow()
	for n := 0; ; n++ {
		p.long(n)
		t := p.cur()
		if t.kind != tokOp || t.text != "*" && t.text != "/" && t.text != "//" && t.text != "%" {
			return e
		}
		p.next()
		e = &binExpr{t.text, e, p.pow()}
	}
}

func (p *parser) pow() expr {
	e := p.unary(true)
	for n := 0; p.skipOp("**"); n++ {
		p.long(n)
		e = &binExpr{"**", e, p.unary(true)}
	}
	return e
}

func (p *parser) unary(filters bool) expr {
	p.enter()
	defer p.leave()
	var e expr
	switch {
	case p.skipOp("-"):
		e = &signExpr{true, p.unary(false)}
	case p.skipOp("+"):
		e = &signExpr{false, p.unary(false)}
	default:
		e = p.primary(false)
	}
	e = p.postfix(e)
	if !filters {
		return e
	}
	for n := 0; ; n++ {
		p.long(n)
		switch {
		case p.cur().isOp("|"):
			e = p.filters(e, false)
		case p.cur().isName("is"):
			e = p.test(e)
		case p.cur().isOp("("):
			e = p.call(e)
		default:
			return e
		}
	}
}

func (p *parser) primary(namespaces bool) expr {
	t := p.next()
	switch t.kind {
	case tokName:
		switch t.text {
		case "true", "True":
			return &constExpr{true_}
		case "false", "False":
			return &constExpr{boolOf(false)}
		case "none", "None":
			return &constExpr{none}
		}
		n := &nameExpr{name: t.text, line: t.line}
		if namespaces && p.skipOp(".") {
			return &nsTarget{n, p.expectKind(tokName).text}
		}
		return n
	case tokString:
		s := t.text
		for p.cur().kind == tokString {
			s += p.next().text
		}
		return &constExpr{strOf(s)}
	case tokNumber:
		return &constExpr{t.num}
	case tokOp:
		switch t.text {
		case "(":
			return p.parenthesis(t)
		case "[":
			return p.listLiteral(t)
		case "{":
			return p.dictLiteral()
		}
	}
	p.fail(t.line, "unexpected %s", t.describe())
	return nil
}

func (p *parser) parenthesis(t tok) expr {
	p.enter()
	defer p.leave()
	e, _ := p.tupleOr(true, nil, false)
	if e == nil {
		e = &seqExpr{tuple: true, line: t.line}
	}
	p.expectOp(")")
	return e
}

func (p *parser) listLiteral(t tok) expr {
	l := &seqExpr{line: t.line}
	for !p.cur().isOp("]") {
		if len(l.items) > 0 {
			p.expectOp(",")
			if p.cur().isOp("]") {
				break
			}
		}
		l.items = append(l.items, p.expression(true))
	}
	p.expectOp("]")
	return l
}

func (p *parser) dictLiteral() expr {
	d := &dictExpr{}
	for !p.cur().isOp("}") {
		if len(d.keys) > 0 {
			p.expectOp(",")
			if p.cur().isOp("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expression(true))
		p.expectOp(":")
		d.vals = append(d.vals, p.expression(true))
	}
	p.expectOp("}")
	return d
}

func (p *parser) postfix(e expr) expr {
	for n := 0; ; n++ {
		p.long(n)
		switch {
		case p.cur().isOp("."):
			e = p.attribute(e)
		case p.cur().isOp("["):
			e = p.subscript(e)
		case p.cur().isOp("("):
			e = p.call(e)
		default:
			return e
		}
	}
}

func (p *parser) attribute(e expr) expr {
	p.next()
	t := p.next()
	switch {
	case t.kind == tokName:
		return &attrExpr{e: e, name: t.text, plain: dictMethods[t.text] == nil && !unsafeNames[kDict][t.text] && !isDunder(t.text)}
	case t.kind == tokNumber && t.num.isInt():
		return &itemExpr{e, &constExpr{t.num}}
	}
	p.fail(t.line, "a name or number is due, got %s", t.describe())
	return nil
}

func (p *parser) subscript(e expr) expr {
	line := p.next().line
	var items []expr
	for !p.cur().isOp("]") {
		if len(items) > 0 {
			p.expectOp(",")
		}
		items = append(items, p.index(e))
	}
	p.expectOp("]")
	if len(items) == 1 {
		if s, ok := items[0].(*sliceExpr); ok {
			return s
		}
		return &itemExpr{e, items[0]}
	}
	for _, i := range items {
		if _, ok := i.(*sliceExpr); ok {
			p.fail(line, "a slice among several indices")
		}
	}
	return &itemExpr{e, &seqExpr{items: items, tuple: true, line: line}}
}

// index parses an index or a slice of e.
func (p *parser) index(e expr) expr {
	s := &sliceExpr{e: e}
	if !p.cur().isOp(":") {
		lo := p.expression(true)
		if !p.cur().isOp(":") {
			return lo
		}
		s.lo = lo
	}
	p.next()
	stop := func() bool { return p.cur().isOp("]") || p.cur().isOp(",") }
	if !p.cur().isOp(":") && !stop() {
		s.hi = p.expression(true)
	}
	if p.skipOp(":") && !stop() {
		s.step = p.expression(true)
	}
	return s
}

func (p *parser) call(fn expr) *callExpr {
	line := p.cur().line
	return &callExpr{fn, p.callArgs(), line}
}

func (p *parser) callArgs() callArgs {
	line := p.cur().line
	p.expectOp("(")
	var a callArgs
	for n := 0; !p.cur().isOp(")"); n++ {
		if n > 0 {
			p.expectOp(",")
			if p.cur().isOp(")") {
				break
			}
		}
		var ok bool
		switch {
		case p.skipOp("*"):
			ok = a.star == nil && a.dstar == nil
			a.star = p.expression(true)
		case p.skipOp("**"):
			ok = a.dstar == nil
			a.dstar = p.expression(true)
		case p.cur().kind == tokName && p.look().isOp("="):
			name := p.next().text
			p.next()
			ok = a.dstar == nil
			for _, k := range a.kw {
				ok = ok && k.name != name
			}
			a.kw = append(a.kw, kwExpr{name, p.expression(true)})
		default:
			ok = a.star == nil && a.dstar == nil && len(a.kw) == 0
			a.pos = append(a.pos, p.expression(true))
		}
		if !ok {
			p.fail(line, "bad order of arguments")
		}
	}
	p.next()
	return a
}

// filters parses |name(…) any number of times; inline starts without the bar, as in a filter block.
func (p *parser) filters(e expr, inline bool) expr {
	for n := 0; inline || p.cur().isOp("|"); n++ {
		p.long(n)
		if !inline {
			p.next()
		}
		inline = false
		t := p.expectKind(tokName)
		f := &filterExpr{e: e, name: p.dotted(t.text), line: t.line}
		if p.cur().isOp("(") {
			f.args = p.callArgs()
		}
		e = f
	}
	return e
}

func (p *parser) dotted(name string) string {
	for p.skipOp(".") {
		name += "." + p.expectKind(tokName).text
	}
	return name
}

func (p *parser) test(e expr) expr {
	line := p.next().line
	negated := p.skipName("not")
	t := &testExpr{e: e, name: p.dotted(p.expectKind(tokName).text), line: line}
	c := p.cur()
	switch {
	case c.isOp("("):
		t.args = p.callArgs()
	case c.kind == tokName && c.text != "else" && c.text != "or" && c.text != "and" || c.kind == tokString || c.kind == tokNumber || c.isOp("[") || c.isOp("{"):
		if c.isName("is") {
			p.fail(c.line, "tests cannot be chained")
		}
		t.args.pos = []expr{p.postfix(p.primary(false))}
	}
	if negated {
		return &notExpr{t}
	}
	return t
}
