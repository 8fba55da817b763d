// Package harness is the contract with an agent program: how it is set up in a sandbox, pointed at the policy's endpoint
// and run on an instruction.
//
// A harness knows a sandbox and an endpoint. It does not know tasks, trajectories, tokens or rewards: what it needs of a
// task comes in as values. Harnesses are safe for concurrent use; all that belongs to one trial is in Env.
package harness

import (
	"context"
	"io"

	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/trajectory"
)

// Info describes a harness to the host that serves its calls.
type Info struct {
	Name    string
	Version string // "" = unknown until set up
	// Marks tell the policy's calls from the harness's own, in order: the first that fits decides. A call that none
	// fits is unclassified. No marks: every call is policy.
	Marks []Mark
	// NeedsEndpoint is false for harnesses that never call the policy.
	NeedsEndpoint bool
}

// Mark is a condition on a call and the class that it means. All the conditions given must hold.
type Mark struct {
	Class  trajectory.Class
	Why    string            // short word recorded with the call
	Header map[string]string // header name -> value; "" = present with any value
	Tools  Tools
	System string // the system message starts with this text
	Tool   string // a tool of this name is declared
}

// Tools is a condition on the tools that a call declares.
type Tools string

// The conditions.
const (
	ToolsEither  Tools = ""
	ToolsPresent Tools = "present"
	ToolsAbsent  Tools = "absent"
)

// Endpoint is where the policy is served. BaseURL ends in /v1.
type Endpoint struct {
	BaseURL string
	APIKey  string
	Model   string
}

// Env is everything of one trial that a harness may use.
type Env struct {
	Sandbox     sandbox.Sandbox
	Endpoint    Endpoint // zero where Info.NeedsEndpoint is false
	Instruction string
	Workdir     string            // sandbox path
	Vars        map[string]string // for the agent's own commands
	AgentLogs   string            // sandbox path; HostLogs is the same folder on the host
	HostLogs    string
	Exe         string // sandbox path of the tito binary; "" = none

	ContextWindow int // tokens; 0 = unknown
	MaxTokens     int // completion tokens of one call; 0 = the harness's own default
	MaxTurns      int // 0 = the harness's own default

	Solution     string // host folder of the task's solution; "" = none
	SolutionVars map[string]string

	Session string    // id for the harness's own session, where it has one
	Log     io.Writer // progress, one line a write; never nil
}

// Result is how a run ended. A harness that ran to its end has a nil error, whatever its exit code.
type Result struct {
	Code     int    // exit code of the agent program
	Signal   string // set where a signal ended it
	Metadata map[string]any
}

// Harness runs an agent program.
type Harness interface {
	Info() Info
	// Setup prepares the sandbox: fault.HarnessMissing where what it needs is not there, fault.HarnessFailed else.
	Setup(ctx context.Context, env Env) error
	// Run lets the agent act until it is done or ctx ends. When ctx ends it stops the agent and returns ctx's error. Any
	// other error means that the harness broke: the trial is not verified. A non-zero Code is recorded and verified.
	Run(ctx context.Context, env Env) (Result, error)
}
