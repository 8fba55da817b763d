// Package host serves trajectories: it steps their sessions, runs the effects, and owns what the core may not have: sockets,
// goroutines, the clock, random tokens. A sidecar is a host with one trajectory, a gateway one with many.
//
// The life of a turn is in turn.go, each step once. A Host is safe for concurrent use.
package host

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/dialect"
	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/session"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Defaults of Config.
const (
	DefaultMaxBody      = 64 << 20
	DefaultKeepAlive    = 10 * time.Second
	DefaultEngineTries  = 4
	defaultEnginePause  = 100 * time.Millisecond
	defaultSealPatience = 5 * time.Second
	defaultPatience     = 2 * time.Minute
)

// Config is what a host serves with.
type Config struct {
	Model    *model.Model
	Engine   engine.Engine
	Info     engine.Info // as the engine said at start-up
	Name     string      // of the model, as clients are told; "" = the engine's own
	Dialects []dialect.Dialect
	Journals store.Journals
	// Durability is that of Journals: in power durability commits wait for the disk outside the trajectory's lock.
	Durability store.Durability

	Policy     trajectory.Policy // zero = trajectory.DefaultPolicy
	Sampling   chat.Sampling     // zero = chat.Neutral
	MaxContext int               // 0 = the engine's
	MaxTurns   int               // of one trajectory; 0 = no limit
	MaxTokens  int               // of one answer; 0 = what the context leaves
	Live       bool              // text streams as it is sampled; else an answer is sent when it is whole
	Custody    string            // "" = host
	Writer     string            // program and version that go into headers

	MaxBody      int64            // bytes of a request; 0 = DefaultMaxBody
	KeepAlive    time.Duration    // between comments on a stream that waits; 0 = DefaultKeepAlive
	Patience     time.Duration    // for a client to send its request, and to take each piece of its answer; 0 = 2 min
	EngineTries  int              // while nothing was sampled; 0 = DefaultEngineTries
	EnginePause  time.Duration    // before the second try, doubled for each further one; 0 = 100 ms
	SealPatience time.Duration    // for answers under way when a trajectory is sealed; 0 = 5 s
	Now          func() time.Time // nil = time.Now
	Log          *slog.Logger     // nil = silent
	OnTurn       func(TurnReport) // called after each committed answer; must not block
	Salt         func() string    // of prefix caches, such as the weights' version; nil = none
}

// TurnReport is what OnTurn learns.
type TurnReport struct {
	Trajectory string
	Turn       trajectory.Seq
	Class      trajectory.Class
	Continuity trajectory.Continuity
	Usage      chat.Usage
	Replayed   bool
}

// Open says which trajectory to begin.
type Open struct {
	trajectory.Identities
	Journal  string             // its name in the store; "" = Trajectory + "/" + store.JournalName
	Harness  string             // name and version, for the header
	Classify session.Classifier // nil = every call is the policy's
	Token    string             // "" = a random one
}

// Endpoint is where a trajectory is served: Path goes behind the listener's address and ends in /v1.
type Endpoint struct {
	Trajectory string
	Path       string
	Token      string
}

// Sealed is what a finished trajectory left.
type Sealed struct {
	Journal string
	Turns   int
	Head    trajectory.Hash
	Usage   chat.Usage         // of all turns together
	Refused map[fault.Code]int // answers that were errors, by code
	Last    fault.Code         // of the last answer where that was an error, else ""
}

// Host serves trajectories.
type Host struct {
	c Config

	mu     sync.Mutex
	trajs  map[string]*traj
	closed bool
}

// New makes a host.
func New(c Config) *Host {
	if c.Policy == (trajectory.Policy{}) {
		c.Policy = trajectory.DefaultPolicy()
	}
	if c.Sampling.TopP == 0 {
		c.Sampling = chat.Neutral()
	}
	if c.MaxContext == 0 || c.Info.MaxContext > 0 && c.Info.MaxContext < c.MaxContext {
		c.MaxContext = c.Info.MaxContext
	}
	if c.Name == "" {
		c.Name = c.Info.Model
	}
	if c.Custody == "" {
		c.Custody = "host"
	}
	positive(&c.MaxBody, DefaultMaxBody)
	positive(&c.KeepAlive, DefaultKeepAlive)
	positive(&c.Patience, defaultPatience)
	positive(&c.EngineTries, DefaultEngineTries)
	positive(&c.EnginePause, defaultEnginePause)
	positive(&c.SealPatience, defaultSealPatience)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Host{c: c, trajs: map[string]*traj{}}
}

func positive[T int | int64 | time.Duration](v *T, otherwise T) {
	if *v <= 0 {
		*v = otherwise
	}
}

// Open begins a trajectory: its header is in the journal when Open returns.
func (h *Host) Open(ctx context.Context, o Open) (Endpoint, error) {
	return h.start(o, func(t *traj) error { return t.begin(ctx, h.header(t.o)) })
}

// Reopen goes on with a trajectory whose journal is there already, after a crash say. What the crash cut off is dropped. The
// header in the journal is in force.
func (h *Host) Reopen(_ context.Context, o Open) (Endpoint, error) {
	return h.start(o, (*traj).resume)
}

// start makes a trajectory known, and holds its lock until begin is over: who finds it before then waits.
func (h *Host) start(o Open, begin func(*traj) error) (Endpoint, error) {
	if o.Trajectory == "" || o.Trajectory == "." || o.Trajectory == ".." {
		return Endpoint{}, fault.New(fault.InternalError, "%q cannot be the id of a trajectory", o.Trajectory)
	}
	if o.Journal == "" {
		o.Journal = o.Trajectory + "/" + store.JournalName
	}
	if o.Token == "" {
		o.Token = NewToken()
	}
	t := newTraj(h, o)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := h.add(t); err != nil {
		return Endpoint{}, err
	}
	if err := begin(t); err != nil {
		h.forget(t)
		return Endpoint{}, err
	}
	return Endpoint{Trajectory: o.Trajectory, Path: "/t/" + url.PathEscape(o.Trajectory) + "/v1", Token: o.Token}, nil
}

func (h *Host) add(t *traj) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fault.New(fault.SessionSealed, "the host is closing")
	}
	if h.trajs[t.o.Trajectory] != nil {
		return fault.New(fault.SessionInvariant, "trajectory %s is open already", t.o.Trajectory)
	}
	h.trajs[t.o.Trajectory] = t
	return nil
}

func (h *Host) header(o Open) trajectory.Header {
	m := h.c.Model
	return trajectory.Header{
		Identities: o.Identities, Tito: h.c.Writer, Created: h.c.Now().UnixMilli(), Custody: h.c.Custody,
		Prompt: "full_history", RenderBy: "tito", Model: m.Info, Engine: h.c.Info.Kind, Harness: o.Harness,
		MaxContext: h.c.MaxContext, Policy: h.c.Policy, VocabSize: m.VocabSize,
	}
}

func (h *Host) find(id string) (*traj, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.trajs[id]; t != nil {
		return t, nil
	}
	return nil, unknown(id)
}

func unknown(id string) error {
	return fault.New(fault.UnknownRoute, "trajectory %q is not open here", id)
}

func (h *Host) forget(t *traj) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trajs[t.o.Trajectory] == t {
		delete(h.trajs, t.o.Trajectory)
	}
}

// Seal finishes a trajectory: it takes no more calls, what is being sampled is cut and kept, and its end is in the journal
// when Seal returns. ctx bounds the wait for answers under way; the end is written all the same.
func (h *Host) Seal(ctx context.Context, id, reason string) (Sealed, error) {
	t, err := h.find(id)
	if err != nil {
		return Sealed{}, err
	}
	defer h.forget(t)
	return t.seal(ctx, reason)
}

// Close seals what is open, all at once, and opens nothing more.
func (h *Host) Close(ctx context.Context, reason string) error {
	h.mu.Lock()
	h.closed = true
	open := slices.Collect(maps.Values(h.trajs))
	h.mu.Unlock()
	errs := make([]error, len(open))
	var all sync.WaitGroup
	for i, t := range open {
		all.Go(func() {
			defer h.forget(t)
			if _, err := t.seal(ctx, reason); fault.CodeOf(err) != fault.UnknownRoute { // it never began
				errs[i] = err
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// NewToken makes a bearer token that cannot be guessed.
func NewToken() string {
	var b [24]byte
	rand.Read(b[:])
	return "tito-" + base64.RawURLEncoding.EncodeToString(b[:])
}
