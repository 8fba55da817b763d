// Package chat is the one canonical conversation: what every wire API is translated into and every chat format is
// rendered from.
//
// Values keep what came in: order of keys, spelling of numbers, null against absent, raw bytes. It is pure. A Request is
// immutable once made; its slices belong to it.
package chat

import "github.com/tito-rl/tito/internal/ojson"

// Role says who speaks. "developer" is read as system by dialects that allow it, and kept as it came in Raw.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Presence tells an absent field from null and from a value; harnesses turn one into the other.
type Presence uint8

// The presences.
const (
	Absent Presence = iota
	Null
	Present
)

// Text is a text field of a message.
type Text struct {
	Presence Presence
	S        string
}

// T makes a present text.
func T(s string) Text { return Text{Present, s} }

// Message is one message of a conversation, in a form that no wire API is favoured by.
type Message struct {
	Role      Role
	Content   Text // text parts are joined with "\n", as engines do for string templates
	Parts     bool // content came as a list of parts
	Reasoning Text
	Calls     []Call
	CallID    string // of a tool result: the call it answers
	Name      string
	Raw       []byte // the message's exact bytes on the wire
}

// Call is one tool call of an assistant message.
type Call struct {
	ID        string
	Name      string
	Arguments string // JSON text exactly as it came; may be malformed
}

// Sampling is how tokens are drawn. The zero value is not meaningful; see [Neutral].
type Sampling struct {
	Temperature       float64  `json:"temperature"`
	TopP              float64  `json:"top_p"`
	TopK              int      `json:"top_k"` // 0 = off
	MinP              float64  `json:"min_p"`
	PresencePenalty   float64  `json:"presence_penalty"`
	FrequencyPenalty  float64  `json:"frequency_penalty"`
	RepetitionPenalty float64  `json:"repetition_penalty"` // 1 = off
	Seed              *int64   `json:"seed,omitempty"`
	Stop              []string `json:"stop,omitempty"`
}

// Neutral is sampling from the policy itself: temperature 1, nothing cut, nothing penalised.
func Neutral() Sampling { return Sampling{Temperature: 1, TopP: 1, RepetitionPenalty: 1} }

// Request is one call of the policy, as a harness asked for it.
type Request struct {
	Model          string
	Messages       []Message
	Tools          []ojson.Value // each tool's own JSON, order and spelling kept
	ToolsRaw       []byte        // the tools array's exact bytes; nil when absent
	TemplateKwargs ojson.Value   // chat_template_kwargs; zero Value when absent
	MaxTokens      int           // 0 = not asked
	N              int           // completions asked for; 1 unless said
	Stream         bool
	IncludeUsage   bool
	WantLogprobs   bool
	TopLogprobs    int
	Asked          []ojson.Member // sampling and other settings the harness asked for: recorded and overridden
	Ignored        []ojson.Member // fields without effect on the ids: recorded
}

// Finish is why a completion ended, as clients are told.
type Finish string

// The finish reasons that a client may see.
const (
	FinishStop      Finish = "stop"
	FinishLength    Finish = "length"
	FinishToolCalls Finish = "tool_calls"
)

// Reply is the assistant message that a completion was parsed into.
type Reply struct {
	Content   Text
	Reasoning Text
	Calls     []Call // with the ids that the client sees
	Finish    Finish
	Usage     Usage
	Logprobs  []TokenLogprob // one a completion token, where the request wants them and they are known; nil = not given
}

// TokenLogprob is one sampled token as clients are shown it.
type TokenLogprob struct {
	Bytes   []byte // what the token stands for; need not be valid UTF-8
	Logprob float32
}

// Usage counts tokens.
type Usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Cached     int `json:"cached_tokens"`
}
