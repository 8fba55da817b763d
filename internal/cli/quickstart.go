package cli

import (
	"context"
	"fmt"
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
	q := quickConfig{Kind: "quickstart", Seed: 1, Steps: 12, Groups: 8, Members: 6, Rate: 40, Retries: 2, Concurrency: 2 * runtime.GOMAXPROCS(0)}
	var out string
	var resume bool
	c := &cobra.Command{
		Use: "quickstart", Short: "Watch a policy learn to use tools, on built-in parts, and check every trained token",
		Long: "Runs the whole loop on this machine with nothing else installed: groups of rollouts on built-in tasks in real sandboxes, the\n" +
			"built-in agent calling a small trainable policy through tito over HTTP, the tasks' own tests, GRPO, publication. The policy is a\n" +
			"rehearsal, not a language model: see docs. Then it verifies the artifacts that it made.",
		RunE: func(c *cobra.Command, _ []string) error { return a.runQuickstart(c.Context(), q, out, resume) },
	}
	f := c.Flags()
	f.Uint64Var(&q.Seed, "seed", q.Seed, "seed of the run")
	f.IntVar(&q.Steps, "steps", q.Steps, "trainer steps")
	f.IntVar(&q.Groups, "groups", q.Groups, "groups of rollouts a step, each on one task")
	f.IntVar(&q.Members, "members", q.Members, "rollouts a group")
	f.IntVar(&q.Concurrency, "concurrency", q.Concurrency, "rollouts at a time")
	f.StringVar(&out, "out", "", "run directory; empty = runs/quickstart-TIME")
	f.BoolVar(&resume, "resume", false, "go on with the run in --out, or with the last one")
	return c
}

func (a *app) runQuickstart(ctx context.Context, q quickConfig, out string, resume bool) error {
	dir, err := quickDir(out, resume)
	if err != nil {
		return err
	}
	if q, err = q.settle(dir, resume); err != nil {
		return err
	}
	run, err := a.newQuick(ctx, q, dir)
	if err != nil {
		return err
	}
	defer run.serving.close("finished")
	run.resume = resume
	a.say("%s: %d steps of %d tasks × %d rollouts, seed %d", dir, q.Steps, q.Groups, q.Members, q.Seed)
	steps, err := run.loop(ctx)
	if err != nil {
		if fault.CodeOf(err) == fault.Interrupted {
			a.say("stopped after %d steps; go on with: tito quickstart --resume --out %s", len(steps), dir)
		}
		return err
	}
	verified, err := run.proveAll()
	if err != nil {
		return err
	}
	run.tell(steps, verified)
	return nil
}

// quickDir is the run directory: the one named, a new one, or the last one.
func quickDir(out string, resume bool) (string, error) {
	switch {
	case out != "":
		return out, nil
	case !resume:
		return filepath.Join("runs", "quickstart-"+time.Now().UTC().Format("20060102-150405")), nil
	}
	all, _ := filepath.Glob(filepath.Join("runs", "quickstart-*"))
	if len(all) == 0 {
		return "", fault.New(fault.FileMissing, "there is no run to resume in runs/").WithFix("name it with --out")
	}
	return slices.Max(all), nil
}

// settle writes run.yaml, or reads it back on a resume: a resumed run keeps what it was started with.
func (q quickConfig) settle(dir string, resume bool) (quickConfig, error) {
	path := filepath.Join(dir, "run.yaml")
	b, err := os.ReadFile(path)
	switch {
	case err == nil && !resume:
		return q, fault.New(fault.BadConfig, "%s holds a run already", dir).WithFix("use --resume to go on with it, or another --out")
	case err == nil:
		var had quickConfig
		dec := yaml.NewDecoder(strings.NewReader(string(b)))
		dec.KnownFields(true)
		if err := dec.Decode(&had); err != nil {
			return q, fault.Wrap(fault.BadConfig, err, "%s", path)
		}
		return had, nil
	case resume:
		return q, fault.New(fault.FileMissing, "%s holds no run to resume", dir)
	}
	q.Tasks, q.Writer = builtinTasks(), writer()
	if b, err = yaml.Marshal(q); err != nil {
		return q, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return q, fault.Wrap(fault.StoreFailed, err, "making the run directory")
	}
	return q, store.WriteFile(path, b, 0o644)
}

// quick is one quickstart.
type quick struct {
	a       *app
	q       quickConfig
	dir     string
	resume  bool
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
	if r.serving, err = a.serve(ctx, &s, filepath.Join(dir, "trials"), "127.0.0.1:0", "host", nil); err != nil {
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
		if !exists(to) {
			if _, err := writeBuiltin(name, dir); err != nil {
				return nil, nil, err
			}
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

func (r *quick) loop(ctx context.Context) ([]train.StepMetrics, error) {
	defer r.screen.close()
	return train.Run(ctx, train.Config{
		Dir: r.dir, Roller: r.trials, Trainer: r.trainer, Resume: r.resume, Progress: r.screen.show,
		Schedule: schedule.Config{Seed: r.q.Seed, Tasks: r.q.Tasks, Shuffle: true, Steps: r.q.Steps, Groups: r.q.Groups, Members: r.q.Members,
			MinGroup: r.q.Members, MaxRetries: r.q.Retries, Concurrency: r.q.Concurrency, MaxRejected: 8},
	})
}

// proveAll verifies every artifact of the run once more, from the disk, and returns how many there are.
func (r *quick) proveAll() (int, error) {
	paths, err := artifactPaths([]string{filepath.Join(r.dir, "trials")})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			return n, fileError(p, err)
		}
		res, err := train.Result(filepath.Dir(p))
		if err != nil {
			if fault.CodeOf(err) == fault.FileMissing { // a trial that a kill cut off
				continue
			}
			return n, err
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
	for i := range steps {
		sum.Add(steps[i].Continuity)
	}
	first, last := steps[0].Reward, steps[len(steps)-1].Reward
	a := r.a
	if a.json {
		a.printJSON(map[string]any{
			"steps": len(steps), "reward_first": first, "reward_last": last, "turns": sum.Turns, "segments": sum.Segments,
			"extends": sum.Extends, "realigns": sum.Realigns, "splits": sum.SplitCount(), "trainable_tokens": sum.Ledger.Trained,
			"sampled_tokens": sum.Ledger.Sampled, "verified": verified, "run_dir": r.dir,
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
	a.say("  of %d sampled ids %d are trained (%.1f %%)", sum.Ledger.Sampled, sum.Ledger.Trained, 100*sum.TrainableShare())
	for _, reason := range sortedKeys(sum.Ledger.Masked) {
		a.say("    masked    %-17s %d", reason, sum.Ledger.Masked[reason])
	}
	for _, reason := range sortedKeys(sum.Ledger.Discarded) {
		a.say("    discarded %-17s %d", reason, sum.Ledger.Discarded[reason])
	}
	a.say("  each trained id's log probability was computed again from its sample, and was the same to the last bit")
	a.say("  %d artifacts verified", verified)
	example := filepath.Join(r.dir, "trials", lastTrial(r.dir))
	a.say("\nwhere things are\n  %s  metrics.jsonl, checkpoint/, trials/", r.dir)
	a.say("\nwhat to do next\n  tito inspect %s\n  tito explain %s\n  tito verify  %s", example, example, filepath.Join(r.dir, "trials"))
	a.say("  tito run -- YOUR-AGENT        records a harness of yours the same way")
}

func lastTrial(dir string) string {
	entries, _ := os.ReadDir(filepath.Join(dir, "trials"))
	if len(entries) == 0 {
		return ""
	}
	return entries[len(entries)-1].Name()
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
