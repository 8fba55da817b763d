// Package oracle is the harness that runs a task's own solution: what a task scores when it is solved.
//
// It never calls the policy. The solution reaches the sandbox only here.
package oracle

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/harness"
	"github.com/tito-rl/tito/internal/sandbox"
)

// Harness runs solution/solve.sh.
type Harness struct{}

// Info names it.
func (Harness) Info() harness.Info { return harness.Info{Name: "oracle", Version: "1"} }

// Setup checks that there is a solution.
func (Harness) Setup(_ context.Context, env harness.Env) error {
	if env.Solution == "" {
		return fault.New(fault.HarnessMissing, "the task has no solution folder for the oracle to run")
	}
	if _, err := os.Stat(filepath.Join(env.Solution, "solve.sh")); err != nil {
		return fault.New(fault.HarnessMissing, "the task has no solution/solve.sh for the oracle to run")
	}
	return nil
}

// Run uploads the solution and runs solve.sh in the working folder. Its output goes to oracle.txt in the agent's logs;
// a non-zero exit code goes to exit-code.txt beside it, and the verifier decides.
func (Harness) Run(ctx context.Context, env harness.Env) (harness.Result, error) {
	sb := env.Sandbox
	if err := sb.Upload(ctx, env.Solution, sandbox.SolutionPath); err != nil {
		return harness.Result{}, err
	}
	vars := map[string]string{"DEBIAN_FRONTEND": "noninteractive"}
	maps.Copy(vars, env.SolutionVars)
	script := fmt.Sprintf("chmod +x '%[1]s' && ('%[1]s') > '%[2]s' 2>&1",
		sb.Path(sandbox.SolutionPath+"/solve.sh"), sb.Path(env.AgentLogs+"/oracle.txt"))
	res, err := sb.Exec(ctx, sandbox.Cmd{Args: []string{"bash", "-c", script}, Dir: env.Workdir, Env: vars})
	if err != nil {
		return harness.Result{}, err
	}
	out := harness.Result{Metadata: map[string]any{"exit_code": res.Code}}
	if res.Code != 0 {
		if err := sandbox.WriteFile(env.HostLogs, "exit-code.txt", fmt.Appendf(nil, "%d\n", res.Code)); err != nil {
			return out, fault.Wrap(fault.HarnessFailed, err, "writing the solution's exit code")
		}
	}
	return out, nil
}
