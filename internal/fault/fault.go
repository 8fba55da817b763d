// Package fault is the closed table of what can go wrong, and the one error type that carries it.
//
// Every error that leaves a package carries a [Code]. The code, never the text, is the identity of an error: tests,
// retries, HTTP statuses and exit codes follow from it alone. The text says what happened, where, and what to do.
package fault

import (
	"errors"
	"fmt"
)

// Code names one way of failing. The table in table.go lists them all; spec/errors.md is made from it.
type Code string

// Boundary is the border of the system at which a failure arose.
type Boundary string

// The boundaries.
const (
	Client   Boundary = "client"   // what a harness or caller asked for
	Config   Boundary = "config"   // flags, configuration, files named by the user
	Model    Boundary = "model"    // tokenizer, template, family
	Engine   Boundary = "engine"   // the inference engine
	Session  Boundary = "session"  // the state machine of a trajectory
	Artifact Boundary = "artifact" // journals and artifacts
	Sandbox  Boundary = "sandbox"  // containers and namespaces
	Harness  Boundary = "harness"  // the agent program
	Task     Boundary = "task"     // task files
	Verifier Boundary = "verifier" // a task's own tests and reward files
	Trainer  Boundary = "trainer"  // the loop and what learns in it
	Internal Boundary = "internal" // a bug of ours
)

// Info is a row of the table.
type Info struct {
	Boundary Boundary
	HTTP     int    // status where the failure is answered over HTTP
	Exit     int    // exit code of a command that ends with it
	Retry    bool   // whether the same thing may succeed when tried again
	Meaning  string // one line for spec/errors.md
}

// Error is a failure with its code. Msg says what happened and where; Fix, where there is one, what to do.
type Error struct {
	Code Code
	Msg  string
	Fix  string
	Err  error // the cause, or nil
}

func (e *Error) Error() string {
	s := e.Msg
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Fix != "" {
		s += " (" + e.Fix + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// WithFix returns a copy of e that says what to do.
func (e *Error) WithFix(format string, args ...any) *Error {
	c := *e
	c.Fix = fmt.Sprintf(format, args...)
	return &c
}

// New makes an error of the given code.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// Wrap gives err a code and says where it arose. An error that already has a code keeps its own: the first boundary
// that names a failure knows it best. Wrap of nil is nil.
func Wrap(code Code, err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	msg := fmt.Sprintf(format, args...)
	var had *Error
	if errors.As(err, &had) {
		code = had.Code
	}
	return &Error{Code: code, Msg: msg, Err: err}
}

// CodeOf is the code that err carries, [InternalError] where it carries none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return InternalError
}

// Info is the table's row for c; a code outside the table reads as [InternalError].
func (c Code) Info() Info {
	if i, ok := table[c]; ok {
		return i
	}
	return table[InternalError]
}
