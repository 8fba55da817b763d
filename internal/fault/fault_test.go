package fault

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "regenerate spec/errors.md")

const errorsHead = `# Errors

Version 1. Made from the table in internal/fault; a test keeps both equal.

Every failure carries one code of this closed table. The code is its identity: exit codes, HTTP statuses and retries follow
from it, never from the text. A message says what happened, where, and what to do.

- *boundary*: the border at which it arose. *HTTP*: the status where it is answered over HTTP. *exit*: the exit code of a
  command that ends with it (0 is success; 2 means that the call itself was wrong). *retry*: whether the same thing may succeed
  when tried again.
- With ` + "`--json`" + ` a failed command prints ` + "`{\"error\":{\"code\",\"boundary\",\"retry\",\"message\"}}`" + ` as its last line.

| code | boundary | HTTP | exit | retry | meaning |
|---|---|---|---|---|---|
`

func TestTheWrittenTableIsTheTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(errorsHead)
	order := []Boundary{Client, Config, Model, Engine, Session, Artifact, Sandbox, Harness, Task, Verifier, Trainer, Internal}
	n := 0
	for _, at := range order {
		for _, c := range Codes() {
			if i := c.Info(); i.Boundary == at {
				retry := ""
				if i.Retry {
					retry = "yes"
				}
				fmt.Fprintf(&b, "| `%s` | %s | %d | %d | %s | %s |\n", c, at, i.HTTP, i.Exit, retry, i.Meaning)
				n++
			}
		}
	}
	if n != len(table) {
		t.Fatalf("%d rows have a boundary of the list, %d are in the table", n, len(table))
	}
	path := filepath.Join("..", "..", "spec", "errors.md")
	if *rewrite {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Error("spec/errors.md differs from the table; run: go test ./internal/fault -rewrite")
	}
}

func TestAWrappedErrorKeepsItsFirstCode(t *testing.T) {
	inner := New(EngineCut, "the stream ended")
	err := Wrap(StoreFailed, fmt.Errorf("later: %w", inner), "writing")
	if CodeOf(err) != EngineCut {
		t.Errorf("got %s", CodeOf(err))
	}
	if CodeOf(Wrap(StoreFailed, errors.New("plain"), "writing")) != StoreFailed {
		t.Error("a plain error did not get the code")
	}
	if Wrap(StoreFailed, nil, "writing") != nil || CodeOf(nil) != "" || CodeOf(errors.New("x")) != InternalError {
		t.Error("nil and plain errors")
	}
}

func TestAFixIsToldAfterTheCause(t *testing.T) {
	err := &Error{Code: BadFlag, Msg: "bad", Err: errors.New("cause"), Fix: "do this"}
	if got := err.Error(); got != "bad: cause (do this)" {
		t.Errorf("got %q", got)
	}
}

func TestEveryRowIsComplete(t *testing.T) {
	for c, i := range table {
		if i.Boundary == "" || i.HTTP < 400 || i.Exit < 1 || i.Meaning == "" {
			t.Errorf("%s: %+v", c, i)
		}
	}
	if Code("no such code").Info() != table[InternalError] {
		t.Error("a foreign code does not read as internal_error")
	}
}
