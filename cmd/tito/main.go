// Command tito keeps the exact tokens of agent trajectories. See internal/cli for its verbs.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/tito-rl/tito/internal/cli"
	"github.com/tito-rl/tito/internal/sandbox/local"
)

func main() {
	local.MaybeInit() // does not return in the process that starts a local sandbox
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := cli.Run(ctx, os.Args[1:], cli.Std())
	stop()
	os.Exit(code)
}
