//go:build e2e

package local_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/sandbox/sandboxtest"
	"github.com/tito-rl/tito/internal/testkit"
)

// Node reserves far more address space than it uses: a task's memory limit must let it start.
func TestE2ENodeRunsUnderATasksMemoryLimit(t *testing.T) {
	node := testkit.Node(t)
	sb := sandboxtest.Start(t, namespaces(t), func(s *sandbox.Spec) {
		s.Limits = sandbox.Limits{MemoryMB: 2048, StorageMB: 1024, Processes: 4096}
		s.Mounts = []sandbox.Mount{{Host: filepath.Dir(filepath.Dir(node)), Path: "/tito/node", ReadOnly: true}}
	})
	if out := sandboxtest.Sh(t, sb, `/tito/node/bin/node -e 'require("net").connect(1, "127.0.0.1").on("error", e => console.log(e.code))'`); strings.TrimSpace(out) != "ECONNREFUSED" {
		t.Errorf("%q", out)
	}
}
