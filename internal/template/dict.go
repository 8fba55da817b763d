package template

import (
	"math"
	"math/big"
	"strconv"

	"github.com/tito-rl/tito/internal/ojson"
)

type entry struct{ key, val value }

// dict keeps insertion order. A parsed object's entries are made when first asked for.
type dict struct {
	list  []entry
	index map[hashKey]int // from 9 entries on
	src   ojson.Value
}

// hashKey is equal for keys that Python takes for the same: 1, 1.0 and True.
type hashKey struct {
	t byte
	n int64
	s string
	o any // of what is only equal to itself
}

const linearMax = 8

func (d *dict) entries() []entry {
	if d.list == nil {
		d.load()
	}
	return d.list
}

func (d *dict) load() {
	if d.src.Len() > 0 {
		ms := d.src.Members()
		d.list = make([]entry, 0, len(ms))
		dup := d.src.HasDuplicates()
		for _, m := range ms {
			if dup {
				d.set(strOf(m.Key), fromJSON(m.Value))
			} else {
				d.list = append(d.list, entry{strOf(m.Key), fromJSON(m.Value)})
			}
		}
	}
}

func (d *dict) len() int { return len(d.entries()) }

func (d *dict) getStr(key string) (value, bool) {
	es := d.entries()
	if len(es) <= linearMax {
		for i := range es {
			if es[i].key.s == key && es[i].key.k == kStr {
				return es[i].val, true
			}
		}
		return value{}, false
	}
	return d.lookup(hashKey{t: 's', s: key})
}

// get looks key up; a key that cannot be hashed is refused.
func (d *dict) get(key value) (value, bool) {
	if key.k == kStr {
		return d.getStr(key.s)
	}
	return d.lookup(hash(key, 0))
}

func (d *dict) lookup(h hashKey) (value, bool) {
	if i := d.find(h); i >= 0 {
		return d.list[i].val, true
	}
	return value{}, false
}

func (d *dict) find(h hashKey) int {
	es := d.entries()
	if len(es) <= linearMax {
		for i := range es {
			if hash(es[i].key, 0) == h {
				return i
			}
		}
		return -1
	}
	if d.index == nil {
		d.index = make(map[hashKey]int, len(es))
		for i := range es {
			d.index[hash(es[i].key, 0)] = i
		}
	}
	if i, ok := d.index[h]; ok {
		return i
	}
	return -1
}

// set is for a dict under construction, and for namespaces.
func (d *dict) set(key, val value) {
	h := hash(key, 0)
	if i := d.find(h); i >= 0 {
		d.list[i].val = val
		return
	}
	d.list = append(d.list, entry{key, val})
	if d.index != nil {
		d.index[h] = len(d.list) - 1
	}
}

func hash(v value, depth int) hashKey {
	switch v.k {
	case kStr:
		return hashKey{t: 's', s: v.s}
	case kNone:
		return hashKey{t: '0'}
	case kUndef:
		return hashKey{t: 'u'}
	case kBool, kInt:
		return hashKey{t: 'i', n: v.n}
	case kBig:
		return hashKey{t: 'b', s: v.o.(*big.Int).String()}
	case kFloat:
		f := v.float()
		if f == math.Trunc(f) && !math.IsInf(f, 0) {
			n, _ := big.NewFloat(f).Int(nil)
			return hash(bigOf(n), depth)
		}
		return hashKey{t: 'f', n: v.n}
	case kTuple:
		deeper(depth)
		var b []byte
		for _, e := range v.seq() {
			h := hash(e, depth+1)
			if h.o != nil {
				refuse("a tuple that holds a %s as a key", typeName(e))
			}
			b = append(b, h.t)
			b = strconv.AppendInt(b, h.n, 10)
			b = append(strconv.AppendQuote(b, h.s), ',')
		}
		return hashKey{t: 't', s: string(b)}
	case kList, kDict, kView:
		refuse("TypeError: unhashable type: '%s'", typeName(v))
	}
	if v.k == kRange {
		g := *v.o.(*rangeObj)
		return hashKey{t: 'r', o: g}
	}
	return hashKey{t: 'o', o: v.o}
}

func dictOf(es ...entry) value {
	d := &dict{}
	for _, e := range es {
		d.set(e.key, e.val)
	}
	return value{k: kDict, o: d}
}
