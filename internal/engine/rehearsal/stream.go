package rehearsal

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
	policy "github.com/tito-rl/tito/internal/rehearsal"
)

// stream is a completion in process. It samples when it is read, so that there is nothing to stop.
type stream struct {
	ctx    context.Context
	run    *run
	begun  bool
	waited bool
	short  bool // a chunk had too few log probabilities
	final  engine.Final
	err    error // what every further Next returns
}

// Next implements [engine.Stream]. Faults give the codes that an HTTP client of the same engine gives.
func (s *stream) Next() (engine.Chunk, error) {
	if s.err != nil {
		return engine.Chunk{}, s.err
	}
	c, err := s.next()
	if err != nil {
		s.err = err
	}
	return c, err
}

func (s *stream) next() (engine.Chunk, error) {
	if err := gone(s.ctx); err != nil {
		return engine.Chunk{}, err
	}
	x := s.run
	if err := x.wait(s.ctx, &s.waited); err != nil {
		return engine.Chunk{}, err
	}
	if !s.begun && x.fault(policy.FaultPrompt) != nil {
		return engine.Chunk{}, fault.New(fault.EnginePrompt, "the engine reports another id at the end of the prompt than it was sent")
	}
	s.begun = true
	if x.finish != "" {
		return engine.Chunk{}, s.finish()
	}
	p := x.next()
	if p.noIDs {
		return engine.Chunk{}, fault.New(fault.EngineIDs, "the engine sent text without ids after %d ids", x.n-len(p.ids))
	}
	c := engine.Chunk{IDs: p.ids, Logprobs: p.lps, Version: p.version}
	if s.short {
		c.Logprobs = nil
	}
	s.short = s.short || len(p.lps) != len(p.ids)
	if p.cut {
		s.err = fault.New(fault.EngineCut, "the engine's stream broke after %d ids", x.n)
		if len(p.ids) == 0 {
			return engine.Chunk{}, s.err
		}
	}
	return c, nil
}

func (s *stream) finish() error {
	x := s.run
	if x.fault(policy.FaultNoFinish) != nil {
		return fault.New(fault.EngineFinish, "the engine gave no finish reason after %d ids", x.n)
	}
	s.final = engine.Final{Finish: x.finish, Prompt: x.req.IDs, StopToken: -1}
	if x.finish == "stop" {
		s.final.StopToken = int64(x.last)
	}
	return io.EOF
}

// Final implements [engine.Stream].
func (s *stream) Final() engine.Final { return s.final }

// Close implements [engine.Stream].
func (s *stream) Close() error {
	if s.err == nil {
		s.err = fault.New(fault.ClientGone, "the stream is closed")
	}
	return nil
}

// wait holds the completion back where a fault says so, once.
func (x *run) wait(ctx context.Context, waited *bool) error {
	f := x.fault(policy.FaultSlow)
	if f == nil || *waited || x.n < f.After {
		return nil
	}
	*waited = true
	t := time.NewTimer(time.Duration(f.Delay) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return gone(ctx)
	}
}

// gone gives a cancelled context its code.
func gone(ctx context.Context) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(fault.EngineUnreachable, err, "the engine gave no answer in time")
	}
	return fault.Wrap(fault.ClientGone, err, "the generation was cancelled")
}

func statusError(f *policy.Fault) error {
	switch f.Status {
	case 429, 503:
		err := fault.New(fault.EngineBusy, "the engine answered with status %d", f.Status)
		if f.RetryAfter > 0 {
			err.Err = &engine.Busy{After: time.Duration(f.RetryAfter) * time.Second}
		}
		return err
	case 502, 504:
		return fault.New(fault.EngineUnreachable, "the engine answered with status %d", f.Status)
	}
	return fault.New(fault.EngineStatus, "the engine answered with status %d", f.Status)
}
