package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/harness"
	"github.com/tito-rl/tito/internal/harness/pi"
	"github.com/tito-rl/tito/internal/host"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/trajectory"
	"github.com/tito-rl/tito/internal/verify"
)

func (a *app) run() *cobra.Command {
	var s serveFlags
	var out, name string
	c := &cobra.Command{
		Use: "run [flags] -- CMD…", Short: "Run a command with its model calls recorded, then verify and show what became of every token",
		Long: "Starts a sidecar, points the command at it, and finishes the artifact when the command ends. Every program gets OPENAI_BASE_URL,\n" +
			"OPENAI_API_BASE, OPENAI_API_KEY, OPENAI_MODEL and the same with TITO_ in front. Pi and OpenCode are also given settings of their own\n" +
			"in which the model is tito/policy. Exits with the command's exit code, or with tito's own when the record fails.",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || c.ArgsLenAtDash() != 0 {
				return fault.New(fault.BadFlag, "no command is given").WithFix("tito run [flags] -- CMD ARGS…")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkTrajectory(&name); err != nil {
				return err
			}
			v, err := a.serve(c.Context(), &s, out, "127.0.0.1:0", custodySandbox, nil)
			if err != nil {
				return err
			}
			e, err := v.host.Open(c.Context(), host.Open{Identities: trajectory.Identities{Trajectory: name}, Harness: filepath.Base(args[0])})
			if err != nil {
				_ = v.close("failed")
				return err
			}
			return a.runCommand(c.Context(), v, e, args)
		},
	}
	s.add(c)
	c.Flags().StringVar(&out, "out", "runs", "folder of the artifacts")
	c.Flags().StringVar(&name, "trajectory", "", "id of the trajectory; empty = a new one")
	return c
}

func (a *app) runCommand(ctx context.Context, v *serving, e host.Endpoint, args []string) error {
	settings, err := os.MkdirTemp("", "tito-run-")
	if err != nil {
		_ = v.close("failed")
		return fault.Wrap(fault.StoreFailed, err, "making a folder for settings")
	}
	defer func() { _ = os.RemoveAll(settings) }()
	code, runErr := a.spawn(ctx, v, e, settings, args)
	sealed, err := v.host.Seal(context.Background(), e.Trajectory, "finished")
	if cerr := v.close("finished"); err == nil {
		err = cerr
	}
	if runErr != nil {
		return runErr
	}
	if err != nil {
		return err
	}
	if err := a.account(filepath.Join(v.base, e.Trajectory, store.JournalName), sealed, code); err != nil {
		return err
	}
	if code != 0 {
		return exit(code)
	}
	return nil
}

// spawn runs the command with its model calls pointed at the sidecar, and returns its exit code.
func (a *app) spawn(ctx context.Context, v *serving, e host.Endpoint, settings string, args []string) (int, error) {
	at := harness.Endpoint{BaseURL: v.url(e), APIKey: e.Token, Model: v.modelName()}
	env, err := clientEnv(at, settings, v.info.MaxContext, filepath.Base(args[0]))
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.Out, a.Err
	if a.json {
		cmd.Stdout = a.Err
	}
	cmd.Env = append(without(os.Environ(), v.secret), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	err = cmd.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &ended):
		if s, ok := ended.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			return 128 + int(s.Signal()), nil
		}
		return ended.ExitCode(), nil
	case errors.Is(err, exec.ErrNotFound):
		return 0, fault.Wrap(fault.HarnessMissing, err, "running %s", args[0])
	case ctx.Err() != nil:
		return fault.Interrupted.Info().Exit, nil
	}
	return 0, fault.Wrap(fault.HarnessFailed, err, "running %s", args[0])
}

// without leaves a variable out.
func without(env []string, name string) []string {
	return slices.DeleteFunc(env, func(kv string) bool { return name != "" && strings.HasPrefix(kv, name+"=") })
}

// clientEnv is the environment by which programs find the policy, with settings for those that want files.
func clientEnv(at harness.Endpoint, dir string, contextWindow int, program string) ([]string, error) {
	var env []string
	for k, v := range map[string]string{"BASE_URL": at.BaseURL, "API_BASE": at.BaseURL, "API_KEY": at.APIKey, "MODEL": at.Model} {
		env = append(env, "OPENAI_"+k+"="+v, "TITO_"+k+"="+v)
	}
	switch strings.TrimSuffix(program, ".js") {
	case "pi":
		if err := pi.WriteSettings(dir, at, contextWindow, 0); err != nil {
			return nil, err
		}
		return append(env, "PI_CODING_AGENT_DIR="+dir, "PI_OFFLINE=1", "PI_SKIP_VERSION_CHECK=1", "PI_TELEMETRY=0"), nil
	case "opencode":
		path := filepath.Join(dir, "opencode.json")
		if err := writeOpenCode(path, at, contextWindow); err != nil {
			return nil, err
		}
		return append(env, "OPENCODE_CONFIG="+path, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"), nil
	}
	return env, nil
}

// writeOpenCode declares the policy as OpenCode's model. Its key stays in the environment.
func writeOpenCode(path string, at harness.Endpoint, contextWindow int) error {
	type object = map[string]any
	limits := object{"context": 131072, "output": 32000}
	if contextWindow > 0 {
		limits["context"] = contextWindow
	}
	b, err := json.MarshalIndent(object{
		"$schema": "https://opencode.ai/config.json", "model": "tito/" + at.Model, "share": "disabled", "autoupdate": false,
		"provider": object{"tito": object{
			"npm": "@ai-sdk/openai-compatible", "name": "tito", "options": object{"baseURL": at.BaseURL, "apiKey": "{env:TITO_API_KEY}"},
			"models": object{at.Model: object{"name": at.Model, "tool_call": true, "reasoning": true, "limit": limits}},
		}},
	}, "", "  ")
	if err != nil {
		return err
	}
	return fault.Wrap(fault.StoreFailed, os.WriteFile(path, b, 0o600), "writing OpenCode's settings")
}

// account verifies a finished trajectory and shows its ledger.
func (a *app) account(path string, sealed host.Sealed, code int) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fileError(path, err)
	}
	if _, err := verify.Verify(b, verify.Options{Head: hexOf(sealed.Head)}); err != nil {
		return fault.Wrap(fault.VerifyFailed, err, "%s", path)
	}
	l, err := load(path)
	if err != nil {
		return err
	}
	run, err := materialize.Run(l.Tree, materialize.Options{})
	if err != nil {
		return err
	}
	s := materialize.Summarize(l.Tree, materialize.Options{}, &run)
	if a.json {
		a.printJSON(map[string]any{"trajectory": l.Tree.Header().Trajectory, "artifact": path, "exit_code": code, "verified": true, "summary": s})
		return nil
	}
	w := a.Err
	fmt.Fprintf(w, "tito: %s, verified\n", path)
	fmt.Fprintf(w, "tito: %d turns became %d samples: %d extend, %d realign, %d split\n", s.Turns, s.Segments, s.Extends, s.Realigns, s.SplitCount())
	fmt.Fprintf(w, "tito: %d sampled ids: %d trained, %d masked%s, %d discarded%s, %d auxiliary\n", s.Ledger.Sampled, s.Ledger.Trained,
		total(s.Ledger.Masked), reasons(s.Ledger.Masked), total(s.Ledger.Discarded), reasons(s.Ledger.Discarded), s.Ledger.Auxiliary)
	if s.Turns == 0 {
		fmt.Fprintln(w, "tito: no call came: point the command at $OPENAI_BASE_URL, with the key in $OPENAI_API_KEY")
	}
	if s.Realigns+s.SplitCount() > 0 {
		fmt.Fprintf(w, "tito: why ids diverged: %s explain %s\n", program(), path)
	}
	return nil
}

// reasons spells counts by reason, behind their sum.
func reasons(m map[string]int) string {
	var out []string
	for _, k := range sortedKeys(m) {
		out = append(out, fmt.Sprintf("%s %d", k, m[k]))
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}
