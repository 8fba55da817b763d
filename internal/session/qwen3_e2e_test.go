//go:build e2e

package session

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Qwen3's own template keeps the reasoning of a tool loop, and strips it when a user speaks again.
func TestE2EOnQwen3AToolLoopExtendsAndAUserTurnSplits(t *testing.T) {
	dir := testkit.Qwen3(t)
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var config struct {
		Template string `json:"chat_template"`
	}
	if err := json.Unmarshal(read("tokenizer_config.json"), &config); err != nil {
		t.Fatal(err)
	}
	r := newReal(t, read("tokenizer.json"), config.Template)
	msgs := []chat.Message{message(chat.User, "Which files are there?")}
	a := r.ask(msgs, chat.Reply{Reasoning: chat.T("I look first."), Calls: []chat.Call{{Name: "bash", Arguments: `{"cmd": "ls"}`}}})
	msgs = append(msgs, echo(a, nil), result(a.Reply.Calls[0].ID, "a.txt"))
	b := r.ask(msgs, chat.Reply{Reasoning: chat.T("One file."), Content: chat.T("There is a.txt.")})
	if b.Continuity.Kind != trajectory.Extend {
		t.Errorf("tool loop: %+v", b.Continuity)
	}
	msgs = append(msgs, echo(b, nil), message(chat.User, "And now?"))
	c := r.ask(msgs, chat.Reply{Reasoning: chat.T("Nothing more."), Content: chat.T("Nothing.")})
	if c.Continuity.Kind != trajectory.Split || c.Continuity.Reason != trajectory.ReasonTokenDrift {
		t.Errorf("user turn: %+v", c.Continuity)
	}
	if e := r.s.Tree().Turn(3).Echoes; len(e) == 0 || e[len(e)-1].Verdict != trajectory.EchoExact {
		t.Errorf("%+v", e)
	}
}
