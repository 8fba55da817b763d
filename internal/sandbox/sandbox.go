// Package sandbox is the contract with the place where an agent and its task's verifier run.
//
// A provider starts sandboxes; each kind of sandbox says in its own package what it isolates. The suite in sandboxtest
// is what they all pass. A sandbox knows nothing of tasks, agents or trajectories: it has folders, commands and limits.
// Providers and sandboxes are safe for concurrent use.
package sandbox

import (
	"context"
	"io"
	"time"
)

// Paths inside every sandbox that the parts above agree on.
const (
	ExePath      = "/tito/tito" // the tito binary, where Spec.Exe is given
	AgentLogs    = "/logs/agent"
	VerifierLogs = "/logs/verifier"
	ArtifactLogs = "/logs/artifacts"
	TestsPath    = "/tests"
	SolutionPath = "/solution"
)

const (
	// TaskRootEnv is set for every command: what stands before a sandbox path, empty where paths are real.
	TaskRootEnv = "TITO_TASK_ROOT"
	// DefaultPath is PATH where the spec gives none.
	DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// DefaultGrace is the time between SIGTERM and SIGKILL.
	DefaultGrace = time.Second
	// OutputGrace is how long the output of processes that outlive their command is still read.
	OutputGrace = 200 * time.Millisecond
)

// Mount shows the host folder or file Host at Path in the sandbox. Host must exist. What the sandbox writes there is in
// Host when Exec returns.
type Mount struct {
	Host     string
	Path     string
	ReadOnly bool
}

// Limits bound what runs inside. Zero is no limit. Info.Limits says which of them a provider enforces.
type Limits struct {
	MemoryMB  int
	StorageMB int
	CPUs      int
	Processes int
	CPUTime   time.Duration // of one process
	OpenFiles int
}

// Spec is what a sandbox is made from.
type Spec struct {
	Name    string            // for logs and labels
	Dir     string            // host folder for the sandbox's own writable state; made by Start, removed by Close
	Image   string            // what the task was built from; a note where the provider has no images
	Workdir string            // absolute; made where missing
	Env     map[string]string // of every command; PATH and HOME have defaults
	Mounts  []Mount
	Exe     string // host path of a static tito binary shown at ExePath; "" = none
	// TaskRoot: the task spells every path as $TITO_TASK_ROOT/path, so that it runs where paths cannot be made real.
	TaskRoot bool
	Limits   Limits
}

// Info says what a provider does.
type Info struct {
	Name     string   `json:"name"`
	Isolates []string `json:"isolates"` // mount, pid, ipc, uts, user, network
	Boundary bool     `json:"boundary"` // whether it is meant to hold against a hostile agent
	Limits   []string `json:"limits"`   // names of the limits enforced
	Notes    []string `json:"notes,omitempty"`
}

// Provider starts sandboxes.
type Provider interface {
	Name() string
	Info() Info
	// Start makes a sandbox and returns when commands can run in it. ctx bounds the start only. Errors:
	// fault.SandboxUnsupported names what this provider cannot do, fault.SandboxFailed is anything else.
	Start(ctx context.Context, spec Spec) (Sandbox, error)
}

// Cmd is a command.
type Cmd struct {
	Args    []string          // Args[0] is looked up in the PATH of the command's environment
	Dir     string            // sandbox path; "" = the working folder
	Env     map[string]string // on top of the sandbox's
	Stdin   io.Reader         // nil = empty; a Read that never returns outlives the command
	Stdout  io.Writer         // nil = dropped; an *os.File is written to directly
	Stderr  io.Writer         // nil = dropped; may be the same as Stdout, which is then one ordered stream
	Timeout time.Duration     // wall time; 0 = none
	Grace   time.Duration     // between SIGTERM and SIGKILL; 0 = DefaultGrace
}

// Result is how a command ended. Signal is set where a signal ended it, and Code is then 128 plus its number.
type Result struct {
	Code     int
	Signal   string // such as SIGKILL
	TimedOut bool
	Wall     time.Duration
}

// Sandbox runs commands. All commands of one sandbox share its namespaces and files.
type Sandbox interface {
	// Exec runs a command to its end, with the sandbox's environment and nothing of the host's. When the timeout passes
	// or ctx ends, its whole process group gets SIGTERM and after the grace SIGKILL. A timeout is no error; a ctx that
	// ended is (its cause), as is a sandbox that broke (fault.SandboxFailed). A command that cannot be found or executed
	// ends with code 127 or 126 and a line on Stderr. Output written by processes that outlive the command is read for
	// OutputGrace more, then dropped.
	Exec(ctx context.Context, c Cmd) (Result, error)
	// Upload copies the content of the host folder src (or the file src) to the sandbox path dst.
	Upload(ctx context.Context, src, dst string) error
	// Download copies the content of the sandbox folder src (or the file src) to the host path dst. Links are kept as
	// links, never followed; devices, pipes and sockets are left out.
	Download(ctx context.Context, src, dst string) error
	// Path is how a command inside spells the sandbox path p.
	Path(p string) string
	// Reset kills every process in the sandbox, keeps its files, and shows the mounts in place of whatever stood at
	// their paths.
	Reset(ctx context.Context, mounts ...Mount) error
	// Close kills everything and removes the sandbox's state. It may be called more than once.
	Close() error
}
