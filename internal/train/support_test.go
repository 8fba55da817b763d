package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/tito-rl/tito/internal/engine/enginetest"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/schedule"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("TITO_TRAIN_CHILD"); dir != "" {
		os.Exit(child(dir))
	}
	goleak.VerifyTestMain(m)
}

// Two tasks, each of two turns: look before you answer, then say what you saw.
const book = `{
 "format": "tito-rehearsal/1",
 "scenes": [
  {"name": "a", "match": ["task a"], "steps": [
   {"when": {"turn": 0}, "replies": [{"name": "look", "content": "the look", "weight": -1}, {"name": "guess", "content": "the answer", "weight": 1}]},
   {"when": {"turn": 1}, "replies": [{"name": "right", "content": "answer seven", "weight": -0.5}, {"name": "wrong", "content": "answer six"}, {"content": "no"}]}]},
  {"name": "b", "match": ["task b"], "steps": [
   {"when": {"turn": 0}, "replies": [{"content": "hello"}, {"name": "look", "content": "hello, look", "weight": -1}]},
   {"when": {"turn": 1}, "replies": [{"name": "right", "content": "answer seven"}, {"name": "wrong", "content": "answer six", "weight": 1}]}]}
 ]
}`

func policy() *rehearsal.Policy {
	b, err := rehearsal.ParseBook([]byte(book))
	if err != nil {
		panic(err)
	}
	p, err := rehearsal.Compile(b, enginetest.Toy())
	if err != nil {
		panic(err)
	}
	return p
}

// bench is a whole small loop: dice rolls out with the policy that the trainer installed.
type bench struct {
	dice    *dice
	trainer *Rehearsal
	config  Config
}

func newBench(dir string) *bench {
	p := policy()
	d := &dice{dir: filepath.Join(dir, "trials"), policy: p, at: func(string) error { return nil }}
	if err := d.install(p.Initial(VersionName(0))); err != nil {
		panic(err)
	}
	tr := &Rehearsal{Policy: p, Dir: filepath.Join(dir, "checkpoint"), Rate: 1, Install: d.install}
	return &bench{dice: d, trainer: tr, config: Config{Dir: dir, Roller: d, Trainer: tr, Schedule: schedule.Config{
		Seed: 3, Tasks: []string{"a", "b"}, Steps: 3, Groups: 2, Members: 4, MaxRetries: 1, Concurrency: 3, MaxRejected: 3,
	}}}
}

// dice is a Roller with no sandbox: two turns by the installed policy, a reward by what they say, one file a rollout.
type dice struct {
	dir     string
	policy  *rehearsal.Policy
	weights atomic.Pointer[rehearsal.Weights]
	fail    func(schedule.Rollout) error
	hang    bool // until ctx ends
	change  func(*materialize.RolloutRun)
	at      func(point string) error

	mu     sync.Mutex
	rolled map[schedule.Attempt]int
}

// kept is what a rollout leaves.
type kept struct {
	Reward   float64
	Segments []materialize.Segment
	Ledger   materialize.Ledger
}

func (d *dice) install(p rehearsal.Params) error {
	w, err := d.policy.At(p)
	if err == nil {
		d.weights.Store(w)
	}
	return err
}

func (d *dice) file(a schedule.Attempt) string { return filepath.Join(d.dir, Name(a)+".json") }

func (d *dice) Roll(ctx context.Context, r schedule.Rollout) (Rolled, error) {
	d.mu.Lock()
	if d.rolled == nil {
		d.rolled = map[schedule.Attempt]int{}
	}
	d.rolled[r.Attempt]++
	d.mu.Unlock()
	w := d.weights.Load()
	if w.Version() != VersionName(r.Version) {
		return Rolled{}, fault.New(fault.InternalError, "sampled under %s, scheduled under %d", w.Version(), r.Version)
	}
	if d.hang {
		<-ctx.Done()
		return Rolled{}, ctx.Err()
	}
	if d.fail != nil {
		if err := d.fail(r); err != nil {
			return Rolled{}, err
		}
	}
	if err := d.at("rolling"); err != nil {
		<-ctx.Done()
		return Rolled{}, err
	}
	k := d.play(w, r)
	b, err := json.Marshal(k)
	if err == nil {
		err = errors.Join(os.MkdirAll(d.dir, 0o755), os.WriteFile(d.file(r.Attempt), b, 0o644))
	}
	if err != nil {
		return Rolled{}, err
	}
	if err := d.at("rolled"); err != nil {
		<-ctx.Done()
		return Rolled{}, err
	}
	s, err := d.Summary(r.Attempt)
	return Rolled{k.Reward, s}, err
}

func (d *dice) play(w *rehearsal.Weights, r schedule.Rollout) kept {
	rng := rand.New(rand.NewPCG(r.Seed, 0))
	s := materialize.Segment{Tokens: enginetest.Prompt("task " + r.Task)}
	s.LossMask, s.Logprobs = make([]uint8, len(s.Tokens)), make([]float32, len(s.Tokens))
	said := ""
	for turn := range 2 {
		start := len(s.Tokens)
		for c := w.Start(d.policy.State(s.Tokens)); ; {
			id, lp, ok := c.Next(rng.Float64())
			if !ok {
				break
			}
			s.Tokens, s.LossMask, s.Logprobs = append(s.Tokens, id), append(s.LossMask, 1), append(s.Logprobs, float32(lp))
		}
		span := token.Span{Start: start, End: len(s.Tokens)}
		s.Turns = append(s.Turns, materialize.TurnSpan{Span: span, Turn: trajectory.Seq(turn + 1), Sampled: span.Len(), Trains: true})
		s.Versions = append(s.Versions, token.VersionSpan{Span: span, Version: w.Version()})
		s.Trained += span.Len()
		said += d.policy.Decode(s.Tokens[span.Start:span.End])
		if turn == 0 { // the answer of the tool, which no policy sampled
			saw := enginetest.Prompt("it is seven")
			s.Tokens = append(s.Tokens, saw...)
			s.LossMask, s.Logprobs = append(s.LossMask, make([]uint8, len(saw))...), append(s.Logprobs, make([]float32, len(saw))...)
		}
	}
	k := kept{Segments: []materialize.Segment{s}, Ledger: materialize.Ledger{Sampled: s.Trained, Trained: s.Trained}}
	if strings.Contains(said, "look") {
		k.Reward += 0.5
	}
	if strings.Contains(said, "seven") {
		k.Reward += 0.5
	}
	return k
}

func (d *dice) read(a schedule.Attempt) (kept, error) {
	var k kept
	b, err := os.ReadFile(d.file(a))
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	return k, err
}

func (d *dice) Samples(r schedule.Run) (*materialize.RolloutRun, error) {
	k, err := d.read(r.Attempt)
	if err == nil && k.Reward != r.Reward {
		err = fmt.Errorf("reward %v became %v", k.Reward, r.Reward)
	}
	run := &materialize.RolloutRun{RunID: Name(r.Attempt), Advantage: &r.Advantage, Reward: &r.Reward, Segments: k.Segments, Ledger: k.Ledger}
	if d.change != nil {
		d.change(run)
	}
	return run, err
}

func (d *dice) Summary(a schedule.Attempt) (materialize.Summary, error) {
	k, err := d.read(a)
	return materialize.Summary{Turns: 2, Segments: 1, Extends: 1, Ledger: k.Ledger}, err
}

// trace is what a run leaves that must not depend on interruptions: parameters by file, and metrics without their seconds.
type trace struct {
	Params map[string]string
	Lines  []StepMetrics
}

func readTrace(t *testing.T, dir string) trace {
	t.Helper()
	tr := trace{Params: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(dir, "checkpoint", "params-*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		tr.Params[filepath.Base(f)] = string(b)
	}
	b, err := os.ReadFile(filepath.Join(dir, metricsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		var s StepMetrics
		if err := json.Unmarshal([]byte(l), &s); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		s.Seconds = 0
		tr.Lines = append(tr.Lines, s)
	}
	return tr
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Fatalf("got %v [%s], want %s", err, fault.CodeOf(err), code)
	}
}
