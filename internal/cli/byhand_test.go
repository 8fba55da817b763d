package cli_test

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tito-rl/tito/internal/builtin"
	"github.com/tito-rl/tito/internal/cli"
)

// bundle DIR [WITHOUT…]: a copy of the built-in model's folder, less the files named.
func bundle(ts *testscript.TestScript, _ bool, args []string) {
	from, err := fs.Sub(builtin.Bundle, "bundle")
	ts.Check(err)
	ts.Check(os.CopyFS(ts.MkAbs(args[0]), from))
	for _, name := range args[1:] {
		ts.Check(os.Remove(ts.MkAbs(args[0] + "/" + name)))
	}
}

// tell runs one command line and gives what it printed and its exit code.
func tell(in io.Reader, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = cli.Run(context.Background(), args, cli.Streams{In: in, Out: &out, Err: &errs, Env: func(string) string { return "" }})
	return out.String(), errs.String(), code
}

// scriptWriter hands over each write, as a pipe's reader sees it.
type scriptWriter chan string

func (w scriptWriter) Write(p []byte) (int, error) { w <- string(p); return len(p), nil }

func TestALineIsAnsweredBeforeTheNextOneComes(t *testing.T) {
	r, w := io.Pipe()
	out := make(scriptWriter)
	done := make(chan int)
	go func() {
		done <- cli.Run(context.Background(), []string{"decode", "--jsonl"}, cli.Streams{In: r, Out: out, Err: io.Discard, Env: os.Getenv})
	}()
	for _, c := range [][2]string{{"[72]\n", "\"H\"\n"}, {"[72,72]\n[32]\n[", "\"HH\"\n\" \"\n"}, {"]", ""}} {
		if _, err := io.WriteString(w, c[0]); err != nil {
			t.Fatal(err)
		}
		if c[1] == "" {
			break
		}
		if got := <-out; got != c[1] {
			t.Errorf("%q is answered by %q", c[0], got)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-out; got != "\"\"\n" {
		t.Errorf("the last line, which has no end, is answered by %q", got)
	}
	if code := <-done; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestAReadThatWaitsIsInterrupted(t *testing.T) {
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	ctx, cancel := context.WithCancel(context.Background())
	reads := make(chan struct{})
	in := readerFunc(func(p []byte) (int, error) { close(reads); return r.Read(p) })
	go func() { <-reads; cancel() }()
	var errs bytes.Buffer
	code := cli.Run(ctx, []string{"encode"}, cli.Streams{In: in, Out: io.Discard, Err: &errs, Env: os.Getenv})
	if code != 130 || !strings.Contains(errs.String(), "[interrupted]") {
		t.Errorf("exit code %d: %s", code, &errs)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestAResultThatCannotBeWrittenIsAnError(t *testing.T) {
	for _, args := range [][]string{{"encode", "x"}, {"decode", "1"}, {"encode", "--jsonl"}, {"parse", "x"}, {"model", "check", "builtin"}} {
		code := cli.Run(context.Background(), args, cli.Streams{In: strings.NewReader("\"a\"\n"), Out: brokenWriter{}, Err: io.Discard, Env: os.Getenv})
		if code != 1 {
			t.Errorf("%s: exit code %d", args, code)
		}
	}
	broken := iotest.ErrReader(io.ErrUnexpectedEOF)
	for _, args := range [][]string{{"encode"}, {"encode", "--jsonl"}, {"render"}} {
		if _, stderr, code := tell(broken, args...); code != 2 || !strings.Contains(stderr, "[file_missing]") {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
}

// Whatever is typed, there is an answer or an error of the caller's: no panic, no error of ours.
func FuzzTypedInput(f *testing.F) {
	for _, s := range []string{"", "a <|im_end|>", "[1,2]", "[[]]", `"x"`, "1 2 -3", "\xff", "[4294967296]", `{"messages":[]}`,
		`{"messages":[{"role":"user","content":"a<think>"}],"add_generation_prompt":false,"template_kwargs":{"k":1}}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"a":"<|im_end|>"}}}]}],"tools":[{}]}`,
		`{"text":"<tool_call>\n{\"name\": \"f\"","request":{"messages":[{"role":"user","content":null}]},"stopped":true}`} {
		f.Add(s)
	}
	calls := [][]string{{"encode"}, {"encode", "--body"}, {"encode", "--jsonl"}, {"decode"}, {"decode", "--show", "table"}, {"decode", "--jsonl"},
		{"render"}, {"render", "--native"}, {"render", "--jsonl", "--native"}, {"parse"}, {"parse", "--text"}, {"parse", "--jsonl", "--stopped"}}
	f.Fuzz(func(t *testing.T, s string) {
		for _, c := range calls {
			for _, args := range [][]string{c, append([]string{"--json"}, c...)} {
				if _, stderr, code := tell(strings.NewReader(s), args...); code != 0 && code != 2 {
					t.Errorf("%s of %q: exit code %d, %s", args, s, code, stderr)
				}
			}
		}
		out, _, code := tell(strings.NewReader(s), "encode", "--show", "ids")
		if back, _, _ := tell(strings.NewReader(out), "decode", "--show", "bytes"); code != 0 || len(s) < 100 && isASCII(s) && back != s {
			t.Errorf("%q comes back as %q", s, back)
		}
	})
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
