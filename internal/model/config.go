package model

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// config is what tokenizer_config.json says of prompts.
type config struct {
	tokens   []ojson.Member // special tokens by name, as the template sees them
	eos      string         // "" for none
	added    []ojson.Member // added_tokens_decoder
	class    string         // tokenizer_class, "" for none
	template ojson.Value    // chat_template: a string, or a list of {name, template}
}

// tokenNames are the special tokens that a template sees under their own names, in the reference's order.
var tokenNames = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

// object reads a file that holds one JSON object; a file that is not there reads as an empty one.
func (d directory) object(name string) (ojson.Value, error) {
	b, err := d.read(name)
	if b == nil {
		return ojson.Value{}, err
	}
	v, err := ojson.Parse(b)
	if err == nil && v.Kind() == ojson.Object {
		return v, nil
	}
	reason := "it is not an object"
	if err != nil {
		reason = err.Error()
	}
	return ojson.Value{}, fault.New(fault.BadModel, "%s: %s cannot be read: %s", d.where, name, reason)
}

func (d directory) config() (config, error) {
	v, err := d.object(configFile)
	if err != nil {
		return config{}, err
	}
	var c config
	names := slices.Clone(tokenNames)
	extra, _ := v.Get("extra_special_tokens")
	for _, m := range extra.Members() {
		names = append(names, m.Key)
	}
	for _, name := range names {
		t, ok := v.Get(name)
		if !ok {
			t, _ = extra.Get(name)
		}
		if text := content(t); text != "" {
			c.tokens = append(c.tokens, ojson.Member{Key: name, Value: ojson.StringOf(text)})
			if name == "eos_token" {
				c.eos = text
			}
		}
	}
	var more []ojson.Value
	list, _ := v.Get("additional_special_tokens")
	for _, t := range list.Elems() {
		more = append(more, ojson.StringOf(content(t)))
	}
	if more != nil {
		c.tokens = append(c.tokens, ojson.Member{Key: "additional_special_tokens", Value: ojson.ArrayOf(more...)})
	}
	added, _ := v.Get("added_tokens_decoder")
	c.added = added.Members()
	class, _ := v.Get("tokenizer_class")
	if class.Kind() == ojson.String {
		c.class = class.Str()
	}
	c.template, _ = v.Get("chat_template")
	return c, nil
}

// content is a token written as a string or as an object with its content.
func content(v ojson.Value) string {
	if v.Kind() == ojson.Object {
		v, _ = v.Get("content")
	}
	if v.Kind() != ojson.String {
		return ""
	}
	return v.Str()
}

// check compares the added tokens of the configuration with the tokenizer's: the reference would add what is missing.
func (c config) check(tok *tokenizer.Tokenizer) error {
	byID := map[token.ID]string{}
	for _, a := range tok.Added() {
		byID[a.ID] = a.Content
	}
	for _, m := range c.added {
		id, err := strconv.ParseUint(m.Key, 10, 32)
		want := content(m.Value)
		if err != nil || byID[token.ID(id)] != want || want == "" {
			return fault.New(fault.BadModel, "%s gives added token %s the text %q, %s the text %q", configFile, m.Key, want,
				tokenizerFile, byID[token.ID(id)])
		}
	}
	return nil
}

// template is the source of the chat template. Of several the one for tool use is taken, else the default one.
func (d directory) template(c config) (string, error) {
	b, err := d.read(templateFile)
	if err != nil {
		return "", err
	}
	if b != nil {
		return string(b), nil
	}
	switch c.template.Kind() {
	case ojson.String:
		return c.template.Str(), nil
	case ojson.Array:
		named := map[string]string{}
		var names []string
		for _, e := range c.template.Elems() {
			name, _ := e.Get("name")
			src, _ := e.Get("template")
			if src.Kind() == ojson.String {
				named[name.Str()] = src.Str()
				names = append(names, name.Str())
			}
		}
		for _, name := range []string{"tool_use", "default"} {
			if src, ok := named[name]; ok {
				return src, nil
			}
		}
		return "", fault.New(fault.BadModel, "%s: none of the chat templates of %s is named tool_use or default: %s", d.where,
			configFile, strings.Join(names, ", "))
	}
	return "", d.lacks("chat template: no " + templateFile + " and no chat_template in " + configFile)
}

// checkEnds checks that every token at which an engine would stop by itself is a stop of the family; a reply that ended
// with another could not be read.
func (d directory) checkEnds(c config, m *Model) error {
	if c.eos != "" {
		id, ok := m.Tokenizer.Lookup(c.eos)
		if !ok || !slices.Contains(m.Stops, id) {
			return fault.New(fault.BadModel, "%s: eos_token %q of %s ends no reply of format %s", d.where, c.eos, configFile, m.Info.Family)
		}
	}
	g, err := d.object(generationFile)
	if err != nil {
		return err
	}
	for _, v := range eosIDs(g) {
		if id, err := tokenID(v); err != nil || !slices.Contains(m.Stops, id) {
			return fault.New(fault.BadModel, "%s: eos_token_id %s of %s ends no reply of format %s", d.where, v.Raw(), generationFile, m.Info.Family)
		}
	}
	return nil
}

// eosIDs are the ids at which a generation_config.json ends a completion: one, or a list.
func eosIDs(generation ojson.Value) []ojson.Value {
	eos, _ := generation.Get("eos_token_id")
	if eos.Kind() == ojson.Number {
		return []ojson.Value{eos}
	}
	return eos.Elems()
}

func tokenID(v ojson.Value) (token.ID, error) {
	id, err := strconv.ParseUint(v.Num(), 10, 32)
	return token.ID(id), err
}
