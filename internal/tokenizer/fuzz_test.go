package tokenizer

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/fault"
)

// refusedRightly checks the code of an error, and uses what was loaded.
func refusedRightly(t *testing.T, tok *Tokenizer, err error, text string) {
	t.Helper()
	if err != nil {
		if c := fault.CodeOf(err); c != fault.BadTokenizer && c != fault.UnsupportedTokenizer {
			t.Errorf("code %q", c)
		}
		return
	}
	tok.Decode(tok.Encode(text))
	tok.EncodeMarked(text, '|')
}

func FuzzLoadPlain(f *testing.F) {
	const file = `{"added_tokens":[{"id":5,"content":"<x>","normalized":true,"lstrip":true}],"normalizer":NORM,"pre_tokenizer":PRE,"decoder":DEC,` +
		`"model":{"type":"BPE","unk_token":"<unk>","byte_fallback":true,"fuse_unk":true,"vocab":{"<unk>":0,"a":1,"▁":2,"▁a":3,"<0x62>":4},"merges":["▁ a"]}}`
	for _, c := range [][3]string{
		{`{"type":"Replace","pattern":{"String":" "},"content":"▁"}`, `null`, `{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}`},
		{`{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},{"type":"Prepend","prepend":"▁"}]}`, `{"type":"Split","pattern":{"Regex":"a+"},"behavior":"MergedWithNext","invert":true}`, `{"type":"Replace","pattern":{"Regex":"▁+"},"content":" "}`},
		{`null`, `{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}`, `{"type":"Metaspace","replacement":"▁"}`},
		{`{"type":"Strip","strip_left":true,"strip_right":true}`, `{"type":"Sequence","pretokenizers":[{"type":"Whitespace"},{"type":"Punctuation"},{"type":"Digits","individual_digits":true}]}`, `{"type":"Fuse"}`},
	} {
		f.Add([]byte(strings.NewReplacer("NORM", c[0], "PRE", c[1], "DEC", c[2]).Replace(file)), " a<x>  b é\u0301 A1!")
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tok, err := Load(data)
		refusedRightly(t, tok, err, text)
	})
}

// smallRanks are the bytes and two tokens more.
func smallRanks() []byte {
	var b strings.Builder
	for i := range 256 {
		fmt.Fprintf(&b, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(i)}), i)
	}
	b.WriteString("YWI= 256\nYWJj 257\n")
	return []byte(b.String())
}

func FuzzLoadRanks(f *testing.F) {
	f.Add(smallRanks(), "abc 日本<|reserved_token_260|>", uint8(0xF3))
	f.Add([]byte("YQ== 0\nYg== 1\nYWI= 2\n"), "ab", uint8(0))
	patterns := []string{patternKimi, patternQwen, `\s+|\S+`, patternTekken}
	f.Fuzz(func(t *testing.T, data []byte, text string, flags uint8) {
		o := RankOptions{Pattern: patterns[flags>>2&3], NFC: flags&1 > 0, Slices: flags&2 > 0, Reserve: int(flags >> 4)}
		tok, err := LoadRanks(data, o)
		refusedRightly(t, tok, err, text)
	})
}

func FuzzLoadTekken(f *testing.F) {
	f.Add(tekkenOf(smallRanks(), "v3", nil), "abc</s>")
	f.Add([]byte(`{"vocab":[{"rank":0,"token_bytes":"YQ==","token_str":"a"}],"config":{"default_vocab_size":2,"default_num_special_tokens":1,"pattern":"a","version":"v11"},"special_tokens":[{"rank":0,"token_str":"<s>"}]}`), "a")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tok, err := LoadTekken(data)
		refusedRightly(t, tok, err, text)
	})
}

func FuzzLoadCompiled(f *testing.F) {
	whole := load(f, variant(f, variants["Gemma"])).Compiled("k")
	f.Add(0, byte(0), "a b")
	f.Add(len(compiledMagic)+20, byte(255), "é")
	head := len(compiledMagic) + 4
	f.Fuzz(func(t *testing.T, at int, x byte, text string) {
		b := append([]byte(nil), whole...)
		if at >= head && at < len(b) {
			b[at] ^= x
			sign(b)
		}
		tok, err := LoadCompiled(b, "k")
		refusedRightly(t, tok, err, text)
	})
}
