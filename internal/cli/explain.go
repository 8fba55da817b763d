package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/explain"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

func (a *app) explain() *cobra.Command {
	var pf policyFlags
	var dir string
	c := &cobra.Command{
		Use: "explain FILES…", Short: "Say why ids diverged: turn, message, field, kind of change, cost, and what would avoid it",
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
				a.notes(l)
				policy, err := pf.chosen(c, l.Tree.Header())
				if err != nil {
					return err
				}
				decode, err := a.decoder(l.Tree.Header(), dir)
				if err != nil {
					return err
				}
				r := explain.Explain(l.Tree, policy, decode)
				if a.json {
					a.printJSON(r)
					continue
				}
				fmt.Fprint(a.Out, r.Text())
			}
			return nil
		},
	}
	pf.add(c)
	c.Flags().StringVar(&dir, "model", "", "folder with the trajectory's tokenizer, or builtin (chosen by itself where it fits)")
	return c
}

// decoder turns ids into text with the trajectory's own tokenizer. Without one, ids are shown alone.
func (a *app) decoder(h trajectory.Header, dir string) (func([]token.ID) string, error) {
	named := dir != ""
	if !named {
		dir = "builtin"
	}
	m, err := loadModel(dir)
	if err != nil {
		return nil, err
	}
	if m.Info.Tokenizer != h.Model.Tokenizer {
		if named {
			return nil, fault.New(fault.BadModel, "%s has tokenizer %.12s…, the trajectory was recorded with %.12s…", dir, m.Info.Tokenizer, h.Model.Tokenizer)
		}
		a.say("note: ids are shown without text; name the folder of %s with --model", h.Model.Name)
		return nil, nil
	}
	return m.Family.Decode, nil
}

// loadModel reads a model folder, or the bundle that the binary carries.
func loadModel(dir string) (*model.Model, error) {
	switch dir {
	case "":
		return nil, fault.New(fault.BadFlag, "no model is named").WithFix("use --model DIR with tokenizer.json and a chat template, or --model builtin")
	case "builtin":
		return model.Builtin()
	}
	return loader().Load(dir)
}

// loader reads model folders, with compiled tokenizers kept in the user's cache where there is one.
func loader() model.Loader {
	dir, err := os.UserCacheDir()
	if err != nil {
		return model.Loader{}
	}
	return model.Loader{Cache: filepath.Join(dir, "tito", "tokenizers")}
}
