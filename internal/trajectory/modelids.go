package trajectory

import (
	"slices"

	"github.com/tito-rl/tito/internal/chat"
)

// ModelIDs gives msgs with the call ids that the model itself said, in place of those that the harness knows, for a
// template to write: in each echo of a turn that said some, and in the results of those calls. A call that was renamed
// keeps the harness's id. msgs is not changed, and is returned as it is where no turn said an id.
func (t *Tree) ModelIDs(m *Match, msgs []chat.Message) []chat.Message {
	if !t.modelIDs {
		return msgs
	}
	turns := map[int]Seq{}
	for _, e := range m.Echoes {
		if e.Turn != 0 {
			turns[e.Message] = e.Turn
		}
	}
	own := map[string]string{} // the harness's id -> the model's; of several calls under one id the last
	out := slices.Clone(msgs)
	for i := range out {
		msg := &out[i]
		if id := own[msg.CallID]; id != "" && msg.Role == chat.Tool {
			msg.CallID = id
		}
		var said []*CallFact
		if seq := turns[i]; seq != 0 {
			said = returned(&t.node(seq).Reply)
		}
		msg.Calls = slices.Clone(msg.Calls)
		for k := range msg.Calls {
			c := &msg.Calls[k]
			own[c.ID] = ""
			if f := factOf(said, c.ID, k, len(msg.Calls)); f != nil && f.ModelID != "" && f.Name == c.Name {
				own[c.ID], c.ID = f.ModelID, f.ModelID
			}
		}
	}
	return out
}

// factOf is the call with a minted id; where the harness made ids of its own, the one in the same place.
func factOf(said []*CallFact, id string, at, of int) *CallFact {
	for _, f := range said {
		if f.ID == id {
			return f
		}
	}
	if len(said) == of {
		return said[at]
	}
	return nil
}
