package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/host"
	"github.com/tito-rl/tito/internal/sandbox"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/trajectory"
)

func hexOf(h trajectory.Hash) string { return hex.EncodeToString(h[:]) }

// Who could have changed an artifact.
const (
	custodyHost    = "host"
	custodySandbox = "sandbox"
)

// custodyOf is the custody of what is recorded beside a sandbox: only one that is meant to hold keeps the agent out.
func custodyOf(p sandbox.Provider) string {
	if p.Info().Boundary {
		return custodyHost
	}
	return custodySandbox
}

// checkTrajectory refuses an id that cannot be the name of a folder, and gives one where there is none.
func checkTrajectory(name *string) error {
	if *name == "" {
		*name = newTrajectory()
	}
	for i, r := range *name {
		word := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !word && (i == 0 || r != '-' && r != '_' && r != '.') {
			return fault.New(fault.BadFlag, "--trajectory %q is no name", *name).WithFix("use letters, digits, - _ and .")
		}
	}
	return nil
}

// newTrajectory names a trajectory that nobody named.
func newTrajectory() string { return "t-" + strings.ToLower(rand.Text()[:12]) }

func (a *app) sidecar() *cobra.Command {
	var s serveFlags
	var listen, endpointFile, out, name, custody string
	c := &cobra.Command{
		Use: "sidecar", Short: "Serve one trajectory beside an agent until it is stopped",
		Long: "Serves Chat Completions on a base URL that ends in /v1, records every call, and finishes the artifact when it gets SIGTERM or\n" +
			"SIGINT; then it exits 0. --engine rehearsal --model builtin needs no other set-up.",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOf("custody", custody, []string{custodyHost, custodySandbox}); err != nil {
				return err
			}
			if err := checkTrajectory(&name); err != nil {
				return err
			}
			v, err := a.serve(c.Context(), &s, out, listen, custody, nil)
			if err != nil {
				return err
			}
			e, err := v.host.Open(c.Context(), host.Open{Identities: trajectory.Identities{Trajectory: name}})
			if err != nil {
				_ = v.close("failed")
				return err
			}
			return a.sidecarRun(c.Context(), v, e, endpointFile)
		},
	}
	s.add(c)
	f := c.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:0", "address (port 0 = a free one), or unix:PATH")
	f.StringVar(&endpointFile, "endpoint-file", "", "file that gets {base_url, api_key, trajectory_id} once calls are served")
	f.StringVar(&out, "out", "runs", "folder of the artifacts")
	f.StringVar(&custody, "custody", custodySandbox, "whether the agent can write what is recorded here: host (it cannot) or sandbox (it may)")
	f.StringVar(&name, "trajectory", "", "id of the trajectory; empty = a new one")
	return c
}

func (a *app) sidecarRun(ctx context.Context, v *serving, e host.Endpoint, endpointFile string) error {
	if endpointFile != "" {
		if err := writeEndpoint(endpointFile, v.url(e), e); err != nil {
			_ = v.close("failed")
			return err
		}
	}
	a.say("serving %s\n  base_url %s\n  api_key  %s\n  model    %s", e.Trajectory, v.url(e), e.Token, v.modelName())
	<-ctx.Done()
	sealed, err := v.host.Seal(context.Background(), e.Trajectory, "finished")
	if cerr := v.close("finished"); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	path := fmt.Sprintf("%s/%s/%s", v.base, e.Trajectory, store.JournalName)
	if a.json {
		a.printJSON(map[string]any{"trajectory": e.Trajectory, "artifact": path, "turns": sealed.Turns, "head": hexOf(sealed.Head)})
		return nil
	}
	a.say("%d turns in %s", sealed.Turns, path)
	return nil
}
