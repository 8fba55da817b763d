// Package engine is the contract with an inference engine: exact ids in, exact ids and their log probabilities out.
//
// Each engine's own package says what it can and cannot promise; [Run] in enginetest is the suite they all pass.
// Engines are safe for concurrent use.
package engine

import (
	"context"
	"time"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/token"
)

// Request is one generation. IDs are the whole prompt, exactly; an engine that would change them must fail.
type Request struct {
	IDs       []token.ID // owned by the caller, not changed, not kept after the stream ends
	MaxTokens int        // > 0
	Sampling  chat.Sampling
	Stops     []token.ID // ids that end the completion; the one sampled is returned as its last id
	Model     string     // name that the engine serves
	Affinity  string     // routes equal prefixes to one cache; may be empty
	Salt      string     // separates cached prefixes of different weights; may be empty
	Key       string     // idempotency key; may be empty
}

// Chunk is a stretch of a completion. Columns are nil where the engine does not give them; where given they may be of the
// wrong length or hold NaN: the session judges them, the engine's package reports them as they came. A chunk with a wrong
// number of them gives fewer than ids and every later chunk none, so that joined columns never line up by accident. The
// slices belong to the caller.
type Chunk struct {
	IDs         []token.ID
	Logprobs    []float32 // of the distribution sampled from, if Info.Processed
	RawLogprobs []float32
	Version     string // of the weights that sampled these ids; "" = unknown
}

// Final ends a stream that was not cut.
type Final struct {
	Finish    string     // stop, length
	Prompt    []token.ID // as the engine reports them; nil = it does not. May be the request's own slice
	Cached    int        // prompt tokens taken from cache, where said
	StopToken int64      // id that ended the completion as the engine says, or -1
}

// Info says what an engine promises.
type Info struct {
	Kind        string `json:"kind"`
	Model       string `json:"model"`
	EchoesIDs   bool   `json:"echoes_ids"`   // Final.Prompt is given
	ReturnsStop bool   `json:"returns_stop"` // the stop id is among the ids
	Processed   bool   `json:"processed"`    // log probabilities are those of the distribution sampled from
	MaxContext  int    `json:"max_context"`  // 0 = unknown
	Version     string `json:"version"`      // of the weights now served; "" = unknown
}

// Engine samples completions.
type Engine interface {
	// Info asks the engine what it is; called at start-up.
	Info(ctx context.Context) (Info, error)
	// Generate starts one completion. An error before the first id is returned here or by the first Next.
	// Cancelling ctx cancels the work upstream; the error that follows wraps ctx.Err().
	Generate(ctx context.Context, r Request) (Stream, error)
}

// Stream is one completion as it comes. It is not safe for concurrent use.
type Stream interface {
	// Next returns the next chunk. After the last one it returns io.EOF, and Final is valid. Any other error means that
	// the completion is not whole; ids returned before stay true.
	Next() (Chunk, error)
	Final() Final
	// Close frees the stream, cancelling what still runs; it may be called more than once.
	Close() error
}

// Busy is in the chain of an engine_busy error whose engine said when to come back.
type Busy struct{ After time.Duration }

func (b *Busy) Error() string { return "asked to come back after " + b.After.String() }
