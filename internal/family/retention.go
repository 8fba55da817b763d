package family

import (
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/ojson"
)

// Retention says when the reasoning of an earlier turn stays in the prompt behind a new user message.
type Retention string

// The retentions.
const (
	RetainAlways  Retention = "always"  // under the family's own settings
	RetainSetting Retention = "setting" // under a template setting
	RetainNever   Retention = "never"   // under no setting that is known
)

// Retainer is a Family that knows its template's retention.
type Retainer interface {
	// Retention renders with each known setting; setting is the first that keeps reasoning, for RetainSetting.
	Retention() (r Retention, setting ojson.Member)
}

// keepers are the settings by which published templates keep reasoning.
func keepers() []ojson.Member {
	return []ojson.Member{
		{Key: "preserve_thinking", Value: ojson.BoolOf(true)},
		{Key: "clear_thinking", Value: ojson.BoolOf(false)},
		{Key: "truncate_history_thinking", Value: ojson.BoolOf(false)},
		{Key: "drop_thinking", Value: ojson.BoolOf(false)},
	}
}

// Retention is the template's, found by rendering.
func (k *Kit) Retention() (Retention, ojson.Member) {
	c := Probe()
	c.Messages[1].Reasoning = chat.T(probeReasoning)
	c.Messages = append(c.Messages, chat.Message{Role: chat.User, Content: chat.T("v")})
	keeps := func() bool {
		text, err := k.Text(c)
		return err == nil && strings.Contains(text, probeReasoning)
	}
	if keeps() {
		return RetainAlways, ojson.Member{}
	}
	for _, m := range keepers() {
		c.Kwargs = ojson.ObjectOf(m)
		if keeps() {
			return RetainSetting, m
		}
	}
	return RetainNever, ojson.Member{}
}
