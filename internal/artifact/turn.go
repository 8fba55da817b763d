package artifact

import (
	"encoding/json"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/trajectory"
)

// turnBody is a turn's JSON: its facts, the lengths of its columns, and its blobs by number.
type turnBody struct {
	*trajectory.Turn
	SuffixLen     int      `json:"suffix"`
	CompletionLen int      `json:"completion"`
	LogprobsLen   *int     `json:"logprobs,omitempty"` // absent = no list, which is not the same as an empty one
	RawLen        *int     `json:"raw_logprobs,omitempty"`
	MsgBlobs      []uint32 `json:"msg_new,omitempty"`
	ToolsBlob     uint32   `json:"tools,omitempty"` // 0 = none
	SettingsBlob  uint32   `json:"settings,omitempty"`
	Reply         reply    `json:"reply"`
}

// reply is trajectory.Reply with its texts as JSON has them.
type reply struct {
	Reasoning text                  `json:"reasoning,omitzero"`
	Content   text                  `json:"content,omitzero"`
	Calls     []trajectory.CallFact `json:"calls,omitempty"`
	End       string                `json:"end"`
	Issues    []string              `json:"issues,omitempty"`
}

func replyOf(r *trajectory.Reply) reply {
	return reply{text(r.Reasoning), text(r.Content), r.Calls, r.End, r.Issues}
}

func (r *reply) fact() trajectory.Reply {
	return trajectory.Reply{Content: chat.Text(r.Content), Reasoning: chat.Text(r.Reasoning), Calls: r.Calls, End: r.End, Issues: r.Issues}
}

// text is a string, null, or absent.
type text chat.Text

func (t text) IsZero() bool { return t.Presence == chat.Absent }

func (t text) MarshalJSON() ([]byte, error) {
	if t.Presence != chat.Present {
		return []byte("null"), nil
	}
	return marshal(t.S)
}

func (t *text) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = text{Presence: chat.Null}
		return nil
	}
	t.Presence = chat.Present
	return json.Unmarshal(b, &t.S)
}
