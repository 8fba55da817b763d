package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
)

// encoded is what encode prints with --json.
type encoded struct {
	Model  string       `json:"model"`
	IDs    []token.ID   `json:"ids"`
	Exact  bool         `json:"exact"` // the ids stand for the text byte for byte; else the tokenizer changed it first
	Tokens []shownToken `json:"tokens"`
}

func (a *app) encode() *cobra.Command {
	var dir string
	var body, jsonl bool
	var show showFlag
	c := &cobra.Command{
		Use: "encode [TEXT | -]", Short: "Turn text into token ids",
		Long: "The ids are those of Hugging Face's encode(text, add_special_tokens=False): added tokens that the text spells match. Standard\n" +
			"input is taken as it is, its last newline included. With --jsonl the argument is a file: a JSON string a line in, an array of\n" +
			"ids a line out.",
		Args: mostOne("text"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := show.check(); err != nil {
				return err
			}
			tok, err := loadTokenizer(dir)
			if err != nil {
				return err
			}
			ids := tok.Encode
			if body {
				ids = tok.EncodeBody
			}
			if jsonl {
				return a.jsonLines(c.Context(), args, func(dst []byte, v ojson.Value) ([]byte, error) {
					if err := plainText(v); err != nil {
						return nil, err
					}
					return appendIDs(dst, ids(v.Str())), nil
				})
			}
			text, err := a.typed(c, args)
			if err != nil {
				return err
			}
			e := encoded{Model: dir, IDs: append([]token.ID{}, ids(text)...)}
			var spelled []byte
			e.Tokens, spelled = tokensOf(tok, e.IDs)
			e.Exact = string(spelled) == text
			if a.json {
				a.printJSON(e)
				return nil
			}
			return a.write(func(w io.Writer, p paint) {
				switch show.what {
				case showIDs:
					fmt.Fprintf(w, "%s\n", appendIDs(nil, e.IDs))
				case showText:
					fmt.Fprintln(w, p.text(string(spelled)))
				default:
					table(w, p, e.Tokens, false)
					fmt.Fprintln(w, counted(e.Tokens, len(spelled)))
					if !e.Exact {
						fmt.Fprintf(w, "note: the tokenizer changed the text, which has %d bytes; offsets are those of what the ids stand for\n", len(text))
					}
				}
			})
		},
	}
	modelFlag(c, &dir, "a tokenizer (tokenizer.json, tekken.json or a tiktoken file)")
	show.add(c, showTable, showIDs, showText)
	c.Flags().BoolVar(&body, "body", false, "what spells an added token stays text, as in a message")
	c.Flags().BoolVar(&jsonl, "jsonl", false, "JSON strings in, arrays of ids out, a line each")
	return c
}

// typed is the text that a person gave as an argument or on standard input.
func (a *app) typed(c *cobra.Command, args []string) (string, error) {
	if len(args) == 1 && args[0] != "-" {
		return args[0], nil
	}
	b, _, err := a.readAll(c.Context(), nil)
	if !utf8.Valid(b) && err == nil {
		bad := invalid(b)[0]
		fmt.Fprintf(a.Err, "note: standard input is not UTF-8 at byte %d (%s)\n", bad.Start, short(bad.Bytes))
	}
	return string(b), err
}

// plainText refuses what is no string of Unicode text.
func plainText(v ojson.Value) error {
	switch {
	case v.Kind() != ojson.String:
		return fault.New(fault.BadRequest, "the text must be a string, not %s", v.Kind())
	case ojson.HasLoneSurrogate(v.Str()):
		return fault.New(fault.BadRequest, "the text holds half of a surrogate pair, which is no text")
	}
	return nil
}

// decoded is what decode prints with --json.
type decoded struct {
	Model   string       `json:"model"`
	IDs     []token.ID   `json:"ids"`
	Text    string       `json:"text"`
	Invalid []stretch    `json:"invalid"` // what of the bytes is no UTF-8, and U+FFFD in the text
	Tokens  []shownToken `json:"tokens"`
}

func (a *app) decode() *cobra.Command {
	var dir string
	var jsonl bool
	var show showFlag
	c := &cobra.Command{
		Use: "decode [IDS… | -]", Short: "Turn token ids into text",
		Long: "Ids are numbers or a JSON array of them, as arguments or on standard input. Special tokens are spelled out. Bytes that are no\n" +
			"UTF-8 become U+FFFD and are named; --show bytes prints them as they are. With --jsonl the argument is a file: an array of ids a\n" +
			"line in, a JSON string a line out.",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := show.check(); err != nil {
				return err
			}
			if jsonl && len(args) > 1 {
				return fault.New(fault.BadFlag, "decode --jsonl takes one file")
			}
			tok, err := loadTokenizer(dir)
			if err != nil {
				return err
			}
			if jsonl {
				return a.jsonLines(c.Context(), args, func(dst []byte, v ojson.Value) ([]byte, error) {
					ids, err := idsOf(v)
					if err == nil {
						err = known(tok, ids)
					}
					if err != nil {
						return nil, err
					}
					d := tok.NewDecoder()
					return ojson.AppendString(dst, d.Add(ids...)+d.Done()), nil
				})
			}
			text := strings.Join(args, " ")
			if len(args) == 0 || text == "-" {
				if text, err = a.typed(c, nil); err != nil {
					return err
				}
			}
			ids, err := typedIDs(text)
			if err != nil {
				return err
			}
			if err := known(tok, ids); err != nil {
				return err
			}
			tokens, b := tokensOf(tok, ids)
			d := tok.NewDecoder()
			return a.showDecoded(decoded{Model: dir, IDs: ids, Text: d.Add(ids...) + d.Done(), Invalid: invalid(b), Tokens: tokens}, b, show.what)
		},
	}
	modelFlag(c, &dir, "a tokenizer (tokenizer.json, tekken.json or a tiktoken file)")
	show.add(c, showText, showTable, showBytes)
	c.Flags().BoolVar(&jsonl, "jsonl", false, "arrays of ids in, JSON strings out, a line each")
	return c
}

func (a *app) showDecoded(d decoded, b []byte, what string) error {
	if a.json {
		a.printJSON(d)
		return nil
	}
	err := a.write(func(w io.Writer, p paint) {
		switch what {
		case showBytes:
			_, _ = w.Write(b) // the flush says what went wrong
		case showTable:
			table(w, p, d.Tokens, false)
			fmt.Fprintln(w, counted(d.Tokens, len(b)))
		default:
			fmt.Fprintln(w, p.text(d.Text))
		}
	})
	for _, s := range d.Invalid {
		fmt.Fprintf(a.Err, "note: bytes %d to %d (%s) are not UTF-8\n", s.Start, s.End-1, short(s.Bytes))
	}
	return err
}
