package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/trajectory"
)

// inspected is what inspect prints of one artifact with --json.
type inspected struct {
	File    string              `json:"file"`
	Notes   []string            `json:"notes,omitempty"`
	Header  trajectory.Header   `json:"header"`
	Turns   []turnLine          `json:"turns"`
	Summary materialize.Summary `json:"summary"`
}

type turnLine struct {
	Turn       trajectory.Seq        `json:"turn"`
	Parent     trajectory.Seq        `json:"parent"`
	Class      trajectory.Class      `json:"class"`
	Continuity trajectory.Continuity `json:"continuity"`
	Prompt     int                   `json:"prompt_tokens"`
	Completion int                   `json:"completion_tokens"`
	Finish     trajectory.Finish     `json:"finish"`
	Logprobs   string                `json:"logprobs"`
	Delivery   trajectory.Delivery   `json:"delivery"`
	Fate       trajectory.Fate       `json:"fate"`
	Calls      []string              `json:"calls,omitempty"`
	Text       string                `json:"text,omitempty"`
}

func (a *app) inspect() *cobra.Command {
	var pf policyFlags
	c := &cobra.Command{
		Use: "inspect FILES…", Short: "Show what artifacts hold: header, tree of turns, ledger",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := pf.check(c); err != nil {
				return err
			}
			paths, err := artifactPaths(args)
			if err != nil {
				return err
			}
			for _, p := range paths {
				l, err := load(p)
				if err != nil {
					return err
				}
				policy, err := pf.chosen(c, l.Tree.Header())
				if err != nil {
					return err
				}
				i, err := look(l, policy)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(i)
					continue
				}
				i.write(a.Out)
			}
			return nil
		},
	}
	pf.add(c)
	return c
}

func look(l *loaded, p trajectory.Policy) (*inspected, error) {
	t := l.Tree
	o := materialize.Options{Policy: p}
	run, err := materialize.Run(t, o)
	if err != nil {
		return nil, err
	}
	out := &inspected{File: l.Path, Notes: l.Notes, Header: t.Header(), Turns: []turnLine{}, Summary: materialize.Summarize(t, o, &run)}
	fates := trajectory.Fates(t, p)
	for _, n := range t.Turns() {
		line := turnLine{
			Turn: n.Seq, Parent: n.Parent, Class: n.Class, Continuity: trajectory.Continue(t, n.Seq, p), Prompt: t.PromptLen(n.Seq),
			Completion: len(n.Completion), Finish: n.Finish, Logprobs: string(trajectory.LogprobsOf(n.Logprobs, len(n.Completion))),
			Delivery: t.Delivery(n.Seq).State, Fate: fates[n.Seq], Text: n.Reply.Content.S,
		}
		for _, c := range n.Reply.Calls {
			line.Calls = append(line.Calls, c.Name+" "+c.Arguments)
		}
		out.Turns = append(out.Turns, line)
	}
	return out, nil
}

func (i *inspected) write(w io.Writer) {
	h := i.Header
	fmt.Fprintf(w, "%s\n  trajectory %s, %s, custody %s, %s prompts rendered by %s\n", i.File, h.Trajectory,
		time.UnixMilli(h.Created).UTC().Format(time.RFC3339), h.Custody, h.Prompt, h.RenderBy)
	fmt.Fprintf(w, "  model %s (%s), engine %s", h.Model.Name, h.Model.Family, h.Engine)
	if h.Harness != "" {
		fmt.Fprintf(w, ", harness %s", h.Harness)
	}
	fmt.Fprintln(w)
	for _, n := range i.Notes {
		fmt.Fprintf(w, "  note: %s\n", n)
	}
	for _, t := range i.Turns {
		kind := string(t.Continuity.Kind)
		if t.Continuity.Reason != "" {
			kind += " (" + t.Continuity.Reason + ")"
		}
		from := "    "
		if t.Parent > 0 {
			from = fmt.Sprintf("%3d→", t.Parent)
		}
		fmt.Fprintf(w, "  %s%-3d %-28s %6d + %-5d %-6s %-10s %s\n", from, t.Turn, kind, t.Prompt, t.Completion, t.Finish, fate(t), clip(said(t), 60))
	}
	s := i.Summary
	fmt.Fprintf(w, "  %d turns in %d segments; %d extend, %d realign, %d split; %d sampled ids: %d trained, %d masked, %d discarded, %d auxiliary\n",
		s.Turns, s.Segments, s.Extends, s.Realigns, s.SplitCount(), s.Ledger.Sampled, s.Ledger.Trained, total(s.Ledger.Masked),
		total(s.Ledger.Discarded), s.Ledger.Auxiliary)
}

func fate(t turnLine) string {
	if t.Fate.Reason != "" {
		return t.Fate.Reason
	}
	return string(t.Fate.Kind)
}

func said(t turnLine) string {
	if len(t.Calls) > 0 {
		return strings.Join(t.Calls, "; ")
	}
	return t.Text
}

// clip keeps a text to one line of n characters.
func clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
