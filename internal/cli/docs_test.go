package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var rewrite = flag.Bool("rewrite", false, "write docs/cli.md anew")

const docsHead = `# The command line

Made from the commands themselves; a test keeps both equal. Everywhere:

- ` + "`--json`" + ` prints JSON on standard output and everything for people on standard error. The last line is one object; verbs that
  take several files print one a file.
- Exit codes: 0 success · 1 something failed · 2 the call, a file or the set-up is wrong · 130 stopped by a signal. The code in
  brackets at the end of the message, and in ` + "`{\"error\":{\"code\",\"boundary\",\"retry\",\"message\"}}`" + ` with --json, is one of
  [spec/errors.md](../spec/errors.md). A trial that went wrong ends in its outcome instead, and the exit code is its fault's.
- ` + "`tito completion bash|zsh|fish|powershell`" + ` prints a completion script: ` + "`source <(tito completion bash)`" + `.
`

func TestTheDocsSayWhatTheCommandsDo(t *testing.T) {
	a := &app{Streams: Streams{Env: func(string) string { return "" }}}
	var b strings.Builder
	b.WriteString(docsHead)
	n := 0
	for _, c := range a.root().Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s is described by %q", c.Name(), c.Short)
		}
		describe(&b, "tito ", c)
		n++
	}
	if n < 9 {
		t.Fatalf("%d verbs", n)
	}
	const path = "../../docs/cli.md"
	if *rewrite {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	had, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(had), b.String()); d != "" {
		t.Errorf("docs/cli.md is old; write it anew with -rewrite (-docs +commands):\n%s", d)
	}
}

func describe(b *strings.Builder, before string, c *cobra.Command) {
	fmt.Fprintf(b, "\n## %s%s\n\n%s.\n", before, c.Use, c.Short)
	if c.Long != "" {
		fmt.Fprintf(b, "\n%s\n", c.Long)
	}
	rows := 0
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Name == "json" || f.Hidden {
			return
		}
		if rows++; rows == 1 {
			b.WriteString("\n| flag | default | |\n|---|---|---|\n")
		}
		name, usage := pflag.UnquoteUsage(f)
		def := f.DefValue
		if def != "" && def != "[]" && name != "" {
			def = "`" + def + "`"
		} else {
			def = ""
		}
		flag := "--" + f.Name
		if name != "" {
			flag += " " + name
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", flag, def, strings.ReplaceAll(usage, "|", "\\|"))
	})
	for _, sub := range c.Commands() {
		describe(b, before+c.Name()+" ", sub)
	}
}
