// Package host serves trajectories: it steps their sessions, runs the effects, and owns what the core may not have: sockets,
// goroutines, the clock, random tokens. A sidecar is a host with one trajectory, a gateway one with many.
//
// The life of a turn is in call.go, each step once. A Host is safe for concurrent use.
package host

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"maps"
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
)

// Config is what a host serves with.
type Config struct {
	Model    *model.Model
	Engine   engine.Engine
	Info     engine.Info // as the engine said at start-up
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
	EngineTries  int              // while nothing was sampled; 0 = DefaultEngineTries
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
	if c.Custody == "" {
		c.Custody = "host"
	}
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.KeepAlive == 0 {
		c.KeepAlive = DefaultKeepAlive
	}
	if c.EngineTries == 0 {
		c.EngineTries = DefaultEngineTries
	}
	if c.SealPatience == 0 {
		c.SealPatience = defaultSealPatience
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Host{c: c, trajs: map[string]*traj{}}
}

// Open begins a trajectory: its header is in the journal when Open returns.
func (h *Host) Open(ctx context.Context, o Open) (Endpoint, error) {
	t, err := h.reserve(&o)
	if err != nil {
		return Endpoint{}, err
	}
	if err := t.begin(ctx, h.header(o)); err != nil {
		h.forget(o.Trajectory)
		return Endpoint{}, err
	}
	return h.endpoint(t), nil
}

// Reopen goes on with a trajectory whose journal is there already, after a crash say. What the crash cut off is dropped.
func (h *Host) Reopen(ctx context.Context, o Open) (Endpoint, error) {
	t, err := h.reserve(&o)
	if err != nil {
		return Endpoint{}, err
	}
	if err := t.resume(); err != nil {
		h.forget(o.Trajectory)
		return Endpoint{}, err
	}
	return h.endpoint(t), nil
}

func (h *Host) reserve(o *Open) (*traj, error) {
	if o.Trajectory == "" {
		return nil, fault.New(fault.InternalError, "a trajectory without an id")
	}
	if o.Journal == "" {
		o.Journal = o.Trajectory + "/" + store.JournalName
	}
	if o.Token == "" {
		o.Token = NewToken()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fault.New(fault.SessionSealed, "the host is closing")
	}
	if h.trajs[o.Trajectory] != nil {
		return nil, fault.New(fault.SessionInvariant, "trajectory %s is open already", o.Trajectory)
	}
	t := newTraj(h, *o)
	h.trajs[o.Trajectory] = t
	return t, nil
}

func (h *Host) header(o Open) trajectory.Header {
	m := h.c.Model
	return trajectory.Header{
		Identities: o.Identities, Tito: h.c.Writer, Created: h.c.Now().UnixMilli(), Custody: h.c.Custody,
		Prompt: "full_history", RenderBy: "tito", Model: m.Info, Engine: h.c.Info.Kind, Harness: o.Harness,
		MaxContext: h.c.MaxContext, Policy: h.c.Policy, VocabSize: m.VocabSize,
	}
}

func (h *Host) endpoint(t *traj) Endpoint {
	return Endpoint{Trajectory: t.o.Trajectory, Path: "/t/" + t.o.Trajectory + "/v1", Token: t.o.Token}
}

func (h *Host) find(id string) *traj {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trajs[id]
}

func (h *Host) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.trajs, id)
}

// Seal finishes a trajectory: it takes no more calls, what is being sampled is cut and kept, and its end is in the journal
// when Seal returns. ctx bounds the wait for answers under way; the end is written all the same.
func (h *Host) Seal(ctx context.Context, id, reason string) (Sealed, error) {
	t := h.find(id)
	if t == nil {
		return Sealed{}, fault.New(fault.UnknownRoute, "trajectory %s is not open", id)
	}
	s, err := t.seal(ctx, reason)
	h.forget(id)
	return s, err
}

// Close seals what is open.
func (h *Host) Close(ctx context.Context, reason string) error {
	h.mu.Lock()
	h.closed = true
	ids := slices.Sorted(maps.Keys(h.trajs))
	h.mu.Unlock()
	var first error
	for _, id := range ids {
		if _, err := h.Seal(ctx, id, reason); err != nil && first == nil && fault.CodeOf(err) != fault.UnknownRoute {
			first = err
		}
	}
	return first
}

// NewToken makes a bearer token that cannot be guessed.
func NewToken() string {
	var b [24]byte
	rand.Read(b[:])
	return "tito-" + base64.RawURLEncoding.EncodeToString(b[:])
}
