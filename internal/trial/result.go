package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Outcome is how a trial ended.
type Outcome string

// The outcomes. Out of context and out of time may come with a reward: the task is verified all the same.
const (
	Scored       Outcome = "scored"
	InfraFailed  Outcome = "infra_failed"
	TraceBroken  Outcome = "trace_broken"
	OutOfContext Outcome = "out_of_context"
	OutOfTime    Outcome = "out_of_time"
	Cancelled    Outcome = "cancelled"
)

// Time is written as ISO 8601 in UTC, to the microsecond.
type Time time.Time

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) {
	return []byte(time.Time(t).UTC().Format("2006-01-02T15:04:05.000000Z")), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Time) UnmarshalText(b []byte) error {
	v, err := time.Parse(time.RFC3339Nano, string(b))
	*t = Time(v)
	return err
}

// Span is when a phase ran.
type Span struct {
	Started  Time  `json:"started_at"`
	Finished *Time `json:"finished_at"`
}

// Result is result.json: Harbor's fields, and tito's own under one key.
type Result struct {
	ID           string    `json:"id"`
	TaskName     string    `json:"task_name"`
	TrialName    string    `json:"trial_name"`
	TrialURI     string    `json:"trial_uri"`
	TaskID       TaskID    `json:"task_id"`
	Source       *string   `json:"source"`
	TaskChecksum string    `json:"task_checksum"`
	Config       Settings  `json:"config"`
	AgentInfo    AgentInfo `json:"agent_info"`

	AgentResult    *AgentResult    `json:"agent_result"`
	VerifierResult *VerifierResult `json:"verifier_result"`
	VerifierMode   *string         `json:"verifier_environment_mode"`
	Exception      *Exception      `json:"exception_info"`

	Started          Time  `json:"started_at"`
	Finished         *Time `json:"finished_at"`
	EnvironmentSetup *Span `json:"environment_setup"`
	AgentSetup       *Span `json:"agent_setup"`
	AgentExecution   *Span `json:"agent_execution"`
	Verifier         *Span `json:"verifier"`
	StepResults      []any `json:"step_results"` // always null: tasks in steps are refused

	Tito Own `json:"tito"`
}

// TaskID says where the task is from.
type TaskID struct {
	Path string `json:"path"`
}

// Settings are the trial's configuration in Harbor's shape, defaults left out.
type Settings struct {
	Task              map[string]string `json:"task"`
	TrialName         string            `json:"trial_name"`
	TrialsDir         string            `json:"trials_dir"`
	TimeoutMultiplier float64           `json:"timeout_multiplier"`
	Agent             map[string]any    `json:"agent"`
	Environment       map[string]any    `json:"environment"`
}

// AgentInfo names the agent and its model.
type AgentInfo struct {
	Name      string     `json:"name"`
	Version   string     `json:"version"`
	ModelInfo *ModelInfo `json:"model_info"`
}

// ModelInfo names the policy.
type ModelInfo struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
}

// AgentResult counts the policy's tokens. The counts are null where no policy was served.
type AgentResult struct {
	Input    *int           `json:"n_input_tokens"`
	Cache    *int           `json:"n_cache_tokens"`
	Output   *int           `json:"n_output_tokens"`
	Cost     *float64       `json:"cost_usd"`
	Rollouts []any          `json:"rollout_details"` // always null: the artifact has them
	Metadata map[string]any `json:"metadata"`
}

// VerifierResult holds the rewards as the tests named them.
type VerifierResult struct {
	Rewards map[string]float64 `json:"rewards"`
}

// Exception is the first thing that went wrong.
type Exception struct {
	Type      string     `json:"exception_type"` // Harbor's name where it has one
	Message   string     `json:"exception_message"`
	Traceback string     `json:"exception_traceback"`
	At        Time       `json:"occurred_at"`
	Code      fault.Code `json:"code"` // tito's own
}

// Own is what tito adds.
type Own struct {
	Outcome    Outcome               `json:"outcome"`
	Reward     *float64              `json:"reward"`
	Turns      int                   `json:"turns"`
	Artifact   *string               `json:"artifact"` // in the trial's folder
	Head       string                `json:"head,omitempty"`
	IDs        trajectory.Identities `json:"identities"`
	Sandbox    string                `json:"sandbox"`
	Exceptions []Exception           `json:"exceptions"` // all, in order
	Warnings   []string              `json:"warnings"`
}

func (r *run) now() Time { return Time(r.Now()) }

func (r *run) newResult(checksum string) *Result {
	mode := r.Task.Config.Verifier.Mode
	m := r.Timeouts.Multiplier
	if m == 0 {
		m = 1
	}
	res := &Result{
		ID: r.ID, TaskName: r.Task.Name, TrialName: r.Name, TrialURI: "file://" + r.Dir, TaskID: TaskID{r.Task.Dir},
		TaskChecksum: checksum, VerifierMode: &mode, Started: r.now(),
		AgentInfo: AgentInfo{Name: r.info.Name, Version: r.info.Version},
		Config: Settings{
			Task: map[string]string{"path": r.Task.Dir}, TrialName: r.Name, TrialsDir: filepath.Dir(r.Dir), TimeoutMultiplier: m,
			Agent: map[string]any{"name": r.info.Name}, Environment: map[string]any{"type": r.Provider.Name()},
		},
		Tito: Own{IDs: r.IDs, Sandbox: r.Provider.Name(), Warnings: append([]string{}, r.Task.Warnings...), Exceptions: []Exception{}},
	}
	if s := r.Task.Config.Source; s != "" {
		res.Source = &s
	}
	return res
}

// except records that something went wrong. The first is the trial's exception; the others are kept beside it.
func (r *run) except(err error, name string) {
	code := fault.CodeOf(err)
	var n named
	if errors.As(err, &n) {
		name = n.name
	}
	if name == "" {
		name = exceptionName(code)
	}
	if name == "CancelledError" {
		code = fault.Interrupted
	}
	e := Exception{Type: name, Message: err.Error(), Traceback: trace(err), At: r.now(), Code: code}
	if r.res.Exception == nil {
		r.res.Exception = &e
	}
	r.res.Tito.Exceptions = append(r.res.Tito.Exceptions, e)
	r.log.printf("%s: %v", name, err)
}

// exceptionName makes an exception's name of a code: sandbox_failed becomes SandboxFailedError.
func exceptionName(c fault.Code) string {
	var b strings.Builder
	for w := range strings.SplitSeq(string(c), "_") {
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return strings.TrimSuffix(b.String(), "Error") + "Error"
}

// trace is the chain of causes, outermost first.
func trace(err error) string {
	var b strings.Builder
	for ; err != nil; err = errors.Unwrap(err) {
		if e, ok := err.(*fault.Error); ok { //nolint:errorlint // each link of the chain is looked at by itself
			fmt.Fprintf(&b, "%s: %s\n", e.Code, e.Msg)
		} else if errors.Unwrap(err) == nil {
			fmt.Fprintf(&b, "%v\n", err)
		}
	}
	return b.String()
}

// finish settles the outcome.
func (r *run) finish(ctx context.Context) {
	res, s := r.res, r.sealed
	end := r.now()
	res.Finished = &end
	if r.served != nil {
		ep := r.served.Endpoint()
		res.AgentInfo.ModelInfo = &ModelInfo{Name: ep.Model, Provider: "tito"}
		res.Config.Agent["model_name"] = ep.Model
	}
	if s != nil {
		res.Tito.Turns, res.Tito.Head = s.Turns, s.Head
		if _, err := os.Lstat(r.path("trajectory.tito")); err == nil {
			name := "trajectory.tito"
			res.Tito.Artifact = &name
		} else if !errors.Is(err, fs.ErrNotExist) {
			r.log.printf("the artifact: %v", err)
		}
		if res.AgentResult == nil {
			res.AgentResult = &AgentResult{}
		}
		res.AgentResult.Input, res.AgentResult.Cache, res.AgentResult.Output = &s.Prompt, &s.Cached, &s.Completion
	}
	switch {
	case ctx.Err() != nil && !r.verified:
		res.Tito.Outcome = Cancelled
		if res.Exception == nil {
			r.except(context.Cause(ctx), "CancelledError")
		}
	case s != nil && s.Broken != nil:
		res.Tito.Outcome, res.Tito.Reward = TraceBroken, nil // the tests' own rewards stay in the verifier's result
	case r.timedOut || res.Exception != nil && res.Exception.Type == "VerifierTimeoutError":
		res.Tito.Outcome = OutOfTime
		if s != nil && s.OutOfContext {
			res.Tito.Outcome = OutOfContext
		}
	case s != nil && s.OutOfContext && res.AgentExecution != nil && (r.verified || r.agentFailed()):
		res.Tito.Outcome = OutOfContext
	case r.verified:
		res.Tito.Outcome = Scored
	default:
		res.Tito.Outcome = InfraFailed
	}
}

func (r *run) agentFailed() bool {
	return r.res.Exception != nil && r.res.Exception.Type == "NonZeroAgentExitCodeError"
}

// write puts result.json, and exception.txt where there is one, in place, each at once.
func (r *run) write() error {
	defer func() { _ = r.log.Close() }()
	b, err := json.MarshalIndent(r.res, "", "  ")
	if err != nil {
		return fault.Wrap(fault.InternalError, err, "writing result.json")
	}
	if e := r.res.Exception; e != nil {
		if err := replace(r.path("exception.txt"), []byte(e.Type+": "+e.Message+"\n\n"+e.Traceback)); err != nil {
			return err
		}
	}
	return replace(r.path("result.json"), append(b, '\n'))
}

func replace(p string, b []byte) error {
	tmp := p + ".tmp"
	err := os.WriteFile(tmp, b, 0o644)
	if err == nil {
		err = os.Rename(tmp, p)
	}
	return fault.Wrap(fault.StoreFailed, err, "writing %s", p)
}

// logFile is trial.log: a time and a line. Safe for concurrent use.
type logFile struct {
	mu  sync.Mutex
	f   *os.File
	now func() time.Time
}

func openLog(p string, now func() time.Time) (*logFile, error) {
	f, err := os.Create(p)
	return &logFile{f: f, now: now}, err
}

func (l *logFile) printf(format string, args ...any) { _, _ = fmt.Fprintf(l, format, args...) }

// Write writes p as one entry.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stamp, _ := Time(l.now()).MarshalText()
	_, err := fmt.Fprintf(l.f, "%s %s\n", stamp, strings.TrimRight(string(p), "\n"))
	return len(p), err
}

func (l *logFile) Close() error { return l.f.Close() }
