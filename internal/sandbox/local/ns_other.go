//go:build !linux

package local

import (
	"context"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/sandbox"
)

// MaybeInit does nothing: there are no namespaces here.
func MaybeInit() {}

func probe() error {
	return fault.New(fault.SandboxUnsupported, "this system has no namespaces; they need Linux")
}

func startNS(context.Context, *layout, sandbox.Spec) (sandbox.Sandbox, error) { return nil, probe() }
