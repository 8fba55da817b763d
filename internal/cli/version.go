package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is that of the program; formats have their own.
const Version = "0.1.0-dev"

// build says which source the binary was made from.
func build() (commit string, dirty bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown", false
	}
	commit = "unknown"
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	return commit, dirty
}

// writer is how artifacts name the program that wrote them.
func writer() string {
	commit, dirty := build()
	if len(commit) > 12 {
		commit = commit[:12]
	}
	if dirty {
		commit += "+"
	}
	return "tito " + Version + " " + commit
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version and the commit", RunE: func(*cobra.Command, []string) error {
		commit, dirty := build()
		if a.json {
			a.printJSON(map[string]any{"version": Version, "commit": commit, "modified": dirty, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			return nil
		}
		mark := ""
		if dirty {
			mark = " (modified)"
		}
		a.say("tito %s, commit %s%s, %s %s/%s", Version, commit, mark, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	}}
}
