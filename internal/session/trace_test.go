package session

import (
	"flag"
	"testing"

	"github.com/tito-rl/tito/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write the traces anew")

// A block is a command with the messages of its request. driver.run lists the commands, driver.message the lines of a request.
func TestTracesGiveTheRecordedEffects(t *testing.T) {
	testkit.Traces(t, 25, *rewrite, func(t *testing.T) (func([]string) string, func()) {
		d := &driver{t: t}
		return d.run, d.checkAll
	})
}
