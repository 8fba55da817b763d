// Package nop is the harness that does nothing: what a task scores untouched.
package nop

import (
	"context"

	"github.com/tito-rl/tito/internal/harness"
)

// Harness does nothing.
type Harness struct{}

// Info names it.
func (Harness) Info() harness.Info { return harness.Info{Name: "nop", Version: "1"} }

// Setup does nothing.
func (Harness) Setup(context.Context, harness.Env) error { return nil }

// Run does nothing.
func (Harness) Run(ctx context.Context, _ harness.Env) (harness.Result, error) {
	return harness.Result{}, ctx.Err()
}
