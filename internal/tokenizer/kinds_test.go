package tokenizer

import (
	"strings"
	"unicode/utf8"
)

func split(pattern map[string]any, behavior string, invert bool) func(file, model map[string]any) {
	return first(map[string]any{"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert})
}

// first replaces the first pre-tokenizer.
func first(s map[string]any) func(file, model map[string]any) {
	return func(file, model map[string]any) {
		file["pre_tokenizer"] = inSequence("pretokenizers", s, step(file, 1))
	}
}

func normalized(steps ...any) func(file, model map[string]any) {
	return func(file, model map[string]any) { file["normalizer"] = inSequence("normalizers", steps...) }
}

func inSequence(key string, steps ...any) map[string]any {
	return map[string]any{"type": "Sequence", key: steps}
}

func replaced(pattern map[string]any, content string) map[string]any {
	return map[string]any{"type": "Replace", "pattern": pattern, "content": content}
}

// plain makes the bundle a vocabulary of plain text, with ▁ for a space and a token for each byte, then edits it.
func plain(edit func(file, model map[string]any)) func(file, model map[string]any) {
	return func(file, model map[string]any) {
		vocab := map[string]any{"<unk>": 0.0}
		spell := func(s string) (string, bool) {
			b, ok := appendUnspelled(nil, []byte(s))
			return strings.ReplaceAll(string(b), " ", "▁"), ok && utf8.Valid(b)
		}
		for b := range 256 {
			vocab["<0x"+strings.ToUpper(hex(b))+">"] = float64(len(vocab))
		}
		add := func(s string) {
			if _, ok := vocab[s]; !ok {
				vocab[s] = float64(len(vocab))
			}
		}
		for r := range rune(0x250) {
			if r != 'q' && r != 'Z' && r != 0xFC && r > ' ' {
				add(string(r))
			}
		}
		add("▁")
		var merges []any
		for _, m := range model["merges"].([]any) {
			pair := m.([]any)
			a, okA := spell(pair[0].(string))
			b, okB := spell(pair[1].(string))
			if _, known := vocab[a]; !okA || !okB || !known {
				continue
			}
			if _, known := vocab[b]; !known {
				continue
			}
			add(a + b)
			merges = append(merges, []any{a, b})
		}
		for i, a := range file["added_tokens"].([]any) {
			a.(map[string]any)["id"] = float64(len(vocab) + i)
		}
		model["vocab"], model["merges"] = vocab, merges
		model["byte_fallback"], model["unk_token"], model["fuse_unk"] = true, "<unk>", true
		file["normalizer"] = replaced(map[string]any{"String": " "}, "▁")
		file["pre_tokenizer"] = nil
		file["post_processor"] = nil
		file["decoder"] = inSequence("decoders", replaced(map[string]any{"String": "▁"}, " "),
			map[string]any{"type": "ByteFallback"}, map[string]any{"type": "Fuse"})
		if edit != nil {
			edit(file, model)
		}
	}
}

func hex(b int) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[b>>4], digits[b&15]})
}

func metaspaced(scheme string, cut bool) func(file, model map[string]any) {
	return plain(func(file, model map[string]any) {
		m := map[string]any{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}
		file["normalizer"], file["pre_tokenizer"], file["decoder"] = nil, m, m
	})
}

// variants are tokenizers of every kind that Load accepts.
var variants = map[string]func(file, model map[string]any){
	"Bundle": func(file, model map[string]any) {},
	"Llama3": func(file, model map[string]any) {
		step(file, 0)["pattern"] = map[string]any{"Regex": patternCL}
		file["normalizer"] = nil
		model["ignore_merges"] = true
		merges := model["merges"].([]any)
		for i, m := range merges {
			pair := m.([]any)
			merges[i] = pair[0].(string) + " " + pair[1].(string)
		}
	},
	"O200k": func(file, model map[string]any) {
		step(file, 0)["pattern"] = map[string]any{"Regex": patternO200}
		file["normalizer"] = nil
	},
	"GPT2": func(file, model map[string]any) {
		file["normalizer"] = nil
		file["pre_tokenizer"] = map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true, "trim_offsets": true}
	},
	"DeepSeek": func(file, model map[string]any) {
		split := func(re string) any {
			return map[string]any{"type": "Split", "pattern": map[string]any{"Regex": re}, "behavior": "Isolated", "invert": false}
		}
		file["normalizer"] = map[string]any{"type": "Sequence", "normalizers": []any{}}
		file["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{
			split(`\p{N}{1,3}`), split(`[一-龥぀-ゟ゠-ヿ]+`),
			split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
			step(file, 1),
		}}
	},
	"NoPattern":   func(file, model map[string]any) { file["pre_tokenizer"] = step(file, 1) },
	"PrefixSpace": func(file, model map[string]any) { step(file, 1)["add_prefix_space"] = true },
	"GPT2PrefixSpace": func(file, model map[string]any) {
		file["pre_tokenizer"] = map[string]any{"type": "ByteLevel", "add_prefix_space": true, "use_regex": true, "trim_offsets": true}
	},
	"SplitRemoved":            split(map[string]any{"Regex": `\s+|[aeiou]`}, "Removed", false),
	"SplitRemovedInverted":    split(map[string]any{"Regex": `\p{L}+|\p{N}`}, "Removed", true),
	"SplitMergedWithPrevious": split(map[string]any{"Regex": `[\n .,]`}, "MergedWithPrevious", false),
	"SplitMergedWithNext":     split(map[string]any{"String": " "}, "MergedWithNext", false),
	"SplitMergedInverted":     split(map[string]any{"Regex": `\p{L}+`}, "MergedWithNext", true),
	"SplitContiguous":         split(map[string]any{"Regex": `[\p{P}\p{S}]`}, "Contiguous", false),
	"SplitString":             split(map[string]any{"String": "\n"}, "Isolated", false),
	"Digits":                  first(map[string]any{"type": "Digits", "individual_digits": false}),
	"DigitsAlone":             first(map[string]any{"type": "Digits", "individual_digits": true}),
	"Whitespace":              first(map[string]any{"type": "Whitespace"}),
	"WhitespaceSplit":         first(map[string]any{"type": "WhitespaceSplit"}),
	"CharDelimiter":           first(map[string]any{"type": "CharDelimiterSplit", "delimiter": "e"}),
	"Stripped": func(file, model map[string]any) {
		file["normalizer"] = inSequence("normalizers", map[string]any{"type": "Strip", "strip_left": true, "strip_right": true},
			replaced(map[string]any{"Regex": `[\t ]+`}, " "), replaced(map[string]any{"String": "\r\n"}, "\n"), map[string]any{"type": "NFC"})
	},
	"AddedTokens": func(file, model map[string]any) {
		addToken(file, "<l>", "lstrip")
		addToken(file, "<r>", "rstrip")
		addToken(file, "<both>", "lstrip", "rstrip")
		addToken(file, "word", "single_word")
		addToken(file, "éé", "normalized")
		addToken(file, "e\u0301x", "normalized")
		addToken(file, "user", "normalized", "single_word")
		addToken(file, "ass")
		addToken(file, "assistant\n")
		addToken(file, "日本")
		addToken(file, "日")
	},
	"NFD":                   normalized(map[string]any{"type": "NFD"}),
	"NFKD":                  normalized(map[string]any{"type": "NFKD"}),
	"NFKC":                  normalized(map[string]any{"type": "NFKC"}),
	"StripAccents":          normalized(map[string]any{"type": "NFD"}, map[string]any{"type": "StripAccents"}),
	"Accents":               normalized(map[string]any{"type": "StripAccents"}),
	"Lowercase":             normalized(map[string]any{"type": "Lowercase"}),
	"Punctuation":           first(map[string]any{"type": "Punctuation", "behavior": "Isolated"}),
	"PunctuationContiguous": first(map[string]any{"type": "Punctuation", "behavior": "Contiguous"}),
	"Gemma": plain(func(file, model map[string]any) {
		file["pre_tokenizer"] = map[string]any{"type": "Split", "pattern": map[string]any{"String": " "}, "behavior": "MergedWithPrevious", "invert": false}
		addToken(file, "▁▁")
		addToken(file, "\n\n")
	}),
	"Llama2": plain(func(file, model map[string]any) {
		file["normalizer"] = inSequence("normalizers", map[string]any{"type": "Prepend", "prepend": "▁"}, file["normalizer"])
		d := file["decoder"].(map[string]any)
		d["decoders"] = append(d["decoders"].([]any), map[string]any{"type": "Strip", "content": " ", "start": 1, "stop": 0})
		addToken(file, "<n>", "normalized")
	}),
	"MetaspaceAlways":     metaspaced("always", true),
	"MetaspaceFirst":      metaspaced("first", true),
	"MetaspaceNever":      metaspaced("never", true),
	"MetaspaceWhole":      metaspaced("always", false),
	"MetaspaceFirstWhole": metaspaced("first", false),
	"Unknown":             plain(func(_, model map[string]any) { model["byte_fallback"] = false }),
	"UnknownApart":        plain(func(_, model map[string]any) { model["byte_fallback"], model["fuse_unk"] = false, false }),
	"UnknownDropped":      plain(func(_, model map[string]any) { model["byte_fallback"], model["unk_token"] = false, nil }),
	"SomeBytes": plain(func(_, model map[string]any) {
		vocab := model["vocab"].(map[string]any)
		vocab["zq"] = vocab["<0xC3>"]
		delete(vocab, "<0xC3>")
	}),
	"PlainIgnoreMerges": plain(func(_, model map[string]any) { model["ignore_merges"] = true }),
	"PlainMergedBytes": plain(func(_, model map[string]any) {
		vocab := model["vocab"].(map[string]any)
		vocab["<0x71><0x71>"] = vocab["<0xF9>"]
		delete(vocab, "<0xF9>")
		model["merges"] = append([]any{[]any{"<0x71>", "<0x71>"}}, model["merges"].([]any)...)
	}),
}
