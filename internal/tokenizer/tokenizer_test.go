package tokenizer

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

const goldens = "tokenizer/bundle.json"

// golden is one case of vectors/tokenizer, recorded from the reference.
type golden struct {
	Text string     `json:"text"`
	IDs  []token.ID `json:"ids"`
}

func TestRecordedIdsAreReproduced(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "vectors", goldens))
	if err != nil {
		t.Fatal(err)
	}
	var cases []golden
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 300 {
		t.Fatalf("only %d cases", len(cases))
	}
	tok := bundle(t)
	for _, c := range cases {
		if diff := cmp.Diff(c.IDs, tok.Encode(c.Text)); len(c.IDs) > 0 && diff != "" {
			t.Errorf("%.200q: -want +got\n%s", c.Text, diff)
		}
	}
}

// checkTwin compares with the definition.
func checkTwin(t *testing.T, tok *Tokenizer, data []byte) {
	t.Helper()
	slow := newTwin(t, data, tok.byteLevel)
	r := rand.New(rand.NewPCG(7, 7))
	texts := slices.Concat(traps, longRuns(31))
	for range 60 {
		texts = append(texts, randomText(r, 12))
	}
	for _, text := range texts {
		if len(text) > 100 {
			continue
		}
		var want []token.ID
		for _, p := range tok.Pieces(text) {
			want = append(want, slow.merge(p)...)
		}
		if got := tok.EncodeBody(text); !slices.Equal(got, want) {
			t.Fatalf("%q\n got %v\nwant %v", text, got, want)
		}
	}
}

// twin is BPE as its definition has it: maps, and one merge at a time.
type twin struct {
	vocab     map[string]token.ID
	ranks     map[[2]string]int
	ignore    bool
	byteLevel bool
	fallback  bool
	unk       string
	fuse      bool
}

func newTwin(t *testing.T, data []byte, byteLevel bool) twin {
	t.Helper()
	var file struct {
		Model struct {
			Vocab    map[string]token.ID
			Merges   []any
			Ignore   bool   `json:"ignore_merges"`
			Fallback bool   `json:"byte_fallback"`
			Unk      string `json:"unk_token"`
			Fuse     bool   `json:"fuse_unk"`
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	m := file.Model
	bytesOf := func(s string) string {
		if !byteLevel {
			return s
		}
		b, ok := appendUnspelled(nil, []byte(s))
		if !ok {
			t.Fatalf("%q is not in the byte-level alphabet", s)
		}
		return string(b)
	}
	tw := twin{map[string]token.ID{}, map[[2]string]int{}, m.Ignore, byteLevel, m.Fallback, m.Unk, m.Fuse}
	for s, id := range m.Vocab {
		tw.vocab[bytesOf(s)] = id
	}
	for i, m := range m.Merges {
		var a, b string
		if s, ok := m.(string); ok {
			a, b, _ = strings.Cut(s, " ")
		} else {
			a, b = m.([]any)[0].(string), m.([]any)[1].(string)
		}
		tw.ranks[[2]string{bytesOf(a), bytesOf(b)}] = i
	}
	return tw
}

// parts are the units of a piece. What is unknown waits for a known code point, and bytes go before it.
func (tw twin) parts(piece string) []string {
	var parts []string
	if tw.byteLevel {
		for i := range len(piece) {
			parts = append(parts, piece[i:i+1])
		}
		return parts
	}
	waits := 0
	flush := func() {
		for range waits {
			parts = append(parts, tw.unk)
		}
		waits = 0
	}
	for _, r := range piece {
		s := string(r)
		var bytes []string
		for i := range len(s) {
			b := "<0x" + strings.ToUpper(hex(int(s[i]))) + ">"
			if _, ok := tw.vocab[b]; ok && tw.fallback {
				bytes = append(bytes, b)
			}
		}
		if _, ok := tw.vocab[s]; ok {
			flush()
			parts = append(parts, s)
		} else if len(bytes) == len(s) {
			parts = append(parts, bytes...)
		} else if tw.unk != "" && !(tw.fuse && waits > 0) {
			waits++
		}
	}
	flush()
	return parts
}

func (tw twin) merge(piece string) []token.ID {
	if id, ok := tw.vocab[piece]; ok && tw.ignore {
		return []token.ID{id}
	}
	parts := tw.parts(piece)
	for {
		best, at := -1, -1
		for i := range len(parts) - 1 {
			if rank, ok := tw.ranks[[2]string{parts[i], parts[i+1]}]; ok && (best < 0 || rank < best) {
				best, at = rank, i
			}
		}
		if at < 0 {
			break
		}
		parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
	}
	var ids []token.ID
	for _, p := range parts {
		ids = append(ids, tw.vocab[p])
	}
	return ids
}

func TestDecodingGivesTheNormalFormBack(t *testing.T) {
	tok := bundle(t)
	r := rand.New(rand.NewPCG(8, 8))
	texts := slices.Concat(traps, longRuns(1000))
	for range 300 {
		texts = append(texts, randomText(r, 20), randomBytes(r, 60))
	}
	for _, text := range texts {
		if got, want := string(tok.Decode(tok.Encode(text))), nfcAround(tok, text); got != want {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
		if got, want := string(tok.Decode(tok.EncodeBody(text))), nfc(text); got != want {
			t.Fatalf("body of %q: got %q, want %q", text, got, want)
		}
	}
}

// nfcAround normalises text between added tokens, which are matched first.
func nfcAround(tok *Tokenizer, text string) string {
	var b strings.Builder
	done := 0
	for f, ok := tok.raw.find(text, 0, 0, nil); ok; f, ok = tok.raw.find(text, f.next, done, nil) {
		content, _ := tok.Bytes(f.id)
		b.WriteString(nfc(text[done:f.start]))
		b.Write(content)
		done = f.stop
	}
	b.WriteString(nfc(text[done:]))
	return b.String()
}

func TestBytesThatAreNotUTF8KeepTheirValue(t *testing.T) {
	tok := bundle(t)
	for _, text := range []string{"\xff", "a\xc3", "\xe6\x97", "x\xf0\x9f\x91 y", "\xed\xa0\x80", "\xc3\x28<|im_end|>\x80"} {
		if got := string(tok.Decode(tok.Encode(text))); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

func TestOtherFormsAreGosWhereBothKnowTheCodePoint(t *testing.T) {
	for name, c := range map[string]struct {
		f    form
		goes norm.Form
	}{"NFD": {form{}, norm.NFD}, "NFKD": {form{compat: true}, norm.NFKD}, "NFKC": {form{compat: true, compose: true}, norm.NFKC}} {
		for r := rune(0x80); r < 0x30000; r += 13 {
			if inRanges(nfcSkip[:], r) || inRanges(compatSkip[:], r) || !utf8.ValidRune(r) {
				continue
			}
			text := "a" + string(r) + "\u0323\u0301" + string(r)
			if got, want := c.f.normal(text), c.goes.String(text); got != want {
				t.Fatalf("%s of %+q: got %+q, want %+q", name, text, got, want)
			}
		}
		if got := c.f.normal("x\xff\u0301"); got != "x\xff\u0301" {
			t.Errorf("%s of a broken byte: %+q", name, got)
		}
	}
}

func TestAMarkKeepsASpellingText(t *testing.T) {
	tok := bundle(t)
	end := lookup(t, tok, "<|im_end|>")
	const mark = '\uE000'
	marked := "a<\uE000|im_end|>b<|im_end|>"
	got := tok.EncodeMarked(marked, mark)
	want := append(tok.EncodeBody("a<|im_end|>b"), end)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := string(tok.Decode(got)); got != "a<|im_end|>b<|im_end|>" {
		t.Errorf("decodes to %q", got)
	}
	// Without a mark it is Encode; with a mark beside a token, too.
	for _, text := range traps {
		if !slices.Equal(tok.EncodeMarked(text, '\U000F1234'), tok.Encode(text)) {
			t.Errorf("%q: differs without marks", text)
		}
	}
	if got, want := tok.EncodeMarked("x\uE000<|im_end|>\uE000y", mark), tok.Encode("x<|im_end|>y"); !slices.Equal(got, want) {
		t.Errorf("a mark at the edge of a token: got %v, want %v", got, want)
	}
}

func TestAMarkLeavesTheShorterToken(t *testing.T) {
	tok := load(t, variant(t, func(file, _ map[string]any) { addToken(file, "<x"); addToken(file, "<xyz>") }))
	got := tok.EncodeMarked("<xy\uE000z>", '\uE000')
	want := append([]token.ID{lookup(t, tok, "<x")}, tok.EncodeBody("yz>")...)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAMarkHoldsInNormalizedTokens(t *testing.T) {
	tok := load(t, variant(t, func(file, _ map[string]any) { addToken(file, "<é>", "normalized") }))
	id := lookup(t, tok, "<é>")
	if got := tok.Encode("e\u0301<e\u0301>"); got[len(got)-1] != id {
		t.Fatalf("the token is not found: %v", got)
	}
	got := tok.EncodeMarked("e\u0301<\uE000e\u0301><e\u0301>", '\uE000')
	want := append(tok.EncodeBody("é<é>"), id)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTokensAreFoundByTheirText(t *testing.T) {
	tok := bundle(t)
	if tok.VocabSize() != 4096 {
		t.Errorf("vocabulary of %d", tok.VocabSize())
	}
	added := tok.Added()
	if len(added) != 9 {
		t.Fatalf("%d added tokens", len(added))
	}
	for i, a := range added {
		if i > 0 && added[i-1].ID >= a.ID {
			t.Error("added tokens are out of order")
		}
		if got := lookup(t, tok, a.Content); got != a.ID {
			t.Errorf("%s: %d, want %d", a.Content, got, a.ID)
		}
		if b, ok := tok.Bytes(a.ID); !ok || string(b) != a.Content {
			t.Errorf("%s: bytes %q", a.Content, b)
		}
		if a.Normalized || a.Special != strings.HasPrefix(a.Content, "<|") {
			t.Errorf("%s: flags %+v", a.Content, a)
		}
	}
	if got := lookup(t, tok, "Ġthe"); string(must(tok.Bytes(got))) != " the" {
		t.Errorf("Ġthe is id %d", got)
	}
	for _, absent := range []string{"", " the", "\uE000", "no such token"} {
		if id, ok := tok.Lookup(absent); ok {
			t.Errorf("%q is id %d", absent, id)
		}
	}
	if _, ok := tok.Bytes(token.ID(tok.VocabSize())); ok {
		t.Error("an id outside the vocabulary has bytes")
	}
}

func must(b []byte, ok bool) []byte {
	if !ok {
		return nil
	}
	return b
}

func TestALongRunOfOneCharacterIsNotQuadratic(t *testing.T) {
	tok := bundle(t)
	for _, unit := range []string{"a", "\u0301"} {
		text := strings.Repeat(unit, 1<<18/len(unit))
		if got := tok.Decode(tok.Encode(text)); string(got) != text {
			t.Errorf("%q: decodes to something else", unit)
		}
	}
}

func TestStreamedTextIsPythons(t *testing.T) {
	tok := bundle(t)
	// The right column is what bytes.decode("utf-8", "replace") gives.
	for in, want := range map[string]string{
		"abc":                              "abc",
		"\xff":                             "\ufffd",
		"\xc0\xaf":                         "\ufffd\ufffd",
		"\xe6\x97":                         "\ufffd",
		"\xe6\x97\xa5":                     "日",
		"\xe6a":                            "\ufffda",
		"\xf0\x9f\x91":                     "\ufffd",
		"\xf0\x9f\x91\x8d":                 "👍",
		"\xf0\x80\x80\x41":                 "\ufffd\ufffd\ufffdA",
		"\xed\xa0\x80":                     "\ufffd\ufffd\ufffd",
		"\xf4\x90\x80\x80":                 "\ufffd\ufffd\ufffd\ufffd",
		"\xf5\x80":                         "\ufffd\ufffd",
		"\x61\xf1\x80\x80\xe1\x80\xc2\x62": "a\ufffd\ufffd\ufffdb",
		"\xc2\xc2\xa9\xc2":                 "\ufffd©\ufffd",
	} {
		d := tok.NewDecoder()
		if got := d.Add(tok.EncodeBody(in)...) + d.Done(); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func checkSplits(t *testing.T, tok *Tokenizer, ids []token.ID, cut func() bool) {
	t.Helper()
	whole := tok.NewDecoder()
	want := whole.Add(ids...) + whole.Done()
	if !utf8.ValidString(want) {
		t.Fatalf("%v: not UTF-8: %q", ids, want)
	}
	d := tok.NewDecoder()
	var got string
	for len(ids) > 0 {
		n := 1
		for n < len(ids) && !cut() {
			n++
		}
		got += d.Add(ids[:n]...)
		ids = ids[n:]
	}
	if got += d.Done(); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestStreamedTextDoesNotDependOnTheCuts(t *testing.T) {
	tok := bundle(t)
	r := rand.New(rand.NewPCG(9, 9))
	for range 2000 {
		ids := make([]token.ID, r.IntN(30))
		for i := range ids {
			ids[i] = token.ID(r.IntN(260))
			if r.IntN(4) == 0 {
				ids[i] = token.ID(r.IntN(tok.VocabSize() + 5))
			}
		}
		checkSplits(t, tok, ids, func() bool { return r.IntN(2) == 0 })
	}
}

func TestTheNormalFormIsTheDefinition(t *testing.T) {
	if norm.Version != "15.0.0" {
		t.Errorf("x/text has Unicode %s; nfcSkip is the difference between the reference and 15.0.0", norm.Version)
	}
	r := rand.New(rand.NewPCG(10, 10))
	texts := slices.Clone(traps)
	step := rune(5000 / often(5000)) // marks stand together: each block is met
	for c := rune(0xC0); c < 0x20000; c += step {
		if utf8.ValidRune(c) {
			texts = append(texts, string(c)+"\u0301", "a"+string(c))
		}
	}
	for range often(5000) {
		texts = append(texts, randomText(r, 12))
	}
	for _, text := range texts {
		for at := 0; at < len(text); {
			end, skip := nextSkip(text, at)
			piece := text[at:end]
			if got, want := nfc(piece), string(appendComposed(nil, piece)); got != want {
				t.Fatalf("%+q: got %+q, want %+q", piece, got, want)
			}
			at = end + skip
		}
	}
	// Combining marks in a long run get no joiner, and skipped code points hold marks apart.
	for in, want := range map[string]string{
		"e" + strings.Repeat("\u0301", 40): "é" + strings.Repeat("\u0301", 39),
		"a\u0898\u0301":                    "a\u0898\u0301",
		"\u0323\u08d3\u0301\u0323":         "\u0323\u08d3\u0323\u0301",
		"a\u0301\u0323":                    "\u1ea1\u0301",
		"\U00011935\U00011930":             "\U00011935\U00011930",
	} {
		if got := nfc(in); got != want {
			t.Errorf("%+q: got %+q, want %+q", in, got, want)
		}
	}
}

func TestScannersCutAsTheirPatterns(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	texts := slices.Clone(traps)
	for range often(500) {
		texts = append(texts, randomText(r, 15))
	}
	scanners := map[scanner][]string{
		cl100k{1}: {patternQwen}, cl100k{3}: {patternCL}, scannerOf(patternO200): {patternO200}, scannerOf(patternTekken): {patternTekken}, gpt2{}: {patternGPT2}, deepSeek{}: patternsDeepSeek[:],
	}
	for scan, patterns := range scanners {
		var byRegex Tokenizer
		for _, p := range patterns {
			re, err := compileRegex(p)
			if err != nil {
				t.Fatal(err)
			}
			byRegex.splits = append(byRegex.splits, delimiter{finder: re, behavior: "Isolated"})
		}
		for _, text := range texts {
			var got []string
			scanned{scan}.split(text, true, func(p string) { got = append(got, p) })
			if want := byRegex.Pieces(text); !slices.Equal(got, want) {
				t.Fatalf("%T\n%q\n got %q\nwant %q", scan, text, got, want)
			}
		}
	}
}

func TestBrokenFilesAreRefused(t *testing.T) {
	type edit = func(file, model map[string]any)
	first := func(file map[string]any) map[string]any { return file["added_tokens"].([]any)[0].(map[string]any) }
	for name, c := range map[string]struct {
		code fault.Code
		edit edit
	}{
		"NoVocab":            {fault.BadTokenizer, func(_, m map[string]any) { delete(m, "vocab") }},
		"NoMerges":           {fault.BadTokenizer, func(_, m map[string]any) { delete(m, "merges") }},
		"VocabIsAList":       {fault.BadTokenizer, func(_, m map[string]any) { m["vocab"] = []any{} }},
		"AnIdIsAString":      {fault.BadTokenizer, func(_, m map[string]any) { m["vocab"].(map[string]any)["a"] = "1" }},
		"AnIdIsNegative":     {fault.BadTokenizer, func(_, m map[string]any) { m["vocab"].(map[string]any)["zzzzq"] = -4 }},
		"AnIdIsAFraction":    {fault.BadTokenizer, func(_, m map[string]any) { m["vocab"].(map[string]any)["zzzzq"] = 4.5 }},
		"AnIdIsHuge":         {fault.BadTokenizer, func(_, m map[string]any) { m["vocab"].(map[string]any)["zzzzq"] = 1 << 30 }},
		"AnIdComesTwice":     {fault.BadTokenizer, func(_, m map[string]any) { m["vocab"].(map[string]any)["zzzzq"] = 7 }},
		"AMergeOfNoToken":    {fault.BadTokenizer, func(_, m map[string]any) { m["merges"].([]any)[5] = []any{"zzzzq", "a"} }},
		"AMergeToNoToken":    {fault.BadTokenizer, func(_, m map[string]any) { m["merges"].([]any)[5] = []any{"ÿ", "ÿ"} }},
		"AMergeOfThree":      {fault.BadTokenizer, func(_, m map[string]any) { m["merges"].([]any)[5] = []any{"a", "b", "c"} }},
		"AMergeWithoutSpace": {fault.BadTokenizer, func(_, m map[string]any) { m["merges"].([]any)[5] = "ab" }},
		"AMergeIsANumber":    {fault.BadTokenizer, func(_, m map[string]any) { m["merges"].([]any)[5] = 3 }},
		"AddedIsAnObject":    {fault.BadTokenizer, func(f, _ map[string]any) { f["added_tokens"] = map[string]any{} }},
		"AddedWithoutId":     {fault.BadTokenizer, func(f, _ map[string]any) { delete(first(f), "id") }},
		"AddedWithoutText":   {fault.BadTokenizer, func(f, _ map[string]any) { first(f)["content"] = "" }},
		"AddedHasAHole":      {fault.BadTokenizer, func(f, _ map[string]any) { first(f)["id"] = 9000 }},
		"AddedAgainstVocab":  {fault.BadTokenizer, func(f, _ map[string]any) { first(f)["content"] = "a" }},
		"AddedTwice":         {fault.BadTokenizer, func(f, _ map[string]any) { first(f)["content"] = "<|im_end|>" }},

		"Unigram":         {fault.UnsupportedTokenizer, func(_, m map[string]any) { m["type"] = "Unigram" }},
		"Dropout":         {fault.UnsupportedTokenizer, func(_, m map[string]any) { m["dropout"] = 0.1 }},
		"SubwordPrefix":   {fault.UnsupportedTokenizer, func(_, m map[string]any) { m["continuing_subword_prefix"] = "##" }},
		"AByteIsMissing":  {fault.UnsupportedTokenizer, func(_, m map[string]any) { delete(m["vocab"].(map[string]any), "Ń"); m["merges"] = []any{} }},
		"ByteFallback":    {fault.UnsupportedTokenizer, func(_, m map[string]any) { m["byte_fallback"] = true }},
		"Truncation":      {fault.UnsupportedTokenizer, func(f, _ map[string]any) { f["truncation"] = map[string]any{"max_length": 4} }},
		"Padding":         {fault.UnsupportedTokenizer, func(f, _ map[string]any) { f["padding"] = map[string]any{} }},
		"UnknownClass":    {fault.UnsupportedTokenizer, func(f, _ map[string]any) { step(f, 0)["pattern"] = map[string]any{"Regex": `\p{Han}+`} }},
		"WordClass":       {fault.UnsupportedTokenizer, func(f, _ map[string]any) { step(f, 0)["pattern"] = map[string]any{"Regex": `\w+`} }},
		"BrokenPattern":   {fault.UnsupportedTokenizer, func(f, _ map[string]any) { step(f, 0)["pattern"] = map[string]any{"Regex": `(a`} }},
		"WordPieceDecode": {fault.UnsupportedTokenizer, func(f, _ map[string]any) { f["decoder"] = map[string]any{"type": "WordPiece"} }},
		"PostProcessor":   {fault.UnsupportedTokenizer, func(f, _ map[string]any) { f["post_processor"] = map[string]any{"type": "Other"} }},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(variant(t, c.edit))
			if got := fault.CodeOf(err); got != c.code {
				t.Errorf("got %q (%v), want %q", got, err, c.code)
			}
		})
	}
}

func TestWhatIsNoTokenizerIsRefused(t *testing.T) {
	whole := string(bundleJSON(t))
	for name, data := range map[string]string{
		"Empty": "", "Null": "null", "Number": "12", "List": "[]", "NoModel": "{}", "ModelIsNull": `{"model":null}`,
		"Config": `{"architectures":["A"],"vocab_size":1}`, "Truncated": whole[:len(whole)/2], "Trailing": whole + "x",
		"KeyTwice": `{"version":"1.0","version":"1.0"}`, "Deep": strings.Repeat(`{"a":`, 100), "BadEscape": `{"a":"\q"}`,
		"LoneSurrogate": `{"a":"\ud800"}`, "Control": "{\"a\":\"\n\"}", "NotUTF8": "{\"a\":\"\xff\"}", "BadNumber": `{"a":+1}`,
		"Binary": "\x00\x01\x02",
	} {
		if _, err := Load([]byte(data)); fault.CodeOf(err) != fault.BadTokenizer {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClassesAreGosWhereGoKnowsTheCodePoint(t *testing.T) {
	classes := map[uint8][]*unicode.RangeTable{
		upper: {unicode.Lu, unicode.Lt}, lower: {unicode.Ll}, letter: {unicode.Lm, unicode.Lo}, mark: {unicode.M},
		number: {unicode.N}, space: {unicode.White_Space}, punct: {unicode.P}, symbol: {unicode.S},
	}
	word := []*unicode.RangeTable{unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control}
	later := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		known := false
		if r >= 0x32400 && (r < 0xE0000 || r >= 0xE0200) {
			if classOf(r) != 0 {
				t.Fatalf("U+%04X has a class; see ranges", r)
			}
			continue
		}
		for class, tables := range classes {
			if unicode.In(r, tables...) {
				known = true
				if classOf(r) != class {
					t.Fatalf("U+%04X has class %d, want %d", r, classOf(r), class)
				}
			}
		}
		if unicode.In(r, word...) && !isWord(r) {
			t.Fatalf("U+%04X is no word character", r)
		}
		if !known && classOf(r) != 0 {
			later++
		}
	}
	// Unicode 16 has 5,812 more letters, marks, numbers, punctuation and symbols than 15.
	if unicode.Version == "15.0.0" && later != 5812 {
		t.Errorf("%d code points that Go does not know", later)
	}
}

func TestOneTokenizerServesManyGoroutines(t *testing.T) {
	tok := bundle(t)
	want := tok.Encode(strings.Join(traps, " "))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				if got := tok.Encode(strings.Join(traps, " ")); !slices.Equal(got, want) {
					t.Error("differs")
				}
			}
		})
	}
	wg.Wait()
}

func FuzzEncode(f *testing.F) {
	tok := bundle(f)
	for _, s := range traps {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := string(tok.Decode(tok.Encode(text))), nfcAround(tok, text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got, want := string(tok.Decode(tok.EncodeBody(text))), nfc(text); got != want {
			t.Errorf("body of %q: got %q, want %q", text, got, want)
		}
		tok.EncodeMarked(text, '|')
	})
}

func FuzzDecoder(f *testing.F) {
	tok := bundle(f)
	f.Add([]byte("a\xe6\x97\xa5\xf0\x9f"), uint64(5))
	f.Fuzz(func(t *testing.T, b []byte, cuts uint64) {
		checkSplits(t, tok, tok.EncodeBody(string(b)), func() bool { cuts = cuts>>1 | cuts<<63; return cuts&1 == 1 })
	})
}

func FuzzLoad(f *testing.F) {
	small := `{"added_tokens":[{"id":256,"content":"<x>","normalized":true}],"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},"decoder":null,"model":{"type":"BPE","vocab":{` +
		vocabOfBytes() + `},"merges":["a b",["b","c"]]}}`
	f.Add([]byte(small), "a<x>b")
	f.Add([]byte(strings.Replace(small, `"a b",["b","c"]`, "", 1)), "é")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tok, err := Load(data)
		if err != nil {
			if c := fault.CodeOf(err); c != fault.BadTokenizer && c != fault.UnsupportedTokenizer {
				t.Errorf("code %q", c)
			}
			return
		}
		tok.Decode(tok.Encode(text))
	})
}

func vocabOfBytes() string {
	entries := make([]string, 256)
	for r, b := range unspell {
		if b != 0 {
			key, _ := json.Marshal(string(rune(r)))
			id, _ := json.Marshal(b - 1)
			entries[b-1] = string(key) + ":" + string(id)
		}
	}
	return strings.Join(entries, ",")
}

func BenchmarkEncode(b *testing.B) {
	tok := bundle(b)
	data, err := os.ReadFile("tokenizer.go")
	if err != nil {
		b.Fatal(err)
	}
	text := string(data)
	b.SetBytes(int64(len(text)))
	var ids []token.ID
	for b.Loop() {
		ids = tok.AppendEncode(ids[:0], text)
	}
}
