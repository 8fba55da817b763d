package session

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

const toyTrajectory = "traj"

// driver runs the commands of a trace against one session, and keeps the journal that its effects make.
type driver struct {
	t       testing.TB
	toy     *toy
	s       *Session
	cfg     Config
	now     int64
	last    []chat.Message // of the last call
	prompts map[CallID][]token.ID
	journal *trajectory.Tree // made from the appends alone
	out     strings.Builder
}

// args are a command's words: key=value, and plain ones.
type args struct {
	plain []string
	named map[string]string
}

func (a args) num(key string, def int) int {
	if v, ok := a.named[key]; ok {
		n, err := strconv.Atoi(v)
		if err != nil {
			return -1
		}
		return n
	}
	return def
}

func (a args) has(word string) bool {
	for _, p := range a.plain {
		if p == word {
			return true
		}
	}
	return false
}

// splitArgs reads leading key=value words and flags; the rest is left alone.
func splitArgs(line string) (verb string, a args) {
	a.named = map[string]string{}
	words := strings.Fields(line)
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok && !strings.ContainsAny(k, `{"<`) {
			a.named[k] = v
		} else {
			a.plain = append(a.plain, w)
		}
	}
	return words[0], a
}

func (d *driver) run(block []string) string {
	d.out.Reset()
	d.now += 10
	verb, a := splitArgs(block[0])
	if v, ok := a.named["at"]; ok {
		d.now, _ = strconv.ParseInt(v, 10, 64)
	}
	switch verb {
	case "new":
		d.open(a)
	case "call":
		d.step(d.call(a, block[1:]))
	case "chunk":
		d.step(d.chunk(a))
	case "final":
		d.step(d.final(a))
	case "answer": // chunk, final, persist, deliver
		d.step(d.chunk(a))
		d.step(d.final(a))
		d.persist()
		if !a.has("!") {
			d.step(Delivered{d.id(a), d.now})
		}
	case "fail":
		code := fault.Code(a.plain[1])
		d.step(EngineFailed{d.id(a), fault.New(code, "scripted"), d.now})
	case "persist":
		d.persist()
	case "persist-fails":
		d.step(PersistFailed{errors.New("scripted")})
	case "delivered":
		d.step(Delivered{d.id(a), d.now})
	case "gone":
		d.step(ClientGone{d.id(a), d.now})
	case "seal":
		d.step(Seal{Reason: "finished", Now: a.has("now"), At: d.now})
	case "restore":
		d.restore()
	case "tree":
		d.tree(a)
	default:
		d.t.Fatalf("unknown command %q", verb)
	}
	if d.out.Len() == 0 {
		return "ok\n"
	}
	return d.out.String()
}

func (d *driver) printf(format string, a ...any) { fmt.Fprintf(&d.out, format+"\n", a...) }

func (d *driver) open(a args) {
	d.toy = newToy()
	d.toy.strip, d.toy.lean = a.named["think"] == "strip", a.named["think"] == "lean"
	p := trajectory.DefaultPolicy()
	if v := a.named["realign"]; v != "" {
		p.Realign = v
	}
	p.RealignMax = a.num("realign_max", p.RealignMax)
	d.cfg = Config{
		Family:    d.toy,
		Header:    trajectory.Header{MaxContext: a.num("max_context", 0), VocabSize: 1 << 16, Policy: p},
		MaxTokens: a.num("max_tokens", 99), MaxTurns: a.num("max_turns", 0), Processed: true, Live: a.has("live"),
	}
	d.cfg.Header.Trajectory = toyTrajectory
	switch a.named["marks"] {
	case "tools":
		d.cfg.Classify = byTools
	case "header":
		d.cfg.Classify = func(e *CallArrived) (trajectory.Class, string) { return trajectory.Class(e.Marks["class"]), "header" }
	}
	d.s = New(d.cfg)
	d.journal = trajectory.New(d.s.Tree().Header())
	d.prompts = map[CallID][]token.ID{}
}

// byTools is a classifier: the policy's calls declare tools, auxiliary ones begin with a known prompt.
func byTools(e *CallArrived) (trajectory.Class, string) {
	switch {
	case len(e.Request.Tools) > 0:
		return trajectory.ClassPolicy, "tools"
	case strings.HasPrefix(e.Request.Messages[0].Content.S, "You are a title"):
		return trajectory.ClassAuxiliary, "title"
	}
	return trajectory.ClassUnclassified, "no marks"
}

func (d *driver) id(a args) CallID {
	if len(a.plain) == 0 {
		d.t.Fatal("which call?")
	}
	n, err := strconv.Atoi(strings.TrimPrefix(a.plain[0], "c"))
	if err != nil {
		d.t.Fatalf("call %q", a.plain[0])
	}
	return CallID(n)
}

func (d *driver) call(a args, lines []string) *CallArrived {
	r := &chat.Request{MaxTokens: a.num("max", 0), N: a.num("n", 1)}
	if v := a.named["tools"]; v != "" {
		r.ToolsRaw = []byte(v)
		for _, name := range strings.Split(v, ",") {
			r.Tools = append(r.Tools, ojson.StringOf(name))
		}
	}
	if v := a.named["mode"]; v != "" {
		r.TemplateKwargs = ojson.ObjectOf(ojson.Member{Key: "mode", Value: ojson.StringOf(v)})
	}
	if v := a.named["temperature"]; v != "" {
		r.Asked = append(r.Asked, ojson.Member{Key: "temperature", Value: ojson.NumberOf(v)})
	}
	for _, l := range lines {
		d.message(r, l)
	}
	d.last = r.Messages
	return &CallArrived{Request: r, Session: a.named["session"], ParentSession: a.named["parent"],
		Idempotency: a.named["key"], RetryCount: a.num("retry", 0),
		Marks: map[string]string{"class": a.named["mark"]}, At: d.now}
}

// message reads one line of a request:
//
//	...            the messages of the last call; ...2 the first two of them
//	echo 3         turn 3's answer, as it was given
//	user: text     also system, tool ID, assistant; "(null)" and "(absent)" are no text; "parts " before the role
//	think: text    reasoning of the assistant message before it
//	call ID name arguments
func (d *driver) message(r *chat.Request, line string) {
	head, text, _ := strings.Cut(line, ":")
	words := strings.Fields(head)
	var last *chat.Message
	if n := len(r.Messages); n > 0 {
		last = &r.Messages[n-1]
	}
	switch {
	case strings.HasPrefix(line, "..."):
		n := len(d.last)
		if len(line) > 3 {
			n, _ = strconv.Atoi(line[3:])
		}
		r.Messages = append(r.Messages, d.last[:n]...)
		return
	case words[0] == "echo":
		seq, _ := strconv.Atoi(words[1])
		got := d.s.replyOf(trajectory.Seq(seq))
		r.Messages = append(r.Messages, chat.Message{Role: chat.Assistant, Content: got.Content, Reasoning: got.Reasoning, Calls: got.Calls,
			Raw: fmt.Appendf(nil, "echo %v %v %v", got.Content, got.Reasoning, got.Calls)})
		return
	case words[0] == "think":
		last.Reasoning = chat.T(strings.TrimPrefix(text, " "))
		last.Raw = append(last.Raw, "\n"+line...)
		return
	case words[0] == "call":
		f := strings.SplitN(line, " ", 4)
		last.Calls = append(last.Calls[:len(last.Calls):len(last.Calls)], chat.Call{ID: d.realID(f[1]), Name: f[2], Arguments: f[3]})
		last.Raw = append(last.Raw, "\n"+line...)
		return
	}
	m := chat.Message{Raw: []byte(line), Content: chat.T(strings.TrimPrefix(text, " "))}
	if words[0] == "parts" {
		m.Parts, words = true, words[1:]
	}
	m.Role = chat.Role(words[0])
	switch m.Content.S {
	case "(null)":
		m.Content = chat.Text{Presence: chat.Null}
	case "(absent)":
		m.Content = chat.Text{}
	case "(blank)":
		m.Content = chat.T("  ")
	}
	if m.Role == chat.Tool {
		m.CallID = d.realID(words[1])
	}
	r.Messages = append(r.Messages, m)
}

// realID turns $2.0, the first call of turn 2, into the minted id; other ids stay.
func (d *driver) realID(s string) string {
	var seq, index int
	if n, _ := fmt.Sscanf(s, "$%d.%d", &seq, &index); n == 2 {
		return trajectory.MintCallID(toyTrajectory, trajectory.Seq(seq), index)
	}
	return s
}

func (d *driver) chunk(a args) EngineChunk {
	id := d.id(a)
	e := EngineChunk{Call: id, Version: a.named["version"], At: d.now}
	for _, w := range a.plain[1:] {
		if w != "!" {
			e.IDs = append(e.IDs, d.toy.id(w))
			e.Logprobs = append(e.Logprobs, -0.5)
		}
	}
	switch a.named["logprobs"] {
	case "none":
		e.Logprobs = nil
	case "short":
		e.Logprobs = e.Logprobs[1:]
	case "nan":
		e.Logprobs[0] = float32(math.NaN())
	case "positive":
		e.Logprobs[0] = 0.25
	}
	return e
}

func (d *driver) final(a args) EngineFinal {
	e := EngineFinal{Call: d.id(a), Finish: "stop", Prompt: d.prompts[d.id(a)], At: d.now}
	if v, ok := a.named["finish"]; ok {
		e.Finish = v
	}
	switch a.named["prompt"] {
	case "none":
		e.Prompt = nil
	case "wrong":
		e.Prompt = append(e.Prompt[:len(e.Prompt)-1:len(e.Prompt)-1], 0)
	}
	return e
}

func (d *driver) persist() {
	d.step(Persisted{d.s.appends})
}

// restore makes the session anew from what the journal holds.
func (d *driver) restore() {
	tree := trajectory.New(d.journal.Header())
	for _, turn := range d.journal.Turns() {
		for _, h := range append(append([]trajectory.Hash{}, turn.MsgNew...), turn.Tools, turn.Settings) {
			if b, ok := d.journal.Blob(h); ok {
				tree.AddBlob(h, b)
			}
		}
		if err := tree.Add(turn); err != nil {
			d.t.Fatal(err)
		}
	}
	for _, turn := range d.journal.Turns() {
		if f := d.journal.Delivery(turn.Seq); f.At != 0 {
			if err := tree.SetDelivery(f); err != nil {
				d.t.Fatal(err)
			}
		}
	}
	if e := d.journal.End(); e != nil {
		if err := tree.Finish(*e); err != nil {
			d.t.Fatal(err)
		}
	}
	d.s = Restore(d.cfg, tree)
}
