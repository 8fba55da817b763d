// Package trial runs one attempt of one agent at one task: sandbox, harness, served trajectory, verifier, result.
//
// The order of the phases and the shape of result.json are Harbor's. A broken trace is never turned into reward 0, and a
// reward that is missing is never turned into one. Before the task's tests run, the agent's processes are killed and the
// verifier's folders are fresh; the residual risk is the files that the agent left elsewhere. The package knows the host
// that serves the trajectory only as a [Server]. Trials are independent; Run may be called concurrently.
package trial

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/harness"
	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/task"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Server opens trajectories for the policy's calls. Safe for concurrent use.
type Server interface {
	// Open begins a trajectory whose journal is the given host file, and serves it until it is sealed.
	Open(ctx context.Context, ids trajectory.Identities, info harness.Info, journal string) (Served, error)
}

// Served is one open trajectory.
type Served interface {
	Endpoint() harness.Endpoint
	// Seal finishes the trajectory; calls are refused from then on. It is called once.
	Seal(ctx context.Context, reason string) (Sealed, error)
}

// Sealed is what a finished trajectory says.
type Sealed struct {
	Turns        int    // committed
	Head         string // of the journal's hash chain
	Prompt       int    // tokens of all turns' prompts
	Cached       int    // of those, taken from the engine's cache
	Completion   int    // tokens sampled
	OutOfContext bool   // the last call was refused because it passed the context limit
	Broken       error  // why the trace cannot be trusted, or nil
}

// Timeouts are Harbor's: each is the override or else the task's own, then at most Max, then times its multiplier or
// else the common one. Zero is not set.
type Timeouts struct {
	Multiplier float64 // common; 0 = 1

	Agent, AgentMax, Verifier, VerifierMax, Setup                         time.Duration
	AgentMultiplier, VerifierMultiplier, SetupMultiplier, BuildMultiplier float64
}

// Defaults of phases whose time a task does not give. An agent without a time has no limit.
const (
	defaultSetup    = 360 * time.Second
	defaultBuild    = 600 * time.Second
	defaultVerifier = 600 * time.Second
	cleanupTime     = 30 * time.Second
	maxProcesses    = 4096 // a task's own processes, against fork bombs
)

// Config is one trial.
type Config struct {
	Task     *task.Task
	Harness  harness.Harness
	Provider sandbox.Provider
	Server   Server // may be nil for a harness that needs no endpoint

	Dir  string // the trial's folder; must not exist
	Name string // "" = the base of Dir
	ID   string // of the result; "" = random
	IDs  trajectory.Identities

	Exe      string            // static tito binary to show in the sandbox
	Mounts   []sandbox.Mount   // more of the host, read-only or not
	Vars     map[string]string // for ${VAR} in the task's env tables
	AgentEnv map[string]string // for the agent's own commands

	ContextWindow int
	MaxTokens     int
	MaxTurns      int
	Timeouts      Timeouts

	Progress func(Event)      // called from one goroutine; nil = none
	Now      func() time.Time // nil = time.Now
}

// Event is a step of a trial, for people who wait.
type Event struct {
	Trial string
	Phase Phase
	Ended bool // else it begins
	Err   error
	At    time.Time
}

// Phase is a part of a trial.
type Phase string

// The phases, in order.
const (
	PhaseEnvironment Phase = "environment_setup"
	PhaseSetup       Phase = "agent_setup"
	PhaseAgent       Phase = "agent_execution"
	PhaseSeal        Phase = "seal"
	PhaseVerifier    Phase = "verifier"
	PhaseDone        Phase = "done"
)

// NewName is a fresh name for a trial of the task: its short name and seven random letters.
func NewName(t *task.Task) string { return t.Short() + "__" + rand.Text()[:7] }

// run is a trial under way.
type run struct {
	Config
	info   harness.Info
	log    *logFile
	box    sandbox.Sandbox
	served Served
	sealed *Sealed
	spec   sandbox.Spec
	res    *Result
	start  time.Duration // limits of the phases; 0 = none
	setup  time.Duration
	agent  time.Duration
	verify time.Duration

	refused  error // the sandbox cannot do what the task needs
	timedOut bool  // the agent's time ran out
	verified bool  // a reward was read
}

// Run runs a trial to its end and writes result.json. The error is for trials that cannot begin, such as a task that is
// refused: nothing is left of them then, not even the folder. All else that goes wrong is in the result, which is whole
// also when ctx was cancelled.
func Run(ctx context.Context, c Config) (*Result, error) {
	r, err := begin(c)
	if err != nil {
		return nil, err
	}
	r.phases(ctx)
	r.close(ctx)
	if r.refused != nil {
		_ = r.log.Close()
		return nil, errors.Join(r.refused, os.RemoveAll(r.Dir))
	}
	r.finish(ctx)
	if err := r.write(); err != nil {
		return r.res, err
	}
	r.event(PhaseDone, true, nil)
	return r.res, nil
}

// begin checks what can be checked before anything is made.
func begin(c Config) (*run, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Name == "" {
		c.Name = filepath.Base(c.Dir)
	}
	if c.ID == "" {
		c.ID = uuid()
	}
	r := &run{Config: c, info: c.Harness.Info()}
	if err := c.Task.Refuse(); err != nil {
		return nil, err
	}
	if r.info.NeedsEndpoint && c.Server == nil {
		return nil, fault.New(fault.BadConfig, "the harness %s calls a policy, and there is no engine", r.info.Name).WithFix("name an engine, or use oracle or nop")
	}
	sum, err := c.Task.Checksum()
	if err != nil {
		return nil, err
	}
	if err := r.limits(); err != nil {
		return nil, err
	}
	if r.spec, err = r.sandboxSpec(); err != nil {
		return nil, err
	}
	if err := r.makeDirs(); err != nil {
		return nil, err
	}
	r.res = r.newResult(sum)
	return r, nil
}

func (r *run) limits() error {
	t, c := r.Timeouts, r.Task.Config
	common := t.Multiplier
	if common == 0 {
		common = 1
	}
	for _, m := range []float64{common, t.AgentMultiplier, t.VerifierMultiplier, t.SetupMultiplier, t.BuildMultiplier} {
		if !(m >= 0 && m < 1e6) {
			return fault.New(fault.BadConfig, "a timeout multiplier of %v; it must be positive", m)
		}
	}
	limit := func(base, override, most time.Duration, special float64) time.Duration {
		if override > 0 {
			base = override
		}
		if most > 0 && (base == 0 || base > most) {
			base = most
		}
		if special == 0 {
			special = common
		}
		return time.Duration(float64(base) * special)
	}
	r.start = limit(task.Seconds(c.Environment.BuildTimeoutSec, defaultBuild), 0, 0, t.BuildMultiplier)
	r.setup = limit(defaultSetup, t.Setup, 0, t.SetupMultiplier)
	r.agent = limit(task.Seconds(c.Agent.TimeoutSec, 0), t.Agent, t.AgentMax, t.AgentMultiplier)
	r.verify = limit(task.Seconds(c.Verifier.TimeoutSec, defaultVerifier), t.Verifier, t.VerifierMax, t.VerifierMultiplier)
	return nil
}

func (r *run) sandboxSpec() (sandbox.Spec, error) {
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return sandbox.Spec{}, fault.Wrap(fault.BadConfig, err, "the trial's folder")
	}
	r.Dir = dir
	e := r.Task.Config.Environment
	set, err := task.Resolve(e.Env, r.Vars)
	if err != nil {
		return sandbox.Spec{}, err
	}
	env := map[string]string{}
	for _, m := range []map[string]string{r.Task.Build.Env, set} {
		for k, v := range m {
			env[k] = v
		}
	}
	s := sandbox.Spec{
		Name: r.Name, Dir: r.path("sandbox"), Image: r.Task.Build.Image, Workdir: r.Task.Workdir(), Env: env,
		Exe: r.Exe, TaskRoot: r.Task.TaskRoot,
		Limits: sandbox.Limits{CPUs: e.CPUs, MemoryMB: e.MemoryMB, StorageMB: e.StorageMB, Processes: maxProcesses},
		Mounts: append([]sandbox.Mount{
			{Host: r.path("agent"), Path: sandbox.AgentLogs},
			{Host: r.path("artifacts", sandbox.ArtifactLogs), Path: sandbox.ArtifactLogs},
		}, r.Mounts...),
	}
	if m, ok := r.Harness.(harness.Mounter); ok {
		s.Mounts = append(s.Mounts, m.Mounts()...)
	}
	return s, nil
}

// path is a host path in the trial's folder.
func (r *run) path(elem ...string) string { return filepath.Join(append([]string{r.Dir}, elem...)...) }

func (r *run) makeDirs() error {
	if err := os.MkdirAll(filepath.Dir(r.Dir), 0o755); err != nil {
		return fault.Wrap(fault.BadConfig, err, "making the trial's folder")
	}
	if err := os.Mkdir(r.Dir, 0o755); err != nil {
		if errors.Is(err, os.ErrExist) {
			return fault.New(fault.BadConfig, "the trial's folder %s is there already", r.Dir).WithFix("name another, or remove it")
		}
		return fault.Wrap(fault.BadConfig, err, "making the trial's folder")
	}
	for _, d := range []string{"agent", "verifier", filepath.Join("artifacts", sandbox.ArtifactLogs)} {
		if err := os.MkdirAll(r.path(d), 0o755); err != nil {
			return fault.Wrap(fault.BadConfig, err, "making the trial's folder")
		}
	}
	log, err := openLog(r.path("trial.log"), r.Now)
	if err != nil {
		return fault.Wrap(fault.BadConfig, err, "making the trial's log")
	}
	r.log = log
	return nil
}

// phases runs the phases in order until one fails in a way that ends the trial.
func (r *run) phases(ctx context.Context) {
	for _, w := range r.Task.Warnings {
		r.log.printf("warning: %s", w)
	}
	for _, n := range r.Task.Build.Notes {
		r.log.printf("note: %s", n)
	}
	if !r.phase(ctx, PhaseEnvironment, &r.res.EnvironmentSetup, r.start, "EnvironmentStartTimeoutError", r.environment) {
		return
	}
	if r.info.NeedsEndpoint {
		served, err := r.Server.Open(ctx, r.IDs, r.info, r.path("trajectory.tito"))
		if err != nil {
			r.except(err, "")
			return
		}
		r.served = served
	}
	env := r.env()
	if !r.phase(ctx, PhaseSetup, &r.res.AgentSetup, r.setup, "AgentSetupTimeoutError", func(ctx context.Context) error {
		return r.Harness.Setup(ctx, env)
	}) {
		return
	}
	ran := r.phase(ctx, PhaseAgent, &r.res.AgentExecution, r.agent, "AgentTimeoutError", func(ctx context.Context) error {
		return r.runAgent(ctx, env)
	})
	if !ran && !r.timedOut {
		return
	}
	if ctx.Err() == nil {
		r.toVerifier(ctx)
	}
}

// errTime is the cause of a phase's own deadline.
var errTime = errors.New("the phase's time ran out")

// phase runs f under its limit, and reports whether it went well. A timeout is recorded under its name in Harbor.
func (r *run) phase(ctx context.Context, p Phase, span **Span, limit time.Duration, timeout string, f func(context.Context) error) bool {
	*span = &Span{Started: r.now()}
	r.event(p, false, nil)
	in, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		in, cancel = context.WithTimeoutCause(ctx, limit, errTime)
	}
	err := f(in)
	late := ctx.Err() == nil && in.Err() != nil
	cancel()
	end := r.now()
	(*span).Finished = &end
	if err == nil && late && p == PhaseAgent { // it noticed, and stopped without a word
		err = errTime
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		r.except(context.Cause(ctx), "CancelledError")
	case late || errors.Is(err, errTime):
		r.timedOut = p == PhaseAgent
		r.except(timeoutFault(p, limit), timeout)
	default:
		if fault.CodeOf(err) == fault.SandboxUnsupported {
			r.refused = err
		}
		r.except(err, "")
	}
	r.event(p, true, err)
	return err == nil
}

func timeoutFault(p Phase, limit time.Duration) error {
	code := fault.SandboxFailed
	switch p {
	case PhaseSetup:
		code = fault.HarnessFailed
	case PhaseAgent:
		code = fault.AgentTimeout
	case PhaseVerifier:
		code = fault.VerifierTimeout
	}
	return fault.New(code, "%s took longer than %s", p, limit)
}

// env is what the harness sees.
func (r *run) env() harness.Env {
	e := harness.Env{
		Sandbox: r.box, Instruction: r.Task.Instruction, Workdir: r.Task.Workdir(), Vars: r.AgentEnv,
		AgentLogs: sandbox.AgentLogs, HostLogs: r.path("agent"),
		ContextWindow: r.ContextWindow, MaxTokens: r.MaxTokens, MaxTurns: r.MaxTurns,
		Session: r.IDs.Trajectory, Log: r.log,
	}
	if r.Exe != "" {
		e.Exe = r.box.Path(sandbox.ExePath)
	}
	if r.served != nil {
		e.Endpoint = r.served.Endpoint()
	}
	if r.info.Name == "oracle" { // the only harness that may see the solution
		e.Solution = r.Task.Solution()
		e.SolutionVars = r.Task.Config.Solution.Env
	}
	return e
}

func (r *run) runAgent(ctx context.Context, env harness.Env) error {
	if len(env.SolutionVars) > 0 {
		vars, err := task.Resolve(env.SolutionVars, r.Vars)
		if err != nil {
			return err
		}
		env.SolutionVars = vars
	}
	out, err := r.Harness.Run(ctx, env)
	r.res.AgentResult = &AgentResult{Metadata: out.Metadata}
	if err != nil {
		return err
	}
	if out.Code != 0 && ctx.Err() == nil {
		how := fmt.Sprintf("code %d", out.Code)
		if out.Signal != "" {
			how = out.Signal
		}
		r.except(fault.New(fault.HarnessFailed, "the agent %s ended with %s", r.info.Name, how), "NonZeroAgentExitCodeError")
	}
	return nil
}

// seal finishes the trajectory, once.
func (r *run) seal(ctx context.Context, reason string) {
	if r.served == nil || r.sealed != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	r.event(PhaseSeal, false, nil)
	s, err := r.served.Seal(ctx, reason)
	if err != nil {
		s.Broken = err
	}
	r.sealed = &s
	if s.Broken != nil {
		r.except(s.Broken, "")
	}
	r.event(PhaseSeal, true, s.Broken)
}

// close ends the sandbox and the trajectory, whatever happened before.
func (r *run) close(ctx context.Context) {
	if r.box != nil {
		if err := r.box.Close(); err != nil {
			r.log.printf("closing the sandbox: %v", err)
		}
	}
	reason := "finished"
	if ctx.Err() != nil {
		reason = "cancelled"
	}
	r.seal(ctx, reason)
	if err := os.RemoveAll(r.path(testsDir)); err != nil {
		r.log.printf("removing the tests: %v", err)
	}
}

func (r *run) event(p Phase, ended bool, err error) {
	if err != nil {
		r.log.printf("%s: %v", p, err)
	} else if ended {
		r.log.printf("%s: done", p)
	} else {
		r.log.printf("%s", p)
	}
	if r.Progress != nil {
		r.Progress(Event{Trial: r.Name, Phase: p, Ended: ended, Err: err, At: r.Now()})
	}
}

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
