package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/trajectory"
)

// step runs one event and prints its effects.
func (d *driver) step(e Event) {
	d.t.Helper()
	effects, err := d.s.Step(e)
	if err != nil {
		d.printf("error %s", fault.CodeOf(err))
		return
	}
	for _, e := range effects {
		d.print(e)
	}
}

func (d *driver) print(e Effect) {
	switch e := e.(type) {
	case Generate:
		d.prompts[e.Call] = e.IDs
		d.printf("generate c%d max=%d: %s", e.Call, e.MaxTokens, d.toy.Decode(e.IDs))
	case Cancel:
		d.printf("cancel c%d", e.Call)
	case Append:
		d.append(e)
	case Piece:
		d.printf("piece c%d %q", e.Call, e.Text)
	case Reply:
		again := ""
		if e.Replayed {
			again = " replayed"
		}
		d.printf("reply c%d%s turn %d %s %s: %s", e.Call, again, e.Turn, continuity(e.Continuity), e.Reply.Finish, d.said(e.Reply.Content, e.Reply.Reasoning, e.Reply.Calls))
	case Reject:
		d.printf("reject c%d %s", e.Call, fault.CodeOf(e.Err))
	case Wait:
		d.printf("wait c%d for c%d", e.Call, e.For)
	}
}

func continuity(c trajectory.Continuity) string {
	s := string(c.Kind)
	if c.Reason != "" {
		s += "(" + c.Reason + ")"
	}
	if c.Kind == trajectory.Realign || c.Kind == trajectory.Split {
		s += fmt.Sprintf(" first=%d", c.First)
	}
	if c.Lost > 0 {
		s += fmt.Sprintf(" lost=%d", c.Lost)
	}
	return s
}

// said writes an answer with its ids as $turn.index.
func (d *driver) said(content, reasoning chat.Text, calls []chat.Call) string {
	var out []string
	if reasoning.Presence == chat.Present {
		out = append(out, fmt.Sprintf("think %q", reasoning.S))
	}
	if content.Presence == chat.Present {
		out = append(out, fmt.Sprintf("%q", content.S))
	}
	for _, c := range calls {
		out = append(out, fmt.Sprintf("call %s %s %s", d.shortID(c.ID), c.Name, c.Arguments))
	}
	return strings.Join(out, " ")
}

func (d *driver) shortID(id string) string {
	for _, t := range d.s.Tree().Turns() {
		for i, c := range t.Reply.Calls {
			if c.ID == id {
				return fmt.Sprintf("$%d.%d", t.Seq, i)
			}
		}
	}
	return id
}

func (d *driver) append(a Append) {
	for _, b := range a.Blobs {
		if trajectory.HashOf(b.Bytes) != b.Hash {
			d.t.Errorf("append %d: a blob is not what its hash says", a.ID)
		}
		if _, ok := d.journal.Blob(b.Hash); ok {
			d.t.Errorf("append %d: a blob is there already", a.ID)
		}
		d.journal.AddBlob(b.Hash, b.Bytes)
	}
	var err error
	switch {
	case a.Turn != nil:
		t := *a.Turn
		err = d.journal.Add(&t)
		d.printf("append turn %d: %s", t.Seq, d.facts(&t))
	case a.Delivery != nil:
		err = d.journal.SetDelivery(*a.Delivery)
		d.printf("append turn %d %s", a.Delivery.Seq, a.Delivery.State)
	case a.End != nil:
		err = d.journal.Finish(*a.End)
		d.printf("append end %s turns=%d", a.End.Reason, a.End.Turns)
	}
	if err != nil {
		d.t.Errorf("append %d: %v", a.ID, err)
	}
}

func (d *driver) facts(t *trajectory.Turn) string {
	where := fmt.Sprintf("after %d", t.Parent)
	if t.Parent == 0 {
		where = fmt.Sprintf("root(%s)", t.Why)
		if t.Nearest != 0 {
			where += fmt.Sprintf(" near %d", t.Nearest)
		}
	}
	s := fmt.Sprintf("%s, ids %d+%d+%d, messages %d+%d, %s", where, t.Keep, len(t.Suffix), len(t.Completion), t.MsgKeep, len(t.MsgNew), t.Finish)
	if t.Class != trajectory.ClassPolicy {
		s += ", " + string(t.Class)
	}
	if state := t.LogprobState(); state != trajectory.LogprobOK {
		s += ", " + string(state)
	}
	if t.Error != "" {
		s += ", " + t.Error
	}
	if t.Prompt != trajectory.PromptEchoed {
		s += ", prompt " + string(t.Prompt)
	}
	if len(t.Versions) > 0 {
		s += fmt.Sprintf(", versions %v", t.Versions)
	}
	if t.Asked != "" {
		s += ", asked " + t.Asked
	}
	for _, e := range t.Echoes {
		s += fmt.Sprintf("\n  message %d %s", e.Message, e.Verdict)
		if e.Turn != 0 {
			s += fmt.Sprintf(" of turn %d by %s", e.Turn, e.By)
		}
		if len(e.Which) > 0 {
			s += ": " + strings.Join(e.Which, ", ")
		}
	}
	return s
}

// tree prints every turn with its continuity and fate under the given policy.
func (d *driver) tree(a args) {
	p := d.s.Tree().Header().Policy
	if v := a.named["realign"]; v != "" {
		p.Realign = v
	}
	if v := a.named["refused"]; v != "" {
		p.Refused = v
	}
	if v := a.named["subagents"]; v != "" {
		p.Subagents = v
	}
	p.RealignMax, p.MaxContext = a.num("realign_max", p.RealignMax), a.num("max_context", p.MaxContext)
	t := d.s.Tree()
	fates := trajectory.Fates(t, p)
	for _, turn := range t.Turns() {
		f := fates[turn.Seq]
		line := fmt.Sprintf("%s%d %s: %s", strings.Repeat("  ", t.Depth(turn.Seq)-1), turn.Seq, continuity(trajectory.Continue(t, turn.Seq, p)), f.Kind)
		if f.Reason != "" {
			line += " " + f.Reason
		}
		if f.Again != 0 {
			line += fmt.Sprintf(" (again as %d)", f.Again)
		}
		d.printf("%s", line)
	}
}

// checkAll holds after every trace: the journal alone gives the same tree, and the ids of each turn are those that were
// sent and sampled.
func (d *driver) checkAll() {
	if d.s == nil {
		return
	}
	got, want := d.journal, d.s.Tree()
	if got.Len() != want.Len() {
		d.t.Fatalf("the journal has %d turns, the session %d", got.Len(), want.Len())
	}
	for _, turn := range want.Turns() {
		seq := turn.Seq
		var call CallID
		if _, err := fmt.Sscanf(turn.Call, toyTrajectory+".%d", &call); err != nil {
			d.t.Fatal(err)
		}
		if !slices.Equal(got.Prompt(seq), d.prompts[call]) {
			d.t.Errorf("turn %d: prompt %q, sent %q", seq, d.toy.Decode(got.Prompt(seq)), d.toy.Decode(d.prompts[call]))
		}
		if !slices.Equal(got.Messages(seq), want.Messages(seq)) {
			d.t.Errorf("turn %d: other messages", seq)
		}
		for _, h := range got.Messages(seq) {
			if b, ok := got.Blob(h); !ok || b == nil {
				d.t.Errorf("turn %d: a message has no blob", seq)
			}
		}
		if got.Delivery(seq) != want.Delivery(seq) {
			d.t.Errorf("turn %d: delivery %v in the journal, %v in the session", seq, got.Delivery(seq), want.Delivery(seq))
		}
		if parent := turn.Parent; parent != 0 {
			prompt, ckpt := got.Prompt(seq), got.Checkpoint(parent)
			if !slices.Equal(prompt[:turn.Keep], ckpt[:turn.Keep]) {
				d.t.Errorf("turn %d does not start with what it keeps of its parent", seq)
			}
		}
	}
}
