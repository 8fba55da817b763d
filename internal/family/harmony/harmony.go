// Package harmony is the chat format of gpt-oss: a reply is a row of messages, each with a header that names a channel and
// perhaps a recipient. Analysis is reasoning, final is content, commentary to a function is a call.
//
// The model's own template cannot hold all that the model says: it writes one call a message, and refuses content and
// reasoning beside one. What it cannot hold is refused, never changed. Its history ends a final message with <|end|>,
// where the policy says <|return|>.
package harmony

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/tokenizer"
)

// Name is the manifest's name of the format.
const Name = "harmony"

const (
	start     = "<|start|>"
	end       = "<|end|>"
	message   = "<|message|>"
	channel   = "<|channel|>"
	constrain = "<|constrain|>"
	stopCall  = "<|call|>"
	stopDone  = "<|return|>"
)

var format = family.Format{
	Name:  Name,
	Turn:  start,
	Close: stopDone, CloseCalls: stopCall,
	Stops: []family.StopToken{{Text: stopDone, Kind: family.StopTerminal}, {Text: stopCall, Kind: family.StopClose},
		{Text: "<|endoftext|>", Kind: family.StopTerminal}},
	ReasoningKey: "thinking",
	NewReader:    func(r *family.Reply) family.Reader { return &reader{reply: r} },
	NewBlock:     func() family.Block { return block{} },
	WriteCalls:   func([]chat.Call, family.Layout, func(string) string) (string, error) { return "", nil },
	WriteReply:   write,
}

// New binds the format to a model's tokenizer and template. Where they are of another format the error is
// fault.UnknownFamily and says what is missing.
func New(tok *tokenizer.Tokenizer, tpl *template.Template, opts family.Options) (family.Family, error) {
	k, err := family.NewKit(format, tok, tpl, opts)
	if err != nil {
		return nil, err
	}
	for _, want := range []string{end, message, channel} {
		if !k.HasToken(want) {
			return nil, k.Refuse(want + " is no isolating added token of this tokenizer")
		}
	}
	c := family.Probe(chat.Call{ID: "c", Name: "probe", Arguments: `{"k": "v"}`})
	c.Messages[1].Content, c.Messages[1].Reasoning = chat.Text{}, chat.T("r")
	text, err := k.Text(c)
	if err != nil {
		return nil, k.Refuse("the template fails on a tool call: " + err.Error())
	}
	said, err := write(chat.Reply{Reasoning: chat.T("r"), Calls: c.Messages[1].Calls}, func(s string) string { return s })
	if err != nil || !strings.Contains(text, start+"assistant"+said) || !strings.HasSuffix(text, start+"assistant") {
		return nil, k.Refuse("the template writes calls or turns in another form")
	}
	return k, nil
}

// write is a reply as the template writes it, behind the header that the prompt has opened.
func write(r chat.Reply, body func(string) string) (string, error) {
	var parts []string
	if r.Reasoning.Presence == chat.Present {
		parts = append(parts, channel+"analysis"+message+body(r.Reasoning.S))
	}
	stop := stopDone
	switch {
	case len(r.Calls) > 1:
		return "", fault.New(fault.BadRequest, "%s: this format has one call a reply, not %d", Name, len(r.Calls))
	case len(r.Calls) == 1:
		if r.Content.S != "" {
			parts = append(parts, channel+"commentary"+message+body(r.Content.S))
		}
		c := r.Calls[0]
		if strings.ContainsAny(c.Name, " \n") || c.Name == "" {
			return "", fault.New(fault.BadRequest, "%s: a header cannot hold the name %q", Name, c.Name)
		}
		args := c.Arguments
		if args == "" {
			args = "{}"
		}
		parts = append(parts, " to=functions."+body(c.Name)+channel+"commentary json"+message+body(args))
		stop = stopCall
	case r.Content.S != "" || len(parts) == 0 || r.Finish != chat.FinishLength:
		parts = append(parts, channel+"final"+message+body(r.Content.S))
	}
	if r.Finish == chat.FinishLength {
		stop = ""
	}
	return strings.Join(parts, end+start+"assistant") + stop, nil
}
