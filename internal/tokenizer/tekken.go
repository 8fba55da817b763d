package tokenizer

import (
	"bytes"
	"encoding/base64"
	"fmt"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// tekkenSpecial are the special tokens of files of version 7 and before, which do not list them.
var tekkenSpecial = []string{"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
	"[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
	"[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"}

// LoadTekken reads Mistral's tekken.json. The ids of special tokens come first, and ranks after them. EncodeBody is
// Tekkenizer's encode(text, bos=False, eos=False), which never reads a special token in text; Encode does. Errors are
// those of [Load].
func LoadTekken(data []byte) (*Tokenizer, error) {
	c := &cursor{b: bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF")), name: "tekken.json"}
	top := map[string]any{}
	var vocab *cursor
	c.object(func(key []byte) {
		if string(key) == "vocab" {
			vocab = c.skip()
			return
		}
		k := string(key)
		top[k] = c.value(0, true)
	})
	if c.err == nil && c.peek() != 0 {
		c.fail("something follows the JSON value")
	}
	config, _ := top["config"].(map[string]any)
	size, ok := config["default_vocab_size"].(float64)
	reserved, ok2 := config["default_num_special_tokens"].(float64)
	pattern, ok3 := config["pattern"].(string)
	if c.err == nil && (vocab == nil || !ok || !ok2 || !ok3 || reserved < 0 || size < reserved || size > maxID) {
		c.fail("no vocab, or no config with its sizes and pattern: this is not a tekken.json")
	}
	if c.err != nil {
		return nil, c.err
	}
	special, err := tekkenTokens(top, config["version"], int(reserved))
	if err != nil {
		return nil, err
	}
	list := vocab.ranks(uint32(size - reserved))
	if vocab.err != nil {
		return nil, vocab.err
	}
	if len(list) != int(size-reserved) {
		return nil, fault.New(fault.BadTokenizer, "tekken.json: %d ranks of %d", len(list), int(size-reserved))
	}
	t, err := fromRanks(list, uint32(reserved), pattern, special)
	if err != nil {
		return nil, err
	}
	t.recipe = rankRecipe(pattern, false, t.added)
	return t, nil
}

// ranks reads the entries of vocab below limit.
func (c *cursor) ranks(limit uint32) []ranked {
	var list []ranked
	c.array(func() {
		var r ranked
		seen := 0
		c.object(func(key []byte) {
			switch string(key) {
			case "rank":
				r.rank = c.uint()
				seen++
			case "token_bytes":
				var err error
				if r.bytes, err = base64.StdEncoding.AppendDecode(nil, c.str()); err != nil {
					c.fail("token_bytes is not base64")
				}
				seen++
			default:
				c.value(0, false)
			}
		})
		if c.err == nil && seen != 2 {
			c.fail("an entry of vocab needs rank and token_bytes")
		}
		if r.rank < limit {
			list = append(list, r)
		}
	})
	return list
}

func tekkenTokens(top map[string]any, version any, reserved int) ([]AddedToken, error) {
	names := make([]string, reserved)
	listed, ok := top["special_tokens"].([]any)
	if !ok {
		switch version {
		case "v1", "v2", "v3", "v7":
		default:
			return nil, fault.New(fault.BadTokenizer, "tekken.json: version %v without special_tokens", version)
		}
		copy(names, tekkenSpecial)
	}
	for _, item := range listed {
		m, _ := item.(map[string]any)
		name, ok := m["token_str"].(string)
		rank, isNumber := m["rank"].(float64)
		if !ok || !isNumber || rank < 0 || rank >= float64(reserved) || rank != float64(int(rank)) || names[int(rank)] != "" {
			return nil, fault.New(fault.BadTokenizer, "tekken.json: special token %v", item)
		}
		names[int(rank)] = name
	}
	special := make([]AddedToken, reserved)
	for i, name := range names {
		if name == "" {
			name = fmt.Sprintf("<SPECIAL_%d>", i)
		}
		special[i] = AddedToken{ID: token.ID(i), Content: name, Special: true}
	}
	return special, nil
}
