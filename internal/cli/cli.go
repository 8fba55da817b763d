// Package cli is the command line: flags and files become the configuration of the packages below, their results become
// text for people or JSON for scripts, their faults become exit codes.
//
// It is the only reader of the environment. Each verb has one file.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/fault"
	"golang.org/x/term"
)

// Streams is what a command reads, writes and knows of its surroundings.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
	Terminal bool // Err is a terminal that a person looks at
}

// Std is the process's own streams.
func Std() Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv,
		Terminal: term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("NO_COLOR") == ""}
}

// app is one run of the command line.
type app struct {
	Streams
	json bool
}

// Run executes one command line and returns its exit code: 0 for success, else the code of the fault's row in
// spec/errors.md (2: the call was wrong, 130: interrupted, 1: anything else).
func Run(ctx context.Context, args []string, s Streams) int {
	a := &app{Streams: s, json: wantsJSON(args)}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var own exit
	if errors.As(err, &own) {
		return int(own)
	}
	if f := (*fault.Error)(nil); ctx.Err() != nil && errors.Is(err, context.Canceled) && !errors.As(err, &f) {
		err = fault.Wrap(fault.Interrupted, err, "interrupted")
	}
	return a.fail(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "tito",
		Short:         "The exact-token layer for agentic reinforcement learning",
		Long:          "tito stands between an agent harness and an inference engine, keeps every token that the policy was\nfed and sampled, and turns trajectories into samples that a trainer can trust.",
		SilenceErrors: true, SilenceUsage: true,
	}
	root.PersistentFlags().BoolVar(&a.json, "json", a.json, "print one JSON object on the last line of standard output")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fault.New(fault.BadFlag, "%s", err).WithFix("see: %s --help", c.CommandPath())
	})
	for _, verb := range a.verbs() {
		root.AddCommand(verb)
	}
	help := a.help(root)
	root.SetHelpCommand(help)
	root.AddCommand(help)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = noArgs, func(c *cobra.Command, _ []string) error { return c.Help() }
		}
		if c.Args == nil {
			c.Args = noArgs
		}
	}
	return root
}

func (a *app) help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [VERB]", Short: "Show what a verb does and its flags", Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return fault.New(fault.BadFlag, "there is no verb %q", strings.Join(args, " ")).WithFix("see: tito --help")
			}
			return c.Help()
		},
	}
}

// wantsJSON finds --json before the flags are parsed, so that an error in them is told in the form that was asked for.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fault.New(fault.BadFlag, "%s takes no argument %q", c.CommandPath(), args[0]).WithFix("see: %s --help", c.CommandPath())
	}
	return nil
}

// fail prints an error for whoever asked and returns its exit code.
func (a *app) fail(err error) int {
	code := fault.CodeOf(err)
	var f *fault.Error
	if !errors.As(err, &f) && strings.HasPrefix(err.Error(), "unknown command") {
		code, err = fault.BadFlag, fault.New(fault.BadFlag, "%s", err).WithFix("see: tito --help")
	}
	info := code.Info()
	if a.json {
		a.printJSON(map[string]any{"error": map[string]any{
			"code": code, "boundary": info.Boundary, "retry": info.Retry, "message": err.Error(),
		}})
	}
	fmt.Fprintf(a.Err, "tito: %s [%s]\n", err, code)
	return info.Exit
}

// printJSON writes v as one line.
func (a *app) printJSON(v any) {
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		fmt.Fprintln(a.Err, "tito: writing the result:", err)
	}
}

// say writes a line for people; with --json it goes to standard error, so that standard output stays for scripts.
func (a *app) say(format string, args ...any) {
	w := a.Out
	if a.json {
		w = a.Err
	}
	fmt.Fprintf(w, format+"\n", args...)
}
