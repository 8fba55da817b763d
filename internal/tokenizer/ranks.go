package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
)

// RankOptions are what a tiktoken rank file leaves to the code that reads it.
type RankOptions struct {
	Pattern string       // cuts text into pieces
	Special []AddedToken // by id and content
	Reserve int          // so many ids after the ranks are special, as <|reserved_token_ID|> where Special has no name
	NFC     bool         // text is brought into form C
	Slices  bool         // text is cut into slices of 400,000 characters, and where 25,000 of one kind follow each other
}

// KimiRanks are the options of Moonshot's Kimi K2 line, whose special tokens its tokenizer_config.json lists.
func KimiRanks(special []AddedToken) RankOptions {
	return RankOptions{Pattern: patternKimi, Special: special, Reserve: 256, Slices: true}
}

// QwenRanks are the options of the first Qwen models' own qwen.tiktoken.
func QwenRanks() RankOptions {
	const first = 151643
	names := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
	for i := range 205 {
		names = append(names, "<|extra_"+strconv.Itoa(i)+"|>")
	}
	o := RankOptions{Pattern: patternQwen, NFC: true}
	for i, name := range names {
		o.Special = append(o.Special, AddedToken{ID: token.ID(first + i), Content: name, Special: true})
	}
	return o
}

// LoadRanks reads a tiktoken rank file: a line for each token, its bytes in base64, a space, its rank, which is its id.
// Encode is tiktoken's encode(text, allowed_special="all"), EncodeBody its encode_ordinary. Errors are those of [Load].
func LoadRanks(data []byte, o RankOptions) (*Tokenizer, error) {
	var list []ranked
	for n, line := range bytes.Split(data, []byte("\n")) {
		fields := bytes.Fields(line)
		if len(fields) == 0 {
			continue
		}
		bad := func() error { return fault.New(fault.BadTokenizer, "ranks, line %d: not base64 and a rank", n+1) }
		if len(fields) != 2 {
			return nil, bad()
		}
		b, err := base64.StdEncoding.AppendDecode(nil, fields[0])
		rank, err2 := strconv.ParseUint(string(fields[1]), 10, 32)
		if err != nil || err2 != nil {
			return nil, bad()
		}
		list = append(list, ranked{b, uint32(rank)})
	}
	special := slices.Clone(o.Special)
	named := map[token.ID]bool{}
	for _, a := range special {
		named[a.ID] = true
	}
	for i := range o.Reserve {
		if id := token.ID(len(list) + i); !named[id] {
			special = append(special, AddedToken{ID: id, Content: fmt.Sprintf("<|reserved_token_%d|>", id), Special: true})
		}
	}
	t, err := fromRanks(list, 0, o.Pattern, special)
	if err != nil {
		return nil, err
	}
	t.slices = o.Slices
	if o.NFC {
		t.forms = []normalizer{formC{}}
	}
	t.recipe = rankRecipe(o.Pattern, o.NFC, t.added)
	return t, nil
}

// rankRecipe is the tokenizer.json, without its large sections, that reads text as ranks do.
func rankRecipe(pattern string, nfc bool, added []AddedToken) []byte {
	member := func(k string, v ojson.Value) ojson.Member { return ojson.Member{Key: k, Value: v} }
	text, no := ojson.StringOf, ojson.BoolOf(false)
	var list []ojson.Value
	for _, a := range added {
		list = append(list, ojson.ObjectOf(member("id", ojson.IntOf(int64(a.ID))), member("content", text(a.Content)),
			member("special", ojson.BoolOf(a.Special))))
	}
	form := ojson.NullOf()
	if nfc {
		form = ojson.ObjectOf(member("type", text("NFC")))
	}
	split := ojson.ObjectOf(member("type", text("Split")), member("pattern", ojson.ObjectOf(member("Regex", text(pattern)))),
		member("behavior", text("Isolated")))
	last := ojson.ObjectOf(member("type", text("ByteLevel")), member("add_prefix_space", no), member("use_regex", no))
	return ojson.ObjectOf(
		member("added_tokens", ojson.ArrayOf(list...)), member("normalizer", form),
		member("pre_tokenizer", ojson.ObjectOf(member("type", text("Sequence")), member("pretokenizers", ojson.ArrayOf(split, last)))),
		member("model", ojson.ObjectOf(member("ignore_merges", ojson.BoolOf(true)), member("vocab", ojson.ObjectOf()), member("merges", ojson.ArrayOf()))),
	).Raw()
}

// ranked is a token by its bytes. A lower rank merges first.
type ranked struct {
	bytes []byte
	rank  uint32
}

// fromRanks makes a tokenizer whose ids are shift + rank. Two tokens merge to any token that has the bytes of both, the
// one of the lowest rank first; a piece that is a token is that token.
func fromRanks(list []ranked, shift uint32, pattern string, special []AddedToken) (*Tokenizer, error) {
	bad := func(format string, args ...any) error {
		return fault.New(fault.BadTokenizer, "ranks: "+format, args...)
	}
	v := newVocab(len(list), true)
	for _, r := range list {
		off := uint32(len(v.arena))
		v.arena = append(v.arena, r.bytes...)
		id := shift + r.rank
		switch {
		case id > maxID || len(r.bytes) == 0:
			return nil, bad("rank %d is above %d, or has no bytes", r.rank, maxID)
		case !v.place(off, id), !v.index(id):
			return nil, bad("rank %d or its bytes come twice", r.rank)
		}
	}
	m := bpe{vocab: v, ignoreMerges: true}
	if err := m.readUnits(nil, true); err != nil {
		return nil, err
	}
	m.mergeAll(list, shift)
	s, err := splitOf(map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated"})
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{byContent: map[string]token.ID{}, byteLevel: true, model: m, splits: []splitter{s}}
	t.chooseScanner()
	for _, a := range special {
		off := uint32(len(v.arena))
		v.arena = append(v.arena, a.Content...)
		if _, twice := t.byContent[a.Content]; twice || a.Content == "" || !utf8.ValidString(a.Content) || a.ID > maxID ||
			!v.place(off, uint32(a.ID)) {
			return nil, bad("special token %q, id %d, has no text or is there already", a.Content, a.ID)
		}
		t.byContent[a.Content] = a.ID
		t.added = append(t.added, a)
	}
	slices.SortFunc(t.added, func(a, b AddedToken) int { return cmp.Compare(a.ID, b.ID) })
	t.makeMatchers()
	return t, nil
}

// mergeAll enters every pair of tokens that makes a token.
func (m *bpe) mergeAll(list []ranked, shift uint32) {
	var all []merge
	var ranks []uint32
	for _, r := range list {
		s := string(r.bytes)
		for i := 1; i < len(s); i++ {
			a, ok := m.vocab.find(s[:i])
			if !ok {
				continue
			}
			if b, ok := m.vocab.find(s[i:]); ok {
				all = append(all, merge{a, b, shift + r.rank})
				ranks = append(ranks, r.rank)
			}
		}
	}
	m.merges = newPairs(len(all))
	for i, g := range all {
		m.merges.set(g.a, g.b, uint64(ranks[i])<<32|uint64(g.to))
	}
}

const (
	sliceRunes = 400_000
	sliceRun   = 25_000
)

// Sliced is whether text is so long that it is encoded in slices, whose places depend on how the whole text begins. Then
// no added token isolates what follows it.
func (t *Tokenizer) Sliced(text string) bool {
	if !t.slices {
		return false
	}
	n, _ := slice(text, 0)
	return n < len(text)
}

// slice is how much of text the reader of Kimi's ranks encodes on its own: at most sliceRunes characters, and of those
// no more than sliceRun in a row that are all white space or all not. from is the characters of the present stretch of
// sliceRunes that are past; it is given back moved on.
func slice(text string, from int) (n, next int) {
	if len(text) <= sliceRun && from+len(text) <= sliceRunes {
		return len(text), from
	}
	row, blank := 0, false
	for count := 0; n < len(text); count++ {
		if from+count == sliceRunes {
			return n, 0
		}
		r, k := utf8.DecodeRuneInString(text[n:])
		is := classOf(r) == space || r >= 0x1C && r <= 0x1F
		if count > 0 && is == blank {
			if row++; row > sliceRun {
				return n, from + count
			}
		} else {
			row, blank = 1, is
		}
		n += k
	}
	return n, from
}
