package tokenizer

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// CompiledVersion names the binary form of this build. Another version's is refused: a change of the form, or of what is
// computed at load, takes another version.
const CompiledVersion = "1"

const compiledMagic = "tito tokenizer " + CompiledVersion + "\n"

// Compiled is the tokenizer in a binary form that [LoadCompiled] reads many times faster than its file. It is for a
// cache: only the build that wrote it need read it. key says what it was made from, mostly a hash.
func (t *Tokenizer) Compiled(key string) []byte {
	v, m := t.model.vocab, &t.model
	w := writer(append([]byte(compiledMagic), 0, 0, 0, 0))
	w.bytes([]byte(key))
	w.bytes(t.recipe)
	w.flag(t.slices)
	w.bytes(v.arena)
	w.u32(uint32(len(v.spans)))
	for _, s := range v.spans {
		w.u32(s.off)
		w.u32(s.n)
	}
	w.u32(uint32(len(v.slots)))
	for _, s := range v.slots {
		w.u32(s.hash)
		w.u32(s.id1)
	}
	w.u32(uint32(len(v.odd)))
	for _, id := range v.odd {
		w.u32(uint32(id))
	}
	w.u32(uint32(len(m.merges.slots)))
	for _, p := range m.merges.slots {
		w.u64(p.key)
		w.u64(p.merge)
	}
	w.u32(uint32(len(m.whole)))
	for _, bits := range m.whole {
		w.u64(bits)
	}
	joins := m.chars != nil && m.chars.joins != nil
	w.flag(joins)
	if joins {
		w.joins(m.chars.joins)
	}
	sign(w)
	return w
}

// sign puts the checksum of a compiled form into it.
func sign(b []byte) {
	head := len(compiledMagic)
	binary.LittleEndian.PutUint32(b[head:], crc32.Checksum(b[head+4:], castagnoli()))
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// LoadCompiled reads what [Tokenizer.Compiled] wrote under the same key. Anything else is fault.BadTokenizer, and so is a
// form that is damaged, or of another version or file. It keeps no part of data.
func LoadCompiled(data []byte, key string) (*Tokenizer, error) {
	damaged := fault.New(fault.BadTokenizer, "the compiled tokenizer is damaged, or of another version or file")
	head := len(compiledMagic)
	if len(data) < head+4 || string(data[:head]) != compiledMagic ||
		binary.LittleEndian.Uint32(data[head:]) != crc32.Checksum(data[head+4:], castagnoli()) {
		return nil, damaged
	}
	r := reader{b: data[head+4:]}
	if string(r.bytes()) != key {
		return nil, damaged
	}
	recipe := append([]byte(nil), r.bytes()...)
	slices := r.u32() == 1
	m := bpe{vocab: r.vocab()}
	if r.bad {
		return nil, damaged
	}
	r.merges(&m)
	if r.u32() == 1 {
		r.joins(&m)
	}
	if r.bad || len(r.b) > 0 {
		return nil, damaged
	}
	t, err := fromRecipe(recipe, &m)
	if err != nil {
		return nil, err
	}
	t.slices = slices
	return t, nil
}

// fromRecipe reads the sections of a file whose tables are known.
func fromRecipe(recipe []byte, tables *bpe) (*Tokenizer, error) {
	f, err := sections(recipe)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{byContent: map[string]token.ID{}, recipe: recipe, model: *tables}
	for _, step := range []func(file) error{t.readNormalizer, t.readPreTokenizer, t.readTables, t.readAdded, t.readDecoder} {
		if err := step(f); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// readTables finishes a model whose tables are there.
func (t *Tokenizer) readTables(f file) error {
	m := &t.model
	m.vocab.byteLevel = t.byteLevel
	m.ignoreMerges = f.model["ignore_merges"] == true
	joins := m.chars
	top := uint32(0)
	for _, s := range m.vocab.slots {
		top = max(top, s.id1)
	}
	if !m.ignoreMerges && int(top) > 64*len(m.whole) {
		return bad("the tables lack what tokens merge whole")
	}
	if err := m.readUnits(f.model, t.byteLevel); err != nil {
		return err
	}
	if joins != nil && m.chars != nil {
		m.chars.joins = joins.joins
	}
	return nil
}

// writer appends numbers as little-endian.
type writer []byte

func (w *writer) u32(x uint32) { *w = binary.LittleEndian.AppendUint32(*w, x) }
func (w *writer) u64(x uint64) { *w = binary.LittleEndian.AppendUint64(*w, x) }

func (w *writer) bytes(b []byte) {
	w.u32(uint32(len(b)))
	*w = append(*w, b...)
}

func (w *writer) flag(on bool) {
	if on {
		w.u32(1)
		return
	}
	w.u32(0)
}

func (w *writer) joins(p *pairsOfRunes) {
	for _, row := range p.common {
		for _, bits := range row {
			w.u64(bits)
		}
	}
	w.u32(uint32(len(p.slots)))
	for _, key := range p.slots {
		w.u64(key)
	}
}

// reader reads what a writer wrote. After the first thing that is not there, bad is set and all reads give zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) bytes() []byte { return r.take(int(r.u32())) }

// rows is a count and then so many rows of size bytes.
func (r *reader) rows(size int) (n int, b []byte) {
	n = int(r.u32())
	if n > len(r.b)/size {
		r.bad = true
		return 0, nil
	}
	return n, r.take(n * size)
}

// table is rows of which there is a power of two.
func (r *reader) table(size int) (n int, b []byte) {
	n, b = r.rows(size)
	if n == 0 || n&(n-1) != 0 {
		r.bad = true
		return 0, nil
	}
	return n, b
}

func (r *reader) vocab() *vocab {
	v := &vocab{odd: map[string]token.ID{}}
	v.arena = append([]byte(nil), r.bytes()...)
	n, b := r.rows(8)
	v.spans = make([]span, n)
	for i := range v.spans {
		row := b[:8]
		b = b[8:]
		s := span{binary.LittleEndian.Uint32(row), binary.LittleEndian.Uint32(row[4:])}
		length := s.n &^ present
		if s.n != 0 && (s.n&present == 0 || uint64(s.off)+uint64(length) > uint64(len(v.arena))) {
			r.bad = true
			return v
		}
		v.spans[i] = s
		v.long = max(v.long, int(length))
	}
	n, b = r.table(8)
	v.slots = make([]slot, n)
	free := 0
	for i := range v.slots {
		row := b[:8]
		b = b[8:]
		s := slot{binary.LittleEndian.Uint32(row), binary.LittleEndian.Uint32(row[4:])}
		if s.id1 == 0 {
			free++
		} else if !v.has(s.id1 - 1) {
			r.bad = true
			return v
		}
		v.slots[i] = s
	}
	n, b = r.rows(4)
	for i := range n {
		id := binary.LittleEndian.Uint32(b[4*i:])
		if !v.has(id) {
			r.bad = true
			return v
		}
		v.odd[string(v.bytes(id))] = token.ID(id)
	}
	r.bad = r.bad || free == 0 // a search ends at a free slot
	return v
}

func (r *reader) merges(m *bpe) {
	n, b := r.table(16)
	m.merges.slots = make([]pair, n)
	free := 0
	for i := range m.merges.slots {
		row := b[:16]
		b = b[16:]
		p := pair{binary.LittleEndian.Uint64(row), binary.LittleEndian.Uint64(row[8:])}
		if p.merge == noMerge {
			free++
		} else if !m.vocab.has(uint32(p.merge)) {
			r.bad = true
			return
		}
		m.merges.slots[i] = p
	}
	n, b = r.rows(8)
	m.whole = make([]uint64, n)
	for i := range m.whole {
		m.whole[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	r.bad = r.bad || free == 0
}

// joins leaves the pairs in m.chars, whose other parts come later.
func (r *reader) joins(m *bpe) {
	p := &pairsOfRunes{}
	for i := range p.common {
		for k := range p.common[i] {
			if b := r.take(8); b != nil {
				p.common[i][k] = binary.LittleEndian.Uint64(b)
			}
		}
	}
	n, b := r.table(8)
	p.slots = make([]uint64, n)
	free := 0
	for i := range p.slots {
		p.slots[i] = binary.LittleEndian.Uint64(b[8*i:])
		if p.slots[i] == 0 {
			free++
		}
	}
	r.bad = r.bad || free == 0
	m.chars = &chars{joins: p}
}
