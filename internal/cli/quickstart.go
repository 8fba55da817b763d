package cli

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/fault"
	agent "github.com/tito-rl/tito/internal/harness/builtin"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/sandbox/local"
	"github.com/tito-rl/tito/internal/schedule"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/task"
	"github.com/tito-rl/tito/internal/train"
	"github.com/tito-rl/tito/internal/trial"
	"github.com/tito-rl/tito/internal/verify"
	"go.yaml.in/yaml/v3"
)

// quickConfig is run.yaml of a quickstart: what the run is, resolved.
type quickConfig struct {
	Kind        string   `yaml:"kind"` // quickstart
	Seed        uint64   `yaml:"seed"`
	Steps       int      `yaml:"steps"`
	Groups      int      `yaml:"groups"`  // tasks a step
	Members     int      `yaml:"members"` // rollouts a task
	Rate        float64  `yaml:"learning_rate"`
	Retries     int      `yaml:"retries"`
	Concurrency int      `yaml:"concurrency"`
	Tasks       []string `yaml:"tasks"`
	Writer      string   `yaml:"tito"`
}

// runID names a run's identities: every token of it can be traced by this name.
func (q quickConfig) runID() string { return fmt.Sprintf("quickstart-s%d", q.Seed) }

func (a *app) quickstart() *cobra.Command {
	q := quickConfig{Kind: "quickstart", Seed: 1, Steps: 12, Groups: 8, Members: 6, Rate: 40, Retries: 2}
	var out string
	var resume bool
	c := &cobra.Command{
		Use: "quickstart", Short: "Watch a policy learn to use tools, on built-in parts, and check every trained token",
		Long: "Runs the whole loop on this machine with nothing else installed: groups of rollouts on built-in tasks in real sandboxes, the\n" +
			"built-in agent calling a small trainable policy through tito over HTTP, the tasks' own tests, GRPO, publication. The policy is a\n" +
			"rehearsal, not a language model: see docs. Then it verifies the artifacts that it made.",
		RunE: func(c *cobra.Command, _ []string) error { return a.runQuickstart(c, q, out, resume) },
	}
	f := c.Flags()
	f.Uint64Var(&q.Seed, "seed", q.Seed, "seed of the run")
	f.IntVar(&q.Steps, "steps", q.Steps, "trainer steps")
	f.IntVar(&q.Groups, "groups", q.Groups, "groups of rollouts a step, each on one task")
	f.IntVar(&q.Members, "members", q.Members, "rollouts a group")
	f.IntVar(&q.Concurrency, "concurrency", q.Concurrency, "rollouts at a time; 0 = two a processor")
	f.StringVar(&out, "out", "", "run directory; empty = runs/quickstart-TIME")
	f.BoolVar(&resume, "resume", false, "go on with the run in --out, or with the last one")
	return c
}

func (a *app) runQuickstart(c *cobra.Command, q quickConfig, out string, resume bool) error {
	ctx := c.Context()
	if q.Concurrency == 0 {
		q.Concurrency = 2 * runtime.GOMAXPROCS(0)
	}
	if key, what := q.problem(); key != "" {
		return fault.New(fault.BadFlag, "--%s must be %s", key, what)
	}
	dir, err := quickDir(out, resume)
	if err != nil {
		return err
	}
	lock, err := store.LockDir(dir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	if resume {
		q, err = resumed(c, dir)
	} else {
		err = q.begin(dir)
	}
	if err != nil {
		return err
	}
	run, err := a.newQuick(ctx, q, dir)
	if err != nil {
		return err
	}
	defer func() { _ = run.serving.close("finished") }()
	run.resume, run.lock = resume, lock
	a.say("%s: %d steps of %d tasks × %d rollouts, seed %d", dir, q.Steps, q.Groups, q.Members, q.Seed)
	steps, err := run.loop(ctx)
	if err != nil {
		if fault.CodeOf(err) == fault.Interrupted {
			a.say("stopped after %d steps; go on with: %s quickstart --resume --out %s", len(steps), program(), dir)
		}
		return err
	}
	verified, err := run.proveAll(ctx)
	if err != nil {
		return err
	}
	run.tell(steps, verified)
	return nil
}

// quickDir is the run directory: the one named, a new one, or the last one.
func quickDir(out string, resume bool) (string, error) {
	if out == "" {
		out = filepath.Join("runs", "quickstart-"+time.Now().UTC().Format("20060102-150405"))
		if resume {
			all, _ := filepath.Glob(filepath.Join("runs", "quickstart-*"))
			if len(all) == 0 {
				return "", fault.New(fault.FileMissing, "there is no run to resume in runs/").WithFix("name it with --out")
			}
			out = slices.Max(all)
		}
	}
	if resume && !exists(filepath.Join(out, runFile)) {
		return "", fault.New(fault.FileMissing, "%s holds no run to resume", out).WithFix("name another with --out, or begin one without --resume")
	}
	return out, nil
}

const runFile = "run.yaml"

// begin writes run.yaml of a new run.
func (q *quickConfig) begin(dir string) error {
	path := filepath.Join(dir, runFile)
	if exists(path) {
		return fault.New(fault.BadConfig, "%s holds a run already", dir).WithFix("use --resume to go on with it, or another --out")
	}
	q.Tasks, q.Writer = builtinTasks(), writer()
	b, err := yaml.Marshal(q)
	if err != nil {
		return err
	}
	return store.WriteFile(path, b, 0o644)
}

// resumed reads run.yaml back: a run keeps what it was begun with, and a flag that says otherwise is an error.
func resumed(c *cobra.Command, dir string) (quickConfig, error) {
	var q quickConfig
	path := filepath.Join(dir, runFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return q, fileError(path, err)
	}
	p, err := decodeYAML(path, b, &q)
	if err != nil {
		return q, err
	}
	if key, what := q.problem(); key != "" {
		return q, p.bad(key, "%s must be %s", key, what)
	}
	if q.Kind != "quickstart" {
		return q, p.bad("kind", "kind %q is not quickstart", q.Kind)
	}
	for _, name := range q.Tasks {
		if !slices.Contains(builtinTasks(), name) {
			return q, p.bad("tasks", "there is no built-in task %q", name).WithFix("use some of %s", strings.Join(builtinTasks(), ", "))
		}
	}
	if len(q.Tasks) == 0 {
		return q, p.bad("tasks", "no tasks are named")
	}
	for flag, had := range map[string]any{"seed": q.Seed, "steps": q.Steps, "groups": q.Groups, "members": q.Members, "concurrency": q.Concurrency} {
		f := c.Flags().Lookup(flag)
		if byItself := flag == "concurrency" && f.Value.String() == "0"; f.Changed && f.Value.String() != fmt.Sprint(had) && !byItself {
			return q, fault.New(fault.BadFlag, "--%s %s: the run in %s was begun with %v", flag, f.Value, dir, had).WithFix("leave the flag out, or begin another run")
		}
	}
	return q, nil
}

// problem names a key whose value makes no sense, and what it must be.
func (q *quickConfig) problem() (key, must string) {
	switch {
	case q.Steps < 1 || q.Steps > 1e6:
		return "steps", "between 1 and a million"
	case q.Groups < 1 || q.Groups > 1000:
		return "groups", "between 1 and 1000"
	case q.Members < 2 || q.Members > 1000:
		return "members", "between 2 and 1000: an advantage needs rewards to compare"
	case q.Concurrency < 1 || q.Concurrency > 1000:
		return "concurrency", "between 1 and 1000"
	case q.Retries < 0 || q.Retries > 1000:
		return "retries", "between 0 and 1000"
	case !(q.Rate > 0) || math.IsInf(q.Rate, 0):
		return "learning_rate", "positive"
	}
	return "", ""
}

// quick is one quickstart.
type quick struct {
	a       *app
	q       quickConfig
	dir     string
	resume  bool
	lock    *store.Lock
	serving *serving
	trainer *train.Rehearsal
	trials  *train.Trials
	screen  *screen
}

func (a *app) newQuick(ctx context.Context, q quickConfig, dir string) (*quick, error) {
	r := &quick{a: a, q: q, dir: dir, screen: newScreen(a)}
	tasks, books, err := quickTasks(filepath.Join(dir, "tasks"), q.Tasks)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fault.Wrap(fault.InternalError, err, "finding this program")
	}
	s := serveFlags{model: "builtin", engine: "rehearsal", books: books, render: "tito", promptMode: "full_history", stream: "buffered",
		durability: "process", maxBody: 64 << 20, keepAlive: 10 * time.Second, seed: q.Seed}
	s.policyFlags = policyFlags{realign: "prefix", realignMax: 128, refused: "train", subagents: "train"}
	if r.serving, err = a.serve(ctx, &s, filepath.Join(dir, "trials"), "127.0.0.1:0", custodyOf(local.New(local.Options{})), nil); err != nil {
		return nil, err
	}
	eng := r.serving.rehearsal
	r.trainer = &train.Rehearsal{Policy: eng.Weights().Policy(), Dir: filepath.Join(dir, "checkpoint"), Rate: q.Rate,
		Install: func(p rehearsal.Params) error { return eng.Publish(p) }}
	r.trials = &train.Trials{Run: q.runID(), Dir: filepath.Join(dir, "trials"), Tasks: tasks, Verify: true, Base: trial.Config{
		Harness: agent.Harness{}, Provider: local.New(local.Options{}), Server: r.serving, Exe: exe, Vars: map[string]string{},
		ContextWindow: r.serving.info.MaxContext, MaxTurns: 12,
	}}
	return r, nil
}

// quickTasks writes the built-in tasks below dir, and loads them.
func quickTasks(dir string, names []string) (map[string]*task.Task, []string, error) {
	tasks := map[string]*task.Task{}
	var books []string
	for _, name := range names {
		to := filepath.Join(dir, name)
		if err := keepBuiltin(name, dir); err != nil {
			return nil, nil, err
		}
		t, err := task.Load(to)
		if err != nil {
			return nil, nil, err
		}
		tasks[name] = t
		books = append(books, filepath.Join(to, "rehearsal.json"))
	}
	return tasks, books, nil
}

// keepBuiltin writes a built-in task below dir, at once, where it is not there yet.
func keepBuiltin(name, dir string) error {
	to := filepath.Join(dir, name)
	if exists(to) {
		return nil
	}
	part := filepath.Join(dir, ".part")
	err := os.RemoveAll(part) // left by a kill
	if err == nil {
		err = os.MkdirAll(part, 0o755)
	}
	if err == nil {
		_, err = writeBuiltin(name, part)
	}
	if err == nil {
		err = os.Rename(filepath.Join(part, name), to)
	}
	if err == nil {
		err = os.Remove(part)
	}
	return fault.Wrap(fault.StoreFailed, err, "writing the task %s", name)
}

func (r *quick) loop(ctx context.Context) ([]train.StepMetrics, error) {
	defer r.screen.close()
	return train.Run(ctx, train.Config{
		Dir: r.dir, Roller: r.trials, Trainer: r.trainer, Resume: r.resume, Lock: r.lock, Progress: r.screen.show,
		Schedule: schedule.Config{Seed: r.q.Seed, Tasks: r.q.Tasks, Shuffle: true, Steps: r.q.Steps, Groups: r.q.Groups, Members: r.q.Members,
			MinGroup: r.q.Members, MaxRetries: r.q.Retries, Concurrency: r.q.Concurrency, MaxRejected: 8},
	})
}

// proveAll verifies the artifact of every trial that has a reward once more, from the disk, and returns how many there are.
func (r *quick) proveAll(ctx context.Context) (int, error) {
	paths, err := artifactPaths([]string{filepath.Join(r.dir, "trials")})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range paths {
		if ctx.Err() != nil {
			return n, fault.Wrap(fault.Interrupted, context.Cause(ctx), "the run is whole; verifying it was stopped")
		}
		res, err := train.Result(filepath.Dir(p))
		if fault.CodeOf(err) == fault.FileMissing { // a trial that a kill cut off
			continue
		}
		if err != nil {
			return n, err
		}
		if res.Tito.Reward == nil || res.Tito.Outcome == trial.TraceBroken {
			continue
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return n, fileError(p, err)
		}
		if _, err := verify.Verify(b, verify.Options{Head: res.Tito.Head}); err != nil {
			return n, fault.Wrap(fault.VerifyFailed, err, "%s", p)
		}
		n++
	}
	return n, nil
}

// tell ends a quickstart: the curve, what became of the tokens, where things are.
func (r *quick) tell(steps []train.StepMetrics, verified int) {
	var sum materialize.Summary
	learned := 0
	for i := range steps {
		learned += steps[i].Checked
		sum.Add(steps[i].Continuity)
	}
	first, last := steps[0].Reward, steps[len(steps)-1].Reward
	a := r.a
	if a.json {
		a.printJSON(map[string]any{
			"steps": len(steps), "reward_first": first, "reward_last": last, "turns": sum.Turns, "segments": sum.Segments,
			"extends": sum.Extends, "realigns": sum.Realigns, "splits": sum.SplitCount(), "trainable_tokens": sum.Ledger.Trained,
			"sampled_tokens": sum.Ledger.Sampled, "verified": verified > 0, "run_dir": r.dir,
		})
		return
	}
	a.say("\nreward by step")
	for _, s := range steps {
		a.say("  %3d  %s %.2f", s.Step+1, bar(s.Reward, 40), s.Reward)
	}
	a.say("\nwhat happened to continuity")
	a.say("  %d turns became %d samples: %d extend, %d realign, %d split", sum.Turns, sum.Segments, sum.Extends, sum.Realigns, sum.SplitCount())
	for _, reason := range sortedKeys(sum.Splits) {
		a.say("    split %-20s %d", reason, sum.Splits[reason])
	}
	a.say("  of %d sampled ids %d are trainable (%.1f %%)", sum.Ledger.Sampled, sum.Ledger.Trained, 100*sum.TrainableShare())
	for _, reason := range sortedKeys(sum.Ledger.Masked) {
		a.say("    masked    %-17s %d", reason, sum.Ledger.Masked[reason])
	}
	for _, reason := range sortedKeys(sum.Ledger.Discarded) {
		a.say("    discarded %-17s %d", reason, sum.Ledger.Discarded[reason])
	}
	a.say("  the trainer learned from %d of them; it computed the log probability of each again, and none differed by a bit", learned)
	a.say("  %d artifacts verified", verified)
	example := filepath.Join(r.dir, "trials", lastTrial(r.dir))
	a.say("\nwhere things are\n  %s  metrics.jsonl, checkpoint/, trials/", r.dir)
	a.say("\nwhat to do next\n  %[1]s inspect %[2]s\n  %[1]s explain %[2]s\n  %[1]s verify  %[3]s", program(), example, filepath.Join(r.dir, "trials"))
	a.say("  %s run -- YOUR-AGENT        records a harness of yours the same way", program())
}

func lastTrial(dir string) string {
	all, _ := filepath.Glob(filepath.Join(dir, "trials", "*", "result.json"))
	if len(all) == 0 {
		return ""
	}
	return filepath.Base(filepath.Dir(slices.Max(all)))
}

func sortedKeys(m map[string]int) []string {
	out := make([]string, 0, len(m))
	for k, n := range m {
		if n > 0 {
			out = append(out, k)
		}
	}
	sort.Strings(out)
	return out
}
