package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/harness/builtin"
)

// exit ends a command with a code of its own and no message.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// agent is the program that the builtin harness runs inside a sandbox; people have no use for it.
func (a *app) agent() *cobra.Command {
	return &cobra.Command{Use: "agent", Short: "The built-in agent (reads its specification from standard input)", Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if code := builtin.Main(c.Context(), a.In, a.Err); code != 0 {
				return exit(code)
			}
			return nil
		}}
}
