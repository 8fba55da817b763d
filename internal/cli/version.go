package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Version is that of the program; formats have their own.
const Version = "0.1.0-dev"

// commit is set by the linker in builds made by make; others ask the build information.
var commit string

// build says which source the binary was made from.
func build() (rev string, dirty bool) {
	if commit != "" {
		return commit, false
	}
	rev = "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return rev, false
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			rev = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	return rev, dirty
}

// program is how the user started tito, to be typed again.
func program() string {
	if strings.Contains(os.Args[0], "/go-build") {
		return "go run ./cmd/tito"
	}
	return os.Args[0]
}

// writer is how artifacts name the program that wrote them.
func writer() string {
	rev, dirty := build()
	if len(rev) > 12 {
		rev = rev[:12]
	}
	if dirty {
		rev += "+"
	}
	return "tito " + Version + " " + rev
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version and the commit", RunE: func(*cobra.Command, []string) error {
		rev, dirty := build()
		if a.json {
			a.printJSON(map[string]any{"version": Version, "commit": rev, "modified": dirty, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			return nil
		}
		mark := ""
		if dirty {
			mark = " (modified)"
		}
		a.say("tito %s, commit %s%s, %s %s/%s", Version, rev, mark, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	}}
}
