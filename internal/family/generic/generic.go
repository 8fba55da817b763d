// Package generic is the format of last resort: any template that no other format speaks. Its prompts are as exact as any
// other's. Its parsing is plain: content, and reasoning where the tokenizer has <think> tokens; a call stays text.
//
// Which tokens end a reply is found by rendering one and looking at what follows it. A model that contradicts itself
// there is refused.
package generic

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Name is the manifest's name of the format.
const Name = "generic"

const (
	think   = "<think>"
	thought = "</think>"
	// said is a word that no template writes by itself.
	said = "Szqj"
)

// New binds the format to a model's tokenizer and template. fault.UnknownFamily: the template fails on a plain
// conversation, or no token ends its replies.
func New(tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	eos := member(opts.Tokens, "eos_token")
	f := family.Format{Name: Name, Think: think, Thought: thought}
	// A first kit, of which any token may be the stop, renders the probes.
	for _, t := range tok.Added() {
		f.Stops = append(f.Stops, family.StopToken{Text: t.Content, Kind: family.StopClose})
	}
	k, err := family.NewKit(f, tok, tpl, opts)
	if err != nil {
		return nil, err
	}
	found, err := stop(k, eos)
	if err != nil {
		return nil, err
	}
	f.Turn, err = turn(k)
	if err != nil {
		return nil, err
	}
	f.Stops, f.Close = nil, found.Text
	f.Stops = append(f.Stops, found)
	if eos != "" && eos != found.Text {
		f.Stops = append(f.Stops, family.StopToken{Text: eos, Kind: family.StopTerminal})
	}
	f.TextArguments = wantsText(k, tok, tpl, opts)
	if k, err = family.NewKit(f, tok, tpl, opts); err != nil {
		return nil, err
	}
	if f.Turn == "" {
		return k, nil
	}
	if err := k.Learn(); err != nil && fault.CodeOf(err) != fault.UnknownFamily {
		return nil, err
	}
	return k, nil
}

// stop is the token behind a reply that a user answers.
func stop(k *family.Kit, eos string) (family.StopToken, error) {
	c := family.Probe()
	c.Messages[1].Content = chat.T(said)
	ended, err := k.Text(c)
	if err != nil {
		return family.StopToken{}, k.Refuse("the template fails on a plain conversation: " + err.Error())
	}
	c.Messages = append(c.Messages, chat.Message{Role: chat.User, Content: chat.T("v")})
	text, err := k.Text(c)
	if err != nil {
		return family.StopToken{}, k.Refuse("the template fails on a plain conversation: " + err.Error())
	}
	_, after, ok := strings.Cut(text, said)
	if !ok {
		return family.StopToken{}, k.Refuse("the template leaves out what an assistant says")
	}
	tok, at := k.FirstToken(after)
	switch {
	case at < 0:
		return family.StopToken{}, k.Refuse("no token ends a reply")
	case strings.Trim(after[:at], " \n") != "":
		return family.StopToken{}, k.Refuse("the template writes text between a reply and the token that ends it")
	case tok == eos:
		return family.StopToken{Text: tok, Kind: family.StopTerminal}, nil
	}
	_, after, _ = strings.Cut(ended, said)
	if last, _ := k.FirstToken(after); last == tok {
		return family.StopToken{Text: tok, Kind: family.StopClose}, nil
	}
	return family.StopToken{Text: tok, Kind: family.StopNextRole}, nil
}

// turn is the last added token of the prompt for a reply, but for those of reasoning; "" where there is none.
func turn(k *family.Kit) (string, error) {
	c := family.Probe()
	c.Messages = c.Messages[:1]
	rest, err := k.Text(c)
	if err != nil {
		return "", k.Refuse("the template fails on a single message: " + err.Error())
	}
	last := ""
	for {
		tok, at := k.FirstToken(rest)
		if at < 0 {
			return last, nil
		}
		if tok != think && tok != thought && k.HasToken(tok) {
			last = tok
		}
		rest = rest[at+len(tok):]
	}
}

// wantsText is whether the template takes a call's arguments as text alone.
func wantsText(k *family.Kit, tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) bool {
	c := family.Probe(chat.Call{ID: "call00001", Name: "probe", Arguments: `{"k": "` + said + `"}`})
	c.Messages[1].Content = chat.Text{}
	if text, err := k.Text(c); err == nil && strings.Contains(text, said) {
		return false
	}
	f := k.Format
	f.TextArguments = true
	t, err := family.NewKit(f, tok, tpl, opts)
	if err != nil {
		return false
	}
	text, err := t.Text(c)
	return err == nil && strings.Contains(text, said)
}

// member is a token of the tokenizer's configuration, by its spelling: a string, or an object with content.
func member(ms []ojson.Member, key string) string {
	for _, m := range ms {
		if m.Key == key {
			if v, ok := m.Value.Get("content"); ok {
				return v.Str()
			}
			return m.Value.Str()
		}
	}
	return ""
}
