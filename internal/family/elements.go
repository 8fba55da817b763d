package family

import (
	"bytes"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
)

// Elements is a grammar of calls in which tags of ordinary text name the function and its arguments, with each value as
// bare text between them:
//
//	Head name HeadEnd ( Key key KeyEnd value ValueEnd )* Foot
//
// with white space between the tags. Values have no escapes, so what ends one is decided by position: ValueEnd ends it
// only where another Key or a Foot follows, and Foot only where the block ends (or the next Head follows). A pair of call
// tags inside a value, by token id, is text with all that is in it; a closing one alone is text only if no opening one
// follows it in the block.
type Elements struct {
	Head, HeadEnd string // such as <function= and >
	Key, KeyEnd   string // such as <parameter= and >
	ValueEnd      string // such as </parameter>; its first byte occurs in it once
	Foot          string // such as </function>
	Frame         string // the newline that the template puts on both sides of a value, or ""
	Many          bool   // a block may hold several calls
	Call, Called  string // the tags around the block
}

// Argument is one argument of a call, its value as bare text.
type Argument struct{ Key, Value string }

// Assemble makes an attempt of a call's arguments: JSON typed by what the tool declares, see [Typed].
func Assemble(name string, args []Argument, tools *Tools) (a Attempt, issues []string) {
	a = Attempt{Status: AttemptOK, Name: name, IsCall: true}
	params := tools.Parameters(name)
	out := []byte{'{'}
	seen := map[string]bool{}
	for i, arg := range args {
		if i > 0 {
			out = append(out, ", "...)
		}
		text, ok := Typed(arg.Value, Property(params, arg.Key))
		if !ok {
			issues = append(issues, IssueValueType)
		}
		out = append(append(ojson.AppendString(out, arg.Key), ": "...), text...)
		if seen[arg.Key] {
			a.Status = AttemptDuplicateKey
		}
		seen[arg.Key] = true
	}
	a.Arguments = string(append(out, '}'))
	if !tools.Knows(name) {
		a.Status = AttemptUnknownTool
	}
	return a, issues
}

// Bare is the arguments of a call as bare texts, as a template writes them: strings as they are, anything else as JSON in
// its own spelling, or true, false and null as Python has them. What is no JSON object is fault.BadRequest: this form
// cannot hold it.
func Bare(c chat.Call, pythonText bool) ([]Argument, error) {
	v, ok := ArgumentsObject(c.Arguments)
	if !ok {
		return nil, fault.New(fault.BadRequest, "the arguments of a call to %q are no JSON object: this model's calls cannot hold them", c.Name)
	}
	python := map[ojson.Kind]map[string]string{ojson.Null: {"null": "None"}, ojson.Bool: {"true": "True", "false": "False"}}
	var out []Argument
	for _, m := range v.Members() {
		text := m.Value.Str()
		if m.Value.Kind() != ojson.String {
			text = string(m.Value.Raw())
			if p := python[m.Value.Kind()][text]; p != "" && pythonText {
				text = p
			}
		}
		out = append(out, Argument{m.Key, text})
	}
	return out, nil
}

// Write gives one call, from Head to Foot, as a template writes it.
func (e *Elements) Write(c chat.Call, pythonText bool, body func(string) string) (string, error) {
	args, err := Bare(c, pythonText)
	if err != nil {
		return "", err
	}
	text := func(body func(string) string) string {
		var b strings.Builder
		b.WriteString(e.Head + body(c.Name) + e.HeadEnd + "\n")
		for _, a := range args {
			b.WriteString(e.Key + body(a.Key) + e.KeyEnd + e.Frame + body(a.Value) + e.Frame + e.ValueEnd + "\n")
		}
		b.WriteString(e.Foot)
		return b.String()
	}
	plain := text(func(s string) string { return s })
	x := elements{e: e}
	x.Text(plain)
	if x.Close() != Whole || !x.says(plain, c.Name, args) {
		return "", fault.New(fault.BadRequest, "a call to %q holds text that ends a value in this model's calls", c.Name)
	}
	return text(body), nil
}

// NewBlock starts the reading of a block.
func (e *Elements) NewBlock() Block { return &elements{e: e} }

type elementState uint8

const (
	atHead elementState = iota
	inName
	between // head and first key
	inKey
	inValue
	afterValue
	afterFoot
	noElement
)

// elements reads one block byte by byte. What it took for the end of a value, and was not, is value again.
type elements struct {
	e      *Elements
	st     elementState
	n      int    // bytes read
	lit    []byte // of a tag that has begun
	m      int    // bytes of ValueEnd that match
	depth  int    // of call tags inside a value
	closed bool   // a closing tag stood in a value: an opening one behind it begins another block
	calls  []element
}

// element is one call: where its parts lie in the block.
type element struct {
	name extent
	args []struct{ key, value extent }
}

type extent struct{ from, to int }

func blank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func (x *elements) Text(s string) {
	for i := range len(s) {
		if x.depth == 0 {
			x.byte(s[i], x.n)
		}
		x.n++
	}
}

// Token reads an added token. It is no part of any tag.
func (x *elements) Token(spelled string) {
	switch {
	case spelled == x.e.Called && x.depth > 0:
		x.depth--
	case x.depth > 0 && spelled == x.e.Call:
		x.depth++
	case x.depth > 0:
	case x.revert(x.n):
		x.m = 0
		x.closed = x.closed || spelled == x.e.Called
		if spelled == x.e.Call {
			x.depth = 1
		}
	}
	x.n += len(spelled)
}

func (x *elements) Open() Verdict {
	if x.depth > 0 || !x.closed && (x.st == inValue || x.st == inKey && x.tentative()) {
		return Inside
	}
	return Broken
}

func (x *elements) Close() Verdict {
	switch {
	case x.depth > 0:
		return Inside
	case x.st == afterFoot && len(x.lit) == 0:
		return Whole
	case x.st == inValue, x.st == inKey && x.tentative():
		return Maybe
	}
	return Broken
}

func (x *elements) Dead() bool { return x.st == noElement }

// tentative is whether the text that a tag is being read in may turn out to be the last value's.
func (x *elements) tentative() bool {
	return len(x.calls) > 0 && len(x.calls[len(x.calls)-1].args) > 0
}

// revert says that what was read of a tag up to byte at is value after all; it is false where there is no value.
func (x *elements) revert(at int) bool {
	lit := x.lit
	x.lit = nil
	if x.st == inValue {
		return true
	}
	if x.st == inName || !x.tentative() {
		x.st = noElement
		return false
	}
	x.st, x.m = inValue, 0
	for i, c := range lit {
		x.byte(c, at-len(lit)+i)
	}
	return true
}

// byte reads the byte c at place at.
func (x *elements) byte(c byte, at int) {
	switch x.st {
	case noElement:
	case inValue:
		x.inside(c, at)
	case inName, inKey:
		x.label(c, at)
	default:
		if len(x.lit) == 0 && blank(c) {
			return
		}
		x.lit = append(x.lit, c)
		x.tag(at)
	}
}

func (x *elements) inside(c byte, at int) {
	end := x.e.ValueEnd
	switch c {
	case end[x.m]:
		x.m++
	case end[0]:
		x.m = 1
	default:
		x.m = 0
	}
	if x.m == len(end) {
		call := &x.calls[len(x.calls)-1]
		call.args[len(call.args)-1].value.to = at + 1 - len(end)
		x.st, x.m, x.lit = afterValue, 0, nil
	}
}

// tag reads on in a tag, of which lit has come.
func (x *elements) tag(at int) {
	e := x.e
	is := func(tag string, next elementState) (found, begun bool) {
		if tag == string(x.lit) {
			x.st = next
			return true, true
		}
		return false, strings.HasPrefix(tag, string(x.lit))
	}
	begun := false
	switch x.st {
	case atHead, afterFoot:
		if x.st == atHead || e.Many {
			var found bool
			if found, begun = is(e.Head, inName); found {
				x.calls = append(x.calls, element{name: extent{from: at + 1}})
				x.lit = nil
			}
		}
	default:
		foot, footBegun := is(e.Foot, afterFoot)
		if foot {
			x.lit = nil
			return
		}
		var key bool
		if key, begun = is(e.Key, inKey); key {
			return // lit is kept: it may be text
		}
		begun = begun || footBegun
	}
	if !begun {
		x.revert(at + 1)
	}
}

// label reads a name or a key, up to what ends it.
func (x *elements) label(c byte, at int) {
	x.lit = append(x.lit, c)
	end, skip := x.e.HeadEnd, 0
	if x.st == inKey {
		end, skip = x.e.KeyEnd, len(x.e.Key)
	}
	n := len(x.lit) - len(end) - skip
	switch {
	case n > 0 && bytes.HasSuffix(x.lit, []byte(end)):
		call := &x.calls[len(x.calls)-1]
		to := at + 1 - len(end)
		if x.st == inName {
			call.name.to, x.st = to, between
		} else {
			arg := struct{ key, value extent }{extent{to - n, to}, extent{from: at + 1}}
			call.args = append(call.args, arg)
			x.st, x.m = inValue, 0
		}
		x.lit = nil
	case c == '\n' || c == '<' || n == 0 && bytes.HasSuffix(x.lit, []byte(end)):
		x.revert(at + 1)
	}
}

// value is where a value lies without the newlines that frame it, one on each side.
func (x *elements) value(text string, v extent) extent {
	if f := x.e.Frame; f != "" {
		if strings.HasPrefix(text[v.from:v.to], f) {
			v.from += len(f)
		}
		if strings.HasSuffix(text[v.from:v.to], f) {
			v.to -= len(f)
		}
	}
	return v
}

func (x *elements) arguments(text string, call element) []Argument {
	var out []Argument
	for _, a := range call.args {
		v := x.value(text, a.value)
		out = append(out, Argument{text[a.key.from:a.key.to], text[v.from:v.to]})
	}
	return out
}

func (x *elements) says(text, name string, args []Argument) bool {
	if len(x.calls) != 1 || text[x.calls[0].name.from:x.calls[0].name.to] != name {
		return false
	}
	got := x.arguments(text, x.calls[0])
	if len(got) != len(args) || x.swallowed(ojson.Value{}, got) {
		return false
	}
	for i := range got {
		if got[i] != args[i] {
			return false
		}
	}
	return true
}

func (x *elements) replay(b *Stretch) {
	b.Each(func(s string, special bool) {
		if special {
			x.Token(s)
		} else {
			x.Text(s)
		}
	})
}

// Read reads a whole block. A value in which the next parameter seems to begin, because its end was left out, makes the
// block malformed.
func (x *elements) Read(b *Stretch, tools *Tools) (out []Attempt, issues []string) {
	x.replay(b)
	text := b.String()
	if x.Close() != Whole {
		return []Attempt{{Status: AttemptMalformed, Name: x.Name(b)}}, nil
	}
	for _, call := range x.calls {
		name := text[call.name.from:call.name.to]
		args := x.arguments(text, call)
		if x.swallowed(tools.Parameters(name), args) {
			out = append(out, Attempt{Status: AttemptMalformed, Name: name})
			continue
		}
		a, words := Assemble(name, args, tools)
		out, issues = append(out, a), append(issues, words...)
	}
	return out, issues
}

// swallowed is whether a value seems to hold the next parameter: at the beginning of a line, the tag of one that the tool
// declares; or, behind what would end a value, a parameter's tag that is not whole.
func (x *elements) swallowed(params ojson.Value, args []Argument) bool {
	props, _ := params.Get("properties")
	for _, a := range args {
		for rest := a.Value; ; {
			before, after, found := strings.Cut(rest, x.e.Key)
			if !found {
				break
			}
			if strings.HasSuffix(strings.TrimRight(before, " \t\r\n"), x.e.ValueEnd) {
				return true
			}
			key, _, ended := strings.Cut(after, x.e.KeyEnd)
			if _, declared := props.Get(key); ended && declared && strings.HasSuffix(before, "\n") {
				return true
			}
			rest = after
		}
	}
	return false
}

// Name is the name of the first call in a block.
func (x *elements) Name(b *Stretch) string {
	if x.n == 0 {
		x.replay(b)
	}
	if len(x.calls) == 0 || x.calls[0].name.to == 0 {
		return ""
	}
	return b.String()[x.calls[0].name.from:x.calls[0].name.to]
}

// Said lists each call's name, keys and values.
func (x *elements) Said(b *Stretch, mark rune) (out [][]string) {
	x.replay(b)
	text := b.String()
	for _, call := range x.calls {
		texts := []string{b.Marked(call.name.from, call.name.to, mark)}
		for _, a := range call.args {
			v := x.value(text, a.value)
			texts = append(texts, b.Marked(a.key.from, a.key.to, mark), b.Marked(v.from, v.to, mark))
		}
		out = append(out, texts)
	}
	return out
}
