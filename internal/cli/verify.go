package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/verify"
)

func (a *app) verify() *cobra.Command {
	var runs, head string
	var open bool
	var pf policyFlags
	c := &cobra.Command{
		Use: "verify FILES…", Short: "Prove every claim of artifacts again, with code of its own",
		Long: "Proves frames, hash chain, prompts, log probabilities and the ledger of each artifact, and derives its samples again.\n" +
			"With --runs it compares them, token for token, with what materialize wrote. Exits 1 with a code when a claim fails.",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			paths, err := artifactPaths(args)
			if err != nil {
				return err
			}
			o := verify.Options{Open: open, Head: head}
			if pf.changed(c) {
				p, err := pf.policy()
				if err != nil {
					return err
				}
				o.Policy = &p
			}
			if runs != "" {
				if o.Runs, err = os.ReadFile(runs); err != nil {
					return fileError(runs, err)
				}
			}
			return a.verifyAll(paths, o)
		},
	}
	pf.add(c)
	c.Flags().StringVar(&runs, "runs", "", "JSON Lines that materialize wrote, to compare")
	c.Flags().StringVar(&head, "head", "", "head of the hash chain as kept elsewhere, in hexadecimal")
	c.Flags().BoolVar(&open, "open", false, "accept trajectories that have not ended")
	return c
}

func (a *app) verifyAll(paths []string, o verify.Options) error {
	var first error
	type result struct {
		File   string         `json:"file"`
		Report *verify.Report `json:"report"`
	}
	all := struct {
		Verified int      `json:"verified"`
		Failed   int      `json:"failed"`
		Files    []result `json:"files"`
	}{Files: []result{}}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			return fileError(p, err)
		}
		r, err := verify.Verify(b, o)
		all.Files = append(all.Files, result{p, r})
		if err != nil {
			all.Failed++
			if first == nil {
				first = fault.Wrap(fault.VerifyFailed, err, "%s", p)
			}
			a.say("FAILED    %s: %s [%s]", p, err, fault.CodeOf(err))
			continue
		}
		all.Verified++
		a.say("verified  %s: %d turns, %d sampled ids: %d trained, %d masked, %d discarded, %d auxiliary", p, r.Turns, r.Ledger.Sampled,
			r.Ledger.Trained, total(r.Ledger.Masked), total(r.Ledger.Discarded), r.Ledger.Auxiliary)
	}
	if a.json && first == nil {
		a.printJSON(all)
	}
	return first
}

func total(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}
