package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/trajectory"
)

// artifactPaths lists the artifacts that args name: files, or folders that are searched for trajectory.tito.
func artifactPaths(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, fault.New(fault.BadFlag, "no artifact is named").WithFix("name trajectory.tito files, or folders that hold some")
	}
	var out []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, fileError(arg, err)
		}
		if !info.IsDir() {
			out = append(out, arg)
			continue
		}
		n := len(out)
		err = filepath.WalkDir(arg, func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && (d.Name() == store.JournalName || filepath.Ext(p) == ".tito") {
				out = append(out, p)
			}
			return err
		})
		if err != nil {
			return nil, fileError(arg, err)
		}
		if len(out) == n {
			return nil, fault.New(fault.FileMissing, "%s holds no artifact", arg)
		}
		sort.Strings(out[n:])
	}
	return out, nil
}

func fileError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.FileMissing, "%s does not exist", path)
	}
	return fault.Wrap(fault.FileMissing, err, "reading %s", path)
}

// loaded is an artifact that was read.
type loaded struct {
	Path  string
	File  *artifact.File
	Tree  *trajectory.Tree
	Notes []string // what the reader should know, such as a missing end
}

// load reads an artifact. One that was cut, or that is still being written, is read up to its last whole record, and says so.
func load(path string) (*loaded, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	f, err := artifact.Decode(b)
	out := &loaded{Path: path, File: f}
	if fault.CodeOf(err) == fault.ArtifactTruncated && f != nil && f.Header.Trajectory != "" {
		out.Notes = append(out.Notes, "the file is cut; it is read up to its last whole record")
		err = nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.ArtifactRecord, err, "%s", path)
	}
	if !f.Ended() && len(out.Notes) == 0 {
		out.Notes = append(out.Notes, "the trajectory has not ended")
	}
	out.Tree, err = artifact.ToTree(f)
	return out, fault.Wrap(fault.ArtifactRecord, err, "%s", path)
}

// policyFlags are the flags that say how facts become samples.
type policyFlags struct {
	realign, refused, subagents string
	realignMax, maxContext      int
	keepRewritten               bool
}

func (p *policyFlags) add(c *cobra.Command) {
	d := trajectory.DefaultPolicy()
	f := c.Flags()
	f.StringVar(&p.realign, "realign", d.Realign, "a turn that differs inside its parent's last completion: prefix (go on from what is kept) or off (split)")
	f.IntVar(&p.realignMax, "realign-max", d.RealignMax, "sampled ids that a realign may lose")
	f.StringVar(&p.refused, "refused", d.Refused, "an answer that the harness refused by asking again: train or discard")
	f.StringVar(&p.subagents, "subagents", d.Subagents, "sub-agents' turns: train or context")
	f.BoolVar(&p.keepRewritten, "keep-rewritten", d.KeepRewritten, "go on from a completion that the harness rewrote, marking the edit (not built yet)")
	f.IntVar(&p.maxContext, "max-context", d.MaxContext, "discard turns whose prompt plus completion is longer; 0 = no limit")
}

// policy checks the flags.
func (p *policyFlags) policy() (trajectory.Policy, error) {
	for _, c := range []struct {
		flag, value string
		known       []string
		later       []string
	}{
		{"realign", p.realign, []string{"prefix", "off"}, []string{"cookbook", "slime"}},
		{"refused", p.refused, []string{"train", "discard"}, nil},
		{"subagents", p.subagents, []string{"train", "context"}, nil},
	} {
		if err := oneOf(c.flag, c.value, c.known, c.later...); err != nil {
			return trajectory.Policy{}, err
		}
	}
	if p.keepRewritten {
		return trajectory.Policy{}, fault.New(fault.BadFlag, "--keep-rewritten is not built yet").
			WithFix("leave it out: a turn after a rewritten message splits with history_rewritten")
	}
	if p.realignMax < 0 || p.maxContext < 0 {
		return trajectory.Policy{}, fault.New(fault.BadFlag, "--realign-max and --max-context must not be negative")
	}
	return trajectory.Policy{Realign: p.realign, RealignMax: p.realignMax, KeepRewritten: p.keepRewritten, Refused: p.refused,
		Subagents: p.subagents, MaxContext: p.maxContext}, nil
}

// changed is whether any of the flags was given.
func (p *policyFlags) changed(c *cobra.Command) bool {
	for _, name := range []string{"realign", "realign-max", "refused", "subagents", "keep-rewritten", "max-context"} {
		if c.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// check refuses flags that are wrong, before any file is read.
func (p *policyFlags) check(c *cobra.Command) error {
	if !p.changed(c) {
		return nil
	}
	_, err := p.policy()
	return err
}

// notes tells people what is special about an artifact.
func (a *app) notes(l *loaded) {
	for _, n := range l.Notes {
		fmt.Fprintf(a.Err, "tito: note: %s: %s\n", l.Path, n)
	}
}

// chosen is the policy of the flags if any was given, else the one in force while serving.
func (p *policyFlags) chosen(c *cobra.Command, header trajectory.Header) (trajectory.Policy, error) {
	if p.changed(c) {
		return p.policy()
	}
	if header.Policy == (trajectory.Policy{}) {
		return trajectory.DefaultPolicy(), nil
	}
	return header.Policy, nil
}

// oneOf checks a flag that takes one of a few words. Those of later are promised, and refused until they are built.
func oneOf(flag, value string, known []string, later ...string) error {
	switch {
	case slices.Contains(known, value):
		return nil
	case slices.Contains(later, value):
		return fault.New(fault.BadFlag, "--%s %s is not built yet", flag, value).WithFix("use %s", strings.Join(known, " or "))
	}
	return fault.New(fault.BadFlag, "--%s %q is not known", flag, value).WithFix("use %s", strings.Join(known, " or "))
}
