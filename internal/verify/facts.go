package verify

import (
	"crypto/sha256"
	"math"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// turn is a recorded turn and what the records around it say of it.
type turn struct {
	*trajectory.Turn
	prompt   int // ids
	size     int // ids of its checkpoint
	request  int // node of its message list
	echoed   bool
	children bool
	delivery trajectory.Delivery // "" = no record
	logprobs string              // state

	derived
}

// Lists of messages share their beginnings: a list is a node, its last message and the list before it.
type step struct {
	before  int
	message trajectory.Hash
}

type listNode struct{ before, length int }

// facts proves every record after the header, in order.
func (v *verifier) facts() error {
	v.blobs, v.steps, v.list, v.calls = map[trajectory.Hash]bool{}, map[step]int{}, []listNode{{}}, map[string]bool{}
	for i := range v.file.Records {
		r := &v.file.Records[i]
		var err error
		switch r.Type {
		case artifact.TypeBlob:
			v.begin(ClaimMessages)
			if sha256.Sum256(r.Blob) != r.Hash {
				return v.fail(0, i, "blob of record %d has another hash", i)
			}
			v.blobs[r.Hash] = true
		case artifact.TypeTurn:
			err = v.turn(r.Turn)
		case artifact.TypeDelivery:
			err = v.delivered(r.Delivery)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) turn(n *trajectory.Turn) error {
	t := &turn{Turn: n}
	for _, prove := range []func(*turn) error{
		v.parents, v.keep, v.vocabulary, v.words, v.stop, v.column, v.versions, v.called, v.messages, v.echoes,
	} {
		if err := prove(t); err != nil {
			return err
		}
	}
	v.turns = append(v.turns, t)
	return nil
}

// get is the turn numbered s, which must be there.
func (v *verifier) get(s trajectory.Seq) *turn { return v.turns[s-1] }

func (v *verifier) parents(t *turn) error {
	v.begin(ClaimParents)
	n := trajectory.Seq(len(v.turns))
	switch {
	case t.Seq != n+1:
		return v.fail(t.Seq, -1, "turn %d where %d is due", t.Seq, n+1)
	case t.Parent > n || t.Nearest > n || t.Base > n || t.MsgBase > n:
		return v.fail(t.Seq, -1, "it refers to a later turn")
	case t.Parent > 0 && t.Base != t.Parent:
		return v.fail(t.Seq, -1, "it counts on turn %d, not on its parent %d", t.Base, t.Parent)
	case t.Parent > 0 && t.Nearest != 0:
		return v.fail(t.Seq, -1, "it has a parent and a nearest turn")
	case t.Parent == 0 && t.Base != 0 && t.Base != t.Nearest:
		return v.fail(t.Seq, -1, "a root counts on turn %d, which is not its nearest", t.Base)
	}
	if t.Parent > 0 {
		v.get(t.Parent).children = true
	}
	v.count(1)
	return nil
}

func (v *verifier) keep(t *turn) error {
	v.begin(ClaimKeep)
	base := 0
	if t.Base > 0 {
		base = v.get(t.Base).size
	}
	if t.Keep < 0 || t.Keep > base {
		return v.fail(t.Seq, t.Keep, "it keeps %d ids of %d", t.Keep, base)
	}
	if t.Keep < base && len(t.Suffix) > 0 && v.id(t.Base, t.Keep) == t.Suffix[0] {
		return v.fail(t.Seq, t.Keep, "it shares more than the %d ids that it keeps", t.Keep)
	}
	t.prompt = t.Keep + len(t.Suffix)
	t.size = t.prompt + len(t.Completion)
	v.count(1)
	return nil
}

// id is the i-th id of a turn's checkpoint.
func (v *verifier) id(s trajectory.Seq, i int) token.ID {
	t := v.get(s)
	for i < t.Keep {
		t = v.get(t.Base)
	}
	if i < t.prompt {
		return t.Suffix[i-t.Keep]
	}
	return t.Completion[i-t.prompt]
}

// checkpoint is a turn's prompt and completion.
func (v *verifier) checkpoint(t *turn) []token.ID {
	out := make([]token.ID, t.size)
	copy(out[t.prompt:], t.Completion)
	v.fill(out[:t.prompt], t)
	return out
}

// promptOf is a turn's prompt.
func (v *verifier) promptOf(t *turn) []token.ID {
	out := make([]token.ID, t.prompt)
	v.fill(out, t)
	return out
}

// fill writes the prompt of t, whose length out has, from its end to its beginning.
func (v *verifier) fill(out []token.ID, t *turn) {
	copy(out[t.Keep:], t.Suffix)
	for out = out[:t.Keep]; len(out) > 0; out = out[:min(len(out), t.Keep)] {
		t = v.get(t.Base)
		if len(out) > t.prompt {
			copy(out[t.prompt:], t.Completion)
		}
		if len(out) > t.Keep {
			copy(out[t.Keep:], t.Suffix)
		}
	}
}

func (v *verifier) vocabulary(t *turn) error {
	v.begin(ClaimVocabulary)
	size := v.file.Header.VocabSize
	if size <= 0 {
		return nil // not known
	}
	for _, col := range [][]token.ID{t.Suffix, t.Completion} {
		for i, id := range col {
			if int64(id) >= int64(size) {
				return v.fail(t.Seq, i, "id %d is not in a vocabulary of %d", id, size)
			}
		}
		v.count(len(col))
	}
	return nil
}

func (v *verifier) words(t *turn) error {
	v.begin(ClaimWords)
	switch {
	case !oneOf(string(t.Class), "policy", "auxiliary", "unclassified"):
		return v.fail(t.Seq, -1, "class %q", t.Class)
	case !oneOf(string(t.Finish), "stop", "length", "abort", "error"):
		return v.fail(t.Seq, -1, "finish %q", t.Finish)
	case !oneOf(string(t.Prompt), "echoed", "reported", "sent"):
		return v.fail(t.Seq, -1, "prompt known as %q", t.Prompt)
	}
	v.count(1)
	return nil
}

func (v *verifier) stop(t *turn) error {
	v.begin(ClaimStop)
	if t.Stop == -1 {
		return nil
	}
	n := len(t.Completion)
	if n == 0 || int64(t.Completion[n-1]) != t.Stop {
		return v.fail(t.Seq, n-1, "its last id is not its stop id %d", t.Stop)
	}
	known := false
	for _, s := range v.file.Header.Stops {
		known = known || int64(s) == t.Stop
	}
	if !known && len(v.file.Header.Stops) > 0 {
		return v.fail(t.Seq, n-1, "stop id %d is none of %v", t.Stop, v.file.Header.Stops)
	}
	v.count(1)
	return nil
}

// column judges the log probabilities that the turn would train with.
func (v *verifier) column(t *turn) error {
	v.begin(ClaimLogprobs)
	s := t.Sampling
	changed := s.Temperature != 1 || s.TopP != 1 && s.TopP != 0 || s.TopK > 0 || s.MinP != 0 || s.PresencePenalty != 0 ||
		s.FrequencyPenalty != 0 || s.RepetitionPenalty != 1 && s.RepetitionPenalty != 0
	switch {
	case t.Logprobs == nil, changed && !t.Processed: // what is there is of another distribution than was sampled from
		t.logprobs = "logprob_missing"
	case len(t.Logprobs) != len(t.Completion):
		t.logprobs = "logprob_count"
	default:
		for _, p := range t.Logprobs {
			if f := float64(p); math.IsNaN(f) || math.IsInf(f, 0) || f > 0 {
				t.logprobs = "logprob_invalid"
				return nil
			}
		}
		v.count(len(t.Logprobs))
	}
	return nil
}

func (v *verifier) versions(t *turn) error {
	v.begin(ClaimVersions)
	at := 0
	for i, s := range t.Versions {
		if s.Start != at || s.End <= at || s.End > len(t.Completion) {
			return v.fail(t.Seq, i, "version span %d is %d to %d after %d", i, s.Start, s.End, at)
		}
		at = s.End
	}
	if len(t.Versions) > 0 && at != len(t.Completion) {
		return v.fail(t.Seq, len(t.Versions)-1, "version spans end at %d of %d", at, len(t.Completion))
	}
	v.count(len(t.Versions))
	return nil
}

func (v *verifier) called(t *turn) error {
	v.begin(ClaimCalls)
	for i, c := range t.Reply.Calls {
		switch {
		case c.Span.Start < 0 || c.Span.End < c.Span.Start || c.Span.End > len(t.Completion):
			return v.fail(t.Seq, i, "call %d lies at %d to %d of %d ids", i, c.Span.Start, c.Span.End, len(t.Completion))
		case c.ID != "" && v.calls[c.ID]:
			return v.fail(t.Seq, i, "call id %q is not unique", c.ID)
		}
		v.calls[c.ID] = c.ID != ""
		v.count(1)
	}
	return nil
}

func (v *verifier) messages(t *turn) error {
	v.begin(ClaimMessages)
	at := 0
	if t.MsgBase > 0 {
		at = v.get(t.MsgBase).request
	}
	if t.MsgKeep < 0 || t.MsgKeep > v.list[at].length {
		return v.fail(t.Seq, t.MsgKeep, "it keeps %d messages of %d", t.MsgKeep, v.list[at].length)
	}
	for v.list[at].length > t.MsgKeep {
		at = v.list[at].before
	}
	for i, h := range t.MsgNew {
		if !v.blobs[h] {
			return v.fail(t.Seq, t.MsgKeep+i, "message %d is not in the file", t.MsgKeep+i)
		}
		next, ok := v.steps[step{at, h}]
		if !ok {
			next = len(v.list)
			v.list = append(v.list, listNode{at, v.list[at].length + 1})
			v.steps[step{at, h}] = next
		}
		at = next
	}
	t.request = at
	for _, h := range []trajectory.Hash{t.Tools, t.Settings} {
		if h != (trajectory.Hash{}) && !v.blobs[h] {
			return v.fail(t.Seq, -1, "its tools or settings are not in the file")
		}
	}
	v.count(len(t.MsgNew))
	return nil
}

func (v *verifier) echoes(t *turn) error {
	v.begin(ClaimEchoes)
	parent := false
	for i, e := range t.Echoes {
		switch {
		case !oneOf(string(e.Verdict), "exact", "equivalent", "rewritten", "foreign"):
			return v.fail(t.Seq, i, "verdict %q", e.Verdict)
		case e.Message < 0 || e.Message >= v.list[t.request].length:
			return v.fail(t.Seq, i, "an echo at message %d of %d", e.Message, v.list[t.request].length)
		case e.Turn >= t.Seq:
			return v.fail(t.Seq, i, "an echo of turn %d, which is not earlier", e.Turn)
		case (e.Turn == 0) != (e.Verdict == trajectory.EchoForeign):
			return v.fail(t.Seq, i, "a %s echo of turn %d", e.Verdict, e.Turn)
		}
		if e.Turn > 0 {
			v.get(e.Turn).echoed = true
		}
		parent = parent || e.Turn == t.Parent
		v.count(1)
	}
	if t.Why == "echo" && t.Parent > 0 && !parent {
		return v.fail(t.Seq, -1, "it was placed by an echo of turn %d, which is not recorded", t.Parent)
	}
	return nil
}

func (v *verifier) delivered(d *trajectory.DeliveryFact) error {
	v.begin(ClaimDelivery)
	if !oneOf(string(d.State), "delivered", "undelivered", "ambiguous", "aborted") {
		return v.fail(d.Seq, -1, "delivery is %q", d.State)
	}
	if d.Seq == 0 || int(d.Seq) > len(v.turns) {
		return v.fail(0, -1, "a delivery of turn %d, which is not recorded", d.Seq)
	}
	if t := v.get(d.Seq); t.delivery != trajectory.DeliveryDelivered { // what arrived has arrived
		t.delivery = d.State
	}
	v.count(1)
	return nil
}
