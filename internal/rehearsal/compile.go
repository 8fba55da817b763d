package rehearsal

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// Format is what the policy needs to know of a model's tokenizer and chat format. The functions must be pure and safe for
// concurrent use.
type Format struct {
	Speak  func(chat.Reply) ([]token.ID, error)  // the ids of a reply, its stop included
	Encode func(text string) ([]token.ID, error) // spellings of special tokens become special ids
	Decode func([]token.ID) string
	Opener []token.ID // what opens each assistant message of a prompt, the one to be sampled included; see [FindOpener]
	Stops  []token.ID // ids that end a completion, the ordinary one first
}

// Policy is a book bound to a chat format: the trie of each situation's replies.
type Policy struct {
	format  Format
	scenes  []scene
	nodes   []situation // nodes[0] is the default
	names   []string    // of the parameters
	initial []float64
}

type scene struct {
	name  string
	match []string
	steps []When
	first int // index of its first step in Policy.nodes
}

// situation is one set of candidates. Paths are sorted by their ids, so that a node of the trie is a range of paths and a
// depth. No path is a prefix of another.
type situation struct{ paths []path }

type path struct {
	ids   []token.ID
	theta int  // index of its parameter
	cut   bool // ends by length, not by a stop
}

// Compile binds a book to a chat format. A reply that cannot be encoded, that holds a stop before its end, or that
// another reply of its step cannot be told from, is a [fault.BadConfig] that names it.
func Compile(b *Book, f Format) (*Policy, error) {
	if len(f.Stops) == 0 || len(f.Opener) == 0 || f.Speak == nil || f.Encode == nil || f.Decode == nil {
		return nil, fault.New(fault.InternalError, "rehearsal: the chat format is not complete")
	}
	p := &Policy{format: f}
	p.format.Stops, p.format.Opener = slices.Clone(f.Stops), slices.Clone(f.Opener)
	replies := b.Default
	if len(replies) == 0 {
		replies = []Reply{{Name: "0", Content: chat.T("The rehearsal policy has no reply for this conversation.")}}
	}
	if err := p.add(DefaultScene, replies); err != nil {
		return nil, err
	}
	for _, s := range b.Scenes {
		sc := scene{name: s.Name, match: s.Match, first: len(p.nodes)}
		for i, st := range s.Steps {
			sc.steps = append(sc.steps, st.When)
			if err := p.add(fmt.Sprintf("%s/%d", s.Name, i), st.Replies); err != nil {
				return nil, err
			}
		}
		p.scenes = append(p.scenes, sc)
	}
	return p, nil
}

func (p *Policy) add(at string, replies []Reply) error {
	var st situation
	first := len(p.names)
	for i, r := range replies {
		name := r.Name
		if name == "" {
			name = strconv.Itoa(i)
		}
		name = at + "/" + name
		if slices.Contains(p.names[first:], name) {
			return fault.New(fault.BadConfig, "two rehearsal replies are named %s", name)
		}
		ids, err := p.encode(r)
		if err != nil {
			return &fault.Error{Code: fault.BadConfig, Msg: "rehearsal reply " + name, Err: err}
		}
		st.paths = append(st.paths, path{ids: ids, theta: len(p.names), cut: r.Cut > 0})
		p.names = append(p.names, name)
		p.initial = append(p.initial, r.Weight)
	}
	slices.SortFunc(st.paths, func(a, b path) int { return cmp.Or(slices.Compare(a.ids, b.ids), a.theta-b.theta) })
	for i := 1; i < len(st.paths); i++ {
		a, b := st.paths[i-1], st.paths[i]
		if token.CommonPrefix(a.ids, b.ids) == len(a.ids) {
			return fault.New(fault.BadConfig, "rehearsal reply %s starts with all the ids of reply %s, so the two cannot be told apart",
				p.names[b.theta], p.names[a.theta]).WithFix("remove one, or cut it later")
		}
	}
	p.nodes = append(p.nodes, st)
	return nil
}

// encode gives the ids that the policy samples to make a reply.
func (p *Policy) encode(r Reply) ([]token.ID, error) {
	ids, err := p.spell(r)
	if err != nil {
		return nil, err
	}
	if r.Split != "" {
		if ids, err = p.split(ids, r.Split); err != nil {
			return nil, err
		}
	}
	if r.Cut > 0 {
		if r.Cut >= len(ids) {
			return nil, fault.New(fault.BadConfig, "cut is %d, but the reply has only %d ids", r.Cut, len(ids))
		}
		ids = ids[:r.Cut]
	}
	for i, id := range ids {
		if p.IsStop(id) && (i < len(ids)-1 || r.Cut > 0) {
			return nil, fault.New(fault.BadConfig, "id %d of %d is a stop; nothing can be sampled after it", i, len(ids))
		}
	}
	return slices.Clip(ids), nil
}

func (p *Policy) spell(r Reply) ([]token.ID, error) {
	var ids []token.ID
	raw := r.Raw.Presence == chat.Present
	if !raw || r.Reasoning.Presence == chat.Present || r.Content.Presence == chat.Present || len(r.Calls) > 0 {
		reply := chat.Reply{Reasoning: r.Reasoning, Content: r.Content, Calls: r.Calls, Finish: chat.FinishStop}
		if len(r.Calls) > 0 {
			reply.Finish = chat.FinishToolCalls
		}
		spoken, err := p.format.Speak(reply)
		if err != nil {
			return nil, err
		}
		if len(spoken) == 0 || !p.IsStop(spoken[len(spoken)-1]) {
			return nil, fault.New(fault.BadConfig, "the chat format gave ids without a stop at their end")
		}
		ids = slices.Clone(spoken)
	}
	if !raw {
		return ids, nil
	}
	text, err := p.format.Encode(r.Raw.S)
	if err != nil {
		return nil, err
	}
	if len(text) == 0 || !p.IsStop(text[len(text)-1]) {
		text = append(slices.Clip(text), p.format.Stops[0])
	}
	return append(ids[:max(0, len(ids)-1)], text...), nil
}

// split replaces the ids that spell text, where it first occurs, by the ids of its characters, each encoded alone.
func (p *Policy) split(ids []token.ID, text string) ([]token.ID, error) {
	at := strings.Index(p.format.Decode(ids), text)
	if at < 0 {
		return nil, fault.New(fault.BadConfig, "split: the reply does not hold the text %q", text)
	}
	from, to := 0, len(ids)
	for from < len(ids) && len(p.format.Decode(ids[:from+1])) <= at {
		from++
	}
	for to > from && len(p.format.Decode(ids[:to-1])) >= at+len(text) {
		to--
	}
	out := slices.Clone(ids[:from])
	for _, c := range p.format.Decode(ids[from:to]) {
		one, err := p.format.Encode(string(c))
		if err != nil {
			return nil, err
		}
		out = append(out, one...)
	}
	out = append(out, ids[to:]...)
	if slices.Equal(out, ids) || p.format.Decode(out) != p.format.Decode(ids) {
		return nil, fault.New(fault.BadConfig, "split: %q has no other ids, character by character, that give the same text", text)
	}
	return out, nil
}

// IsStop is whether id ends a completion.
func (p *Policy) IsStop(id token.ID) bool { return slices.Contains(p.format.Stops, id) }

// Stops lists the ids that end a completion, the ordinary one first. The caller must not change it.
func (p *Policy) Stops() []token.ID { return p.format.Stops }

// Decode gives the text of ids.
func (p *Policy) Decode(ids []token.ID) string { return p.format.Decode(ids) }
