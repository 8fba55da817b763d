package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/harness"
	agent "github.com/tito-rl/tito/internal/harness/builtin"
	"github.com/tito-rl/tito/internal/harness/nop"
	"github.com/tito-rl/tito/internal/harness/oracle"
	"github.com/tito-rl/tito/internal/harness/pi"
	"github.com/tito-rl/tito/internal/sandbox/local"
	"github.com/tito-rl/tito/internal/task"
	"github.com/tito-rl/tito/internal/train"
	"github.com/tito-rl/tito/internal/trajectory"
	"github.com/tito-rl/tito/internal/trial"
)

// trialFlags are the flags of one trial.
type trialFlags struct {
	serveFlags
	task, harness, home, sandbox, out, name string
	maxTurns, maxTokens, context            int
	multiplier                              float64
	resume                                  bool
}

func (a *app) trial() *cobra.Command {
	var t trialFlags
	c := &cobra.Command{
		Use: "trial", Short: "Run one agent on one task, and score it",
		Long: "Runs a Harbor-format task in a sandbox: the harness acts, its calls go to the policy through tito, the task's tests give the\n" +
			"reward. Leaves result.json, trajectory.tito and the logs in OUT/trials/NAME. oracle and nop need no engine.",
		RunE: func(c *cobra.Command, _ []string) error { return a.runTrial(c, &t) },
	}
	t.add(c)
	f := c.Flags()
	f.StringVar(&t.task, "task", "", "the task's folder, or builtin:NAME")
	f.StringVar(&t.harness, "harness", "builtin", "builtin, pi, oracle or nop")
	f.StringVar(&t.home, "harness-home", "", "folder in which npm installed the harness (pi)")
	f.StringVar(&t.sandbox, "sandbox", "local", "local")
	f.StringVar(&t.out, "out", "runs", "folder of the trial")
	f.StringVar(&t.name, "name", "", "name of the trial; empty = a new one")
	f.BoolVar(&t.resume, "resume", false, "with --name: show a trial that has ended, run one that was cut again from its start")
	f.IntVar(&t.maxTurns, "max-turns", 0, "most turns of the agent, where the harness can be told; 0 = its own limit")
	f.IntVar(&t.maxTokens, "max-tokens", 0, "most tokens of one answer; 0 = the harness's own choice")
	f.IntVar(&t.context, "context-window", 0, "context window that the harness is told; 0 = the engine's")
	f.Float64Var(&t.multiplier, "timeout-multiplier", 1, "of the task's time limits")
	return c
}

func (a *app) runTrial(c *cobra.Command, t *trialFlags) error {
	if err := oneOf("sandbox", t.sandbox, []string{"local"}, "docker", "e2b"); err != nil {
		return err
	}
	if n := t.name; n != "" && (n != filepath.Base(n) || n == "." || n == "..") {
		return fault.New(fault.BadFlag, "--name %q is not the name of a folder", n).WithFix("use a name without slashes")
	}
	if t.resume {
		if res, err := t.ended(); res != nil || err != nil {
			if err != nil {
				return err
			}
			return a.trialDone(t.dir(), t.model, res)
		}
	}
	h, err := a.newHarness(t.harness, t.home)
	if err != nil {
		return err
	}
	tk, book, cleanup, err := findTask(t.task)
	if err != nil {
		return err
	}
	defer cleanup()
	if book != "" && len(t.books) == 0 && t.engine == "rehearsal" {
		t.books = []string{book}
	}
	exe, err := os.Executable()
	if err != nil {
		return fault.Wrap(fault.InternalError, err, "finding this program")
	}
	if t.name == "" {
		t.name = trial.NewName(tk)
	}
	dir := t.dir()
	conf := trial.Config{
		Task: tk, Harness: h, Provider: local.New(local.Options{}), Dir: dir, Name: t.name, Exe: exe, Vars: environ(a),
		IDs:       trajectory.Identities{Trajectory: t.name, Trial: t.name, Run: t.name, Affinity: t.name},
		MaxTokens: t.maxTokens, MaxTurns: t.maxTurns, ContextWindow: t.context,
		Timeouts: trial.Timeouts{Multiplier: t.multiplier}, Progress: a.phases(),
	}
	if h.Info().NeedsEndpoint {
		v, err := a.serve(c.Context(), &t.serveFlags, t.out, "127.0.0.1:0", custodyOf(conf.Provider), nil)
		if err != nil {
			return err
		}
		defer func() { _ = v.close("failed") }()
		conf.Server = v
		if conf.ContextWindow == 0 {
			conf.ContextWindow = v.info.MaxContext
		}
	}
	res, err := trial.Run(c.Context(), conf)
	if err != nil {
		return err
	}
	return a.trialDone(dir, t.model, res)
}

// ended is the result of the trial of that name, nil where it has none. What a crash left of it is removed.
func (t *trialFlags) ended() (*trial.Result, error) {
	if t.name == "" {
		return nil, fault.New(fault.BadFlag, "--resume needs --name, the trial to go on with")
	}
	res, err := train.Result(t.dir())
	if fault.CodeOf(err) != fault.FileMissing {
		return res, err
	}
	return nil, fault.Wrap(fault.StoreFailed, os.RemoveAll(t.dir()), "removing what is left of trial %s", t.name)
}

func (t *trialFlags) dir() string { return filepath.Join(t.out, "trials", t.name) }

// environ gives tasks the variables that they name in ${…}.
func environ(a *app) map[string]string {
	out := map[string]string{}
	for _, kv := range os.Environ() {
		if k, _, ok := strings.Cut(kv, "="); ok {
			out[k] = a.Env(k)
		}
	}
	return out
}

// phases prints what a trial is doing.
func (a *app) phases() func(trial.Event) {
	start := time.Now()
	return func(e trial.Event) {
		if e.Ended || e.Phase == trial.PhaseDone {
			return
		}
		fmt.Fprintf(a.Err, "%6.1fs  %s\n", time.Since(start).Seconds(), strings.ReplaceAll(string(e.Phase), "_", " "))
	}
}

// trialDone tells how a trial ended. Only a trial that was scored, or whose agent ran out of time or context, is a success.
func (a *app) trialDone(dir, model string, res *trial.Result) error {
	artifact := ""
	if res.Tito.Artifact != nil {
		artifact = filepath.Join(dir, *res.Tito.Artifact)
	}
	result := filepath.Join(dir, "result.json")
	var rewards map[string]float64
	if res.VerifierResult != nil {
		rewards = res.VerifierResult.Rewards
	}
	if a.json {
		defer a.printJSON(map[string]any{
			"reward": res.Tito.Reward, "rewards": rewards, "outcome": res.Tito.Outcome, "turns": res.Tito.Turns, "result": result, "artifact": artifact,
		})
	}
	reward := "none"
	if res.Tito.Reward != nil {
		reward = fmt.Sprint(*res.Tito.Reward)
	}
	a.say("%s: %s, reward %s, %d turns", res.TrialName, res.Tito.Outcome, reward, res.Tito.Turns)
	a.say("  result    %s", result)
	if artifact != "" {
		if model != "builtin" {
			model = " --model " + model
		} else {
			model = ""
		}
		a.say("  artifact  %[1]s\n  next      %[2]s inspect %[1]s\n            %[2]s explain %[1]s%[3]s", artifact, program(), model)
	}
	switch res.Tito.Outcome {
	case trial.Scored, trial.OutOfTime, trial.OutOfContext:
		return nil
	}
	code, what := fault.InternalError, string(res.Tito.Outcome)
	if e := res.Exception; e != nil {
		code, what = e.Code, e.Message
	}
	fmt.Fprintf(a.Err, "tito: %s [%s]\n", what, code)
	return exit(code.Info().Exit)
}

// newHarness makes a harness by its name.
func (a *app) newHarness(name, home string) (harness.Harness, error) {
	switch name {
	case "builtin":
		return agent.Harness{}, nil
	case "oracle":
		return oracle.Harness{}, nil
	case "nop":
		return nop.Harness{}, nil
	case "pi":
		if home == "" {
			home = a.Env("TITO_HARNESS_HOME")
		}
		if home == "" {
			home = filepath.Join(".deps", "npm")
		}
		return pi.New(home)
	}
	return nil, fault.New(fault.BadFlag, "--harness %q is not known", name).WithFix("use builtin, pi, oracle or nop")
}

// findTask loads a task's folder, or a built-in task, which is written to a temporary folder. book is the path of the task's
// own rehearsal book, or "".
func findTask(name string) (t *task.Task, book string, cleanup func(), err error) {
	cleanup = func() {}
	if name == "" {
		return nil, "", cleanup, fault.New(fault.BadFlag, "no task is named").WithFix("use --task DIR, or --task builtin:NAME with one of %s", strings.Join(builtinTasks(), ", "))
	}
	dir := name
	if short, ok := strings.CutPrefix(name, "builtin:"); ok {
		tmp, err := os.MkdirTemp("", "tito-task-")
		if err != nil {
			return nil, "", cleanup, fault.Wrap(fault.StoreFailed, err, "making a folder for the task")
		}
		cleanup = func() { _ = os.RemoveAll(tmp) }
		if dir, err = writeBuiltin(short, tmp); err != nil {
			cleanup()
			return nil, "", func() {}, err
		}
	}
	if t, err = task.Load(dir); err != nil {
		cleanup()
		return nil, "", func() {}, err
	}
	if b := filepath.Join(dir, "rehearsal.json"); exists(b) {
		book = b
	}
	return t, book, cleanup, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// builtinTasks lists the names of the tasks that the binary carries.
func builtinTasks() []string {
	entries, _ := fs.ReadDir(builtin.Tasks, "tasks")
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// writeBuiltin writes a built-in task below dir and returns its folder.
func writeBuiltin(name, dir string) (string, error) {
	sub, err := fs.Sub(builtin.Tasks, "tasks/"+name)
	if err == nil {
		_, err = fs.Stat(sub, "task.toml")
	}
	if err != nil {
		return "", fault.New(fault.BadTask, "there is no built-in task %q", name).WithFix("use one of %s", strings.Join(builtinTasks(), ", "))
	}
	to := filepath.Join(dir, name)
	err = os.CopyFS(to, sub)
	if err == nil {
		err = makeExecutable(to)
	}
	return to, fault.Wrap(fault.StoreFailed, err, "writing the task %s", name)
}

// makeExecutable gives scripts the mode that the binary's file system cannot keep.
func makeExecutable(dir string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(p) != ".sh" {
			return err
		}
		return os.Chmod(p, 0o755)
	})
}
