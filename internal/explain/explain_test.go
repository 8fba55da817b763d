package explain_test

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/explain"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

var rewrite = flag.Bool("rewrite", false, "write the golden reports anew")

// The toy format: an id is a byte, or one of these. ~ab~ in a text stands for one id that reads ab; ^e^ for the four bytes
// of <e> as text.
var specials = []string{"<e>", "<think>", "</think>", "<call>", "</call>", "ab"}

func encode(s string) []token.ID {
	s = strings.ReplaceAll(s, "~ab~", "\x00")
	var out []token.ID
scan:
	for i := 0; i < len(s); {
		if rest := s[i:]; strings.HasPrefix(rest, "^e^") {
			out = append(out, '<', 'e', '>')
			i += 3
			continue
		} else if rest[0] == 0 {
			out = append(out, 256+5)
			i++
			continue
		}
		for k, sp := range specials[:5] {
			if strings.HasPrefix(s[i:], sp) {
				out = append(out, token.ID(256+k))
				i += len(sp)
				continue scan
			}
		}
		out = append(out, token.ID(s[i]))
		i++
	}
	return out
}

func decode(ids []token.ID) string {
	var b strings.Builder
	for _, id := range ids {
		if id >= 256 {
			b.WriteString(specials[id-256])
		} else {
			b.WriteByte(byte(id))
		}
	}
	return b.String()
}

// call is one request and its answer. prompt is what the messages rendered to.
type call struct {
	prompt     string
	msgs       []chat.Message
	completion string
	reply      trajectory.Reply
	finish     trajectory.Finish
	class      trajectory.Class
	tools      string
	settings   string
	session    string
}

func msg(role chat.Role, content string) chat.Message {
	m := chat.Message{Role: role, Content: chat.T(content)}
	m.Raw, _ = json.Marshal(map[string]string{"role": string(role), "content": content})
	return m
}

// said is an assistant message with reasoning and calls of the tool f, in pairs of id and arguments.
func said(reasoning, content string, calls ...string) chat.Message {
	m := chat.Message{Role: chat.Assistant, Content: chat.T(content)}
	raw := map[string]any{"role": "assistant", "content": content}
	if reasoning != "" {
		m.Reasoning = chat.T(reasoning)
		raw["reasoning_content"] = reasoning
	}
	var list []any
	for i := 0; i < len(calls); i += 2 {
		m.Calls = append(m.Calls, chat.Call{ID: calls[i], Name: "f", Arguments: calls[i+1]})
		list = append(list, map[string]any{"id": calls[i], "function": map[string]string{"name": "f", "arguments": calls[i+1]}})
	}
	if list != nil {
		raw["tool_calls"] = list
	}
	m.Raw, _ = json.Marshal(raw)
	return m
}

func result(id, content string) chat.Message {
	m := chat.Message{Role: chat.Tool, Content: chat.T(content), CallID: id}
	m.Raw, _ = json.Marshal(map[string]string{"role": "tool", "tool_call_id": id, "content": content})
	return m
}

// answered parses a toy completion's calls into a reply, with ids c1, c2, … from first.
func answered(completion, reasoning, content string, calls ...string) trajectory.Reply {
	r := trajectory.Reply{Content: chat.T(content), End: "stop"}
	if reasoning != "" {
		r.Reasoning = chat.T(reasoning)
	}
	ids, at := encode(completion), 0
	for i := 0; i < len(calls); i += 2 {
		start := at
		for ids[start] != 259 {
			start++
		}
		for at = start; ids[at] != 260; {
			at++
		}
		at++
		r.Calls = append(r.Calls, trajectory.CallFact{ID: calls[i], Name: "f", Arguments: calls[i+1], Status: "ok", Span: token.Span{Start: start, End: at}})
	}
	return r
}

// record commits calls as a session does: match, place, add.
func record(t *testing.T, calls []call) *trajectory.Tree {
	t.Helper()
	tree := trajectory.New(trajectory.Header{Identities: trajectory.Identities{Trajectory: "t"}, Model: trajectory.ModelInfo{Family: "toy"}})
	hash := func(s string) trajectory.Hash {
		if s == "" {
			return trajectory.Hash{}
		}
		return trajectory.HashOf([]byte(s))
	}
	for i, c := range calls {
		prompt := encode(c.prompt)
		m := tree.Match(c.msgs)
		tree.Settle(m, c.msgs, prompt)
		if c.class == "" {
			c.class = trajectory.ClassPolicy
		}
		if c.finish == "" {
			c.finish = trajectory.FinishStop
		}
		p := tree.Place(m, c.msgs, prompt, trajectory.Hints{Class: c.class, Session: c.session})
		n := &trajectory.Turn{Seq: trajectory.Seq(i + 1), Class: c.class, Parent: p.Parent, Nearest: p.Nearest, Why: p.Why, Base: p.Base,
			Keep: p.Keep, Suffix: prompt[p.Keep:], Completion: encode(c.completion), Prompt: trajectory.PromptEchoed, Finish: c.finish,
			Sampling: chat.Neutral(), Processed: true, Stop: -1, Logprobs: make([]float32, len(encode(c.completion))), MsgBase: m.Base, MsgKeep: m.Keep, MsgNew: m.Hashes[m.Keep:],
			Echoes: m.Echoes, Tools: hash(c.tools), Settings: hash(c.settings), Reply: c.reply, Session: c.session}
		if k := len(n.Completion); k > 0 && n.Completion[k-1] == 256 {
			n.Stop = 256
		}
		for j, h := range m.Hashes {
			tree.AddBlob(h, c.msgs[j].Raw)
		}
		if err := tree.Add(n); err != nil {
			t.Fatal(err)
		}
		if err := tree.SetDelivery(trajectory.DeliveryFact{Seq: n.Seq, State: trajectory.DeliveryDelivered}); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

type want struct {
	Kind    trajectory.Kind
	Class   explain.Class
	Message int
	Field   string
	Sampled trajectory.Seq
}

const head = "[system]be kind<e>\n[user]hi<e>\n[assistant]"

var (
	sys = msg(chat.System, "be kind")
	hi  = msg(chat.User, "hi")
	on  = msg(chat.User, "go on")
)

const goOn = "\n[user]go on<e>\n[assistant]"

// ask is a first call that says hello.
func ask(completion, reasoning, content string, calls ...string) call {
	return call{prompt: head, msgs: []chat.Message{sys, hi}, completion: completion, reply: answered(completion, reasoning, content, calls...)}
}

// then is a second call that follows by the given prompt after head, with the given echo and what comes after it.
func then(prompt string, msgs ...chat.Message) call {
	return call{prompt: head + prompt, msgs: append([]chat.Message{sys, hi}, msgs...), completion: "bye<e>", reply: answered("", "", "bye")}
}

var cases = []struct {
	name  string
	calls []call
	want  want
}{
	{"ThinkingIsStripped", []call{
		ask("<think>well</think>hello<e>", "well", "hello"),
		then("hello<e>"+goOn, said("", "hello"), on),
	}, want{trajectory.Split, explain.ThinkingStripped, 2, "reasoning", 1}},
	{"ThinkingOfAnEarlierTurnIsStrippedByTheTemplate", []call{
		ask("<think>well</think>hello<e>", "well", "hello"),
		{prompt: head + "<think>well</think>hello<e>" + goOn, msgs: []chat.Message{sys, hi, said("well", "hello"), on}, completion: "yes<e>", reply: answered("", "", "yes")},
		{prompt: head + "hello<e>" + goOn + "yes<e>" + goOn, msgs: []chat.Message{sys, hi, said("well", "hello"), on, said("", "yes"), on}, completion: "no<e>"},
	}, want{trajectory.Split, explain.ThinkingStripped, 2, "reasoning", 1}},
	{"WhiteSpaceBeforeTheEndIsTrimmed", []call{
		ask("hello \n<e>", "", "hello \n"),
		then("hello<e>"+goOn, said("", "hello \n"), on),
	}, want{trajectory.Realign, explain.NewlineOrEndToken, 2, "end", 1}},
	{"TheStopIsFollowedByAnotherEnd", []call{
		ask("hello<e>", "", "hello"),
		then("hello\n<e>"+goOn, said("", "hello"), on),
	}, want{trajectory.Realign, explain.NewlineOrEndToken, 2, "end", 1}},
	{"TwoIdsComeBackAsOne", []call{
		ask("fabric<e>", "", "fabric"),
		then("f~ab~ric<e>"+goOn, said("", "fabric"), on),
	}, want{trajectory.Realign, explain.BPEMerge, 2, "content", 1}},
	{"ArgumentsAreSerialisedAgain", []call{
		ask(`<call>{"name": "f", "arguments": {"x":1}}</call><e>`, "", "", "c1", `{"x":1}`),
		then(`<call>{"name": "f", "arguments": {"x": 1}}</call><e>`+"\n[tool]ok<e>\n[assistant]", said("", "", "c1", `{"x": 1}`), result("c1", "ok")),
	}, want{trajectory.Realign, explain.ArgumentReserial, 2, "arguments", 1}},
	{"TrueComesBackAsTrueOfPython", []call{
		ask(`<call>{"name": "f", "arguments": {"x": true}}</call><e>`, "", "", "c1", `{"x": true}`),
		then(`<call>{"name": "f", "arguments": {"x": True}}</call><e>`+"\n[tool]ok<e>\n[assistant]", said("", "", "c1", `{"x": true}`), result("c1", "ok")),
	}, want{trajectory.Realign, explain.BooleanCase, 2, "arguments", 1}},
	{"ADateInTheSystemPromptChanges", []call{
		{prompt: "[system]day 1<e>\n[user]hi<e>\n[assistant]", msgs: []chat.Message{msg(chat.System, "day 1"), hi}, completion: "hello<e>", reply: answered("", "", "hello")},
		{prompt: "[system]day 2<e>\n[user]hi<e>\n[assistant]hello<e>" + goOn, msgs: []chat.Message{msg(chat.System, "day 2"), hi, said("", "hello"), on}, completion: "bye<e>"},
	}, want{trajectory.Split, explain.VolatileHeader, 0, "content", 0}},
	{"ToolResultsChangePlaces", []call{
		ask(`<call>a</call><call>b</call><e>`, "", "", "c1", "a", "c2", "b"),
		{prompt: head + "<call>a</call><call>b</call><e>\n[tool]one<e>\n[tool]two<e>\n[assistant]", msgs: []chat.Message{sys, hi, said("", "", "c1", "a", "c2", "b"), result("c1", "one"), result("c2", "two")}, completion: "done<e>", reply: answered("", "", "done")},
		{prompt: head + "<call>a</call><call>b</call><e>\n[tool]two<e>\n[tool]one<e>\n[assistant]done<e>" + goOn, msgs: []chat.Message{sys, hi, said("", "", "c1", "a", "c2", "b"), result("c2", "two"), result("c1", "one"), said("", "done"), on}, completion: "bye<e>"},
	}, want{trajectory.Split, explain.ToolResultOrder, 3, "content", 0}},
	{"AToolResultIsCutLater", []call{
		ask(`<call>a</call><e>`, "", "", "c1", "a"),
		{prompt: head + "<call>a</call><e>\n[tool]a long result<e>\n[assistant]", msgs: []chat.Message{sys, hi, said("", "", "c1", "a"), result("c1", "a long result")}, completion: "done<e>", reply: answered("", "", "done")},
		{prompt: head + "<call>a</call><e>\n[tool]a long<e>\n[assistant]done<e>" + goOn, msgs: []chat.Message{sys, hi, said("", "", "c1", "a"), result("c1", "a long"), said("", "done"), on}, completion: "bye<e>"},
	}, want{trajectory.Split, explain.Truncation, 3, "scaffold", 0}},
	{"EarlierMessagesAreLeftOut", []call{
		ask("hello<e>", "", "hello"),
		then("hello<e>"+goOn, said("", "hello"), on),
		{prompt: "[system]be kind<e>" + goOn + "bye<e>" + goOn, msgs: []chat.Message{sys, on, said("", "bye"), on}, completion: "ok<e>"},
	}, want{trajectory.Split, explain.Truncation, 1, "content", 0}},
	{"ASpelledTokenBecomesTheToken", []call{
		ask("say ^e^ twice<e>", "", "say <e> twice"),
		then("say <e> twice<e>"+goOn, said("", "say <e> twice"), on),
	}, want{trajectory.Realign, explain.InjectedSpecial, 2, "content", 1}},
	{"ToolsChange", []call{
		{prompt: "[tools]f<e>" + head, msgs: []chat.Message{sys, hi}, tools: "f", completion: "hello<e>", reply: answered("", "", "hello")},
		{prompt: "[tools]f, g<e>" + head + "hello<e>" + goOn, msgs: []chat.Message{sys, hi, said("", "hello"), on}, tools: "f, g", completion: "bye<e>"},
	}, want{trajectory.Split, explain.ToolsChanged, -1, "", 0}},
	{"SettingsChange", []call{
		{prompt: "[on]" + head, msgs: []chat.Message{sys, hi}, settings: "on", completion: "hello<e>", reply: answered("", "", "hello")},
		{prompt: "[off]" + head + "hello<e>" + goOn, msgs: []chat.Message{sys, hi, said("", "hello"), on}, settings: "off", completion: "bye<e>"},
	}, want{trajectory.Split, explain.SettingsChanged, -1, "", 0}},
	{"TheHarnessRewritesACall", []call{
		ask(`<call>rm</call><e>`, "", "", "c1", "rm"),
		then("<call>ls</call><e>\n[tool]ok<e>\n[assistant]", said("", "", "c1", "ls"), result("c1", "ok")),
	}, want{trajectory.Split, explain.HistoryRewritten, 2, "arguments", 1}},
	{"AUserMessageIsEdited", []call{
		ask("hello<e>", "", "hello"),
		{prompt: "[system]be kind<e>\n[user]ho there<e>\n[assistant]hello<e>" + goOn, msgs: []chat.Message{sys, msg(chat.User, "ho there"), said("", "hello"), on}, completion: "bye<e>"},
	}, want{trajectory.Split, explain.MessageEdited, 1, "content", 0}},
	{"TheHistoryIsCompacted", []call{
		ask("hello<e>", "", "hello"),
		then("hello<e>"+goOn, said("", "hello"), on),
		{prompt: "[system]be kind<e>\n[user]so far: hello<e>\n[assistant]", msgs: []chat.Message{sys, msg(chat.User, "so far: hello")}, completion: "ok<e>"},
	}, want{trajectory.Root, explain.Compaction, 1, "", 0}},
	{"AnAnswerIsLeftOut", []call{
		ask("hello<e>", "", "hello"),
		then("[user]go on<e>\n[assistant]", on),
	}, want{trajectory.Root, explain.HistoryRewritten, 2, "", 1}},
	{"ASubAgentBegins", []call{
		{prompt: head, msgs: []chat.Message{sys, hi}, session: "a", completion: "hello<e>", reply: answered("", "", "hello")},
		{prompt: "[user]sub<e>\n[assistant]", msgs: []chat.Message{msg(chat.User, "sub")}, session: "b", completion: "ok<e>"},
	}, want{trajectory.Root, explain.SubAgent, -1, "", 0}},
	{"AnAuxiliaryCall", []call{
		ask("hello<e>", "", "hello"),
		{prompt: "[user]title?<e>\n[assistant]", msgs: []chat.Message{msg(chat.User, "title?")}, class: trajectory.ClassAuxiliary, completion: "Hi<e>"},
	}, want{trajectory.Root, explain.AuxiliaryCall, -1, "", 0}},
	{"AskedAgain", []call{
		ask("hello<e>", "", "hello"),
		{prompt: head, msgs: []chat.Message{sys, hi}, completion: "hey<e>", reply: answered("", "", "hey")},
	}, want{trajectory.Root, explain.AskedAgain, -1, "", 1}},
	{"AnotherConversation", []call{
		ask("hello<e>", "", "hello"),
		{prompt: "[user]new<e>\n[assistant]", msgs: []chat.Message{msg(chat.User, "new")}, completion: "ok<e>"},
	}, want{trajectory.Root, explain.NewConversation, -1, "", 0}},
	{"TheSameMessagesGiveOtherIds", []call{
		ask("hello<e>", "", "hello"),
		{prompt: "!" + head + "hello<e>" + goOn, msgs: []chat.Message{sys, hi, said("", "hello"), on}, completion: "bye<e>"},
	}, want{trajectory.Split, explain.RenderedDifferently, -1, "", 0}},
	{"TheAnswersFirstIdJoinsWithThePromptsLast", []call{
		{prompt: head + "a", msgs: []chat.Message{sys, hi}, completion: "bc<e>", reply: answered("", "", "bc")},
		{prompt: head + "~ab~c<e>" + goOn + "a", msgs: []chat.Message{sys, hi, said("", "bc"), on}, completion: "bye<e>"},
	}, want{trajectory.Split, explain.BPEMerge, 2, "content", 1}},
}

func TestEveryClassIsToldFromTheOthers(t *testing.T) {
	seen := map[explain.Class]bool{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			tree := record(t, c.calls)
			r := explain.Explain(tree, trajectory.DefaultPolicy(), decode)
			if len(r.Items) == 0 {
				t.Fatal("nothing is explained")
			}
			it := r.Items[len(r.Items)-1]
			got := want{it.Kind, it.Class, it.Message, it.Field, it.Sampled}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s\n%s", d, r.Text())
			}
			checkSides(t, tree, it)
			golden(t, c.name, r)
		})
		seen[c.want.Class] = true
	}
	if len(seen) != 19 {
		t.Errorf("%d classes are tested, want all 19", len(seen))
	}
}

// checkSides: the ids shown are those of the two sequences at the place named.
func checkSides(t *testing.T, tree *trajectory.Tree, it explain.Item) {
	t.Helper()
	now := tree.Prompt(it.Turn)
	if it.Parent == 0 {
		return
	}
	was := tree.Checkpoint(it.Parent)
	if it.First != token.CommonPrefix(was, now) {
		t.Fatalf("the first difference is %d, not %d", token.CommonPrefix(was, now), it.First)
	}
	if d := cmp.Diff(it.Was.IDs, was[it.First:min(len(was), it.First+12)]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(it.Now.IDs, now[it.First:min(len(now), it.First+12)]); d != "" && it.First < len(now) {
		t.Error(d)
	}
	if it.Kind == trajectory.Realign && (it.Lost != len(was)-it.First || it.Cost > it.Lost) {
		t.Errorf("%d ids are left out, not %d; cost %d", len(was)-it.First, it.Lost, it.Cost)
	}
}

func golden(t *testing.T, name string, r explain.Report) {
	t.Helper()
	js, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got := r.Text() + "\n" + strings.ReplaceAll(string(js), `{"turn"`, "\n{\"turn\"") + "\n"
	file := filepath.Join("testdata", name+".txt")
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	had, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(had), got); d != "" {
		t.Errorf("report differs (-recorded +now):\n%s", d)
	}
}

func TestASplitThatAnotherPolicyWouldRealignSaysSo(t *testing.T) {
	tree := record(t, cases[2].calls)
	p := trajectory.DefaultPolicy()
	p.Realign = "off"
	it := explain.Explain(tree, p, decode).Items[0]
	if it.Kind != trajectory.Split || !strings.Contains(it.Avoid, "--realign prefix --realign-max 3") {
		t.Errorf("%+v", it)
	}
}

func TestWhatTrainsInAnotherSegmentIsNotLost(t *testing.T) {
	calls := []call{
		ask("hello \n<e>", "", "hello \n"),
		then("hello<e>"+goOn, said("", "hello \n"), on),
	}
	it := explain.Explain(record(t, calls), trajectory.DefaultPolicy(), decode).Items[0]
	if it.Lost != 3 || it.Cost != 3 {
		t.Errorf("left out %d, cost %d; want 3 and 3", it.Lost, it.Cost)
	}
	calls = append(calls, then("hello \n<e>\n[user]or not<e>\n[assistant]", said("", "hello \n"), msg(chat.User, "or not")))
	it = explain.Explain(record(t, calls), trajectory.DefaultPolicy(), decode).Items[0]
	if it.Lost != 3 || it.Cost != 0 {
		t.Errorf("left out %d, cost %d; want 3 and 0", it.Lost, it.Cost)
	}
}

func TestBodiesOfTheFamilySayWhoseTextItIs(t *testing.T) {
	tree := record(t, cases[7].calls)
	bodies := func(trajectory.Seq) []family.Body {
		return []family.Body{{Span: token.Span{Start: 8, End: 13}, Message: 0, Field: "content"}}
	}
	it := explain.With(tree, trajectory.DefaultPolicy(), explain.Options{Decode: decode, Bodies: bodies}).Items[0]
	if it.Message != 0 || it.Field != "content" || it.Role != "system" {
		t.Errorf("%+v", it)
	}
}

func TestWithoutADecoderTheIdsAreShown(t *testing.T) {
	tree := record(t, cases[4].calls)
	r := explain.Explain(tree, trajectory.DefaultPolicy(), nil)
	if len(r.Items) != 1 || !strings.Contains(r.Text(), "[261 ") {
		t.Errorf("%s", r.Text())
	}
}

// TestAnyTrajectoryIsExplained: whatever comes, every turn is counted once, and the same trajectory gives the same report.
func TestAnyTrajectoryIsExplained(t *testing.T) {
	items := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		pool := []call{}
		for _, c := range cases {
			pool = append(pool, c.calls...)
		}
		var calls []call
		for range 1 + r.IntN(8) {
			c := pool[r.IntN(len(pool))]
			c.reply.Calls = nil // minted ids are unique
			if other := pool[r.IntN(len(pool))]; r.IntN(3) == 0 {
				c.prompt = other.prompt[:r.IntN(len(other.prompt)+1)]
			}
			calls = append(calls, c)
		}
		tree := record(t, calls)
		rep := explain.Explain(tree, trajectory.DefaultPolicy(), decode)
		for _, it := range rep.Items {
			checkSides(t, tree, it)
		}
		firsts := rep.Turns - rep.Extends - len(rep.Items)
		if rep.Text() != explain.Explain(tree, trajectory.DefaultPolicy(), decode).Text() || firsts < 0 {
			t.Fatalf("seed %d: %d turns, %d extends, %d items", seed, rep.Turns, rep.Extends, len(rep.Items))
		}
		items += len(rep.Items)
	}
	if items == 0 {
		t.Fatal("nothing was explained")
	}
}

func TestATrajectoryThatOnlyExtendsHasNothingToExplain(t *testing.T) {
	tree := record(t, []call{ask("hello<e>", "", "hello"), then("hello<e>"+goOn, said("", "hello"), on)})
	r := explain.Explain(tree, trajectory.DefaultPolicy(), decode)
	if len(r.Items) != 0 || r.Extends != 1 || r.Turns != 2 {
		t.Errorf("%+v", r)
	}
}
