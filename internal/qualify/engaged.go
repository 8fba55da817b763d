package qualify

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/tito-rl/tito/internal/certify"
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/token"
)

// What L5 asks of an engine.
const (
	rounds   = 3  // conversations
	turns    = 3  // of each
	maxReply = 64 // ids
)

// engaged is L5: an engine takes the ids as they are and returns the stop, with one log probability an id, over prompts
// that were bridged where they can be.
func engaged(ctx context.Context, o Options, m *model.Model, s certify.Model) (certify.Level, *engine.Info, error) {
	l := certify.Level{Level: "L5", About: "engine in the loop: ids in, the same ids back, the stop among what was sampled", Verdict: certify.NotAttempted, Claims: []certify.Claim{}}
	if o.Engine == nil {
		l.Why = "no engine is named"
		return l, nil, nil
	}
	info, err := o.Engine.Info(ctx)
	if err != nil {
		return l, nil, err
	}
	e := &engaging{Options: o, m: m, s: s, claims: map[string]*certify.Claim{}}
	for n := range rounds {
		if err := e.talk(ctx, n); err != nil {
			return l, nil, err
		}
	}
	l.Verdict = certify.Proved
	for _, name := range []string{echoed, stopped, aligned, bridged} {
		c := e.claim(name)
		switch {
		case c.Refuted > 0:
			c.Verdict, l.Verdict = certify.Refuted, certify.Refuted
		case c.Cases > 0:
			c.Verdict = certify.Proved
		default:
			c.Verdict = certify.NotAttempted
		}
		l.Claims = append(l.Claims, *c)
	}
	return l, &info, nil
}

// The claims of L5.
const (
	echoed  = "prompt_ids_echoed"
	stopped = "stop_id_returned"
	aligned = "one_logprob_an_id"
	bridged = "bridged_prompt_taken"
)

type engaging struct {
	Options
	m      *model.Model
	s      certify.Model
	claims map[string]*certify.Claim
}

func (e *engaging) claim(name string) *certify.Claim {
	if e.claims[name] == nil {
		e.claims[name] = &certify.Claim{Claim: name, Binds: true}
	}
	return e.claims[name]
}

func (e *engaging) judge(name string, good bool, why string, ms []chat.Message) {
	c := e.claim(name)
	c.Cases++
	if good {
		return
	}
	if c.Refuted++; c.Counter == nil {
		c.Why, c.Counter = why, &certify.Counter{Messages: certify.Wires(ms)}
	}
}

// talk is one conversation.
func (e *engaging) talk(ctx context.Context, n int) error {
	c := family.Conversation{Kwargs: e.s.Kwargs, Sampled: map[int][]token.ID{},
		Messages: []chat.Message{{Role: chat.User, Content: chat.T("Say hello. " + strconv.Itoa(n))}}}
	p, err := e.m.Family.Render(c)
	if err != nil {
		return err
	}
	prompt, bridge := p.IDs, false
	for t := range turns {
		said, final, err := e.generate(ctx, prompt, int64(n*turns+t), c.Messages)
		if err != nil {
			return err
		}
		same := slices.Equal(final.Prompt, prompt)
		e.judge(echoed, same, "the engine reports other prompt ids than it was sent, or none", c.Messages)
		if bridge {
			e.judge(bridged, same, "the engine changes a bridged prompt", c.Messages)
		}
		end := e.ending(said, final, c.Messages)
		reader := e.m.Family.Parse(family.ParseInput{Prompt: prompt})
		reader.Add(said)
		r, _ := reader.Done(end.Stopped)
		m := chat.Message{Role: chat.Assistant, Content: r.Content, Reasoning: r.Reasoning}
		var results []chat.Message
		for i, a := range r.Calls {
			if a.IsCall {
				id := "call" + strconv.Itoa(10000+t*100+i)
				m.Calls = append(m.Calls, chat.Call{ID: id, Name: a.Name, Arguments: a.Arguments})
				results = append(results, chat.Message{Role: chat.Tool, CallID: id, Content: chat.T("ok")})
			}
		}
		if results == nil {
			results = []chat.Message{{Role: chat.User, Content: chat.T("Go on.")}}
		}
		c.Sampled[len(c.Messages)] = said
		before, after := c, c
		before.Messages = append(slices.Clip(c.Messages), m)
		after.Messages = append(slices.Clip(before.Messages), results...)
		c = after
		prompt, bridge, err = e.next(prompt, said, before, after, end)
		if err != nil {
			return err
		}
	}
	return nil
}

// next is the prompt behind a checkpoint: bridged, or rendered whole where there is no bridge.
func (e *engaging) next(prompt, said []token.ID, before, after family.Conversation, end family.Ending) ([]token.ID, bool, error) {
	if b, ok := e.m.Family.(family.Bridger); ok {
		if j, err := b.Bridge(before, after, end); err == nil {
			ck := append(slices.Clip(prompt), said...)
			return append(append(ck[:len(ck)-j.Trim], j.Insert...), j.Suffix...), true, nil
		}
	}
	p, err := e.m.Family.Render(after)
	return p.IDs, false, err
}

// ending judges how a completion ended.
func (e *engaging) ending(said []token.ID, final engine.Final, ms []chat.Message) family.Ending {
	if final.Finish != "stop" || len(said) == 0 {
		return family.Ending{}
	}
	last := said[len(said)-1]
	ok := slices.Contains(e.m.Stops, last)
	e.judge(stopped, ok, "the engine stopped, and its last id is no stop", ms)
	return family.Ending{Stopped: ok, Stop: last}
}

func (e *engaging) generate(ctx context.Context, prompt []token.ID, seed int64, ms []chat.Message) ([]token.ID, engine.Final, error) {
	sampling := chat.Neutral()
	sampling.Seed = &seed
	s, err := e.Engine.Generate(ctx, engine.Request{IDs: prompt, MaxTokens: maxReply, Sampling: sampling, Stops: e.m.Stops, Model: e.Model})
	if err != nil {
		return nil, engine.Final{}, err
	}
	defer func() { _ = s.Close() }()
	var ids []token.ID
	var logprobs []float32
	for {
		c, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, engine.Final{}, err
		}
		ids, logprobs = append(ids, c.IDs...), append(logprobs, c.Logprobs...)
	}
	good := len(ids) > 0 && len(logprobs) == len(ids)
	for _, x := range logprobs {
		good = good && x <= 0 && !math.IsInf(float64(x), 0) && !math.IsNaN(float64(x))
	}
	e.judge(aligned, good, "log probabilities are missing, too few, or none that can be", ms)
	return ids, s.Final(), nil
}
