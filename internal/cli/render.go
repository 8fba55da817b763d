package cli

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/template"
	"github.com/tito-rl/tito/internal/token"
)

// rendered is what render prints with --json.
type rendered struct {
	Model  string       `json:"model"`
	Family string       `json:"family"`
	Text   string       `json:"text"`
	IDs    []token.ID   `json:"ids"`
	Placed bool         `json:"placed"` // it is known which message a token comes from
	Tokens []shownToken `json:"tokens"`
	// Differences are the places where the reference's ids are other than those that keep bodies text.
	Differences []difference `json:"differences"`
}

// difference is one place at which a message's text spells a special token.
type difference struct {
	Start     int        `json:"start"` // bytes of the reference's text
	End       int        `json:"end"`
	Text      string     `json:"text"`
	Native    []token.ID `json:"native"`
	Protected []token.ID `json:"protected"`
	// ProtectedText is set where the template looks for the spelling itself, and so writes another text.
	ProtectedText *string `json:"protected_text,omitempty"`
	*origin
}

func (a *app) render() *cobra.Command {
	r := &rendering{}
	c := &cobra.Command{
		Use: "render [FILE | -]", Short: "Turn a conversation into the prompt that the model's template makes of it",
		Long: "FILE holds a Chat Completions request, or {\"messages\", \"tools\", \"template_kwargs\", \"add_generation_prompt\"}. The table says which\n" +
			"message and field each token comes from; the others are the template's own. What a message spells stays text; --native encodes\n" +
			"as the reference does, and names each place where that makes a difference. With --jsonl: a request a line in,\n" +
			"{\"text\", \"ids\"} a line out, and \"differences\" with --native.",
		Args: mostOne("file"),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if err = r.show.check(); err != nil {
				return err
			}
			if r.at, err = clockOf(r.clock); err != nil {
				return err
			}
			if r.m, err = loadModel(r.dir); err != nil {
				return err
			}
			if r.jsonl {
				return a.jsonLines(c.Context(), args, r.line)
			}
			b, name, err := a.readAll(c.Context(), args)
			if err != nil {
				return err
			}
			v, err := ojson.Parse(b)
			if err != nil {
				return fault.Wrap(fault.BadRequest, err, "%s", name)
			}
			out, err := r.render(v)
			if err != nil {
				return fault.Wrap(fault.BadRequest, err, "%s", name)
			}
			if a.json {
				a.printJSON(out)
				return nil
			}
			return a.write(func(w io.Writer, p paint) { out.write(w, p, r.show.what, r.native) })
		},
	}
	modelFlag(c, &r.dir, "tokenizer and chat template")
	r.show.add(c, showTable, showText, showIDs)
	c.Flags().BoolVar(&r.native, "native", false, "encode as the reference does: text that spells a special token becomes it")
	c.Flags().BoolVar(&r.jsonl, "jsonl", false, "requests in, {text, ids} out, a line each")
	c.Flags().StringVar(&r.clock, "clock", "", "time that templates with dates see, as 2026-11-30T12:00:00Z; empty = now, in UTC")
	return c
}

// rendering is one call of render.
type rendering struct {
	dir, clock    string
	native, jsonl bool
	show          showFlag
	m             *model.Model
	at            template.Clock
}

// line answers one line of --jsonl.
func (r *rendering) line(dst []byte, v ojson.Value) ([]byte, error) {
	if !r.native {
		c, err := conversation(v, r.at)
		if err != nil {
			return nil, err
		}
		p, err := r.m.Family.Render(c)
		if err != nil {
			return nil, err
		}
		return append(appendPrompt(dst, p.Text, p.IDs), '}'), nil
	}
	out, err := r.render(v)
	if err != nil {
		return nil, err
	}
	d, err := plainJSON(out.Differences)
	dst = append(appendPrompt(dst, out.Text, out.IDs), `,"differences":`...)
	return append(append(dst, d...), '}'), err
}

func appendPrompt(dst []byte, text string, ids []token.ID) []byte {
	return appendIDs(append(ojson.AppendString(append(dst, `{"text":`...), text), `,"ids":`...), ids)
}

// render renders twice, to compare.
func (r *rendering) render(v ojson.Value) (*rendered, error) {
	c, err := conversation(v, r.at)
	if err != nil {
		return nil, err
	}
	p, err := r.m.Family.Render(c)
	if err != nil {
		return nil, err
	}
	safe := r.placed(c, p)
	c.Native = true
	if p, err = r.m.Family.Render(c); err != nil {
		return nil, err
	}
	native := r.placed(c, p)
	diff := differences(native.Tokens, safe.Tokens, native.Text == safe.Text)
	out := safe
	if r.native {
		out = native
	}
	out.Differences = diff
	return out, nil
}

// placed is a prompt with the origin of its tokens.
func (r *rendering) placed(c family.Conversation, p family.Rendered) *rendered {
	out := &rendered{Model: r.dir, Family: r.m.Family.Name(), Text: p.Text, IDs: append([]token.ID{}, p.IDs...)}
	out.Tokens, _ = tokensOf(r.m.Tokenizer, out.IDs)
	e, ok := r.m.Family.(family.Explainer)
	if !ok {
		return out
	}
	bodies := e.Bodies(c, p)
	out.Placed = bodies != nil
	for _, b := range bodies {
		at := &origin{Message: b.Message, Role: string(c.Messages[b.Message].Role), Field: b.Field}
		for i := b.Start; i < b.End; i++ {
			out.Tokens[i].origin = at
		}
	}
	return out
}

// differences compares two encodings: of one text, from where they part to where they stand at the same byte again; of two
// texts, all between what both begin and what both end with.
func differences(native, safe []shownToken, oneText bool) []difference {
	out := []difference{}
	at := func(ts []shownToken, i int) int {
		if i == len(ts) {
			return math.MaxInt
		}
		return ts[i].Start
	}
	same := func(i, j int) bool {
		return i < len(native) && j < len(safe) && native[i].ID == safe[j].ID && native[i].Start == safe[j].Start
	}
	for i, j := 0, 0; i < len(native) || j < len(safe); {
		if same(i, j) {
			i, j = i+1, j+1
			continue
		}
		i0, j0 := i, j
		if !oneText {
			i, j = len(native), len(safe)
			for i > i0 && j > j0 && native[i-1].ID == safe[j-1].ID {
				i, j = i-1, j-1
			}
			return append(out, differ(native[i0:i], safe[j0:j]))
		}
		for (i < len(native) || j < len(safe)) && !same(i, j) {
			if at(native, i) <= at(safe, j) {
				i++
			} else {
				j++
			}
		}
		out = append(out, differ(native[i0:i], safe[j0:j]))
	}
	return out
}

// differ describes one place: its tokens in both encodings, one of which may be none.
func differ(native, safe []shownToken) difference {
	said := func(ts []shownToken) (string, []token.ID) {
		var b []byte
		ids := make([]token.ID, len(ts))
		for i, t := range ts {
			ids[i] = t.ID
			b = append(b, t.raw...)
		}
		return strings.ToValidUTF8(string(b), string(utf8.RuneError)), ids
	}
	var d difference
	var text string
	d.Text, d.Native = said(native)
	if text, d.Protected = said(safe); text != d.Text {
		d.ProtectedText = &text
	}
	both := slices.Concat(native, safe)
	d.Start, d.End = both[0].Start, both[0].Start
	if len(native) > 0 {
		d.End = native[len(native)-1].End
	}
	for _, t := range slices.Concat(safe, native) {
		if t.origin != nil {
			d.origin = t.origin
			break
		}
	}
	return d
}

func (r *rendered) write(w io.Writer, p paint, what string, native bool) {
	switch what {
	case showText:
		fmt.Fprintln(w, p.text(r.Text))
		return
	case showIDs:
		fmt.Fprintf(w, "%s\n", appendIDs(nil, r.IDs))
		return
	}
	table(w, p, r.Tokens, true)
	fmt.Fprintln(w, counted(r.Tokens, len(r.Text)))
	if !r.Placed {
		fmt.Fprintln(w, "note: the ids do not stand for the text byte for byte, so which message a token comes from is not known")
	}
	switch {
	case len(r.Differences) > 0 && !native:
		fmt.Fprintf(w, "note: messages or tools spell special tokens, which stay text (%d); --native shows what the reference makes of them\n", len(r.Differences))
	case native:
		fmt.Fprintf(w, "places where the reference differs from what keeps messages text: %d\n", len(r.Differences))
	}
	if !native {
		return
	}
	for _, d := range r.Differences {
		where := "tools or template"
		if d.origin != nil {
			where = fmt.Sprintf("message %d (%s), %s", d.Message, d.Role, d.Field)
		}
		fmt.Fprintf(w, "  byte %d, %s: %s\n    reference %s\n    as text   %s\n", d.Start, where, p.in(purple, strconv.Quote(d.Text)),
			appendIDs(nil, d.Native), appendIDs(nil, d.Protected))
		if d.ProtectedText != nil {
			fmt.Fprintf(w, "    the template itself looks for such spellings, and writes for text %s\n", strconv.Quote(*d.ProtectedText))
		}
	}
}
