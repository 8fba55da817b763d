package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/model"
)

func (a *app) model() *cobra.Command {
	c := &cobra.Command{
		Use: "model", Short: "Look at a model's folder",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use: "check DIR", Short: "Say what a model's folder has and lacks, and what that is enough for",
		Long: "Names the tokenizer's parts, the template, the chat format that reads it and why the others do not, the ids that end a reply,\n" +
			"defaults that would bias sampling, and hashes. Exits 0 where everything works, else 2 with the code of the first problem. DIR may\n" +
			"be builtin.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fault.New(fault.BadFlag, "model check takes one folder, not %d arguments", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.checkModel(args[0]) },
	})
	return c
}

func (a *app) checkModel(dir string) error {
	look := model.Check
	if dir == model.BuiltinName {
		look = func(string) (*model.Report, error) { return model.CheckBuiltin() }
	}
	r, err := look(dir)
	if err != nil {
		return err
	}
	if a.json {
		// The one object is also the error's.
		out := struct {
			*model.Report
			Error *failure `json:"error,omitempty"`
		}{Report: r}
		if r.Err != nil {
			i := fault.CodeOf(r.Err).Info()
			out.Error = &failure{fault.CodeOf(r.Err), i.Boundary, i.Retry, r.Err.Error()}
		}
		a.printJSON(out)
	} else if err := a.write(func(w io.Writer, p paint) { writeReport(w, p, r) }); err != nil {
		return err
	}
	if r.Err == nil {
		return nil
	}
	fmt.Fprintf(a.Err, "tito: %s [%s]\n", r.Err, fault.CodeOf(r.Err))
	return exit(2)
}

// failure is an error as scripts see it.
type failure struct {
	Code     fault.Code     `json:"code"`
	Boundary fault.Boundary `json:"boundary"`
	Retry    bool           `json:"retry"`
	Message  string         `json:"message"`
}

func writeReport(w io.Writer, p paint, r *model.Report) {
	row := func(good bool, name, format string, args ...any) {
		mark := p.in(green, "✓")
		if !good {
			mark = p.in(red, "✗")
		}
		fmt.Fprintf(w, "  %s %-22s %s\n", mark, name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(w, r.Dir)
	for _, f := range r.Files {
		if f.Found {
			row(true, f.Name, "%d bytes, sha256 %.16s…", f.Bytes, f.SHA256)
		} else {
			fmt.Fprintf(w, "  - %-22s not there\n", f.Name)
		}
	}
	if t := r.Tokenizer; t != nil {
		row(true, "tokenizer", "%s, %d ids, %d added tokens (%d special, %d flagged)", t.Kind, t.Vocabulary, t.Added, t.Special, t.Flagged)
		for _, part := range []struct {
			name string
			list []string
		}{{"normalizer", t.Normalizer}, {"pre-tokenizer", t.PreTokenizer}, {"decoder", t.Decoder}, {"post-processor", t.PostProcessor}} {
			if len(part.list) > 0 {
				fmt.Fprintf(w, "    %-22s %s\n", part.name, strings.Join(part.list, ", "))
			}
		}
	} else {
		row(false, "tokenizer", "cannot be read")
	}
	writeTemplate(w, row, r)
	writeEnds(w, row, r)
	for _, x := range r.Problems {
		fmt.Fprintf(w, "  %s %s [%s]\n", p.in(red, "problem:"), x.Message, x.Code)
	}
	can := "nothing"
	if len(r.Can) > 0 {
		can = strings.Join(r.Can, ", ")
	}
	fmt.Fprintf(w, "  enough for: %s\n", can)
}

func writeTemplate(w io.Writer, row func(bool, string, string, ...any), r *model.Report) {
	if t := r.Template; t == nil {
		row(false, "template", "there is none")
	} else {
		how := "compiles"
		if !t.Compiles {
			how = "does not compile"
		}
		if t.Clock {
			how += ", asks for the time"
		}
		row(t.Compiles, "template", "in %s, %d bytes, sha256 %.16s…, %s", t.File, t.Bytes, t.SHA256, how)
	}
	for _, f := range r.Families {
		switch {
		case f.Name == r.Family:
			row(true, "format "+f.Name, "reads it")
		case f.Reads:
			fmt.Fprintf(w, "  - format %-15s reads it too; the first is taken\n", f.Name)
		default:
			fmt.Fprintf(w, "  - format %-15s %s\n", f.Name, strings.TrimPrefix(f.Why, f.Name+": "))
		}
	}
}

func writeEnds(w io.Writer, row func(bool, string, string, ...any), r *model.Report) {
	for _, s := range r.Stops {
		row(true, "stop", "%d %s (%s)", s.ID, s.Text, s.Kind)
	}
	for _, e := range r.Ends {
		what := "is a stop of the format"
		if !e.Stop {
			what = "is no stop of the format: a reply that ends with it cannot be read"
		}
		if e.Stop || r.Family != "" {
			row(e.Stop, "end "+e.Says, "of %s %s", e.File, what)
		}
	}
	for _, s := range r.Sampling {
		fmt.Fprintf(w, "  ! %-22s %s biases sampling (neutral: %s); tito overrides it with each call, an engine called alone would use it\n", s.Key, s.Value, s.Neutral)
	}
}
