package trajectory

import (
	"crypto/sha256"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// HashOf is the content address of b.
func HashOf(b []byte) Hash { return sha256.Sum256(b) }

// Tree holds the turns of one trajectory. Its memory is linear in the distinct ids and messages: a prompt is stored as
// the part that it shares with an earlier checkpoint and the rest. It is not safe for concurrent use while it is changed;
// any number of goroutines may read one that is not.
type Tree struct {
	header Header
	nodes  []node // nodes[seq-1]
	blobs  map[Hash][]byte
	end    *End

	prefixes map[Hash]Seq      // rolling hash of leading messages -> the first turn whose request began with them
	requests map[Hash][]Seq    // identity of a request -> turns that answered it, in order
	calls    map[string]callOf // minted tool-call id -> where it was sampled
	modelIDs bool              // whether a call has an id of the model's own
	texts    map[textKey][]Seq // what was said -> turns that said it, in order
	sessions map[string]Seq    // session header -> its latest turn
	whole    map[Hash]Seq      // rolling hash of all messages of a request -> the latest turn that answered it
	roots    []Seq
	acted    bool // there is a turn that is not auxiliary
}

// node is a turn and what follows from it.
type node struct {
	*Turn
	depth     int
	promptLen int
	messages  int    // of the request
	chain     []Hash // rolling hashes of the request's messages, from MsgKeep on
	request   Hash   // identity of the request: messages, tools, settings
	children  []Seq
	echoed    bool // some later request holds an echo of it
	delivery  DeliveryFact
}

type callOf struct {
	seq   Seq
	index int
}

// New makes an empty tree.
func New(h Header) *Tree {
	return &Tree{
		header:   h,
		blobs:    map[Hash][]byte{},
		prefixes: map[Hash]Seq{},
		requests: map[Hash][]Seq{},
		calls:    map[string]callOf{},
		texts:    map[textKey][]Seq{},
		sessions: map[string]Seq{},
		whole:    map[Hash]Seq{},
	}
}

// AddBlob keeps a message's raw bytes, or what else a hash of a turn refers to. b may be nil where only the fact that the
// blob was recorded matters. The hash is not checked; the tree keeps b.
func (t *Tree) AddBlob(h Hash, b []byte) { t.blobs[h] = b }

// Blob gives the bytes that were kept under h; ok is false where none were added.
func (t *Tree) Blob(h Hash) (b []byte, ok bool) {
	b, ok = t.blobs[h]
	return b, ok
}

// Add commits a turn. The tree keeps the pointer; nobody changes the turn afterwards. What would break the tree's
// structure is refused with [fault.SessionInvariant] and nothing changes.
func (t *Tree) Add(turn *Turn) error {
	if err := t.check(turn); err != nil {
		return err
	}
	n := node{Turn: turn, depth: 1, promptLen: turn.Keep + len(turn.Suffix), messages: turn.MsgKeep + len(turn.MsgNew)}
	if turn.Parent != 0 {
		p := t.node(turn.Parent)
		p.children = append(p.children, turn.Seq)
		n.depth = p.depth + 1
	} else {
		t.roots = append(t.roots, turn.Seq)
	}
	last := t.chainAt(turn.MsgBase, turn.MsgKeep)
	n.chain = make([]Hash, len(turn.MsgNew))
	for i, h := range turn.MsgNew {
		last = roll(last, h)
		n.chain[i] = last
		if _, ok := t.prefixes[last]; !ok {
			t.prefixes[last] = turn.Seq
		}
	}
	t.whole[last] = turn.Seq
	t.acted = t.acted || turn.Class != ClassAuxiliary
	n.request = requestOf(last, turn.Tools, turn.Settings)
	t.requests[n.request] = append(t.requests[n.request], turn.Seq)
	for i, c := range turn.Reply.Calls {
		if c.ID != "" {
			t.calls[c.ID] = callOf{turn.Seq, i}
			t.modelIDs = t.modelIDs || c.ModelID != ""
		}
	}
	if turn.Session != "" {
		t.sessions[turn.Session] = turn.Seq
	}
	said := saidBy(&turn.Reply)
	for _, k := range []textKey{{under: true, parent: turn.Parent, said: said}, {said: said}} {
		t.texts[k] = append(t.texts[k], turn.Seq)
	}
	t.nodes = append(t.nodes, n)
	for _, e := range turn.Echoes {
		if e.Turn != 0 {
			t.node(e.Turn).echoed = true
		}
	}
	return nil
}

// SetDelivery records what became of an answer. A later fact replaces an earlier one, except that what was delivered
// stays so.
func (t *Tree) SetDelivery(d DeliveryFact) error {
	if t.end != nil {
		return fault.New(fault.SessionInvariant, "delivery of turn %d comes after the end", d.Seq)
	}
	if !t.has(d.Seq) {
		return fault.New(fault.SessionInvariant, "delivery of turn %d, which does not exist", d.Seq)
	}
	switch d.State {
	case DeliveryDelivered, DeliveryUndelivered, DeliveryAmbiguous, DeliveryAborted:
	default:
		return fault.New(fault.SessionInvariant, "delivery of turn %d is %q", d.Seq, d.State)
	}
	if n := t.node(d.Seq); n.delivery.State != DeliveryDelivered {
		n.delivery = d
	}
	return nil
}

// Finish closes the tree: nothing is added after it.
func (t *Tree) Finish(e End) error {
	switch {
	case t.end != nil:
		return fault.New(fault.SessionInvariant, "the trajectory has already ended")
	case e.Turns != len(t.nodes):
		return fault.New(fault.SessionInvariant, "the end counts %d turns, the trajectory has %d", e.Turns, len(t.nodes))
	}
	t.end = &e
	return nil
}

// Header is what opened the trajectory.
func (t *Tree) Header() Header { return t.header }

// End is what closed it, or nil.
func (t *Tree) End() *End { return t.end }

// Len counts the turns.
func (t *Tree) Len() int { return len(t.nodes) }

// Turn is the turn numbered seq, or nil.
func (t *Tree) Turn(seq Seq) *Turn {
	if !t.has(seq) {
		return nil
	}
	return t.node(seq).Turn
}

// Turns lists all turns in order. The slice is new; the turns are shared.
func (t *Tree) Turns() []*Turn {
	out := make([]*Turn, len(t.nodes))
	for i := range t.nodes {
		out[i] = t.nodes[i].Turn
	}
	return out
}

// Roots lists the turns without a parent, in order. The slice is shared.
func (t *Tree) Roots() []Seq { return t.roots }

// Children lists the turns whose parent is seq, in order. The slice is shared.
func (t *Tree) Children(seq Seq) []Seq { return t.node(seq).children }

// Depth is 1 for a root, and one more than its parent's for any other turn.
func (t *Tree) Depth(seq Seq) int { return t.node(seq).depth }

// Echoed is whether a later request holds an echo of seq: its answer arrived, whatever the socket said.
func (t *Tree) Echoed(seq Seq) bool { return t.node(seq).echoed }

// Delivery is what is known of the delivery of seq's answer; without a record it is ambiguous.
func (t *Tree) Delivery(seq Seq) DeliveryFact {
	d := t.node(seq).delivery
	if d.State == "" {
		d = DeliveryFact{Seq: seq, State: DeliveryAmbiguous}
	}
	return d
}

// PromptLen counts the prompt ids of seq.
func (t *Tree) PromptLen(seq Seq) int { return t.node(seq).promptLen }

// CheckpointLen counts the ids of seq's checkpoint.
func (t *Tree) CheckpointLen(seq Seq) int {
	n := t.node(seq)
	return n.promptLen + len(n.Completion)
}

// Prompt gives the prompt ids of seq in a new slice.
func (t *Tree) Prompt(seq Seq) []token.ID { return t.ids(seq, t.PromptLen(seq)) }

// Checkpoint gives the prompt ids of seq followed by its completion ids, in a new slice.
func (t *Tree) Checkpoint(seq Seq) []token.ID { return t.ids(seq, t.CheckpointLen(seq)) }

// ids gives the first n ids of seq's checkpoint.
func (t *Tree) ids(seq Seq, n int) []token.ID {
	out := make([]token.ID, n)
	t.pieces(seq, n, func(start int, piece []token.ID) { copy(out[start:], piece) })
	return out
}

// Shared is the number of leading ids that prompt shares with the checkpoint of seq.
func (t *Tree) Shared(seq Seq, prompt []token.ID) int {
	n := min(len(prompt), t.CheckpointLen(seq))
	shared := n
	t.pieces(seq, n, func(start int, piece []token.ID) {
		if i := token.CommonPrefix(piece, prompt[start:start+len(piece)]); i < len(piece) {
			shared = start + i
		}
	})
	return shared
}

// pieces calls f with the stretches that make up the first n ids of seq's checkpoint, the last one first.
func (t *Tree) pieces(seq Seq, n int, f func(start int, piece []token.ID)) {
	for n > 0 {
		at := t.node(seq)
		if n > at.promptLen {
			f(at.promptLen, at.Completion[:n-at.promptLen])
			n = at.promptLen
		}
		if n > at.Keep {
			f(at.Keep, at.Suffix[:n-at.Keep])
			n = at.Keep
		}
		seq = at.Base
	}
}

// Messages lists the hashes of the messages of seq's request, in a new slice.
func (t *Tree) Messages(seq Seq) []Hash {
	n := t.node(seq).messages
	out := make([]Hash, n)
	for n > 0 {
		at := t.node(seq)
		if n > at.MsgKeep {
			copy(out[at.MsgKeep:n], at.MsgNew)
			n = at.MsgKeep
		}
		seq = at.MsgBase
	}
	return out
}

// message is the hash of message i of seq's request; ok is false past its end.
func (t *Tree) message(seq Seq, i int) (h Hash, ok bool) {
	if i >= t.node(seq).messages {
		return h, false
	}
	for {
		n := t.node(seq)
		if i >= n.MsgKeep {
			return n.MsgNew[i-n.MsgKeep], true
		}
		seq = n.MsgBase
	}
}

// chainAt is the rolling hash of the first k messages of seq's request.
func (t *Tree) chainAt(seq Seq, k int) Hash {
	for k > 0 {
		n := t.node(seq)
		if k > n.MsgKeep {
			return n.chain[k-n.MsgKeep-1]
		}
		seq = n.MsgBase
	}
	return Hash{}
}

func roll(chain, message Hash) Hash {
	var b [64]byte
	copy(b[:32], chain[:])
	copy(b[32:], message[:])
	return sha256.Sum256(b[:])
}

func requestOf(messages, tools, settings Hash) Hash {
	var b [96]byte
	copy(b[:32], messages[:])
	copy(b[32:64], tools[:])
	copy(b[64:], settings[:])
	return sha256.Sum256(b[:])
}

func (t *Tree) has(seq Seq) bool   { return seq > 0 && int(seq) <= len(t.nodes) }
func (t *Tree) node(seq Seq) *node { return &t.nodes[seq-1] }
