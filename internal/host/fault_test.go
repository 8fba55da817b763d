package host_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/host"
	"github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/session"
	"github.com/tito-rl/tito/internal/trajectory"
)

var good = fact{trajectory.FinishStop, "", trajectory.LogprobOK, trajectory.DeliveryDelivered}

func cut(code fault.Code) fact {
	return fact{trajectory.FinishError, string(code), trajectory.LogprobOK, trajectory.DeliveryUndelivered}
}

func state(s trajectory.LogprobState) fact { f := good; f.State = s; return f }

// What comes of each thing that an engine can do wrong: the answer of the first call, how often the engine was asked for it,
// and what is recorded. A second call always goes well.
func TestEachFaultOfAnEngineHasItsResult(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   rehearsal.Fault
		status  int
		code    fault.Code
		retryIn string
		asked   int
		record  []fact
	}{
		{"wrong prompt ids", rehearsal.Fault{Kind: rehearsal.FaultPrompt}, 502, fault.EnginePrompt, "", 1, nil},
		{"no ids", rehearsal.Fault{Kind: rehearsal.FaultIDs}, 502, fault.EngineIDs, "", 1, nil},
		{"ids end", rehearsal.Fault{Kind: rehearsal.FaultIDs, After: 3}, 502, fault.EngineIDs, "", 1, []fact{cut(fault.EngineIDs)}},
		{"no finish reason", rehearsal.Fault{Kind: rehearsal.FaultNoFinish}, 502, fault.EngineFinish, "", 1, []fact{cut(fault.EngineFinish)}},
		{"cut at once", rehearsal.Fault{Kind: rehearsal.FaultDrop}, 200, "", "", 2, []fact{good}},
		{"always cut at once", rehearsal.Fault{Kind: rehearsal.FaultDrop, Times: host.DefaultEngineTries}, 502, fault.EngineCut, "1", host.DefaultEngineTries, nil},
		{"cut in the middle", rehearsal.Fault{Kind: rehearsal.FaultDrop, After: 3}, 502, fault.EngineCut, "1", 1, []fact{cut(fault.EngineCut)}},
		{"busy once", rehearsal.Fault{Kind: rehearsal.FaultStatus, Status: 503}, 200, "", "", 2, []fact{good}},
		{"always busy", rehearsal.Fault{Kind: rehearsal.FaultStatus, Status: 429, Times: host.DefaultEngineTries}, 503, fault.EngineBusy, "1", host.DefaultEngineTries, nil},
		{"busy for long", rehearsal.Fault{Kind: rehearsal.FaultStatus, Status: 429, RetryAfter: 77}, 503, fault.EngineBusy, "77", 1, nil},
		{"broken", rehearsal.Fault{Kind: rehearsal.FaultStatus, Status: 500}, 502, fault.EngineStatus, "", 1, nil},
		{"not reached once", rehearsal.Fault{Kind: rehearsal.FaultStatus, Status: 502}, 200, "", "", 2, []fact{good}},
		{"slow", rehearsal.Fault{Kind: rehearsal.FaultSlow, Delay: 5}, 200, "", "", 1, []fact{good}},
		{"no log probabilities", rehearsal.Fault{Kind: rehearsal.FaultNone}, 200, "", "", 1, []fact{state(trajectory.LogprobMissing)}},
		{"too few log probabilities", rehearsal.Fault{Kind: rehearsal.FaultFew, After: 2}, 200, "", "", 1, []fact{state(trajectory.LogprobCount)}},
		{"a log probability that is no number", rehearsal.Fault{Kind: rehearsal.FaultNaN, After: 1}, 200, "", "", 1, []fact{state(trajectory.LogprobInvalid)}},
	} {
		for _, over := range []bool{false, true} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/http=%v/stream=%v", c.name, over, stream), func(t *testing.T) {
					f := c.fault
					f.Turn, f.Times = -1, max(f.Times, 1)
					r := up(t, func(r *rig) { r.overNet, r.faults = over, []rehearsal.Fault{f} })
					e := r.open("t1")
					h := r.say(ask(e, user("one"), stream))
					if h.Status != c.status || h.Code != string(c.code) || h.RetryIn != c.retryIn || h.Cut {
						t.Errorf("%+v", h)
					}
					if n := r.calls.count(); n != c.asked {
						t.Errorf("the engine was asked %d times", n)
					}
					if h := r.say(ask(e, user("two"), stream)); h.Status != http.StatusOK || h.Finish != "stop" {
						t.Errorf("the call after: %+v", h)
					}
					s := r.seal("t1")
					if want := min(len(c.code), 1); len(s.Refused) != want || s.Refused[c.code] != want {
						t.Errorf("%+v", s)
					}
					r.recorded("t1", append(append([]fact{}, c.record...), good)...)
				})
			}
		}
	}
}

func TestWeightsThatChangeInAnAnswerAreRecordedIDByID(t *testing.T) {
	for _, over := range []bool{false, true} {
		r := up(t, func(r *rig) {
			r.overNet, r.faults = over, []rehearsal.Fault{{Kind: rehearsal.FaultSwap, Turn: -1, Times: 1, After: 2, Version: "v2"}}
		})
		if h := r.say(ask(r.open("t1"), user("one"), false)); h.Status != http.StatusOK {
			t.Fatal(h)
		}
		r.seal("t1")
		v := r.proved("t1").Turns()[0].Versions
		if len(v) != 2 || v[0].Version != "v1" || v[0].End != 2 || v[1].Version != "v2" {
			t.Errorf("%+v", v)
		}
	}
}

// gate is an engine whose answers wait: each says that it began, and goes on when told. Then it gives what the engine
// behind gives, up to after ids at first.
type gate struct {
	engine.Engine
	after   int
	began   chan struct{} // once the ids before the wait are handed on
	open    chan struct{}
	stopped chan struct{} // the context of a waiting answer ended
}

func gated(after int) (*gate, func(engine.Engine) engine.Engine) {
	g := &gate{after: after, began: make(chan struct{}, 100), open: make(chan struct{}, 100), stopped: make(chan struct{}, 100)}
	return g, func(e engine.Engine) engine.Engine { g.Engine = e; return g }
}

func (g *gate) Generate(ctx context.Context, r engine.Request) (engine.Stream, error) {
	s, err := g.Engine.Generate(ctx, r)
	return &gatedStream{Stream: s, g: g, ctx: ctx}, err
}

type gatedStream struct {
	engine.Stream
	g      *gate
	ctx    context.Context
	n      int
	passed bool
}

func (s *gatedStream) Next() (engine.Chunk, error) {
	if s.n >= s.g.after && !s.passed {
		s.passed = true
		s.g.began <- struct{}{}
		select {
		case <-s.g.open:
		case <-s.ctx.Done():
			s.g.stopped <- struct{}{}
			return engine.Chunk{}, fault.Wrap(fault.ClientGone, s.ctx.Err(), "cancelled")
		}
	}
	c, err := s.Stream.Next()
	s.n += len(c.IDs)
	return c, err
}

func TestAStreamThatWaitsIsKeptAliveAndAnErrorAfterItsFirstByteCutsIt(t *testing.T) {
	for _, fails := range []bool{false, true} {
		g, wrap := gated(0)
		r := up(t, func(r *rig) {
			r.wrap, r.c.KeepAlive = wrap, time.Millisecond
			if fails {
				r.faults = []rehearsal.Fault{{Kind: rehearsal.FaultNoFinish, Turn: -1}}
			}
		})
		res, err := r.post(t.Context(), ask(r.open("t1"), user("one"), true)) // returns with the head, which the first comment sends
		g.open <- struct{}{}
		h := r.hear(res, err)
		<-r.served
		if h.Status != http.StatusOK || h.Comments == 0 || h.Cut != fails || (h.Finish == "") != fails {
			t.Errorf("fails %v: %+v", fails, h)
		}
		r.seal("t1")
		if fails {
			r.recorded("t1", cut(fault.EngineFinish))
		} else {
			r.recorded("t1", good)
		}
	}
}

func TestALiveStreamThatBreaksIsCutAndNotEnded(t *testing.T) {
	r := up(t, func(r *rig) {
		r.c.Live, r.faults = true, []rehearsal.Fault{{Kind: rehearsal.FaultDrop, After: 6, Turn: -1, Times: 1}}
	})
	e := r.open("t1")
	if h := r.say(ask(e, user("one"), true)); h.Status != http.StatusOK || !h.Cut || h.Content == "" || h.Finish != "" {
		t.Errorf("%+v", h)
	}
	if h := r.say(ask(e, user("one"), true)); h.Status != http.StatusOK || h.Cut || h.Finish != "stop" {
		t.Errorf("asked again: %+v", h)
	}
	r.seal("t1")
	r.recorded("t1", cut(fault.EngineCut), good)
}

func TestAClientThatLeavesStopsTheSamplingAndWhatCameIsKept(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for after, want := range map[int][]fact{0: nil, 2: {{trajectory.FinishAbort, "", trajectory.LogprobOK, trajectory.DeliveryAborted}}} {
			g, wrap := gated(after)
			r := up(t, func(r *rig) { r.wrap, r.c.Live = wrap, true })
			e := r.open("t1")
			ctx, leave := context.WithCancel(t.Context())
			go func() { <-g.began; leave() }()
			if res, err := r.post(ctx, ask(e, user("one"), stream)); err == nil {
				res.Body.Close()
			}
			<-r.served
			<-g.stopped
			r.seal("t1")
			r.recorded("t1", want...)
		}
	}
}

func TestPanicsEndACallAndNotTheProcess(t *testing.T) {
	t.Run("engine", func(t *testing.T) {
		r := up(t, func(r *rig) { r.wrap = func(e engine.Engine) engine.Engine { return &panics{Engine: e} } })
		e := r.open("t1")
		if h := r.say(ask(e, user("one"), false)); h.Status != http.StatusInternalServerError || h.Code != string(fault.InternalError) {
			t.Error(h)
		}
		if h := r.say(ask(e, user("one"), false)); h.Status != http.StatusOK {
			t.Error(h)
		}
		r.seal("t1")
		r.recorded("t1", good)
	})
	t.Run("step", func(t *testing.T) {
		g, wrap := gated(0)
		r := up(t, func(r *rig) { r.wrap = wrap })
		e, err := r.host.Open(t.Context(), host.Open{Identities: trajectory.Identities{Trajectory: "t1"},
			Classify: func(c *session.CallArrived) (trajectory.Class, string) {
				if c.Marks["x-bad"] != "" {
					panic("a classifier's bug")
				}
				return trajectory.ClassPolicy, ""
			}})
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(chan heard)
		go func() { waiting <- r.hear(r.post(t.Context(), ask(e, user("one"), false))) }()
		<-g.began
		q := ask(e, user("two"), false)
		q.header = map[string]string{"X-Bad": "1"}
		for _, h := range []heard{r.say(q), <-waiting, r.say(ask(e, user("three"), true))} {
			if h.Status != http.StatusInternalServerError || h.Code != string(fault.InternalError) {
				t.Error(h)
			}
		}
		if _, err := r.host.Seal(t.Context(), "t1", "done"); fault.CodeOf(err) != fault.InternalError {
			t.Error(err)
		}
	})
}

// panics is an engine whose first answer is a bug.
type panics struct {
	engine.Engine
	n int
}

func (p *panics) Generate(ctx context.Context, r engine.Request) (engine.Stream, error) {
	if p.n++; p.n == 1 {
		panic(errors.New("an engine's bug"))
	}
	return p.Engine.Generate(ctx, r)
}

func TestAPromptThatDoesNotFitIsRefusedInTheWordsThatHarnessesKnow(t *testing.T) {
	r := up(t, func(r *rig) { r.c.MaxContext = 300 })
	e := r.open("t1")
	h := r.say(ask(e, user(strings.Repeat("a long story ", 300)), true))
	if h.Status != http.StatusBadRequest || h.Code != "context_length_exceeded" || !strings.Contains(h.Message, "maximum context length is 300 tokens") {
		t.Errorf("%+v", h)
	}
	if h := r.say(ask(e, user("short"), true)); h.Status != http.StatusOK {
		t.Error(h)
	}
	if s := r.seal("t1"); s.Last != "" || !cmp.Equal(s.Refused, map[fault.Code]int{fault.ContextLength: 1}) {
		t.Errorf("%+v", s)
	}
}
