// Package builtin is tito's own small agent: a loop over Chat Completions with a bash and an edit tool. The same static
// binary is the agent, so that a sandbox needs nothing else.
//
// It exists for quickstart, rehearsals and tests. It is a real client on the real wire: it streams, retries dropped
// answers, and sends the history back as it came.
package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path"
	"path/filepath"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/harness"
	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Version is that of the agent's prompt and tools; it changes when either does.
const Version = "1"

// Harness runs the agent.
type Harness struct{}

// Info implements [harness.Harness]. Its one kind of call carries its tools; anything else on its endpoint is not it.
func (Harness) Info() harness.Info {
	return harness.Info{
		Name: "builtin", Version: Version, NeedsEndpoint: true,
		Marks: []harness.Mark{{Class: trajectory.ClassPolicy, Why: "builtin_tools", Tools: harness.ToolsPresent, Tool: "edit"}},
	}
}

// Setup implements [harness.Harness].
func (Harness) Setup(_ context.Context, env harness.Env) error {
	if env.Exe == "" {
		return fault.New(fault.HarnessMissing, "the built-in agent is the tito binary, and this sandbox has none")
	}
	return nil
}

// Run implements [harness.Harness].
func (Harness) Run(ctx context.Context, env harness.Env) (harness.Result, error) {
	spec, err := json.Marshal(Spec{
		BaseURL: env.Endpoint.BaseURL, APIKey: env.Endpoint.APIKey, Model: env.Endpoint.Model, Session: env.Session,
		Instruction: env.Instruction, Workdir: env.Sandbox.Path(env.Workdir), Vars: env.Vars,
		Transcript: env.Sandbox.Path(path.Join(env.AgentLogs, "transcript.jsonl")),
		MaxTurns:   env.MaxTurns, MaxTokens: env.MaxTokens,
	})
	if err != nil {
		return harness.Result{}, err
	}
	errs, err := os.Create(filepath.Join(env.HostLogs, "agent.log"))
	if err != nil {
		return harness.Result{}, fault.Wrap(fault.HarnessFailed, err, "opening the agent's log")
	}
	defer errs.Close()
	r, err := env.Sandbox.Exec(ctx, sandbox.Cmd{
		Args: []string{env.Exe, "agent"}, Dir: env.Workdir, Env: env.Vars, Stdin: bytes.NewReader(spec), Stdout: errs, Stderr: errs,
	})
	if err != nil {
		return harness.Result{}, err
	}
	res := harness.Result{Code: r.Code, Signal: r.Signal, Metadata: map[string]any{"ending": ending(r.Code)}}
	if r.Code == exitBroken {
		return res, fault.New(fault.HarnessFailed, "the built-in agent could not go on; see %s", errs.Name())
	}
	return res, nil
}

func ending(code int) string {
	switch code {
	case 0:
		return "done"
	case exitTurns:
		return "max_turns"
	case exitContext:
		return "context_length_exceeded"
	}
	return "error"
}
