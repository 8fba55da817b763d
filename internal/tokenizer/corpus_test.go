package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// traps are strings in which tokenizers went wrong before, ours or others'.
var traps = []string{
	"", " ", "  ", "\n", "\r\n", "\r\r\n\n", "\t", "a", "é", "日", "\x00", "\x00\x01\x7f", "a\u0301", "e\u0301\u0323", "\u0344",
	"it's IT'S it'S I'M we'Ll they'VE you'RE he'd 'tis 'Twas ''s 'ſ it'ſ 'x 'K 'ſt don''t", "l'été qu'il",
	" \n \n ", "a \n b", "a\n\n b", "a  \r\n\t b", "\u00a0a\u00a0\u00a0b", "\u0085\u2028\u2029a", "\u3000\u3000日本", "a\u200bb", "\ufeffa",
	"1234567", "１２３ ①②③ Ⅷ ½ ७८९", "3.14e-10", "a1b2c3", "foo_bar-baz/qux", "()[]{};:'\"", "!!!\n\n\n", "==\r\n==", " =  = ",
	"\u1100\u1161\u11a8", "가각", "\u0958 \u0915\u093c", "\u2126 \u212b \u212a", "\u1e9b\u0323", "\ufb01 \ufb06", "\u0f73\u0f75\u0f81",
	"𝒳𝓎 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪", "e" + strings.Repeat("\u0301", 40), strings.Repeat("\u0323\u0301", 35), "歯 \u00ad soft\u00adhyphen",
	"\U00011935\U00011930", "\U00011938", "a\u0898\u0301", "\u07fd\u0301a", "\u1dfa\u0301e\u1dfb", "\U0001e94a\U0001e922",
	"<|im_start|>", "<|im_start|><|im_end|>", "<|im_start|", "<|im_<|im_end|>start|>", "<<|im_end|>>", " <think> \n</think>\n\n", "<tool_call>\n{\"name\": \"a\"}\n</tool_call>",
	"<|endoftext|><|fim_prefix|>x<|fim_suffix|>", "e<|im_end|>\u0301", "a\n<|im_start|>\n\nuser\n\n\n", "<|IM_START|>", "<think", "</think>>", "<tool_call><tool_call>",
	"a\ufffdb", "\ufffe\uffff\U0010ffff", "\ue000\uf8ff\U000f0000",
}

// pools are what random strings are made of.
var pools = [][]string{
	{" ", "  ", "\n", "\r\n", "\r", "\t", "\u00a0", "\u0085", "\u2003", "\u2028", "\u3000", "\v", "\f", "\u200b", "\u180e", "\ufeff"},
	{"a", "B", "zß", "İ", "ſ", "'s", "'S", "'ll", "'RE", "'", "’s", "the", " The", "Function", "camelCase", "ǅ", "ʰ", "ª", "ⅷ"},
	{"0", "12", "345", "6789", "²", "٣", "Ⅷ", "①", "𝟗", "੫", "½"},
	{"!", "?!", "...", "=>", "//", "/*", "\"", "'", "()", "{}\n", "$", "€", "+", "∑", "—", "_", "#", "\\n", "@@"},
	{"\u0300", "\u0301", "\u0323", "\u0345", "\u093c", "\u094d", "\u0f71", "\u302a", "\u3099", "\U0001d165", "\u20dd", "\u0488", "\u0898", "\u1dfa", "\u07fd", "\u08d3", "\U00011930", "\U0001133b"},
	{"日本", "語", "한국", "\u1112\u1161\u11ab", "ไทย", "हिन्दी", "العربية", "עברית", "Ελλη", "Рус", "\U00011935", "\U00020000", "\u0915"},
	{"👍", "🏽", "\u200d", "\ufe0f", "🇩", "👩", "❤", "\U0001fae0", "\U0001fadf", "\U0001cc00"},
	{"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<|im_", "start|>", "<", "|>", "<|", "<think", "<|fim_prefix|>", "<|vision_pad|>"},
	{"user", "assistant\n", "system", "{\"name\": \"", "\", \"arguments\": ", "null", "true", "\\u00e9", "\": [", "]}", "\x00", "\x7f", "\x1b[0m"},
}

// randomText is one string of up to n parts.
func randomText(r *rand.Rand, n int) string {
	var b strings.Builder
	last := ""
	for range 1 + r.IntN(n) {
		switch k := r.IntN(12); {
		case k < 9:
			pool := pools[k]
			last = pool[r.IntN(len(pool))]
		case k == 9: // a code point of anywhere
			c := rune(r.IntN(0x323B0))
			if r.IntN(4) == 0 {
				c = rune(r.IntN(utf8.MaxRune + 1))
			}
			if !utf8.ValidRune(c) {
				c = '-'
			}
			last = string(c)
		case k == 10: // one of a small block again and again: marks meet their letters
			base := rune(r.IntN(0x2000)) &^ 0x7f
			last = ""
			for range 1 + r.IntN(5) {
				last += string(base + rune(r.IntN(128)))
			}
		}
		b.WriteString(last)
		if r.IntN(40) == 0 {
			b.WriteString(strings.Repeat(last, r.IntN(60)))
		}
	}
	return strings.ToValidUTF8(b.String(), "?")
}

// randomBytes is noise read as text.
func randomBytes(r *rand.Rand, n int) string {
	b := make([]byte, r.IntN(n))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return strings.ToValidUTF8(string(b), "\ufffd")
}

// conversation is a made-up prompt of Qwen's shape.
func conversation(r *rand.Rand) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<|im_start|>system\n%s<|im_end|>\n", randomText(r, 12))
	for range 1 + r.IntN(5) {
		fmt.Fprintf(&b, "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n<think>\n%s\n</think>\n\n%s", randomText(r, 9), randomText(r, 9), randomText(r, 9))
		for k := range r.IntN(3) {
			fmt.Fprintf(&b, "\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": %q, \"n\": %d}}\n</tool_call>", randomText(r, 5), k)
		}
		b.WriteString("<|im_end|>\n")
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, "<|im_start|>user\n<tool_response>\n%s\n</tool_response><|im_end|>\n", randomText(r, 20))
		}
	}
	return b.String()
}

// longRuns are where quadratic time and heaps show.
func longRuns(most int) []string {
	var out []string
	for _, unit := range []string{"a", " ", "\n", "ab", "=", "0", "é", "日", "\u0301", "\t ", "aA", "-=", "\r\n", "👍", "the", "<", "<think>", "<|im_end|> "} {
		for _, n := range []int{2, 3, 7, 31, 47, 48, 49, 50, 64, 65, 127, 257, 1000, 5000} {
			if n <= most {
				out = append(out, strings.Repeat(unit, n), "x"+strings.Repeat(unit, n)+"y")
			}
		}
	}
	return out
}
