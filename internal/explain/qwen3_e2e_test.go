//go:build e2e

package explain_test

import (
	"encoding/json"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/explain"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/testkit"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// talk is a conversation with Qwen3's own tokenizer and template. Completions are texts, encoded as the policy would.
type talk struct {
	t      *testing.T
	m      *model.Model
	tree   *trajectory.Tree
	bodies map[trajectory.Seq][]family.Body
}

func newTalk(t *testing.T) *talk {
	m, err := model.Load(testkit.Qwen3(t))
	if err != nil {
		t.Fatal(err)
	}
	h := trajectory.Header{Identities: trajectory.Identities{Trajectory: "t"}, Model: trajectory.ModelInfo{Family: m.Family.Name()}}
	return &talk{t: t, m: m, tree: trajectory.New(h), bodies: map[trajectory.Seq][]family.Body{}}
}

func (k *talk) turn(completion string, msgs ...chat.Message) chat.Message {
	k.t.Helper()
	return k.sampled(k.m.Tokenizer.Encode(completion), msgs...)
}

// sampled renders msgs, records the completion and returns the parsed reply as the harness would see it.
func (k *talk) sampled(ids []token.ID, msgs ...chat.Message) chat.Message {
	k.t.Helper()
	match := k.tree.Match(msgs)
	c := family.Conversation{Messages: msgs, Sampled: k.tree.Sampled(match)}
	r, err := k.m.Family.Render(c)
	if err != nil {
		k.t.Fatal(err)
	}
	k.tree.Settle(match, msgs, r.IDs)
	p := k.tree.Place(match, msgs, r.IDs, trajectory.Hints{Class: trajectory.ClassPolicy})
	parser := k.m.Family.Parse(family.ParseInput{Prompt: r.IDs})
	parser.Add(ids)
	parsed, _ := parser.Done(true)
	seq := trajectory.Seq(k.tree.Len() + 1)
	n := &trajectory.Turn{Seq: seq, Class: trajectory.ClassPolicy, Parent: p.Parent, Nearest: p.Nearest, Why: p.Why, Base: p.Base,
		Keep: p.Keep, Suffix: r.IDs[p.Keep:], Completion: ids, Logprobs: make([]float32, len(ids)), Prompt: trajectory.PromptEchoed,
		Sampling: chat.Neutral(), Processed: true, Finish: trajectory.FinishStop, Stop: int64(ids[len(ids)-1]), MsgBase: match.Base,
		MsgKeep: match.Keep, MsgNew: match.Hashes[match.Keep:], Echoes: match.Echoes}
	echo := chat.Message{Role: chat.Assistant, Content: parsed.Content, Reasoning: parsed.Reasoning}
	n.Reply = trajectory.Reply{Content: parsed.Content, Reasoning: parsed.Reasoning, End: string(parsed.End)}
	for i, c := range parsed.Calls {
		id := trajectory.MintCallID("t", seq, i)
		n.Reply.Calls = append(n.Reply.Calls, trajectory.CallFact{ID: id, Name: c.Name, Arguments: c.Arguments, Status: string(c.Status), Span: c.Span})
		echo.Calls = append(echo.Calls, chat.Call{ID: id, Name: c.Name, Arguments: c.Arguments})
	}
	for i, h := range match.Hashes {
		k.tree.AddBlob(h, msgs[i].Raw)
	}
	if err := k.tree.Add(n); err != nil {
		k.t.Fatal(err)
	}
	if e, ok := k.m.Family.(family.Explainer); ok {
		k.bodies[seq] = e.Bodies(c, r)
	}
	return wire(echo)
}

// wire fills a message's raw bytes from its fields.
func wire(m chat.Message) chat.Message {
	raw := map[string]any{"role": m.Role, "content": m.Content.S}
	if m.Reasoning.S != "" {
		raw["reasoning_content"] = m.Reasoning.S
	}
	if m.CallID != "" {
		raw["tool_call_id"] = m.CallID
	}
	var calls []any
	for _, c := range m.Calls {
		calls = append(calls, map[string]any{"id": c.ID, "type": "function", "function": map[string]string{"name": c.Name, "arguments": c.Arguments}})
	}
	if calls != nil {
		raw["tool_calls"] = calls
	}
	m.Raw, _ = json.Marshal(raw)
	return m
}

func (k *talk) items() []explain.Item {
	r := explain.With(k.tree, trajectory.DefaultPolicy(), explain.Options{Decode: k.m.Family.Decode,
		Bodies: func(seq trajectory.Seq) []family.Body { return k.bodies[seq] }})
	k.t.Log("\n" + r.Text())
	plain := explain.Explain(k.tree, trajectory.DefaultPolicy(), k.m.Family.Decode)
	for i := range r.Items {
		if plain.Items[i].Class != r.Items[i].Class || plain.Items[i].Message != r.Items[i].Message {
			k.t.Errorf("without bodies item %d is %s in message %d", i, plain.Items[i].Class, plain.Items[i].Message)
		}
	}
	return r.Items
}

func (k *talk) expect(kind trajectory.Kind, class explain.Class, message int, field string) {
	k.t.Helper()
	items := k.items()
	if len(items) != 1 {
		k.t.Fatalf("%d items", len(items))
	}
	if it := items[0]; it.Kind != kind || it.Class != class || it.Message != message || it.Field != field {
		k.t.Errorf("%s, %s in message %d, %s; want %s, %s in message %d, %s", it.Kind, it.Class, it.Message, it.Field, kind, class, message, field)
	}
}

func user(s string) chat.Message { return wire(chat.Message{Role: chat.User, Content: chat.T(s)}) }

func toolResult(of chat.Message, i int, s string) chat.Message {
	return wire(chat.Message{Role: chat.Tool, Content: chat.T(s), CallID: of.Calls[i].ID})
}

const callText = "<think>\nI look.\n</think>\n\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\", \"quiet\": true}}\n</tool_call><|im_end|>"

func TestE2EQwen3KeepsThinkingWithinATaskAndStripsItAfterAUserMessage(t *testing.T) {
	k := newTalk(t)
	a := k.turn(callText, user("go"))
	b := k.turn("<think>\nDone.\n</think>\n\nIt is there.<|im_end|>", user("go"), a, toolResult(a, 0, "file"))
	k.turn("Yes.<|im_end|>", user("go"), a, toolResult(a, 0, "file"), b, user("sure?"))
	k.expect(trajectory.Split, explain.ThinkingStripped, 1, "reasoning")
}

func TestE2EQwen3SerialisesArgumentsAgain(t *testing.T) {
	k := newTalk(t)
	a := k.turn("<think>\nI look.\n</think>\n\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\":\"ls\"}}\n</tool_call><|im_end|>", user("go"))
	a.Calls[0].Arguments = `{"command": "ls"}`
	a = wire(a)
	k.turn("Yes.<|im_end|>", user("go"), a, toolResult(a, 0, "file"))
	k.expect(trajectory.Realign, explain.ArgumentReserial, 1, "arguments")
}

func TestE2EQwen3AddsWhiteSpaceBeforeACall(t *testing.T) {
	k := newTalk(t)
	a := k.turn("<think>\nI look.\n</think>\n\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>\n<|im_end|>", user("go"))
	k.turn("Yes.<|im_end|>", user("go"), a, toolResult(a, 0, "file"))
	k.expect(trajectory.Realign, explain.NewlineOrEndToken, 1, "scaffold")
}

func TestE2EQwen3MergesWhatWasSampledInPieces(t *testing.T) {
	k := newTalk(t)
	var pieces []token.ID
	for _, s := range []string{"<think>\nI look.\n</think>\n\nhello wo", "rld\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {}}\n</tool_call><|im_end|>"} {
		pieces = append(pieces, k.m.Tokenizer.Encode(s)...)
	}
	a := k.sampled(pieces, user("go"))
	k.turn("Yes.<|im_end|>", user("go"), a, toolResult(a, 0, "file"))
	k.expect(trajectory.Realign, explain.BPEMerge, 1, "content")
}
