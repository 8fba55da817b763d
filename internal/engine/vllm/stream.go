package vllm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// stream reads the server-sent events of one completion.
type stream struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   *time.Timer
	wait   time.Duration
	body   io.ReadCloser
	in     *bufio.Reader
	long   []byte // an event that did not fit the reader's buffer
	prompt []token.ID
	stops  []token.ID

	n      int // ids so far
	last   token.ID
	echoed bool
	finish string
	stop   int64 // stop_reason, where it is an id; else -1
	usage  int   // ids by the server's count, -1 = not told
	spans  []version
	short  bool // a chunk had a wrong number of log probabilities
	ready  []engine.Chunk
	ended  bool
	final  engine.Final
	err    error
}

// version says which weights sampled the ids from start on.
type version struct {
	start int
	name  string
}

// Next implements [engine.Stream].
func (s *stream) Next() (engine.Chunk, error) {
	for len(s.ready) == 0 && s.err == nil {
		s.err = s.read()
	}
	if len(s.ready) > 0 {
		c := s.ready[0]
		s.ready = s.ready[1:]
		return c, nil
	}
	return engine.Chunk{}, s.err
}

// Final implements [engine.Stream].
func (s *stream) Final() engine.Final { return s.final }

// Close implements [engine.Stream]. Closing before the end cuts the connection, on which vLLM aborts the request.
func (s *stream) Close() error {
	if s.ended {
		return nil
	}
	s.ended = true
	s.ready = nil
	if s.err == nil {
		s.err = fault.New(fault.ClientGone, "the stream is closed")
	}
	s.idle.Stop()
	s.cancel(nil)
	return s.body.Close()
}

// read takes in one event.
func (s *stream) read() error {
	line, err := s.line()
	if err != nil {
		switch e := gone(s.ctx); {
		case e == nil:
		case s.n > 0 && fault.CodeOf(e) == fault.EngineUnreachable:
			return &fault.Error{Code: fault.EngineCut, Msg: "the engine's stream stood still", Err: errors.Unwrap(e)}
		default:
			return e
		}
		if errors.Is(err, io.EOF) { // in the chain it would read as the answer's own end
			return fault.New(fault.EngineCut, "the engine's stream ended before its answer, after %d ids", s.n)
		}
		return fault.Wrap(fault.EngineCut, err, "the engine's stream broke after %d ids", s.n)
	}
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return nil // comments, event names and blank lines carry nothing
	}
	data = bytes.TrimSpace(data)
	if string(data) == "[DONE]" {
		return s.done()
	}
	return s.event(string(data))
}

// line is the next line, valid until the call after.
func (s *stream) line() ([]byte, error) {
	s.idle.Reset(s.wait) // only waiting counts, not what the reader does between two events
	defer s.idle.Stop()
	s.long = s.long[:0]
	for {
		b, err := s.in.ReadSlice('\n')
		if err == nil && len(s.long) == 0 {
			return b, nil
		}
		if s.long == nil {
			s.long = make([]byte, 0, 1024+8*len(s.prompt)) // the first event holds the prompt
		}
		s.long = append(s.long, b...)
		if err == nil {
			return s.long, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if len(s.long) > maxEvent {
			return nil, fault.New(fault.EngineProtocol, "one event of the engine's stream passes %d bytes", maxEvent)
		}
	}
}

const maxEvent = 256 << 20

// done checks the whole answer once the server says that it is over.
func (s *stream) done() error {
	switch {
	case s.n == 0 && s.finish == "":
		return fault.New(fault.EngineIDs, "the engine returned no ids")
	case s.finish == "":
		return fault.New(fault.EngineFinish, "the engine gave no finish reason after %d ids", s.n)
	case s.n == 0:
		return fault.New(fault.EngineIDs, "the engine returned no ids").WithFix("the server must know return_token_ids (vLLM 0.10.2 and later)")
	case s.usage >= 0 && s.usage != s.n:
		return fault.New(fault.EngineIDs, "the engine sampled %d ids by its own count and sent %d", s.usage, s.n)
	}
	if s.finish != "stop" && s.finish != "length" {
		return unfinished(s.finish)
	}
	s.final = engine.Final{Finish: s.finish, Prompt: s.prompt, Cached: s.final.Cached, StopToken: -1}
	if s.finish == "stop" {
		// vLLM gives no stop reason for the model's own end-of-text id; it is the last id all the same.
		s.final.StopToken = s.stop
		if s.stop < 0 && slices.Contains(s.stops, s.last) {
			s.final.StopToken = int64(s.last)
		}
	}
	// What follows [DONE] is the end of the body; reading it lets the connection be used again.
	_, _ = io.CopyN(io.Discard, s.in, 1<<10)
	s.ended = true
	s.idle.Stop()
	s.body.Close()
	s.cancel(nil)
	return io.EOF
}

func unfinished(reason string) error {
	if reason == "abort" {
		return fault.New(fault.EngineCut, "the engine aborted the generation")
	}
	return fault.New(fault.EngineProtocol, "the engine gave the finish reason %q", reason)
}
