// Package enginetest is the contract suite of engines: what every engine that plays a given small book must do, whatever
// lies between the caller and the policy.
//
// Only tests import it. It knows engines by their contract alone.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Setup is what an engine under test plays.
type Setup struct {
	Policy     *rehearsal.Policy
	Params     rehearsal.Params
	Faults     []rehearsal.Fault
	Seed       uint64
	MaxContext int // 0 = the engine's own
	Chunk      int // most ids a chunk; 0 = the engine's own
}

// Factory makes an engine and what frees it. Everything that the engine started must be gone after stop.
type Factory func(t testing.TB, s Setup) (e engine.Engine, stop func())

// Result is one completion, joined.
type Result struct {
	IDs      []token.ID
	Logprobs []float32
	Versions []token.VersionSpan
	Final    engine.Final
	Code     fault.Code // "" where the stream came to its end
}

// Run runs the suite.
func Run(t *testing.T, f Factory) {
	s := suite{f}
	t.Run("InfoSaysWhatIsServed", s.info)
	t.Run("IDsAndLogprobsAreExact", s.exact)
	t.Run("MaxTokensCutsAnywhere", s.maxTokens)
	t.Run("TheSameRequestGivesTheSameAnswer", s.deterministic)
	t.Run("ConcurrentStreamsDoNotDisturbEachOther", s.concurrent)
	t.Run("WeightsSwapInTheMiddle", s.swap)
	t.Run("FaultsHaveTheirCodes", s.faults)
	t.Run("BadLogprobsAreReportedAsTheyAre", s.badLogprobs)
	t.Run("RefusalsHaveTheirCodes", s.refusals)
	t.Run("CancellingEndsTheWork", s.cancel)
	t.Run("CloseIsIdempotent", s.close)
}

type suite struct{ make Factory }

// with runs f on a fresh engine and checks that nothing of it is left.
func (s suite) with(t *testing.T, set Setup, f func(engine.Engine)) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	if set.Policy == nil {
		set.Policy = Book(t)
	}
	if set.Params.Version == "" {
		set.Params = set.Policy.Initial("v1")
	}
	e, stop := s.make(t, set)
	f(e)
	stop()
	goleak.VerifyNone(t, before)
}

// Request is a neutral request for the suite's book.
func Request(prompt []token.ID, key string) engine.Request {
	return engine.Request{IDs: prompt, MaxTokens: 256, Sampling: chat.Neutral(), Stops: []token.ID{ToyStop, ToyEnd}, Key: key}
}

// Collect reads a completion to its end and closes it.
func Collect(ctx context.Context, e engine.Engine, r engine.Request) Result {
	var out Result
	st, err := e.Generate(ctx, r)
	if err != nil {
		return Result{Code: fault.CodeOf(err)}
	}
	defer func() { _ = st.Close() }()
	for {
		c, err := st.Next()
		if errors.Is(err, io.EOF) {
			out.Final = st.Final()
			return out
		}
		if err != nil {
			out.Code = fault.CodeOf(err)
			return out
		}
		n := len(out.IDs)
		out.IDs = append(out.IDs, c.IDs...)
		if c.Logprobs != nil {
			out.Logprobs = append(out.Logprobs, c.Logprobs...)
		}
		if k := len(out.Versions) - 1; k >= 0 && out.Versions[k].Version == c.Version {
			out.Versions[k].End = len(out.IDs)
		} else {
			out.Versions = append(out.Versions, token.VersionSpan{Span: token.Span{Start: n, End: len(out.IDs)}, Version: c.Version})
		}
	}
}

func (s suite) info(t *testing.T) {
	s.with(t, Setup{MaxContext: 500}, func(e engine.Engine) {
		i, err := e.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i.Kind == "" || i.Model == "" || !i.EchoesIDs || !i.ReturnsStop || i.MaxContext != 500 || i.Version != "v1" {
			t.Errorf("info %+v", i)
		}
	})
}

func (s suite) exact(t *testing.T) {
	p := Book(t)
	w, err := p.At(p.Initial("v1"))
	if err != nil {
		t.Fatal(err)
	}
	prompts := [][]token.ID{greeting, Prompt("say hello", "hello", "again"), Prompt("say hello", "x", "y"), Prompt("who?")}
	for _, chunk := range []int{1, 3, 1000} {
		s.with(t, Setup{Policy: p, Chunk: chunk}, func(e engine.Engine) {
			finishes := map[string]int{}
			for i := range 40 {
				prompt := prompts[i%len(prompts)]
				r := Collect(t.Context(), e, Request(prompt, fmt.Sprint("call-", i)))
				if r.Code != "" {
					t.Fatalf("call %d: %s", i, r.Code)
				}
				checkExact(t, p, []*rehearsal.Weights{w}, prompt, r)
				finishes[r.Final.Finish]++
			}
			if finishes["stop"] == 0 || finishes["length"] == 0 {
				t.Errorf("finishes %v: too few kinds to show anything", finishes)
			}
		})
	}
}

// checkExact compares an answer with the policy itself.
func checkExact(t *testing.T, p *rehearsal.Policy, versions []*rehearsal.Weights, prompt []token.ID, r Result) {
	t.Helper()
	if len(r.IDs) == 0 || len(r.Logprobs) != len(r.IDs) {
		t.Fatalf("%d ids, %d log probabilities", len(r.IDs), len(r.Logprobs))
	}
	covered := 0
	for _, v := range r.Versions {
		i := slices.IndexFunc(versions, func(w *rehearsal.Weights) bool { return w.Version() == v.Version })
		if i < 0 {
			t.Fatalf("no weights %q were published", v.Version)
		}
		want, err := versions[i].Logprobs(prompt, r.IDs)
		if err != nil {
			t.Fatal(err)
		}
		for j := v.Start; j < v.End; j++ {
			if r.Logprobs[j] != float32(want[j]) {
				t.Errorf("id %d: log probability %v, the policy's is %v", j, r.Logprobs[j], want[j])
			}
		}
		covered += v.Len()
	}
	if covered != len(r.IDs) {
		t.Errorf("versions cover %d of %d ids", covered, len(r.IDs))
	}
	if !slices.Equal(r.Final.Prompt, prompt) {
		t.Errorf("prompt reported as %v", r.Final.Prompt)
	}
	last := r.IDs[len(r.IDs)-1]
	switch r.Final.Finish {
	case "stop":
		if !p.IsStop(last) || r.Final.StopToken != int64(last) {
			t.Errorf("finish stop, last id %d, stop token %d", last, r.Final.StopToken)
		}
	case "length":
		if p.IsStop(last) || r.Final.StopToken != -1 {
			t.Errorf("finish length, last id %d, stop token %d", last, r.Final.StopToken)
		}
	default:
		t.Errorf("finish %q", r.Final.Finish)
	}
}

func (s suite) maxTokens(t *testing.T) {
	s.with(t, Setup{Chunk: 4}, func(e engine.Engine) {
		prompt := Prompt("say hello", "x", "y") // one reply alone
		whole := Collect(t.Context(), e, Request(prompt, "k"))
		for n := 1; n <= len(whole.IDs)+1; n++ {
			r := Request(prompt, "k")
			r.MaxTokens = n
			got := Collect(t.Context(), e, r)
			want := whole.IDs[:min(n, len(whole.IDs))]
			if diff := cmp.Diff(want, got.IDs); diff != "" {
				t.Fatalf("max_tokens %d: %s", n, diff)
			}
			if cut := n < len(whole.IDs); cut != (got.Final.Finish == "length") {
				t.Errorf("max_tokens %d of %d: finish %q", n, len(whole.IDs), got.Final.Finish)
			}
		}
	})
}

func (s suite) deterministic(t *testing.T) {
	seed := func(n int64, key string) engine.Request {
		r := Request(greeting, key)
		r.Sampling.Seed = &n
		return r
	}
	collect := func(engineSeed uint64, chunk int, rs ...engine.Request) (out []Result) {
		s.with(t, Setup{Seed: engineSeed, Chunk: chunk}, func(e engine.Engine) {
			for _, r := range rs {
				out = append(out, Collect(t.Context(), e, r))
			}
		})
		return out
	}
	var rs []engine.Request
	for i := range 12 {
		rs = append(rs, Request(greeting, fmt.Sprint("k", i)))
	}
	a, b, other := collect(5, 8, rs...), collect(5, 3, rs...), collect(6, 8, rs...)
	same(t, a, b)
	if cmp.Equal(a, other, eqFloats) {
		t.Error("another seed changed nothing")
	}
	if cmp.Equal(a[:6], a[6:], eqFloats) {
		t.Error("other keys changed nothing")
	}
	x := collect(1, 8, seed(7, "a"), seed(7, "b"), seed(-9, "a"))
	y := collect(2, 8, seed(7, "c"), seed(7, "d"), seed(-9, "e"))
	same(t, x, y)
	same(t, x[:1], x[1:2])
}

var eqFloats = cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })

func same(t *testing.T, a, b []Result) {
	t.Helper()
	if diff := cmp.Diff(a, b, eqFloats); diff != "" {
		t.Error(diff)
	}
}

func (s suite) concurrent(t *testing.T) {
	const n = 48
	ask := func(e engine.Engine, i int) Result {
		return Collect(context.Background(), e, Request(greeting, fmt.Sprint("call-", i)))
	}
	s.with(t, Setup{Chunk: 2}, func(e engine.Engine) {
		alone, together := make([]Result, n), make([]Result, n)
		for i := range n {
			alone[i] = ask(e, i)
		}
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { together[n-1-i] = ask(e, n-1-i) })
		}
		wg.Wait()
		same(t, alone, together)
	})
}

func (s suite) swap(t *testing.T) {
	p := Book(t)
	one := p.Initial("v1")
	set := map[string]float64{"greet/0/0": 3, "greet/0/2": -1, "greet/0/4": 2}
	two, err := one.With("v2", set)
	if err != nil {
		t.Fatal(err)
	}
	w1, err1 := p.At(one)
	w2, err2 := p.At(two)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for after := range 4 {
		f := rehearsal.Fault{Kind: rehearsal.FaultSwap, Turn: -1, Call: 1, After: after, Version: "v2", Set: set}
		s.with(t, Setup{Policy: p, Params: one, Faults: []rehearsal.Fault{f}}, func(e engine.Engine) {
			r := Collect(t.Context(), e, Request(greeting, fmt.Sprint(after)))
			checkExact(t, p, []*rehearsal.Weights{w1, w2}, greeting, r)
			if len(r.IDs) > after && r.Versions[len(r.Versions)-1].Version != "v2" {
				t.Errorf("swap before id %d: versions %v", after, r.Versions)
			}
			if after > 0 && (r.Versions[0].Version != "v1" || r.Versions[0].End != min(after, len(r.IDs))) {
				t.Errorf("swap before id %d: versions %v", after, r.Versions)
			}
			next := Collect(t.Context(), e, Request(greeting, "next"))
			checkExact(t, p, []*rehearsal.Weights{w2}, greeting, next)
		})
	}
}

func (s suite) faults(t *testing.T) {
	prompt := Prompt("say hello", "x", "y")
	for _, c := range []struct {
		f    rehearsal.Fault
		code fault.Code
		ids  int // ids that arrive before
	}{
		{rehearsal.Fault{Kind: rehearsal.FaultDrop, After: 0}, fault.EngineCut, 0},
		{rehearsal.Fault{Kind: rehearsal.FaultDrop, After: 3}, fault.EngineCut, 3},
		{rehearsal.Fault{Kind: rehearsal.FaultDrop, After: 1000}, fault.EngineCut, 19},
		{rehearsal.Fault{Kind: rehearsal.FaultIDs, After: 0}, fault.EngineIDs, 0},
		{rehearsal.Fault{Kind: rehearsal.FaultIDs, After: 5}, fault.EngineIDs, 5},
		{rehearsal.Fault{Kind: rehearsal.FaultNoFinish}, fault.EngineFinish, 19},
		{rehearsal.Fault{Kind: rehearsal.FaultPrompt}, fault.EnginePrompt, 0},
		{rehearsal.Fault{Kind: rehearsal.FaultStatus, Status: 429, RetryAfter: 3}, fault.EngineBusy, 0},
		{rehearsal.Fault{Kind: rehearsal.FaultStatus, Status: 503}, fault.EngineBusy, 0},
		{rehearsal.Fault{Kind: rehearsal.FaultStatus, Status: 500}, fault.EngineStatus, 0},
		{rehearsal.Fault{Kind: rehearsal.FaultStatus, Status: 504}, fault.EngineUnreachable, 0},
		{rehearsal.Fault{Kind: rehearsal.FaultSlow, Delay: 1}, "", 19},
	} {
		t.Run(fmt.Sprintf("%s-%d-%d", c.f.Kind, c.f.After, c.f.Status), func(t *testing.T) {
			c.f.Turn, c.f.Times = -1, 1
			var clean Result
			s.with(t, Setup{Chunk: 4}, func(e engine.Engine) { clean = Collect(t.Context(), e, Request(prompt, "k")) })
			s.with(t, Setup{Chunk: 4, Faults: []rehearsal.Fault{c.f}}, func(e engine.Engine) {
				got := Collect(t.Context(), e, Request(prompt, "k"))
				if got.Code != c.code || len(got.IDs) != c.ids {
					t.Errorf("code %q after %d ids, want %q after %d", got.Code, len(got.IDs), c.code, c.ids)
				}
				if !slices.Equal(got.IDs, clean.IDs[:len(got.IDs)]) {
					t.Errorf("ids %v do not begin %v", got.IDs, clean.IDs)
				}
				// The fault happens once; the same call again is answered whole.
				same(t, []Result{clean}, []Result{Collect(t.Context(), e, Request(prompt, "k"))})
			})
		})
	}
}

func (s suite) badLogprobs(t *testing.T) {
	prompt := Prompt("say hello", "hello", "again")
	var clean Result
	s.with(t, Setup{Chunk: 4}, func(e engine.Engine) { clean = Collect(t.Context(), e, Request(prompt, "k")) })
	for _, c := range []struct {
		f    rehearsal.Fault
		want trajectory.LogprobState
	}{
		{rehearsal.Fault{Kind: rehearsal.FaultNone}, trajectory.LogprobMissing},
		{rehearsal.Fault{Kind: rehearsal.FaultFew, After: 1}, trajectory.LogprobCount},
		{rehearsal.Fault{Kind: rehearsal.FaultFew, After: 0}, trajectory.LogprobCount},
		{rehearsal.Fault{Kind: rehearsal.FaultNaN, After: 2}, trajectory.LogprobInvalid},
		{rehearsal.Fault{Kind: rehearsal.FaultShifted}, trajectory.LogprobOK}, // only the policy itself can tell
	} {
		t.Run(fmt.Sprintf("%s-%d", c.f.Kind, c.f.After), func(t *testing.T) {
			c.f.Turn = -1
			s.with(t, Setup{Chunk: 4, Faults: []rehearsal.Fault{c.f}}, func(e engine.Engine) {
				got := Collect(t.Context(), e, Request(prompt, "k"))
				if got.Code != "" || !slices.Equal(got.IDs, clean.IDs) || got.Final.Finish != clean.Final.Finish {
					t.Fatalf("code %q, ids %v, finish %q", got.Code, got.IDs, got.Final.Finish)
				}
				if state := trajectory.LogprobsOf(got.Logprobs, len(got.IDs)); state != c.want {
					t.Errorf("log probabilities are %s, want %s", state, c.want)
				}
				if slices.Equal(got.Logprobs, clean.Logprobs) {
					t.Error("the fault changed nothing")
				}
			})
		})
	}
}

func (s suite) refusals(t *testing.T) {
	busy := rehearsal.Fault{Kind: rehearsal.FaultStatus, Turn: -1, Status: 503, RetryAfter: 2, Call: 1}
	s.with(t, Setup{MaxContext: 100, Faults: []rehearsal.Fault{busy}}, func(e engine.Engine) {
		_, err := e.Generate(t.Context(), engine.Request{IDs: greeting, MaxTokens: 8, Sampling: chat.Neutral()})
		var b *engine.Busy
		if fault.CodeOf(err) != fault.EngineBusy || !errors.As(err, &b) || b.After != 2*time.Second {
			t.Errorf("busy engine: %v", err)
		}
		if got := Collect(t.Context(), e, Request(greeting, "")).Code; got != fault.ContextLength {
			t.Errorf("a prompt of %d and 256 more: %q", len(greeting), got)
		}
		r := Request(greeting, "")
		r.MaxTokens, r.Model = 8, "no-such-model"
		if got := Collect(t.Context(), e, r).Code; got != fault.EngineStatus {
			t.Errorf("unknown model: %q", got)
		}
		r.Model, r.MaxTokens = "", 0
		if got := Collect(t.Context(), e, r).Code; got != fault.BadRequest {
			t.Errorf("no room: %q", got)
		}
		r.MaxTokens, r.IDs = 8, nil
		if got := Collect(t.Context(), e, r).Code; got != fault.BadRequest {
			t.Errorf("no prompt: %q", got)
		}
		for _, name := range []string{"temperature", "top_k", "penalty", "stop"} {
			r := Request(greeting, "")
			r.MaxTokens = 8
			switch name {
			case "temperature":
				r.Sampling.Temperature = 0.5
			case "top_k":
				r.Sampling.TopK = 3
			case "penalty":
				r.Sampling.RepetitionPenalty = 1.5
			case "stop":
				r.Sampling.Stop = []string{"x"}
			}
			if _, err := e.Generate(t.Context(), r); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s is not refused by name: %v", name, err)
			}
		}
	})
}
