// Package dialect is the contract of a wire API that harnesses speak: request bytes become a [chat.Request], a
// [chat.Reply] becomes response bytes. One folder below is one API.
//
// It is pure: no sockets, no clock, no ids of its own. The host brings [Meta] and writes what it gets.
package dialect

import (
	"errors"
	"fmt"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/fault"
)

// Dialect is one wire API. It is immutable and safe for concurrent use.
type Dialect interface {
	// Name is the API's name, such as "chat_completions".
	Name() string
	// Path is where calls are posted, below the base URL, such as "/chat/completions".
	Path() string
	// ParseRequest reads a request body. Every field is honoured exactly, recorded in the request, or refused: the error
	// names the field and is fault.BadRequest, UnsupportedField or UnsupportedPart. It keeps nothing of body.
	ParseRequest(body []byte) (chat.Request, error)
	// Reply encodes a whole answer as one JSON document.
	Reply(Meta, chat.Request, chat.Reply) []byte
	// Stream starts a streamed answer.
	Stream(Meta, chat.Request) Stream
	// Failure encodes an error that is answered instead of a reply.
	Failure(err error) Failure
}

// Meta is what an answer says about itself.
type Meta struct {
	ID      string // of the answer, such as "chatcmpl-…"
	Created int64  // Unix seconds
	Model   string // the name that the harness asked for, or the served one
}

// Stream encodes one streamed answer. Each method returns bytes to write as they are, possibly none. It is not safe for
// concurrent use.
type Stream interface {
	// KeepAlive is what may be written at any time between other writes; clients skip it.
	KeepAlive() []byte
	// Reasoning and Content are pieces of the reply that are certain already. Sending none is as good: Finish sends
	// what is missing.
	Reasoning(text string) []byte
	Content(text string) []byte
	// Finish sends what the pieces left out of reply, its calls, finish reason and usage, and the end of the stream. The
	// pieces must be a prefix of the reply's texts.
	Finish(reply chat.Reply) []byte
}

// Failure is an error as the harness gets it. A failure after the first byte of a stream is not encoded: the connection
// is closed, because harnesses try a dropped call again and give up at an error event.
type Failure struct {
	Status int
	Body   []byte // JSON
	Retry  bool   // whether the same call may succeed later
}

// FieldError is a fault that names the request's field, such as "messages[2].content[0]".
type FieldError struct {
	Param string
	Fault *fault.Error
}

func (e *FieldError) Error() string { return e.Fault.Error() }

// Unwrap returns the fault.
func (e *FieldError) Unwrap() error { return e.Fault }

// Param is the field that err names, or "".
func Param(err error) string {
	var f *FieldError
	if errors.As(err, &f) {
		return f.Param
	}
	return ""
}

// ContextLength is the refusal of a prompt that does not fit, in the words by which harnesses know to compact their
// history: limit and prompt count tokens, completion is what was asked for beside the prompt (0 = nothing said).
func ContextLength(limit, prompt, completion int) *fault.Error {
	s := fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the messages, "+
		"%d in the completion). Please reduce the length of the messages or completion.", limit, prompt+completion, prompt, completion)
	if completion <= 0 {
		s = fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. "+
			"Please reduce the length of the messages.", limit, prompt)
	}
	return &fault.Error{Code: fault.ContextLength, Msg: s}
}
