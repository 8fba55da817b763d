package template

// library is what templates can call. It is a table that never changes; a run carries it because some of its functions
// look others up by name.
type library struct {
	filters map[string]filterFunc
	tests   map[string]testFunc
	globals map[string]value
	str     map[string]method
}

var lib = library{filters: makeFilters(), tests: makeTests(), globals: makeGlobals(), str: makeStrMethods()}

func makeGlobals() map[string]value {
	out := map[string]value{}
	for name, m := range map[string]method{
		"range": rangeFunc, "dict": dictFunc, "namespace": namespaceFunc, "cycler": cyclerFunc, "joiner": joinerFunc,
		"lipsum": lipsumFunc, "raise_exception": raiseException, "strftime_now": strftimeNow,
	} {
		out[name] = value{k: kFunc, o: &function{name: name, m: m}}
	}
	return out
}

const maxRange = 100_000 // the sandbox's own limit

func rangeFunc(r *run, _ value, a args) value {
	a.positional("range", 1, 3)
	var n [3]int64
	for i, v := range a.pos {
		n[i] = r.intArg("range", v)
	}
	g := &rangeObj{start: n[0], stop: n[1], step: 1}
	switch len(a.pos) {
	case 1:
		g.start, g.stop = 0, n[0]
	case 3:
		if g.step = n[2]; g.step == 0 {
			refuse("ValueError: range() arg 3 must not be zero")
		}
	}
	if n := g.len(); n > maxRange || n < 0 {
		refuse("OverflowError: range too big: the sandbox blocks ranges of more than %d", maxRange)
	}
	return value{k: kRange, o: g}
}

// dictArgs is Python's dict(…).
func dictArgs(r *run, fn string, a args) *dict {
	if len(a.pos) > 1 {
		refuse("TypeError: %s expected at most 1 argument, got %d", fn, len(a.pos))
	}
	d := &dict{}
	if len(a.pos) == 1 {
		switch v := a.pos[0]; v.k {
		case kDict:
			d.list = append([]entry(nil), v.dict().entries()...)
		default:
			for _, p := range r.list(v) {
				kv := r.list(p)
				if len(kv) != 2 {
					refuse("ValueError: a dictionary update sequence element has length %d; 2 is required", len(kv))
				}
				d.set(kv[0], kv[1])
			}
		}
	}
	for _, k := range a.kw {
		d.set(strOf(k.name), k.v)
	}
	return d
}

func dictFunc(r *run, _ value, a args) value {
	return value{k: kDict, o: dictArgs(r, "dict", a)}
}

func namespaceFunc(r *run, _ value, a args) value {
	return value{k: kSpace, o: &space{*dictArgs(r, "namespace", a)}}
}

func lipsumFunc(r *run, _ value, a args) value {
	refuse("lipsum() is random")
	return value{}
}

func raiseException(r *run, _ value, a args) value {
	p := a.bind("raise_exception", "message")
	msg := need("raise_exception", "message", p[0])
	panic(&refusal{msg: r.str(msg), raised: true})
}

func strftimeNow(r *run, _ value, a args) value {
	p := a.bind("strftime_now", "format")
	return strOf(r.clock.format(strArg("strftime_now", need("strftime_now", "format", p[0]))))
}

// cycler is Jinja's cycler object.
type cycler struct {
	items []value
	pos   int
}

func cyclerFunc(r *run, _ value, a args) value {
	a.noKeywords("cycler")
	if len(a.pos) == 0 {
		refuse("RuntimeError: at least one item has to be provided")
	}
	return value{k: kObject, o: &cycler{items: append([]value(nil), a.pos...)}}
}

func (c *cycler) attr(name string) (value, bool) {
	switch name {
	case "current":
		return c.items[c.pos], true
	case "pos":
		return intOf(c.pos), true
	case "items":
		return tupleOf(c.items...), true
	case "next":
		return value{k: kFunc, o: &function{name: name, m: func(r *run, _ value, a args) value {
			a.positional("next", 0, 0)
			v := c.items[c.pos]
			c.pos = (c.pos + 1) % len(c.items)
			return v
		}}}, true
	case "reset":
		return value{k: kFunc, o: &function{name: name, m: func(r *run, _ value, a args) value {
			a.positional("reset", 0, 0)
			c.pos = 0
			return none
		}}}, true
	}
	return value{}, false
}

func (c *cycler) call(r *run, a args) value {
	refuse("TypeError: 'Cycler' object is not callable")
	return value{}
}

// joiner is Jinja's joiner object: empty the first time, then its separator.
type joiner struct {
	sep  value
	used bool
}

func joinerFunc(r *run, _ value, a args) value {
	p := a.bind("joiner", "sep")
	if p[0].k == kMissing {
		p[0] = strOf(", ")
	}
	return value{k: kObject, o: &joiner{sep: p[0]}}
}

func (j *joiner) attr(name string) (value, bool) {
	switch name {
	case "sep":
		return j.sep, true
	case "used":
		return boolOf(j.used), true
	}
	return value{}, false
}

func (j *joiner) call(r *run, a args) value {
	a.positional("joiner", 0, 0)
	if !j.used {
		j.used = true
		return strOf("")
	}
	return j.sep
}
