// Package template evaluates a model's own Jinja chat template exactly as Python's Jinja2 does under the settings of
// Hugging Face's apply_chat_template (trim_blocks, lstrip_blocks, loop controls, the generation tag, tojson without HTML
// escapes, raise_exception, strftime_now, an immutable sandbox).
//
// It is pure: the clock is an input, and rendering is a function of its arguments. What Python refuses, it refuses. A
// template that would run or grow without end is refused too; Python has no such limit.
package template

import (
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
)

// Template is a compiled template. It is immutable and safe for concurrent use.
type Template struct {
	body  []stmt
	fn    *funcInfo
	names []string // of the variables that it reads from outside
	block bool     // it has named blocks
	limit int      // on the steps of a rendering
	cover *Coverage
}

// Compile parses src. Errors are [fault.BadTemplate] and name the line.
func Compile(src string) (t *Template, err error) {
	defer func() {
		if p := recover(); p != nil {
			switch p := p.(type) {
			case *fault.Error:
				t, err = nil, p
			case *refusal:
				t, err = nil, fault.New(fault.BadTemplate, "chat template: %s", p.msg)
			default:
				panic(p)
			}
		}
	}()
	p := &parser{toks: lex(src)}
	body := p.body()
	r := &resolver{vars: map[string]int{}, export: len(p.blocks) > 0}
	fn := &funcInfo{}
	fn.scope = newScope(nil, fn)
	r.root = fn.scope
	fn.scope.analyse(body)
	r.seal(fn.scope)
	r.body(fn.scope, body, false)
	return &Template{body: body, fn: fn, names: r.names, block: r.export, limit: maxWork}, nil
}

// Render gives the template's text for vars, of which the last with a name wins. Lone surrogates in the input come out
// as WTF-8 bytes ([ojson.HasLoneSurrogate]). Errors are [fault.TemplateRefused]: the template raised one, or does what
// Python refuses.
func (t *Template) Render(vars []ojson.Member, clock Clock) (text string, err error) {
	r := &run{lib: &lib, clock: clock, out: new(strings.Builder), block: t.block, limit: t.limit, cover: t.cover}
	defer func() {
		if p := recover(); p != nil {
			no, ok := p.(*refusal)
			if !ok {
				panic(p)
			}
			text, err = "", r.failure(no)
		}
	}()
	size := 256
	r.ctx = make([]value, len(t.names))
	for i, name := range t.names {
		r.ctx[i] = lib.globals[name]
		for _, m := range vars {
			if m.Key == name {
				r.ctx[i] = fromJSON(m.Value)
				size += m.Value.Size()
			}
		}
	}
	r.out.Grow(min(size+size/8, maxString))
	f := &frame{slots: make([]value, t.fn.slots)}
	r.enter(t.fn.scope, f)
	r.exec(t.body, f)
	return r.out.String(), nil
}

func (r *run) failure(no *refusal) error {
	if no.raised {
		return fault.New(fault.TemplateRefused, "the chat template refuses this conversation: %s", no.msg)
	}
	return fault.New(fault.TemplateRefused, "the chat template fails at line %s: %s", strconv.Itoa(r.line), no.msg)
}

// refusal is why rendering stopped.
type refusal struct {
	msg    string
	raised bool // by the template itself
}

// frame holds the variables of one call of a function; parent is the frame that the function was made in.
type frame struct {
	slots  []value
	parent *frame
}

func (f *frame) up(n int) *frame {
	for ; n > 0; n-- {
		f = f.parent
	}
	return f
}

// run is one rendering.
type run struct {
	lib     *library
	ctx     []value // the template's variables, by index
	exports map[string]value
	block   bool
	out     *strings.Builder
	stack   []value // arguments of calls under way
	scratch []byte
	clock   Clock
	line    int
	work    int
	limit   int
	bytes   int
	calls   int
	nest    int
	cover   *Coverage // nil = nobody asks
}

// Limits on one rendering. A real conversation stays far below them.
const (
	maxWork  = 1 << 26 // steps: statements, loop turns, elements walked
	maxBytes = 4 << 30 // bytes of all strings and lists made, whether still in use or not
	maxElems = 1 << 22 // elements of one list
	maxNest  = 400     // generators that draw on each other
	maxCalls = 190     // macros within macros; Python's stack holds about as many
)

func (r *run) charge(steps int) {
	if r.work += steps; r.work > r.limit {
		refuse("it runs too long: more than %d steps", r.limit)
	}
}

// grow accounts for a new string.
func (r *run) grow(n int) {
	if r.bytes += n; n > maxString || r.bytes > maxBytes {
		refuse("MemoryError: it makes strings of more than %d bytes", maxBytes)
	}
}

// cells accounts for a new list of n elements.
func (r *run) cells(n int) {
	r.charge(n)
	if r.bytes += n * 48; n > maxElems || r.bytes > maxBytes {
		refuse("MemoryError: it makes lists of more than %d elements", maxElems)
	}
}

func (r *run) write(s string) {
	if r.out.Len()+len(s) > maxString {
		refuse("MemoryError: a text of more than %d bytes", maxString)
	}
	r.out.WriteString(s)
}

// capture is what body writes.
func (r *run) capture(body func()) string {
	outer := r.out
	r.out = new(strings.Builder)
	body()
	s := r.out.String()
	r.out = outer
	r.grow(len(s))
	return s
}

// enter gives the slots of scope s their first values.
func (r *run) enter(s *scope, f *frame) {
	for i := range s.inits {
		in := &s.inits[i]
		switch in.kind {
		case loadVar:
			f.slots[in.slot] = r.variable(in.outer, s, in.slot)
		case loadOuter:
			f.slots[in.slot] = f.up(in.up).slots[in.outer]
		default:
			f.slots[in.slot] = value{}
		}
	}
}

func (r *run) variable(i int, s *scope, slot int) value {
	if r.block && r.exports != nil {
		for name, at := range s.slots {
			if at == slot {
				if v, ok := r.exports[name]; ok {
					return v
				}
			}
		}
	}
	return r.ctx[i]
}

func (r *run) export(target expr, f *frame) {
	if r.exports == nil {
		r.exports = map[string]value{}
	}
	walk(target, func(e expr) {
		if n, ok := e.(*nameExpr); ok {
			r.exports[n.name] = f.up(n.up).slots[n.slot]
		}
	})
}
