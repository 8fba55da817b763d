package template

import "slices"

// maxNesting bounds how deep a template's source may nest.
const maxNesting = 150

type parser struct {
	toks   []tok
	i      int
	depth  int
	blocks []*blockStmt
	inLoop bool // a break here would leave a loop of the same function
}

func (p *parser) cur() tok  { return p.toks[p.i] }
func (p *parser) look() tok { return p.toks[min(p.i+1, len(p.toks)-1)] }

func (p *parser) next() tok {
	t := p.toks[p.i]
	if p.i < len(p.toks)-1 {
		p.i++
	}
	return t
}

func (p *parser) fail(line int, format string, args ...any) {
	panic(badTemplate(line, format, args...))
}

func (p *parser) enter() {
	if p.depth++; p.depth > maxNesting {
		p.fail(p.cur().line, "nested too deep")
	}
}

func (p *parser) leave() { p.depth-- }

func (t tok) isOp(op string) bool     { return t.kind == tokOp && t.text == op }
func (t tok) isName(name string) bool { return t.kind == tokName && t.text == name }

func (t tok) describe() string {
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokVarEnd:
		return "the end of a print statement"
	case tokBlockEnd:
		return "the end of a statement"
	case tokString:
		return "a string"
	case tokNumber:
		return "a number"
	}
	return "'" + t.text + "'"
}

func (p *parser) skipOp(op string) bool {
	if p.cur().isOp(op) {
		p.next()
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.cur().isName(name) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expectOp(op string) {
	if !p.skipOp(op) {
		p.fail(p.cur().line, "expected '%s', got %s", op, p.cur().describe())
	}
}

func (p *parser) expectName(name string) {
	if !p.skipName(name) {
		p.fail(p.cur().line, "expected '%s', got %s", name, p.cur().describe())
	}
}

func (p *parser) expectKind(k tokenKind) tok {
	if p.cur().kind != k {
		p.fail(p.cur().line, "unexpected %s", p.cur().describe())
	}
	return p.next()
}

// body parses statements up to a tag named by one of ends, which becomes the current token. Without ends it parses the
// whole template.
func (p *parser) body(ends ...string) []stmt {
	p.enter()
	defer p.leave()
	var out []stmt
	for {
		t := p.cur()
		switch t.kind {
		case tokEOF:
			if len(ends) > 0 {
				p.fail(t.line, "the template ends where %s is due", ends[0])
			}
			return out
		case tokData:
			p.next()
			out = append(out, &dataStmt{t.text})
		case tokVarBegin:
			p.next()
			out = append(out, &outStmt{p.tuple(true, nil, false), t.line})
			p.expectKind(tokVarEnd)
		case tokBlockBegin:
			p.next()
			if c := p.cur(); c.kind == tokName && slices.Contains(ends, c.text) {
				return out
			}
			out = append(out, p.statement()...)
			p.expectKind(tokBlockEnd)
		default:
			p.fail(t.line, "unexpected %s", t.describe())
		}
	}
}

// block ends the opening tag and parses the body up to one of ends.
func (p *parser) block(ends ...string) []stmt {
	p.skipOp(":")
	p.expectKind(tokBlockEnd)
	return p.body(ends...)
}

func (p *parser) statement() []stmt {
	t := p.cur()
	if t.kind != tokName {
		p.fail(t.line, "a tag's name is due, got %s", t.describe())
	}
	p.next()
	switch t.text {
	case "set":
		return []stmt{p.set(t.line)}
	case "for":
		return []stmt{p.forLoop(t.line)}
	case "if":
		return []stmt{p.ifElse(t.line)}
	case "with":
		return []stmt{p.with()}
	case "macro":
		return []stmt{p.macro(t.line)}
	case "call":
		return []stmt{p.callBlock(t.line)}
	case "filter":
		return []stmt{p.filterBlock(t.line)}
	case "block":
		return []stmt{p.namedBlock(t.line)}
	case "generation":
		body := p.functionBody(func() []stmt { return p.block("endgeneration") })
		p.next()
		return []stmt{&generationStmt{&macroDef{body: body, line: t.line}, t.line}}
	case "break", "continue":
		if !p.inLoop {
			p.fail(t.line, "%s outside of a loop", t.text)
		}
		if t.text == "break" {
			return []stmt{&loopControl{breakLoop, t.line}}
		}
		return []stmt{&loopControl{continueLoop, t.line}}
	case "print":
		return p.print(t.line)
	case "autoescape":
		return []stmt{p.autoescape(t.line)}
	case "include", "import", "from", "extends":
		return []stmt{p.loading(t)}
	}
	p.fail(t.line, "unknown tag '%s'", t.text)
	return nil
}

// functionBody parses a body that is a function of its own: loops outside it cannot be left from inside.
func (p *parser) functionBody(parse func() []stmt) []stmt {
	was := p.inLoop
	p.inLoop = false
	defer func() { p.inLoop = was }()
	return parse()
}

func (p *parser) set(line int) stmt {
	target := p.target(nil, true)
	if p.skipOp("=") {
		return &setStmt{target: target, e: p.tuple(true, nil, false), line: line}
	}
	s := &setBlock{target: target, line: line}
	s.filter = p.filters(nil, false)
	s.body = p.block("endset")
	p.next()
	return s
}

func (p *parser) forLoop(line int) stmt {
	s := &forStmt{line: line, loopSlot: -1}
	from := p.i
	s.target = p.target([]string{"in"}, false)
	after := p.i
	p.expectName("in")
	s.iter = p.tuple(false, []string{"recursive"}, false)
	if p.skipName("if") {
		s.test = p.expression(true)
		rest := p.i
		p.i = from
		s.testTarget = p.target([]string{"in"}, false)
		if p.i != after {
			p.fail(line, "a bad loop target")
		}
		p.i = rest
	}
	s.recursive = p.skipName("recursive")
	was := p.inLoop
	p.inLoop = true
	s.body = p.block("endfor", "else")
	p.inLoop = was && !s.recursive
	if p.next().text == "else" {
		s.orElse = p.block("endfor")
		p.next()
	}
	p.inLoop = was
	return s
}

func (p *parser) ifElse(line int) stmt {
	first := &ifStmt{line: line}
	s := first
	for {
		s.test = p.tuple(false, nil, false)
		s.body = p.block("elif", "else", "endif")
		t := p.next()
		switch t.text {
		case "elif":
			inner := &ifStmt{line: t.line}
			s.orElse = []stmt{inner}
			s = inner
			continue
		case "else":
			s.orElse = p.block("endif")
			p.next()
		}
		return first
	}
}

func (p *parser) with() stmt {
	s := &withStmt{}
	for p.cur().kind != tokBlockEnd {
		if len(s.targets) > 0 {
			p.expectOp(",")
		}
		s.targets = append(s.targets, p.target(nil, false))
		p.expectOp("=")
		s.vals = append(s.vals, p.expression(true))
	}
	s.body = p.block("endwith")
	p.next()
	return s
}

func (p *parser) macro(line int) stmt {
	name := p.plainName()
	def := &macroDef{name: name.name, line: line}
	p.signature(def)
	def.body = p.functionBody(func() []stmt { return p.block("endmacro") })
	p.next()
	return &macroStmt{def: def, target: name}
}

func (p *parser) signature(def *macroDef) {
	p.expectOp("(")
	for !p.cur().isOp(")") {
		if len(def.params) > 0 {
			p.expectOp(",")
		}
		n := p.plainName()
		for _, q := range def.params {
			if q.name == n.name {
				p.fail(n.line, "parameter '%s' twice", n.name)
			}
		}
		def.params = append(def.params, n)
		if p.skipOp("=") {
			def.defaults = append(def.defaults, p.expression(true))
		} else if len(def.defaults) > 0 {
			p.fail(n.line, "a parameter without a default after one with")
		}
	}
	p.next()
}

func (p *parser) callBlock(line int) stmt {
	def := &macroDef{name: "caller", line: line}
	def.name = ""
	if p.cur().isOp("(") {
		p.signature(def)
	}
	call, ok := p.expression(true).(*callExpr)
	if !ok {
		p.fail(line, "a call is due")
	}
	def.body = p.functionBody(func() []stmt { return p.block("endcall") })
	p.next()
	return &callStmt{call, def, line}
}

func (p *parser) filterBlock(line int) stmt {
	s := &filterStmt{filter: p.filters(nil, true), line: line}
	s.body = p.block("endfilter")
	p.next()
	return s
}

func (p *parser) namedBlock(line int) stmt {
	s := &blockStmt{name: p.expectKind(tokName).text, line: line}
	for _, b := range p.blocks {
		if b.name == s.name {
			p.fail(line, "block '%s' twice", s.name)
		}
	}
	p.blocks = append(p.blocks, s)
	if p.cur().isName("scoped") || p.cur().isName("required") {
		p.fail(line, "scoped and required blocks are not supported")
	}
	s.body = p.functionBody(func() []stmt { return p.block("endblock") })
	p.next()
	p.skipName(s.name)
	return s
}

func (p *parser) print(line int) []stmt {
	var out []stmt
	for p.cur().kind != tokBlockEnd {
		if len(out) > 0 {
			p.expectOp(",")
		}
		out = append(out, &outStmt{p.expression(true), line})
	}
	return out
}

func (p *parser) autoescape(line int) stmt {
	e, ok := p.expression(true).(*constExpr)
	if !ok || truth(e.v) {
		p.fail(line, "automatic escaping is not supported")
	}
	s := &scopeStmt{body: p.block("endautoescape")}
	p.next()
	return s
}

// loading parses a tag that needs another template.
func (p *parser) loading(t tok) stmt {
	s := &refuseStmt{msg: "'" + t.text + "' needs another template, and there is none", e: p.expression(true), line: t.line}
	for p.cur().kind != tokBlockEnd && p.cur().kind != tokEOF {
		p.next()
	}
	return s
}
