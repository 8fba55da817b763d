package cli

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/tokenizer"
	"golang.org/x/term"
)

// shownToken is one token as people and scripts see it.
type shownToken struct {
	ID    token.ID `json:"id"`
	Text  string   `json:"text"`  // U+FFFD for bytes that are no UTF-8 by themselves
	Bytes string   `json:"bytes"` // in hexadecimal
	Start int      `json:"start"` // where its bytes lie in the whole text
	End   int      `json:"end"`
	Kind  string   `json:"kind"` // text, added, or special
	*origin
	raw []byte
}

// origin is where a prompt's token comes from. A token without one is the template's own.
type origin struct {
	Message int    `json:"message"`
	Role    string `json:"role"`
	Field   string `json:"field"`
}

const (
	kindText    = "text"
	kindAdded   = "added"
	kindSpecial = "special"
)

// loadTokenizer reads a tokenizer, for which a folder needs no chat template.
func loadTokenizer(dir string) (*tokenizer.Tokenizer, error) {
	if dir != "" && dir != model.BuiltinName {
		return loader().LoadTokenizer(dir)
	}
	m, err := loadModel(dir)
	if err != nil {
		return nil, err
	}
	return m.Tokenizer, nil
}

func modelFlag(c *cobra.Command, dir *string, needs string) {
	c.Flags().StringVar(dir, "model", model.BuiltinName, "folder with "+needs+", or builtin")
}

// known refuses an id that stands for nothing.
func known(tok *tokenizer.Tokenizer, ids []token.ID) error {
	for i, id := range ids {
		if _, ok := tok.Bytes(id); !ok {
			return fault.New(fault.BadRequest, "id %d (at place %d) is not in the vocabulary, whose highest id is %d", id, i, tok.VocabSize()-1)
		}
	}
	return nil
}

// tokensOf shows ids, all of them known, and the bytes that they stand for.
func tokensOf(tok *tokenizer.Tokenizer, ids []token.ID) ([]shownToken, []byte) {
	kinds := map[token.ID]string{}
	for _, t := range tok.Added() {
		kinds[t.ID] = kindAdded
		if t.Special {
			kinds[t.ID] = kindSpecial
		}
	}
	whole := tok.Decode(ids)
	out := make([]shownToken, len(ids))
	sum := 0
	for i, id := range ids {
		b, _ := tok.Bytes(id)
		out[i] = shownToken{ID: id, Kind: kindText, raw: b}
		if k := kinds[id]; k != "" {
			out[i].Kind = k
		}
		sum += len(b)
	}
	// Some vocabularies read what begins a text otherwise than its inside.
	const beginning = 64 // tokens
	at := 0
	for i := range out {
		if sum != len(whole) && i < beginning {
			n := len(tok.Decode(ids[:i+1])) - at
			sum += n - len(out[i].raw)
			out[i].raw = whole[at : at+n]
		}
		t := &out[i]
		t.Start, t.End = at, at+len(t.raw)
		at = t.End
		t.Text, t.Bytes = strings.ToValidUTF8(string(t.raw), string(utf8.RuneError)), hex.EncodeToString(t.raw)
	}
	return out, whole
}

// stretch is a range of bytes.
type stretch struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Bytes string `json:"bytes"` // in hexadecimal
}

// invalid lists what of b is no UTF-8.
func invalid(b []byte) []stretch {
	out := []stretch{}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			if last := len(out) - 1; last >= 0 && out[last].End == i {
				out[last].End++
			} else {
				out = append(out, stretch{Start: i, End: i + 1})
			}
		}
		i += n
	}
	for i, s := range out {
		out[i].Bytes = hex.EncodeToString(b[s.Start:s.End])
	}
	return out
}

// showFlag says what people are shown.
type showFlag struct {
	what    string
	choices []string
}

const (
	showTable = "table"
	showText  = "text"
	showIDs   = "ids"
	showBytes = "bytes"
)

// add declares the flag; the first choice is the default.
func (s *showFlag) add(c *cobra.Command, choices ...string) {
	s.choices = choices
	c.Flags().StringVar(&s.what, "show", choices[0], "what is printed: "+strings.Join(choices[:len(choices)-1], ", ")+" or "+choices[len(choices)-1])
}

func (s *showFlag) check() error {
	for _, c := range s.choices {
		if s.what == c {
			return nil
		}
	}
	return fault.New(fault.BadFlag, "--show is %s, not %q", strings.Join(s.choices, ", "), s.what)
}

// paint is how text is written: in colour, and without what would command a terminal, in a terminal and nowhere else.
type paint struct{ colour, terminal bool }

const (
	dim    = "2"
	green  = "32"
	purple = "35"
	cyan   = "36"
	red    = "31"
)

func (a *app) paint() paint {
	f, ok := a.Out.(*os.File)
	terminal := ok && term.IsTerminal(int(f.Fd()))
	return paint{terminal && a.Env("NO_COLOR") == "" && a.Env("TERM") != "dumb", terminal}
}

func (p paint) in(colour, s string) string {
	if !p.colour || colour == "" || s == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// text is s as it is, but for a terminal with its control characters spelled out: a policy or a harness wrote it.
func (p paint) text(s string) string {
	if !p.terminal {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// write prints what a command is asked to show, through one buffer.
func (a *app) write(do func(w io.Writer, p paint)) error {
	w := bufio.NewWriter(a.Out)
	do(w, a.paint())
	return writeError(w.Flush())
}

// table prints tokens one a line. With places each says whose text it is: the template's own is dim.
func table(w io.Writer, p paint, tokens []shownToken, places bool) {
	const most = 12 // bytes of a token
	fmt.Fprintln(w, p.in(dim, fmt.Sprintf("%7s %7s  %-7s %-*s  %s", "offset", "id", "kind", 2*most+1, "bytes", head(places))))
	for _, t := range tokens {
		b := t.Bytes
		if len(b) > 2*most {
			b = b[:2*most] + "…"
		}
		place, colour := "", ""
		if places {
			place, colour = strings.Repeat(" ", placeWidth), dim
			if t.origin != nil {
				place, colour = fmt.Sprintf("%7d %-9s %-9s ", t.Message, t.Role, t.Field), green
			}
		}
		kind := map[string]string{kindAdded: cyan, kindSpecial: purple}[t.Kind]
		if kind != "" {
			colour = kind
		}
		fmt.Fprintf(w, "%7d %7d  %s %s  %s%s\n", t.Start, t.ID, p.in(kind, fmt.Sprintf("%-7s", t.Kind)),
			p.in(dim, fmt.Sprintf("%-*s", 2*most+1, b)), place, p.in(colour, strconv.Quote(string(t.raw))))
	}
}

const placeWidth = 28

func head(places bool) string {
	if places {
		return fmt.Sprintf("%7s %-9s %-9s token", "message", "role", "field")
	}
	return "token"
}

// counted sums up what a table shows.
func counted(tokens []shownToken, bytes int) string {
	n := map[string]int{}
	for _, t := range tokens {
		n[t.Kind]++
	}
	return fmt.Sprintf("ids %d, bytes %d, special tokens %d, other added tokens %d", len(tokens), bytes, n[kindSpecial], n[kindAdded])
}
