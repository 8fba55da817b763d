package host_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// witness is an engine that keeps its own account of what it was sent and gave.
type witness struct {
	engine.Engine
	mu   sync.Mutex
	seen map[string][]*testimony // by the call that a request's key names
}

type testimony struct {
	prompt, ids []token.ID
	logprobs    []float32
}

func (w *witness) Generate(ctx context.Context, r engine.Request) (engine.Stream, error) {
	s, err := w.Engine.Generate(ctx, r)
	if err != nil {
		return nil, err
	}
	e := &testimony{prompt: slices.Clone(r.IDs)}
	call := r.Key[:strings.LastIndexByte(r.Key, '-')]
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[call] = append(w.seen[call], e)
	return &witnessed{s, e}, nil
}

type witnessed struct {
	engine.Stream
	e *testimony
}

func (w *witnessed) Next() (engine.Chunk, error) {
	c, err := w.Stream.Next()
	w.e.ids, w.e.logprobs = append(w.e.ids, c.IDs...), append(w.e.logprobs, c.Logprobs...)
	return c, err
}

// Clients that talk, leave and ask again at random, and an engine that fails at random: whatever is recorded is what the
// engine was sent and gave, id for id and bit for bit, and no id was sampled after another try had given one.
func TestWhatIsRecordedIsWhatTheEngineSawWhateverGoesWrong(t *testing.T) {
	for seed, durability := range []store.Durability{store.Process, store.Power} {
		for _, over := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/http=%v", durability, over), func(t *testing.T) {
				w := &witness{seen: map[string][]*testimony{}}
				r := up(t, func(r *rig) {
					r.overNet, r.c.Durability, r.c.Live = over, durability, over
					r.faults = mishaps(rand.New(rand.NewPCG(uint64(seed), 1)), 150)
					r.wrap = func(e engine.Engine) engine.Engine { w.Engine = e; return w }
				})
				var all sync.WaitGroup
				for i := range 3 {
					e := r.open(fmt.Sprint("t", i))
					for k := range 3 {
						all.Go(func() {
							rng := rand.New(rand.NewPCG(uint64(seed), uint64(10+3*i+k)))
							talk := user("please count the files")
							for range 10 {
								q := ask(e, talk, rng.IntN(2) == 0)
								if rng.IntN(2) == 0 {
									q.header = map[string]string{"Idempotency-Key": fmt.Sprint(k, len(talk))}
								}
								ctx, leave := context.WithCancel(t.Context())
								if rng.IntN(4) == 0 { // at some moment of the call, before or after its answer
									others := rng.IntN(4)
									go func() {
										for range others {
											select {
											case <-r.arrived:
											case <-ctx.Done():
												return
											}
										}
										leave()
									}()
								}
								h := r.hear(r.post(ctx, q))
								leave()
								if h.Status == http.StatusOK && !h.Cut && len(h.Calls) > 0 {
									talk = append(talk, h.echo()...)
								} else if h.Finish == "stop" {
									talk = user("please count the files")
								}
							}
						})
					}
				}
				all.Wait()
				turns, cuts := 0, 0
				for i := range 3 {
					id := fmt.Sprint("t", i)
					r.seal(id)
					tree := r.proved(id)
					for _, n := range tree.Turns() {
						turns++
						if n.Finish == trajectory.FinishAbort || n.Finish == trajectory.FinishError {
							cuts++
						}
						w.check(t, tree, n)
					}
				}
				if turns < 30 || cuts == 0 {
					t.Errorf("%d turns, %d of them cut: too little went on", turns, cuts)
				}
			})
		}
	}
}

func mishaps(rng *rand.Rand, calls int) (out []rehearsal.Fault) {
	kinds := []rehearsal.Fault{
		{Kind: rehearsal.FaultDrop}, {Kind: rehearsal.FaultDrop, After: 5}, {Kind: rehearsal.FaultNaN, After: 2}, {Kind: rehearsal.FaultFew, After: 3},
		{Kind: rehearsal.FaultNone}, {Kind: rehearsal.FaultNoFinish}, {Kind: rehearsal.FaultStatus, Status: 503}, {Kind: rehearsal.FaultStatus, Status: 500},
	}
	for call := 1; call <= calls; call++ {
		if rng.IntN(3) == 0 {
			f := kinds[rng.IntN(len(kinds))]
			f.Call, f.Turn = call, -1
			out = append(out, f)
		}
	}
	return out
}

func (w *witness) check(t *testing.T, tree *trajectory.Tree, n *trajectory.Turn) {
	t.Helper()
	tries := w.seen[n.Call]
	for _, e := range tries[:max(0, len(tries)-1)] {
		if len(e.ids) > 0 {
			t.Errorf("%s was tried again after %d ids", n.Call, len(e.ids))
		}
	}
	if len(tries) == 0 {
		t.Fatalf("%s was never asked for", n.Call)
	}
	e := tries[len(tries)-1]
	if d := cmp.Diff(e.prompt, tree.Prompt(n.Seq)); d != "" {
		t.Errorf("%s: prompt (-sent +recorded):\n%s", n.Call, d)
	}
	whole := n.Finish == trajectory.FinishStop || n.Finish == trajectory.FinishLength
	if k := len(n.Completion); k > len(e.ids) || whole && k != len(e.ids) || !slices.Equal(n.Completion, e.ids[:k]) {
		t.Errorf("%s: %d ids recorded of %d", n.Call, k, len(e.ids))
	}
	if k := len(n.Logprobs); k > len(e.logprobs) || whole && k != len(e.logprobs) || !slices.EqualFunc(n.Logprobs, e.logprobs[:k], func(a, b float32) bool {
		return math.Float32bits(a) == math.Float32bits(b)
	}) {
		t.Errorf("%s: %d log probabilities recorded of %d", n.Call, k, len(e.logprobs))
	}
}
