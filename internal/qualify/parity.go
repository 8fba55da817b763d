package qualify

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/certify"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/token"
)

//go:embed oracle.py
var oracle string

// Recorded is what a reference made of the cases of one model.
type Recorded struct {
	Name      string          `json:"name"`
	Tokenizer string          `json:"tokenizer"` // sha256
	Template  string          `json:"template"`
	Kwargs    json.RawMessage `json:"kwargs"`
	Reference string          `json:"reference"` // programs and versions
	Cases     string          `json:"cases"`     // sha256 of the conversations
	Answers   []string        `json:"answers"`   // first 16 hex digits of sha256(text, NUL, ids with commas), or "refused"
}

// request is one conversation as a reference reads it.
type request struct {
	Messages []certify.Wire    `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
}

// requests are the cases, a line each.
func requests(cases []certify.Case) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, c := range cases {
		r := request{Messages: certify.Wires(c.Messages)}
		for _, t := range c.Tools {
			r.Tools = append(r.Tools, json.RawMessage(t.Append(nil)))
		}
		if err := enc.Encode(r); err != nil {
			return nil, fault.Wrap(fault.InternalError, err, "a case")
		}
	}
	return b.Bytes(), nil
}

// parity is the claim that renders equal the reference's, text and ids, and names the reference.
func parity(ctx context.Context, o Options, m *model.Model, f *files, s certify.Model) (certify.Claim, string, error) {
	c := certify.Claim{Claim: "parity", Binds: true, Verdict: certify.NotAttempted}
	cases := certify.Cases(m.Family)
	lines, err := requests(cases)
	if err != nil {
		return c, "", err
	}
	rec := Recorded{}
	kwargs := json.RawMessage("{}")
	if s.Kwargs.IsValid() {
		if kwargs, err = compact(s.Kwargs); err != nil {
			return c, "", err
		}
	}
	if o.Python != "" {
		if rec, err = Ask(ctx, o); err != nil {
			return c, "", err
		}
	} else {
		for _, r := range o.Recorded {
			if r.Tokenizer == m.Info.Tokenizer && r.Template == m.Info.Template && sameJSON(r.Kwargs, kwargs) {
				rec = r
			}
		}
		switch {
		case rec.Answers == nil:
			c.Why = "no reference is recorded for this model; name a Python that has transformers with --oracle"
			return c, "", nil
		case rec.Cases != digest(lines) || len(rec.Answers) != len(cases):
			c.Why = "the recorded reference is of other cases; name a Python that has transformers with --oracle"
			return c, "", nil
		}
	}
	for i, x := range cases {
		conv := family.Conversation{Messages: x.Messages, Tools: x.Tools, Kwargs: s.Kwargs, Native: true}
		got, shown := answer(m.Family, conv)
		if got == "refused" && rec.Answers[i] == "refused" {
			c.Refused++
			continue
		}
		c.Cases++
		if got != rec.Answers[i] {
			c.Refuted++
			if c.Counter == nil || len(x.Messages) < len(c.Counter.Messages) {
				c.Why = "the reference renders or encodes the conversation otherwise"
				c.Counter = &certify.Counter{Messages: certify.Wires(x.Messages), Wanted: "sha256 " + rec.Answers[i], Got: "sha256 " + got + ": " + shown}
			}
		}
	}
	switch {
	case c.Refuted > 0:
		c.Verdict = certify.Refuted
	case c.Cases > 0:
		c.Verdict = certify.Proved
	default:
		c.Verdict = certify.Refused
	}
	return c, rec.Reference, nil
}

// answer is a render as a reference reports it.
func answer(f family.Family, c family.Conversation) (sum, text string) {
	r, err := f.Render(c)
	if err != nil {
		return "refused", err.Error()
	}
	return digest(token.AppendList([]byte(r.Text+"\x00"), r.IDs))[:16], r.Text
}

// Ask has Python render the cases of a model. Errors: fault.BadFlag where Python cannot do so.
func Ask(ctx context.Context, o Options) (Recorded, error) {
	m, f, err := load(o.Dir)
	if err != nil {
		return Recorded{}, err
	}
	switch {
	case f.tokenizer == nil || m.Info.Tokenizer != f.sums[tokenizerFile]:
		return Recorded{}, fault.New(fault.BadFlag, "%s has no %s, which the reference reads", o.name(), tokenizerFile).
			WithFix("leave out --oracle; parity is then not attempted")
	case digest([]byte(f.template)) != m.Info.Template:
		return Recorded{}, fault.New(fault.InternalError, "the reference would be given another template than %s has", o.name())
	}
	cases := certify.Cases(m.Family)
	lines, err := requests(cases)
	if err != nil {
		return Recorded{}, err
	}
	dir, err := os.MkdirTemp("", "tito-qualify-")
	if err != nil {
		return Recorded{}, fault.Wrap(fault.StoreFailed, err, "a folder for the reference")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, tokenizerFile)
	if err := os.WriteFile(path, f.tokenizer, 0o600); err != nil {
		return Recorded{}, fault.Wrap(fault.StoreFailed, err, "the reference's tokenizer")
	}
	kwargs := json.RawMessage("{}")
	if o.Kwargs.IsValid() {
		if kwargs, err = compact(o.Kwargs); err != nil {
			return Recorded{}, err
		}
	}
	kit, ok := m.Family.(*family.Kit)
	head, err := json.Marshal(map[string]any{"tokenizer": path, "template": f.template, "tokens": f.tokens, "kwargs": kwargs,
		"text_arguments": ok && kit.TextArguments})
	if err != nil {
		return Recorded{}, fault.Wrap(fault.InternalError, err, "the reference's settings")
	}
	cmd := exec.CommandContext(ctx, o.Python, "-c", oracle) //nolint:gosec // the user names the interpreter
	cmd.Stdin = bytes.NewReader(append(append(head, '\n'), lines...))
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	out, err := cmd.Output()
	if err != nil {
		return Recorded{}, fault.New(fault.BadFlag, "%s cannot render: %v: %s", o.Python, err, lastLine(trouble.String())).
			WithFix("--oracle takes a Python that has transformers, tokenizers and Jinja2")
	}
	rec := Recorded{Name: m.Name, Tokenizer: m.Info.Tokenizer, Template: m.Info.Template, Kwargs: kwargs, Cases: digest(lines)}
	scan := bufio.NewScanner(bytes.NewReader(out))
	for n := 0; scan.Scan(); n++ {
		s, err := strconv.Unquote(scan.Text())
		if err != nil {
			return Recorded{}, fault.New(fault.BadFlag, "%s answers %q", o.Python, scan.Text())
		}
		if n == 0 {
			rec.Reference = s
			continue
		}
		rec.Answers = append(rec.Answers, s)
	}
	if len(rec.Answers) != len(cases) {
		return Recorded{}, fault.New(fault.BadFlag, "%s gave %d answers to %d conversations", o.Python, len(rec.Answers), len(cases))
	}
	return rec, nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
