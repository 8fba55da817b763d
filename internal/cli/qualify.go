package cli

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/certify"
	"github.com/tito-rl/tito/internal/engine"
	rehearsing "github.com/tito-rl/tito/internal/engine/rehearsal"
	"github.com/tito-rl/tito/internal/engine/vllm"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/qualify"
)

// qualifying is the flags of qualify.
type qualifying struct {
	dir, kwargs, python, out      string
	engine, url, served, envOfKey string
}

func (a *app) qualify() *cobra.Command {
	q := &qualifying{}
	c := &cobra.Command{
		Use: "qualify", Short: "Prove what a model's tokenizer and template allow, and write the certificate",
		Long: "Probes the template with every form of reply and of append, level by level: pins, parity with a reference, append-only, junctions,\n" +
			"token splice, engine. Says what is proved, what is refuted with the shortest counter-example, and which prompt modes that allows;\n" +
			"see docs/qualify.md. Exits 1 where full_history is refuted, or a refutation that is known did not come true, or a new one did.",
		RunE: func(c *cobra.Command, _ []string) error { return a.runQualify(c, q) },
	}
	modelFlag(c, &q.dir, "tokenizer.json and chat template")
	f := c.Flags()
	f.StringVar(&q.kwargs, "template-kwargs", "", "template settings (a JSON object)")
	f.StringVar(&q.python, "oracle", "", "a `python` that has transformers: renders are compared with its own")
	f.StringVar(&q.engine, "engine", "", "engine for L5: vllm or rehearsal; empty = not attempted")
	f.StringVar(&q.url, "engine-url", "", "address of the engine, such as http://127.0.0.1:8000")
	f.StringVar(&q.envOfKey, "engine-key-env", "", "environment variable that holds the engine's key")
	f.StringVar(&q.served, "engine-model", "", "name that the engine serves; empty = the first that it lists")
	f.StringVar(&q.out, "out", "", "file for the certificate; empty = none is written")
	return c
}

func (a *app) runQualify(c *cobra.Command, q *qualifying) error {
	o := qualify.Options{Dir: q.dir, Python: q.python, Model: q.served}
	if q.kwargs != "" {
		v, err := ojson.Parse([]byte(q.kwargs))
		if err != nil || v.Kind() != ojson.Object {
			return fault.New(fault.BadFlag, "--template-kwargs %s is no JSON object", q.kwargs)
		}
		o.Kwargs = v
	}
	var err error
	if o.Code, err = codePin(); err != nil {
		return err
	}
	if o.Known, o.Recorded, err = qualify.Data(); err != nil {
		return err
	}
	if o.Engine, err = a.engineOf(q); err != nil {
		return err
	}
	cert, err := qualify.Run(c.Context(), o)
	if err != nil {
		return err
	}
	if q.out != "" {
		b, err := json.MarshalIndent(cert, "", " ")
		if err != nil {
			return fault.Wrap(fault.InternalError, err, "the certificate")
		}
		if err := os.WriteFile(q.out, append(b, '\n'), 0o644); err != nil { //nolint:gosec // it holds no secret
			return fileError(q.out, err)
		}
	}
	if a.json {
		a.printJSON(cert)
	} else if err := a.write(func(w io.Writer, p paint) { writeCertificate(w, p, cert, q.out) }); err != nil {
		return err
	}
	if !cert.Allowed.FullHistory || len(cert.Surprises) > 0 {
		return exit(1)
	}
	return nil
}

// codePin names the program. Where its version does not name its bytes, the hash of its file does.
func codePin() (string, error) {
	rev, dirty := build()
	if !dirty && rev != "unknown" {
		return "tito " + Version + " " + rev, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", fault.Wrap(fault.InternalError, err, "the program's own file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fault.Wrap(fault.InternalError, err, "the program's own file")
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fault.Wrap(fault.InternalError, err, "%s", path)
	}
	return fmt.Sprintf("tito %s sha256:%x", Version, sum.Sum(nil)), nil
}

func (a *app) engineOf(q *qualifying) (engine.Engine, error) {
	switch q.engine {
	case "":
		if q.url != "" {
			q.engine = "vllm"
			return a.engineOf(q)
		}
		return nil, nil
	case "vllm":
		if q.url == "" {
			return nil, fault.New(fault.BadFlag, "--engine vllm needs --engine-url")
		}
		key := ""
		if q.envOfKey != "" {
			if key = a.Env(q.envOfKey); key == "" {
				return nil, fault.New(fault.BadConfig, "the environment has no %s, which --engine-key-env names", q.envOfKey)
			}
		}
		return vllm.New(vllm.Config{URL: q.url, Model: q.served, APIKey: key})
	case "rehearsal":
		if q.url != "" {
			return nil, fault.New(fault.BadFlag, "--engine-url belongs to --engine vllm")
		}
		m, err := loadModel(q.dir)
		if err != nil {
			return nil, err
		}
		book, err := readBooks(nil)
		if err != nil {
			return nil, err
		}
		p, err := compileBook(book, m)
		if err != nil {
			return nil, err
		}
		return rehearsing.New(rehearsing.Config{Policy: p, Params: p.Initial("v0"), Seed: 1})
	}
	return nil, fault.New(fault.BadFlag, "--engine %s is none of vllm, rehearsal", q.engine)
}

func writeCertificate(w io.Writer, p paint, c *qualify.Certificate, file string) {
	fmt.Fprintf(w, "%s, template %.12s…, settings %s\n", c.Pins.Family, c.Pins.Template, c.Pins.Kwargs)
	for _, l := range c.Levels {
		fmt.Fprintf(w, "%s %s %s\n", l.Level, verdict(p, l.Verdict, true), l.About)
		if l.Why != "" {
			fmt.Fprintf(w, "     %s\n", l.Why)
		}
		for _, x := range l.Claims {
			writeClaim(w, p, x)
		}
	}
	if b := c.Branches; b != nil {
		fmt.Fprintf(w, "branches of the template reached: %d of %d\n", b.Outcomes-len(b.Missed), b.Outcomes)
		for _, x := range b.Missed {
			fmt.Fprintf(w, "   not: the condition in line %d %s\n", x.Line, map[bool]string{true: "holds", false: "does not hold"}[x.Holds])
		}
	}
	for _, s := range c.Surprises {
		fmt.Fprintf(w, "%s %s\n", p.in(red, "surprise:"), s)
	}
	fmt.Fprintln(w, "allowed")
	fmt.Fprintf(w, "  full_history  %v\n", c.Allowed.FullHistory)
	for _, where := range []string{qualify.WithTools, qualify.WithoutTools} {
		kinds := strings.Join(c.Allowed.Incremental[where], ", ")
		if kinds == "" {
			kinds = "nothing"
		}
		fmt.Fprintf(w, "  incremental   %s: %s\n", strings.ReplaceAll(where, "_", " "), kinds)
	}
	if slices.Contains(c.Allowed.Needs, "frozen_clock") {
		fmt.Fprintln(w, "  the template tells the time: one clock for each trajectory (tito keeps one)")
	}
	if file != "" {
		fmt.Fprintf(w, "certificate %.16s… in %s\n", c.Key, file)
	}
}

func writeClaim(w io.Writer, p paint, x certify.Claim) {
	count := fmt.Sprintf("%d cases", x.Cases)
	if x.Refuted > 0 {
		count = fmt.Sprintf("%d of %d cases", x.Refuted, x.Cases)
	}
	if x.Refused > 0 {
		count += fmt.Sprintf(", %d refused", x.Refused)
	}
	fmt.Fprintf(w, "   %s %-32s %s\n", verdict(p, x.Verdict, x.Binds), x.Claim, count)
	if x.Verdict != certify.Refuted {
		return
	}
	fmt.Fprintf(w, "       %s\n", x.Why)
	if x.Known != "" {
		fmt.Fprintf(w, "       known: %s\n", x.Known)
	}
	if x.Counter == nil {
		return
	}
	for _, m := range x.Counter.Messages {
		fmt.Fprintf(w, "         %s\n", p.in(dim, message(m)))
	}
	for _, m := range x.Counter.Appended {
		fmt.Fprintf(w, "       + %s\n", p.in(dim, message(m)))
	}
	if x.Counter.Settings != "" {
		fmt.Fprintf(w, "       (%s)\n", x.Counter.Settings)
	}
	if x.Counter.Wanted != x.Counter.Got {
		fmt.Fprintf(w, "       at %d: %q\n       now    %q\n", x.Counter.At, x.Counter.Wanted, x.Counter.Got)
	}
}

// message is one message on one line.
func message(m certify.Wire) string {
	b, err := plainJSON(m)
	if err != nil {
		return string(m.Role)
	}
	const most = 200
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "") + "…"
	}
	return string(b)
}

func verdict(p paint, v certify.Verdict, binds bool) string {
	switch {
	case v == certify.Proved:
		return p.in(green, "proved       ")
	case v == certify.Refuted && binds:
		return p.in(red, "refuted      ")
	case v == certify.Refuted:
		return "does not hold"
	case v == certify.Partly:
		return p.in(red, "partly       ")
	case v == certify.Refused:
		return "refused      "
	}
	return "not attempted"
}
