package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// kindGoldens holds a few strings for each of variants, with the ids of Hugging Face's tokenizers 0.22.2; rankGoldens
// for each of rankVariants, with those of tiktoken 0.14.0. TestE2ERecorded… write them anew with -rewrite.
const (
	kindGoldens = "testdata/kinds.json"
	rankGoldens = "testdata/ranks.json"
)

func readGoldens(t testing.TB, path string) map[string][]golden {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var kinds map[string][]golden
	if err := json.Unmarshal(data, &kinds); err != nil {
		t.Fatal(err)
	}
	return kinds
}

func checkGoldens(t *testing.T, tok *Tokenizer, cases []golden) {
	t.Helper()
	if len(cases) < 40 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, c := range cases {
		if got := tok.Encode(c.Text); !slices.Equal(got, c.IDs) {
			t.Errorf("%.200q\n got %v\nwant %v", c.Text, got, c.IDs)
		}
		checkSplits(t, tok, c.IDs, func() bool { return true })
		d := tok.NewDecoder()
		if got, want := d.Add(c.IDs...)+d.Done(), string(tok.Decode(c.IDs)); utf8.ValidString(want) && got != want {
			t.Errorf("%v stream as %q, want %q", c.IDs, got, want)
		}
	}
}

func TestEveryKindIsTheReferencesAndItsOwnDefinitionAndItsCompiledForm(t *testing.T) {
	kinds := readGoldens(t, kindGoldens)
	for name, edit := range variants {
		t.Run(name, func(t *testing.T) {
			data := variant(t, edit)
			tok := load(t, data)
			checkGoldens(t, tok, kinds[name])
			checkTwin(t, tok, data)
			checkCompiled(t, tok)
		})
	}
}

// goldenTexts are few, and hold what most kinds differ on.
func goldenTexts(seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 6))
	texts := []string{"", " ", "  a  b ", "▁a ▁", "é\u0301", "a\n\nb", "q ü 日本 👍🏽", "<|im_start|>user\n it's 1234 <|im_end|>", "<n> x<n>", "\t\u00a0x\u3000"}
	for range 30 {
		texts = append(texts, randomText(r, 8))
	}
	return texts
}

// rankVariants are rank files made of the bundle's tokens.
var rankVariants = map[string]RankOptions{
	"Kimi":   KimiRanks([]AddedToken{{ID: 4087, Content: "[BOS]"}, {ID: 4090, Content: "<|im_end|>"}}),
	"Tekken": {Pattern: patternTekken, Special: []AddedToken{{ID: 5000, Content: "</s>"}}},
	"O200k":  {Pattern: patternO200, Special: []AddedToken{{ID: 4090, Content: "<|im_end|>"}, {ID: 4091, Content: "<|im_start|>"}}},
}

// bundleRanks are the bundle's tokens as a rank file.
func bundleRanks(t testing.TB) []byte { t.Helper(); return ranksOf(bundle(t)) }

func ranksOf(tok *Tokenizer) []byte {
	special := map[token.ID]bool{}
	for _, a := range tok.Added() {
		special[a.ID] = true
	}
	var b bytes.Buffer
	for id := range token.ID(tok.VocabSize()) {
		if text, ok := tok.Bytes(id); ok && !special[id] {
			fmt.Fprintf(&b, "%s %d\n", base64.StdEncoding.EncodeToString(text), id)
		}
	}
	return b.Bytes()
}

func TestRankFilesGiveTheRecordedIds(t *testing.T) {
	kinds := readGoldens(t, rankGoldens)
	data := bundleRanks(t)
	for name, o := range rankVariants {
		t.Run(name, func(t *testing.T) {
			tok, err := LoadRanks(data, o)
			if err != nil {
				t.Fatal(err)
			}
			checkGoldens(t, tok, kinds[name])
			checkCompiled(t, tok)
			for _, text := range slices.Concat(traps, longRuns(65)) {
				for _, ids := range [][]token.ID{tok.Encode(text), tok.EncodeBody(text)} {
					if got := string(tok.Decode(ids)); got != text {
						t.Fatalf("%q decodes to %q", text, got)
					}
				}
			}
		})
	}
}

func TestATekkenFileIsItsRanksMovedUp(t *testing.T) {
	data := bundleRanks(t)
	byRanks, err := LoadRanks(data, rankVariants["Tekken"])
	if err != nil {
		t.Fatal(err)
	}
	tok, err := LoadTekken(tekkenOf(data, "v7", nil))
	if err != nil {
		t.Fatal(err)
	}
	checkCompiled(t, tok)
	for _, text := range goldenTexts(3) {
		want := byRanks.EncodeBody(text)
		for i := range want {
			want[i] += 100
		}
		if got := tok.EncodeBody(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if got := tok.Encode("a</s>"); len(got) != 2 || got[1] != 2 {
		t.Errorf("</s> in text: %v", got)
	}
	if lookup(t, tok, "<SPECIAL_99>") != 99 || lookup(t, tok, "[SYSTEM_PROMPT]") != 17 {
		t.Error("special tokens have other ids")
	}
	listed, err := LoadTekken(tekkenOf(data, "v13", []any{map[string]any{"rank": 5, "token_str": "[X]", "is_control": true}}))
	if err != nil || lookup(t, listed, "[X]") != 5 {
		t.Errorf("a listed token: %v", err)
	}
}

// tekkenOf writes ranks as a tekken.json with 100 special tokens.
func tekkenOf(ranks []byte, version string, special []any) []byte {
	var vocab []any
	for i, line := range strings.Split(strings.TrimSpace(string(ranks)), "\n") {
		b, _, _ := strings.Cut(line, " ")
		vocab = append(vocab, map[string]any{"rank": i, "token_bytes": b, "token_str": nil})
	}
	file := map[string]any{"vocab": vocab, "config": map[string]any{"pattern": patternTekken, "num_vocab_tokens": len(vocab),
		"default_vocab_size": len(vocab) + 100, "default_num_special_tokens": 100, "version": version}}
	if special != nil {
		file["special_tokens"] = special
	}
	data, _ := json.Marshal(file)
	return data
}

func TestLongTextIsCutAsKimisReaderDoes(t *testing.T) {
	cut := func(text string) (lengths []int) {
		for n, from := 0, 0; text != ""; text = text[n:] {
			n, from = slice(text, from)
			lengths = append(lengths, n)
		}
		return lengths
	}
	plain := bundle(t)
	tok, err := LoadRanks(bundleRanks(t), rankVariants["Kimi"])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		want []int
	}{
		{"", nil},
		{strings.Repeat("a", 25_000), []int{25_000}},
		{strings.Repeat("a", 25_001), []int{25_000, 1}},
		{strings.Repeat("é", 60_000), []int{50_000, 50_000, 20_000}},
		{"b " + strings.Repeat("a", 25_001), []int{25_002, 1}},
		{strings.Repeat(" ", 25_001) + "a", []int{25_000, 2}},
		{strings.Repeat("a ", 200_001), []int{400_000, 2}},
		{strings.Repeat("a ", 190_000) + strings.Repeat("a", 30_000), []int{400_000, 10_000}},
		{strings.Repeat("a ", 180_000) + strings.Repeat("a", 60_000), []int{385_000, 15_000, 20_000}},
	} {
		if got := cut(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%.20q…: got %v, want %v", c.text, got, c.want)
		}
		if tok.Sliced(c.text) != (len(c.want) > 1) || plain.Sliced(c.text) {
			t.Errorf("%.20q…: sliced %v", c.text, tok.Sliced(c.text))
		}
	}
}

func TestBrokenRanksAreRefused(t *testing.T) {
	whole := string(bundleRanks(t))
	o := RankOptions{Pattern: patternQwen}
	with := func(s string) string { return whole + s }
	for name, c := range map[string]struct {
		data string
		o    RankOptions
		code fault.Code
	}{
		"Empty":          {"", o, fault.UnsupportedTokenizer},
		"NoRank":         {with("YWFhYWFhYWFh\n"), o, fault.BadTokenizer},
		"NotBase64":      {with("!! 9000\n"), o, fault.BadTokenizer},
		"RankTwice":      {with("YWFhYWFhYWFh 5\n"), o, fault.BadTokenizer},
		"BytesTwice":     {with("YQ== 9000\n"), o, fault.BadTokenizer},
		"RankHuge":       {with("YWFhYWFhYWFh 99999999\n"), o, fault.BadTokenizer},
		"AByteIsMissing": {strings.SplitN(whole, "\n", 2)[1], o, fault.UnsupportedTokenizer},
		"NoPattern":      {whole, RankOptions{Pattern: "("}, fault.UnsupportedTokenizer},
		"SpecialTwice":   {whole, RankOptions{Pattern: patternQwen, Special: []AddedToken{{ID: 5, Content: "x"}}}, fault.BadTokenizer},
		"SpecialEmpty":   {whole, RankOptions{Pattern: patternQwen, Special: []AddedToken{{ID: 9000}}}, fault.BadTokenizer},
	} {
		if _, err := LoadRanks([]byte(c.data), c.o); fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, data := range map[string]string{
		"Empty": "", "List": "[]", "NoVocab": `{"config":{}}`, "New": string(tekkenOf([]byte(whole), "v11", nil)),
		"Ranks": `{"vocab":[{"rank":0}],"config":{"default_vocab_size":1,"default_num_special_tokens":0,"pattern":"a","version":"v3"}}`,
		"Fewer": `{"vocab":[],"config":{"default_vocab_size":1,"default_num_special_tokens":0,"pattern":"a","version":"v3"}}`,
	} {
		if _, err := LoadTekken([]byte(data)); fault.CodeOf(err) != fault.BadTokenizer {
			t.Errorf("tekken %s: %v", name, err)
		}
	}
}
