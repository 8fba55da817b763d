package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
)

// parsed is what parse prints with --json and, a line, with --jsonl.
type parsed struct {
	Model     string       `json:"model"`
	Family    string       `json:"family"`
	IDs       []token.ID   `json:"ids"`
	Reasoning *string      `json:"reasoning"` // null where the completion holds none
	Content   *string      `json:"content"`
	Calls     []parsedCall `json:"calls"`
	End       family.End   `json:"end"`
	Stop      *token.ID    `json:"stop"` // the id that ended it, null where none did
	Issues    []string     `json:"issues"`
}

// parsedCall is one attempt at a tool call.
type parsedCall struct {
	Status    family.AttemptStatus `json:"status"`
	Returned  bool                 `json:"is_call"` // whether a harness gets it as a call
	Name      string               `json:"name"`
	ModelID   string               `json:"model_id,omitempty"` // the model's own
	Arguments string               `json:"arguments"`
	Span      token.Span           `json:"span"`
	Raw       string               `json:"raw"`
}

func (a *app) parse() *cobra.Command {
	p := &parsing{}
	c := &cobra.Command{
		Use: "parse [IDS | TEXT | -]", Short: "Read a completion: reasoning, content, tool calls with their status, how it ended",
		Long: "A JSON array of ids is read as it is; anything else is text, and what spells a special token becomes it. Without a stop token\n" +
			"the completion counts as cut, unless --stopped. The request that it answers tells what its prompt opened and which tools there\n" +
			"are. With --jsonl the argument is a file: ids, a text, or {\"ids\" or \"text\", \"request\", \"stopped\"} a line in, the same object\n" +
			"as --json a line out.",
		Args: mostOne("completion"),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if p.m, err = loadModel(p.dir); err != nil {
				return err
			}
			if err = p.readRequest(); err != nil {
				return err
			}
			if p.jsonl {
				return a.jsonLines(c.Context(), args, p.line)
			}
			s, err := a.typed(c, args)
			if err != nil {
				return err
			}
			ids, err := p.completion(s)
			if err != nil {
				return err
			}
			out, err := p.parse(ids, p.in, p.stopped)
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(out)
				return nil
			}
			return a.write(func(w io.Writer, col paint) { out.write(w, col, p.m.Family) })
		},
	}
	modelFlag(c, &p.dir, "tokenizer and chat template")
	c.Flags().StringVar(&p.request, "request", "", "file with the request that the completion answers")
	c.Flags().StringVar(&p.clock, "clock", "", "time that the request's template sees; empty = now, in UTC")
	c.Flags().BoolVar(&p.stopped, "stopped", false, "the engine stopped by itself, though the ids hold no stop token")
	c.Flags().BoolVar(&p.text, "text", false, "the completion is text, also where it looks like ids")
	c.Flags().BoolVar(&p.jsonl, "jsonl", false, "completions in, what was read out, a line each")
	return c
}

// parsing is one call of parse.
type parsing struct {
	dir, request, clock  string
	stopped, text, jsonl bool
	m                    *model.Model
	in                   family.ParseInput
}

func (p *parsing) readRequest() error {
	if _, err := clockOf(p.clock); err != nil || p.request == "" {
		return err
	}
	b, err := os.ReadFile(p.request)
	if err != nil {
		return fileError(p.request, err)
	}
	v, err := ojson.Parse(b)
	if err == nil {
		p.in, err = p.input(v)
	}
	return fault.Wrap(fault.BadRequest, err, "%s", p.request)
}

// input is what a request tells of its completion.
func (p *parsing) input(v ojson.Value) (family.ParseInput, error) {
	at, err := clockOf(p.clock)
	if err != nil {
		return family.ParseInput{}, err
	}
	c, err := conversation(v, at)
	if err != nil {
		return family.ParseInput{}, err
	}
	r, err := p.m.Family.Render(c)
	return family.ParseInput{Prompt: r.IDs, Tools: c.Tools, NoCalls: len(c.Tools) == 0}, err
}

// completion reads what a person gave: ids where it is a JSON array of numbers, else text.
func (p *parsing) completion(s string) ([]token.ID, error) {
	if v, err := ojson.Parse([]byte(s)); !p.text && err == nil && v.Kind() == ojson.Array && isNumbers(v) {
		return idsOf(v)
	}
	return p.m.Tokenizer.Encode(s), nil
}

func isNumbers(v ojson.Value) bool {
	for _, e := range v.Elems() {
		if e.Kind() != ojson.Number {
			return false
		}
	}
	return true
}

// line answers one line of --jsonl.
func (p *parsing) line(dst []byte, v ojson.Value) ([]byte, error) {
	in, stopped := p.in, p.stopped
	said := v
	if v.Kind() == ojson.Object {
		var err error
		if said, in, stopped, err = p.object(v); err != nil {
			return nil, err
		}
	}
	var ids []token.ID
	var err error
	switch said.Kind() {
	case ojson.Array:
		ids, err = idsOf(said)
	case ojson.String:
		if err = plainText(said); err == nil {
			ids = p.m.Tokenizer.Encode(said.Str())
		}
	default:
		err = fault.New(fault.BadRequest, "a completion is an array of ids or a string of text, not %s", said.Kind())
	}
	if err != nil {
		return nil, err
	}
	out, err := p.parse(ids, in, stopped)
	if err != nil {
		return nil, err
	}
	b, err := plainJSON(out)
	return append(dst, b...), err
}

// object reads a completion that comes with what it answers.
func (p *parsing) object(v ojson.Value) (said ojson.Value, in family.ParseInput, stopped bool, err error) {
	in, stopped = p.in, p.stopped
	if v.HasDuplicates() {
		return said, in, stopped, fault.New(fault.BadRequest, "a key occurs twice")
	}
	for _, m := range v.Members() {
		switch k := m.Value.Kind(); {
		case !said.IsValid() && (m.Key == "ids" && k == ojson.Array || m.Key == "text" && k == ojson.String):
			said = m.Value
		case m.Key == "request" && k == ojson.Object:
			if in, err = p.input(m.Value); err != nil {
				return said, in, stopped, err
			}
		case m.Key == "stopped" && k == ojson.Bool:
			stopped = m.Value.Bool()
		default:
			return said, in, stopped, fault.New(fault.BadRequest, "%s as %s does not belong here", short(strconv.Quote(m.Key)), k).
				WithFix("a completion is ids (an array) or text (a string), with request (an object) and stopped (a boolean)")
		}
	}
	return said, in, stopped, nil
}

func (p *parsing) parse(ids []token.ID, in family.ParseInput, stopped bool) (*parsed, error) {
	if err := known(p.m.Tokenizer, ids); err != nil {
		return nil, err
	}
	r := p.m.Family.Parse(in)
	r.Add(ids)
	got, _ := r.Done(stopped)
	out := &parsed{Model: p.dir, Family: p.m.Family.Name(), IDs: append([]token.ID{}, ids...), Calls: []parsedCall{},
		Reasoning: present(got.Reasoning), Content: present(got.Content), End: got.End, Issues: append([]string{}, got.Issues...)}
	for _, c := range got.Calls {
		out.Calls = append(out.Calls, parsedCall{c.Status, c.IsCall, c.Name, c.ModelID, c.Arguments, c.Span, c.Raw})
	}
	// Where an engine stopped without a stop id there is none to show.
	if got.End == family.EndStop && !contains(got.Issues, family.IssueNoStop) {
		out.Stop = &got.Stop
	}
	return out, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func present(t chat.Text) *string {
	if t.Presence != chat.Present {
		return nil
	}
	return &t.S
}

func (p *parsed) write(w io.Writer, col paint, f family.Family) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s %s\n", col.in(dim, fmt.Sprintf("%-10s", name)), fmt.Sprintf(format, args...))
	}
	text := func(name string, s *string) {
		if s != nil {
			row(name, "%s", strings.ReplaceAll(col.text(*s), "\n", "\n"+strings.Repeat(" ", 11)))
		}
	}
	text("reasoning", p.Reasoning)
	text("content", p.Content)
	for i, c := range p.Calls {
		colour := green
		if c.Status != family.AttemptOK {
			colour = red
		}
		row(fmt.Sprintf("call %d", i), "%s  %s %s", col.in(colour, string(c.Status)), col.text(c.Name), col.text(c.Arguments))
		kept := "returned as a call"
		if !c.Returned {
			kept = "stays text"
		}
		row("", "ids %d to %d, %s", c.Span.Start, c.Span.End-1, kept)
		row("", "%s", col.in(dim, strconv.Quote(c.Raw)))
	}
	stop := ""
	if p.Stop != nil {
		stop = fmt.Sprintf(", id %d %s", *p.Stop, f.Decode([]token.ID{*p.Stop}))
	}
	row("end", "%s%s, after %d ids", p.End, stop, len(p.IDs))
	if len(p.Issues) > 0 {
		row("issues", "%s", col.in(red, strings.Join(p.Issues, ", ")))
	}
}

// plainJSON is v as JSON without HTML escapes.
func plainJSON(v any) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return []byte(strings.TrimSuffix(b.String(), "\n")), err
}
