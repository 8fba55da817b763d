package template

func (e *constExpr) eval(r *run, f *frame) value { return e.v }

func (e *nameExpr) eval(r *run, f *frame) value {
	v := f.up(e.up).slots[e.slot]
	if v.k == kMissing {
		return value{k: kUndef, s: e.name, o: noName}
	}
	return v
}

func (e *nsTarget) eval(r *run, f *frame) value { return e.name.eval(r, f) }

func (e *seqExpr) eval(r *run, f *frame) value {
	r.cells(1 + len(e.items))
	es := make([]value, len(e.items))
	for i, x := range e.items {
		es[i] = x.eval(r, f)
	}
	if e.tuple {
		return tupleOf(es...)
	}
	return listOf(es...)
}

func (e *dictExpr) eval(r *run, f *frame) value {
	r.charge(1 + len(e.keys))
	d := &dict{}
	for i := range e.keys {
		k := e.keys[i].eval(r, f)
		d.set(k, e.vals[i].eval(r, f))
	}
	return value{k: kDict, o: d}
}

func (e *condExpr) eval(r *run, f *frame) value {
	if truth(e.test.eval(r, f)) {
		return e.yes.eval(r, f)
	}
	if e.no == nil {
		return undefined("an inline if without else did not hold")
	}
	return e.no.eval(r, f)
}

func (e *logicExpr) eval(r *run, f *frame) value {
	v := e.a.eval(r, f)
	if truth(v) == e.and {
		return e.b.eval(r, f)
	}
	return v
}

func (e *notExpr) eval(r *run, f *frame) value { return boolOf(!truth(e.e.eval(r, f))) }

func (e *cmpExpr) eval(r *run, f *frame) value {
	left := e.first.eval(r, f)
	for _, o := range e.ops {
		right := o.e.eval(r, f)
		ok := false
		switch o.op {
		case "==":
			ok = equal(left, right)
		case "!=":
			ok = !equal(left, right)
		case "in":
			ok = r.contains(right, left)
		case "not in":
			ok = !r.contains(right, left)
		default:
			ok = order(o.op, left, right)
		}
		if !ok {
			return boolOf(false)
		}
		left = right
	}
	return true_
}

func (e *addExpr) eval(r *run, f *frame) value {
	base := len(r.stack)
	for _, t := range e.terms {
		v := t.eval(r, f)
		r.stack = append(r.stack, v)
	}
	v := r.sum(r.stack[base:])
	r.stack = r.stack[:base]
	return v
}

// sum adds left to right; a run of plain strings is joined at once.
func (r *run) sum(vs []value) value {
	n := 0
	for i := range vs {
		if vs[i].k != kStr || vs[i].safe {
			acc := vs[0]
			for _, v := range vs[1:] {
				acc = r.binary("+", acc, v)
			}
			return acc
		}
		n += len(vs[i].s)
	}
	r.grow(n)
	b := make([]byte, 0, n)
	for i := range vs {
		b = append(b, vs[i].s...)
	}
	return strOf(string(b))
}

func (e *binExpr) eval(r *run, f *frame) value {
	a := e.a.eval(r, f)
	return r.binary(e.op, a, e.b.eval(r, f))
}

func (e *concatExpr) eval(r *run, f *frame) value {
	base := len(r.stack)
	for _, p := range e.parts {
		v := p.eval(r, f)
		if v.k != kStr {
			v = strOf(r.str(v))
		}
		v.safe = false
		r.stack = append(r.stack, v)
	}
	v := r.sum(r.stack[base:])
	r.stack = r.stack[:base]
	return v
}

func (e *signExpr) eval(r *run, f *frame) value {
	v := e.e.eval(r, f)
	if e.minus {
		return negate(v)
	}
	if v.k <= kUndef {
		refuseUndefined(v)
	}
	if !v.isNumber() {
		refuse("TypeError: bad operand type for unary +: '%s'", typeName(v))
	}
	if v.k == kBool {
		v.k = kInt
	}
	return v
}

func (e *attrExpr) eval(r *run, f *frame) value {
	v := e.e.eval(r, f)
	if v.k == kDict && e.plain {
		if x, ok := v.dict().getStr(e.name); ok {
			return x
		}
		return noAttribute(v, e.name)
	}
	return r.getattr(v, e.name)
}

func (e *itemExpr) eval(r *run, f *frame) value {
	v := e.e.eval(r, f)
	return r.getitem(v, e.key.eval(r, f))
}

func (e *sliceExpr) eval(r *run, f *frame) value {
	v := e.e.eval(r, f)
	bound := func(x expr) (int64, bool) {
		if x == nil {
			return 0, false
		}
		b := x.eval(r, f)
		switch {
		case b.k == kNone:
			return 0, false
		case b.k == kInt || b.k == kBool:
			return b.n, true
		case b.k == kBig && b.big().Sign() > 0:
			return 1 << 62, true
		case b.k == kBig:
			return -1 << 62, true
		}
		refuse("TypeError: slice indices must be integers or None")
		return 0, false
	}
	lo, hasLo := bound(e.lo)
	hi, hasHi := bound(e.hi)
	step, hasStep := bound(e.step)
	if !hasStep {
		step = 1
	}
	if step == 0 {
		refuse("ValueError: slice step cannot be zero")
	}
	return r.slice(v, lo, hi, step, hasLo, hasHi)
}

func (e *filterExpr) eval(r *run, f *frame) value { return e.apply(r, f, e.e.eval(r, f)) }

func (e *filterExpr) apply(r *run, f *frame, v value) value {
	if e.fn == nil {
		refuse("no filter named '%s'", e.name)
	}
	r.charge(1)
	base := len(r.stack)
	out := e.fn(r, v, e.args.eval(r, f))
	r.stack = r.stack[:base]
	return out
}

func (e *testExpr) eval(r *run, f *frame) value {
	if e.fn == nil {
		refuse("no test named '%s'", e.name)
	}
	v := e.e.eval(r, f)
	base := len(r.stack)
	ok := e.fn(r, v, e.args.eval(r, f))
	r.stack = r.stack[:base]
	return boolOf(ok)
}
