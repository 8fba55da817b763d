package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
)

// interruptible reads r until its context ends, also while r waits for a person to type.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() { // may outlive the reading: nothing else can end a read of a terminal
		b := make([]byte, len(p))
		n, err := i.r.Read(b)
		done <- result{b[:n], err}
	}()
	select {
	case <-i.ctx.Done():
		return 0, i.ctx.Err()
	case got := <-done:
		return copy(p, got.b), got.err
	}
}

// source opens the file that an argument names; - or no argument is standard input. The name is for messages.
func (a *app) source(ctx context.Context, args []string) (r io.ReadCloser, name string, err error) {
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(interruptible{ctx, a.In}), "standard input", nil
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, "", fileError(args[0], err)
	}
	return struct {
		io.Reader
		io.Closer
	}{interruptible{ctx, f}, f}, args[0], nil
}

func (a *app) readAll(ctx context.Context, args []string) (b []byte, name string, err error) {
	r, name, err := a.source(ctx, args)
	if err != nil {
		return nil, "", err
	}
	defer r.Close()
	b, err = io.ReadAll(r)
	return b, name, readError(name, err)
}

func readError(name string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fault.Wrap(fault.Interrupted, err, "reading %s", name)
	}
	return fault.Wrap(fault.FileMissing, err, "reading %s", name)
}

// mostOne is a check of arguments.
func mostOne(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fault.New(fault.BadFlag, "%s takes one %s, not %d arguments", c.CommandPath(), what, len(args)).
				WithFix("quote a text with spaces")
		}
		return nil
	}
}

// jsonLines answers each line of the input with one line. do appends the answer to dst. An answer is written as soon as
// no further whole line waits, and what was answered before a bad line stays.
func (a *app) jsonLines(ctx context.Context, args []string, do func(dst []byte, v ojson.Value) ([]byte, error)) error {
	r, name, err := a.source(ctx, args)
	if err != nil {
		return err
	}
	defer r.Close()
	const size = 1 << 16
	in, out := bufio.NewReaderSize(r, size), bufio.NewWriterSize(a.Out, size)
	var answer []byte
	for n := 1; ; n++ {
		line, rerr := in.ReadBytes('\n')
		ended := errors.Is(rerr, io.EOF)
		if ended && len(line) == 0 {
			return writeError(out.Flush())
		}
		if rerr != nil && !ended {
			return errors.Join(readError(name, rerr), writeError(out.Flush()))
		}
		v, err := ojson.Parse(line)
		if err == nil {
			answer, err = do(answer[:0], v)
		}
		if err != nil {
			return errors.Join(fault.Wrap(fault.BadRequest, err, "%s, line %d", name, n), writeError(out.Flush()))
		}
		if _, err := out.Write(append(answer, '\n')); err != nil {
			return writeError(err)
		}
		if waiting, _ := in.Peek(in.Buffered()); bytes.IndexByte(waiting, '\n') < 0 {
			if err := out.Flush(); err != nil {
				return writeError(err)
			}
		}
	}
}

func writeError(err error) error {
	return fault.Wrap(fault.StoreFailed, err, "writing the result")
}

// idsOf reads a JSON array of ids.
func idsOf(v ojson.Value) ([]token.ID, error) {
	if v.Kind() != ojson.Array {
		return nil, fault.New(fault.BadRequest, "ids must be an array of numbers, not %s", v.Kind())
	}
	out := make([]token.ID, v.Len())
	for i, e := range v.Elems() {
		id, err := strconv.ParseUint(e.Num(), 10, 32)
		if err != nil {
			return nil, fault.New(fault.BadRequest, "%s is no id (at place %d)", short(string(e.Raw())), i)
		}
		out[i] = token.ID(id)
	}
	return out, nil
}

// typedIDs reads ids as people write them: a JSON array, or numbers with spaces or commas between them.
func typedIDs(s string) ([]token.ID, error) {
	if s = strings.TrimSpace(s); strings.HasPrefix(s, "[") {
		v, err := ojson.Parse([]byte(s))
		if err != nil {
			return nil, fault.Wrap(fault.BadRequest, err, "ids")
		}
		return idsOf(v)
	}
	out := []token.ID{}
	for i, word := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }) {
		id, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return nil, fault.New(fault.BadRequest, "%s is no id (at place %d)", short(strconv.Quote(word)), i)
		}
		out = append(out, token.ID(id))
	}
	return out, nil
}

func short(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
	}
	return s
}

func appendIDs(dst []byte, ids []token.ID) []byte {
	return append(token.AppendList(append(dst, '['), ids), ']')
}
