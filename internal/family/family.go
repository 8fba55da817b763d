// Package family is the contract of a chat format: how a conversation becomes prompt ids, and how completion ids become
// a reply. One folder below is one format.
//
// A Family is immutable, pure and safe for concurrent use. It is made from a model's own tokenizer and template.
package family

import (
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/token"
)

// Family is one chat format bound to one model's tokenizer and template.
type Family interface {
	// Name is the manifest's name of the format, such as "chatml-hermes".
	Name() string
	// Render turns a conversation into the prompt that the model's template makes of it.
	Render(Conversation) (Rendered, error)
	// Parse starts the reading of one completion. The result is the same however the ids are cut.
	Parse(ParseInput) Parser
	// Speak is the inverse of Parse: the ids a policy would sample, canonically, to give this reply, with its stop token.
	Speak(chat.Reply) ([]token.ID, error)
	// Stops lists the ids that end a completion; the engine is told them.
	Stops() []Stop
	// Decode gives the bytes that ids stand for, as text for people; invalid UTF-8 becomes U+FFFD.
	Decode([]token.ID) string
}

// Reuser is a Family whose Render can take over what an earlier render of the same trajectory has in common with it.
type Reuser interface {
	// RenderWith is Render: same result, same errors. It reads memo and replaces its content.
	RenderWith(memo *Memo, c Conversation) (Rendered, error)
}

// Explainer is a Family that can say where a prompt's ids come from.
type Explainer interface {
	// Bodies says which ids of r, the render of c, came from which message's own text. Best effort: text that the
	// template changed is left out.
	Bodies(c Conversation, r Rendered) []Body
}

// Options bind a family to a model.
type Options struct {
	Tokens []ojson.Member // template variables of the tokenizer's configuration: bos_token, eos_token, …
	Kwargs ojson.Value    // default template settings; a conversation's own win
}

// Conversation is what a prompt is rendered from.
type Conversation struct {
	Messages []chat.Message
	Tools    []ojson.Value
	Kwargs   ojson.Value // template settings; later keys win over the family's defaults
	Clock    template.Clock
	// Sampled holds, for each message that is a matched echo of the policy's own completion, that completion's ids, by
	// index of the message. A spelling of a special token in such a message becomes the special id exactly where the turn
	// sampled that id. In every other body such a spelling stays text.
	Sampled map[int][]token.ID
	// Native turns the protection of bodies off: the template's text is encoded as the reference does.
	Native bool
}

// Rendered is a prompt.
type Rendered struct {
	Text string // as the template made it
	IDs  []token.ID
}

// Body is the stretch of a prompt that one message's text gave.
type Body struct {
	token.Span
	Message int
	Field   string // content, reasoning, arguments, name
}

// StopKind is what a stop token means in its format.
type StopKind string

// The kinds of stop tokens.
const (
	StopClose    StopKind = "close"     // closes the assistant's message
	StopNextRole StopKind = "next_role" // opens the next message
	StopTerminal StopKind = "terminal"  // ends the text
)

// Stop is one id that ends a completion.
type Stop struct {
	ID   token.ID
	Text string
	Kind StopKind
}

// ParseInput is what a parser knows before the first id.
type ParseInput struct {
	Prompt []token.ID    // for formats whose prompt opens a block (a prefilled <think>)
	Tools  []ojson.Value // declared tools; where there are any, another name is AttemptUnknownTool
	// NoCalls says that the request declared no tools: then nothing is a call, and what looks like one is text.
	NoCalls bool
}

// Parser reads one completion as it comes. It is not safe for concurrent use.
type Parser interface {
	// Add reads more ids and returns what has become certain; the slice is valid until the next call.
	Add(ids []token.ID) []Event
	// Done ends the reading. stopped says whether the engine stopped by itself (false: cut by length or abort).
	Done(stopped bool) (Parsed, []Event)
}

// Event is a piece of a reply that is certain.
type Event struct {
	Kind EventKind
	Text string // reasoning or content text
	Call int    // index of the attempt in Parsed.Calls, for EventCall
}

// EventKind says which part of a reply an event adds to.
type EventKind uint8

// The event kinds.
const (
	EventReasoning EventKind = iota
	EventContent
	EventCall // a whole call attempt was read; its text follows in Parsed
)

// Parsed is the view of one completion. The ids stay the truth.
type Parsed struct {
	Content   chat.Text
	Reasoning chat.Text
	Calls     []Attempt
	End       End
	Stop      token.ID // the stop id that ended it; valid when End is EndStop
	Issues    []string // closed words: reasoning_unclosed, text_after_stop, call_in_reasoning, …
}

// Attempt is one tool call that the policy tried to make. A block that fails to parse stays visible: with a known name it
// is a call with its raw argument text, else its span stays in the content verbatim.
type Attempt struct {
	Status    AttemptStatus
	Name      string
	ModelID   string // the id that the model gave the call, in formats that have one
	Arguments string // raw JSON text as sampled
	Raw       string // the whole block as sampled
	Span      token.Span
	IsCall    bool // whether it is returned to the harness as a call
}

// AttemptStatus says how an attempt read.
type AttemptStatus string

// The statuses.
const (
	AttemptOK           AttemptStatus = "ok"
	AttemptInvalidJSON  AttemptStatus = "invalid_json"
	AttemptMissingName  AttemptStatus = "missing_name"
	AttemptUnknownTool  AttemptStatus = "unknown_tool"
	AttemptUnclosed     AttemptStatus = "unclosed"
	AttemptMalformed    AttemptStatus = "malformed"
	AttemptDuplicateKey AttemptStatus = "duplicate_key"
	AttemptInReasoning  AttemptStatus = "in_reasoning"
)

// End says how a completion ended.
type End string

// The ends.
const (
	EndStop      End = "stop"
	EndTruncated End = "truncated"
)
