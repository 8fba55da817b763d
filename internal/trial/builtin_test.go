package trial_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/harness"
	"github.com/tito-rl/tito/internal/harness/nop"
	"github.com/tito-rl/tito/internal/harness/oracle"
	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/sandbox/local"
	"github.com/tito-rl/tito/internal/task"
	"github.com/tito-rl/tito/internal/trial"
)

func TestEveryBuiltInTaskIsSolvedByItsSolutionAndByNothingElse(t *testing.T) {
	builtInTasks(t, provider(t))
}

// Many machines allow no namespaces: quickstart runs there all the same.
func TestEveryBuiltInTaskRunsWithoutNamespaces(t *testing.T) {
	builtInTasks(t, local.New(local.Options{Plain: true}))
}

func builtInTasks(t *testing.T, p sandbox.Provider) {
	tasks, err := fs.Sub(builtin.Tasks, "tasks")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, tasks); err != nil {
		t.Fatal(err)
	}
	es, err := os.ReadDir(dir)
	if err != nil || len(es) < 8 {
		t.Fatalf("%d tasks, %v", len(es), err)
	}
	for _, e := range es {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			tk, err := task.Load(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if len(tk.Warnings) > 0 {
				t.Errorf("warnings: %q", tk.Warnings)
			}
			for _, c := range []struct {
				h      harness.Harness
				reward float64
			}{{oracle.Harness{}, 1}, {nop.Harness{}, 0}} {
				check(t, run(t, config(t, p, tk, c.h)), want{outcome: trial.Scored, reward: c.reward})
			}
		})
	}
}
