package cli

import (
	"math"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/train"
)

func (a *app) materialize() *cobra.Command {
	var pf policyFlags
	var reward float64
	var format string
	c := &cobra.Command{
		Use: "materialize FILES…", Short: "Make trainable samples of artifacts: one JSON line a run",
		Long: "Prints one JSON object a line and artifact, in the format of spec/materialize.md: the run's segments with tokens, loss\n" +
			"mask and log probabilities, and the ledger that accounts for every sampled id. The policy is the one that was in force\n" +
			"while serving, unless a flag names another.",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf("format", format, []string{"rollout"}, "trl", "verl", "slime", "prime-rl", "skyrl", "tinker", "fireworks"); err != nil {
				return err
			}
			if err := pf.check(c); err != nil {
				return err
			}
			var given *float64
			if c.Flags().Changed("reward") {
				if math.IsNaN(reward) || math.IsInf(reward, 0) {
					return fault.New(fault.BadFlag, "--reward must be finite")
				}
				given = &reward
			}
			paths, err := artifactPaths(args)
			if err != nil {
				return err
			}
			for _, p := range paths {
				if err := a.materializeOne(c, p, &pf, given); err != nil {
					return err
				}
			}
			return nil
		},
	}
	pf.add(c)
	c.Flags().Float64Var(&reward, "reward", 0, "the run's reward; without it that of the trial's result.json beside the artifact, else null")
	c.Flags().StringVar(&format, "format", "rollout", "rollout")
	return c
}

// scoredBeside is the reward of the trial that left the artifact, where its result.json has one.
func scoredBeside(path string) *float64 {
	r, err := train.Result(filepath.Dir(path))
	if err != nil {
		return nil
	}
	return r.Tito.Reward
}

func (a *app) materializeOne(c *cobra.Command, path string, pf *policyFlags, reward *float64) error {
	l, err := load(path)
	if err != nil {
		return err
	}
	a.notes(l)
	policy, err := pf.chosen(c, l.Tree.Header())
	if err != nil {
		return err
	}
	if reward == nil {
		reward = scoredBeside(path)
	}
	run, err := materialize.Run(l.Tree, materialize.Options{Reward: reward, Policy: policy})
	if err != nil {
		return fault.Wrap(fault.SessionInvariant, err, "%s", path)
	}
	_, err = a.Out.Write(append(run.AppendJSON(nil), '\n'))
	return err
}
