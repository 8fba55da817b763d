// Package rehearsal serves the rehearsal policy as an inference engine, in process and over HTTP in the wire format of
// vLLM's completions.
//
// It promises: the prompt's ids are used as they are and reported; the stop is among the ids; log probabilities are those
// of the distribution sampled from. It samples neutrally and refuses every other setting by name. The same request gives
// the same ids whatever runs beside it: the random numbers come from Sampling.Seed and the prompt where a seed is given,
// else from the engine's seed, the request's Key and Affinity, and the prompt. New weights apply from the next id on.
package rehearsal

import (
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
	policy "github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/token"
)

// Config is what an engine plays, and how.
type Config struct {
	Policy     *policy.Policy
	Params     policy.Params // the first to be published
	Faults     []policy.Fault
	Seed       uint64
	Model      string // name served; "" = "rehearsal"
	MaxContext int    // ids of prompt and completion together; 0 = 131,072
	Chunk      int    // most ids a chunk; 0 = 8
	APIKey     string // asked of HTTP clients; "" = none
}

// Engine plays a policy. It is safe for concurrent use.
type Engine struct {
	c       Config
	weights atomic.Pointer[policy.Weights]

	mu    sync.Mutex
	calls int
	fired []int // by index of Config.Faults
}

var _ engine.Engine = (*Engine)(nil)

// New makes an engine and publishes its first weights.
func New(c Config) (*Engine, error) {
	if c.Model == "" {
		c.Model = "rehearsal"
	}
	if c.MaxContext == 0 {
		c.MaxContext = 131072
	}
	if c.Chunk == 0 {
		c.Chunk = 8
	}
	e := &Engine{c: c, fired: make([]int, len(c.Faults))}
	for _, f := range c.Faults {
		if _, err := c.Params.With(f.Version, f.Set); err != nil {
			return nil, err
		}
	}
	if err := e.Publish(c.Params); err != nil {
		return nil, err
	}
	return e, nil
}

// Publish puts new parameters into force, at once and whole. Answers under way go on with them from their next id, in a
// chunk of its own version.
func (e *Engine) Publish(p policy.Params) error {
	w, err := e.c.Policy.At(p)
	if err != nil {
		return err
	}
	e.weights.Store(w)
	return nil
}

// Weights are the weights in force.
func (e *Engine) Weights() *policy.Weights { return e.weights.Load() }

// Info implements [engine.Engine].
func (e *Engine) Info(context.Context) (engine.Info, error) {
	return engine.Info{Kind: "rehearsal", Model: e.c.Model, EchoesIDs: true, ReturnsStop: true, Processed: true,
		MaxContext: e.c.MaxContext, Version: e.Weights().Version()}, nil
}

// Generate implements [engine.Engine].
func (e *Engine) Generate(ctx context.Context, r engine.Request) (engine.Stream, error) {
	if err := gone(ctx); err != nil {
		return nil, err
	}
	x, err := e.start(r, e.c.Chunk)
	if err != nil {
		return nil, err
	}
	if f := x.fault(policy.FaultStatus); f != nil {
		return nil, statusError(f)
	}
	return &stream{ctx: ctx, run: x, final: engine.Final{StopToken: -1}}, nil
}

// check refuses what cannot be done exactly.
func (e *Engine) check(r engine.Request) error {
	s, n := r.Sampling, chat.Neutral()
	for _, f := range []struct {
		name string
		bad  bool
	}{
		{"temperature", s.Temperature != n.Temperature}, {"top_p", s.TopP != n.TopP}, {"top_k", s.TopK > 0},
		{"min_p", s.MinP != 0}, {"presence_penalty", s.PresencePenalty != 0}, {"frequency_penalty", s.FrequencyPenalty != 0},
		{"repetition_penalty", s.RepetitionPenalty != n.RepetitionPenalty}, {"stop", len(s.Stop) > 0},
	} {
		if f.bad {
			return fault.New(fault.UnsupportedField, "the rehearsal engine samples neutrally and cannot honour %s", f.name)
		}
	}
	switch {
	case r.Model != "" && r.Model != e.c.Model:
		return fault.New(fault.EngineStatus, "The model `%s` does not exist.", r.Model)
	case len(r.IDs) == 0:
		return fault.New(fault.BadRequest, "the prompt is empty")
	case r.MaxTokens < 1:
		return fault.New(fault.BadRequest, "max_tokens must be at least 1, got %d.", r.MaxTokens)
	case len(r.IDs)+r.MaxTokens > e.c.MaxContext:
		return fault.New(fault.ContextLength, "This model's maximum context length is %d tokens. However, your request has %d input tokens plus %d 'max_tokens'. Please reduce one or the other.",
			e.c.MaxContext, len(r.IDs), r.MaxTokens)
	}
	return nil
}

// run is one completion being sampled, with what goes wrong in it.
type run struct {
	e       *Engine
	req     engine.Request
	weights *policy.Weights
	cursor  policy.Cursor
	rng     *rand.PCG
	faults  []*policy.Fault
	size    int // most ids a piece
	n       int // ids sampled
	last    token.ID
	before  float32 // log probability of the id before
	finish  string
	swapped bool
}

// piece is a stretch of a completion, of one version.
type piece struct {
	ids     []token.ID
	lps     []float32
	version string
	noIDs   bool   // the ids are to be left out
	cut     bool   // the connection breaks after this piece
	finish  string // set on the last piece
}

func (e *Engine) start(r engine.Request, size int) (*run, error) {
	if err := e.check(r); err != nil {
		return nil, err
	}
	state := e.c.Policy.State(r.IDs)
	w := e.Weights()
	x := &run{e: e, req: r, weights: w, cursor: w.Start(state), size: size, faults: e.plan(state)}
	if s := r.Sampling.Seed; s != nil {
		x.rng = rand.NewPCG(uint64(*s), hash(1, r.IDs))
	} else {
		x.rng = rand.NewPCG(e.c.Seed, hash(hash(hash(2, []byte(r.Key)), []byte(r.Affinity)), r.IDs))
	}
	return x, nil
}

// plan counts the call and picks the faults that happen to it.
func (e *Engine) plan(s policy.State) []*policy.Fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	var out []*policy.Fault
	for i := range e.c.Faults {
		f := &e.c.Faults[i]
		if f.Fits(e.calls, s) && (f.Times == 0 || e.fired[i] < f.Times) {
			e.fired[i]++
			out = append(out, f)
		}
	}
	return out
}

func (x *run) fault(k policy.FaultKind) *policy.Fault {
	for _, f := range x.faults {
		if f.Kind == k {
			return f
		}
	}
	return nil
}

// hash mixes a sequence into h; equal inputs give equal results on every machine.
func hash[T byte | token.ID](h uint64, s []T) uint64 {
	h ^= uint64(len(s)) + 0x9e3779b97f4a7c15
	for _, v := range s {
		hi, lo := bits.Mul64(h^uint64(v), 0xd6e8feb86659fd93)
		h = hi ^ bits.RotateLeft64(lo, 23) + 0x9e3779b97f4a7c15
	}
	return h
}

// next samples one more piece. After a piece with a finish or a cut there is none.
func (x *run) next() piece {
	if f := x.fault(policy.FaultSwap); f != nil && x.n >= f.After && !x.swapped {
		x.swapped = true
		x.swap(f)
	}
	w := x.e.Weights()
	if w != x.weights {
		x.weights = w
		x.cursor.Swap(w)
	}
	p := piece{version: w.Version()}
	limit := min(x.size, x.req.MaxTokens-x.n)
	for _, f := range x.faults { // a piece never reaches over the place of a fault
		if f.After > x.n {
			limit = min(limit, f.After-x.n)
		}
	}
	p.ids, p.lps = make([]token.ID, 0, limit), make([]float32, 0, limit)
	for len(p.ids) < limit && x.finish == "" && !x.dropped() && (len(p.ids) == 0 || x.e.Weights() == w) {
		u := float64(x.rng.Uint64()>>11) / (1 << 53)
		id, lp, ok := x.cursor.Next(u)
		if !ok {
			break
		}
		x.sampled(id)
		p.ids, p.lps = append(p.ids, id), append(p.lps, float32(lp))
	}
	if x.n == x.req.MaxTokens && x.finish == "" {
		x.finish = "length"
	}
	x.spoil(&p)
	return p
}

func (x *run) dropped() bool {
	f := x.fault(policy.FaultDrop)
	return f != nil && x.n >= f.After
}

func (x *run) sampled(id token.ID) {
	x.n++
	x.last = id
	done, cut := x.cursor.Done()
	switch {
	case x.isStop(id):
		x.finish = "stop"
	case done && cut:
		x.finish = "length"
	}
}

func (x *run) isStop(id token.ID) bool {
	if x.e.c.Policy.IsStop(id) {
		return true
	}
	for _, s := range x.req.Stops {
		if s == id {
			return true
		}
	}
	return false
}

func (x *run) swap(f *policy.Fault) {
	p, err := x.weights.Params().With(f.Version, f.Set)
	if err == nil { // New has checked the names
		_ = x.e.Publish(p)
	}
}

// spoil applies the faults that change what a piece reports.
func (x *run) spoil(p *piece) {
	p.finish = x.finish
	first := x.n - len(p.ids)
	for _, f := range x.faults {
		holds := f.After >= first && f.After < x.n
		switch f.Kind {
		case policy.FaultDrop:
			if p.cut = x.dropped() || x.finish != ""; p.cut {
				p.finish = ""
			}
		case policy.FaultIDs:
			p.noIDs = p.noIDs || first >= f.After
		case policy.FaultNone:
			p.lps = nil
		case policy.FaultFew:
			if holds && len(p.lps) > 0 {
				p.lps = p.lps[:len(p.lps)-1]
			}
		case policy.FaultNaN:
			if holds && f.After-first < len(p.lps) {
				p.lps[f.After-first] = float32(math.NaN())
			}
		case policy.FaultShifted:
			for i := range p.lps {
				p.lps[i], x.before = x.before, p.lps[i]
			}
		}
	}
}
