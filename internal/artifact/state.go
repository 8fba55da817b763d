package artifact

import (
	"encoding/hex"
	"fmt"

	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// state is what a record may be judged by: the records before it, in a few numbers each. Writer and reader share it, so
// that nothing is written that would not be read.
type state struct {
	link    trajectory.Hash
	records int
	header  bool
	ended   bool
	blobs   []trajectory.Hash
	number  map[trajectory.Hash]uint32 // of a blob, from 1
	turns   []turnSize
}

type turnSize struct {
	checkpoint int // ids of prompt and completion
	messages   int // of the request
}

func newState() state {
	return state{link: firstLink(), number: map[trajectory.Hash]uint32{}}
}

func (s *state) open(t Type) error {
	switch {
	case s.ended:
		return fmt.Errorf("a record after the end record")
	case t == TypeHeader && s.records > 0:
		return fmt.Errorf("a header that is not the first record")
	case t != TypeHeader && !s.header:
		return fmt.Errorf("the first record is not a header")
	}
	return nil
}

func (s *state) addBlob(h trajectory.Hash) error {
	if s.number[h] != 0 {
		return fmt.Errorf("blob %d a second time", s.number[h])
	}
	s.blobs = append(s.blobs, h)
	s.number[h] = uint32(len(s.blobs))
	return nil
}

// addTurn checks what a turn says about earlier turns and about its own lengths.
func (s *state) addTurn(t *trajectory.Turn) error {
	n := len(s.turns)
	if int64(t.Seq) != int64(n)+1 {
		return fmt.Errorf("turn %d where turn %d is due", t.Seq, n+1)
	}
	for _, ref := range []struct {
		name string
		seq  trajectory.Seq
	}{{"parent", t.Parent}, {"nearest", t.Nearest}, {"base", t.Base}, {"msg_base", t.MsgBase}} {
		if int64(ref.seq) > int64(n) {
			return fmt.Errorf("turn %d: %s %d is not an earlier turn", t.Seq, ref.name, ref.seq)
		}
	}
	var base turnSize
	if t.Base > 0 {
		base.checkpoint = s.turns[t.Base-1].checkpoint
	}
	if t.MsgBase > 0 {
		base.messages = s.turns[t.MsgBase-1].messages
	}
	if t.Keep < 0 || t.Keep > base.checkpoint {
		return fmt.Errorf("turn %d: keeps %d ids of a checkpoint of %d", t.Seq, t.Keep, base.checkpoint)
	}
	if t.MsgKeep < 0 || t.MsgKeep > base.messages {
		return fmt.Errorf("turn %d: keeps %d messages of %d", t.Seq, t.MsgKeep, base.messages)
	}
	if err := checkSpans(t); err != nil {
		return err
	}
	s.turns = append(s.turns, turnSize{t.Keep + len(t.Suffix) + len(t.Completion), t.MsgKeep + len(t.MsgNew)})
	return nil
}

func checkSpans(t *trajectory.Turn) error {
	n := len(t.Completion)
	at := 0
	for _, v := range t.Versions {
		if v.Start != at || v.End < v.Start || v.End > n {
			return fmt.Errorf("turn %d: version spans do not cover the completion in order", t.Seq)
		}
		at = v.End
	}
	if len(t.Versions) > 0 && at != n {
		return fmt.Errorf("turn %d: version spans cover %d of %d ids", t.Seq, at, n)
	}
	for i, c := range t.Reply.Calls {
		if !inside(c.Span, n) {
			return fmt.Errorf("turn %d: call %d lies outside the completion", t.Seq, i)
		}
	}
	return nil
}

func inside(s token.Span, n int) bool { return 0 <= s.Start && s.Start <= s.End && s.End <= n }

func (s *state) addDelivery(d trajectory.DeliveryFact) error {
	if d.Seq == 0 || int64(d.Seq) > int64(len(s.turns)) {
		return fmt.Errorf("a delivery of turn %d, which is not recorded", d.Seq)
	}
	return nil
}

func (s *state) addEnd(e *End) error {
	switch {
	case e.Turns != len(s.turns):
		return fmt.Errorf("the end says %d turns, the file has %d", e.Turns, len(s.turns))
	case e.Records != s.records:
		return fmt.Errorf("the end says %d records, the file has %d", e.Records, s.records)
	case e.Head != hex.EncodeToString(s.link[:]):
		return fmt.Errorf("the end names another head of the chain")
	}
	return nil
}

// done moves on past a record whose frame made link.
func (s *state) done(t Type, link trajectory.Hash) {
	s.link = link
	s.records++
	s.header = s.header || t == TypeHeader
	s.ended = s.ended || t == TypeEnd
}
