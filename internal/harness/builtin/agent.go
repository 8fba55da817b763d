package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Exit codes of the agent program.
const (
	exitBroken  = 1 // the endpoint or the specification failed
	exitTurns   = 3 // it ran out of turns
	exitContext = 4 // the conversation no longer fits the context window
)

// Spec is what the agent reads from its standard input, as JSON.
type Spec struct {
	BaseURL     string            `json:"base_url"`
	APIKey      string            `json:"api_key"`
	Model       string            `json:"model"`
	Session     string            `json:"session,omitempty"`
	Instruction string            `json:"instruction"`
	Workdir     string            `json:"workdir"`
	Vars        map[string]string `json:"vars,omitempty"`
	Transcript  string            `json:"transcript,omitempty"` // one message a line
	MaxTurns    int               `json:"max_turns,omitempty"`  // 0 = 20
	MaxTokens   int               `json:"max_tokens,omitempty"` // 0 = not asked
}

const defaultTurns = 20

const systemPrompt = `You are an agent that works in a Linux sandbox. Use the tools to do the task that you are given.
Look before you change something, and check what you did. When the task is done, answer without a tool call.`

var tools = json.RawMessage(`[{"type": "function", "function": {"name": "bash", "description": "Run a bash command and see what it prints.", "parameters": {"type": "object", "properties": {"command": {"type": "string"}, "timeout": {"type": "number", "description": "seconds; 30 by default"}}, "required": ["command"]}}}, {"type": "function", "function": {"name": "edit", "description": "Replace a text that occurs once in a file.", "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "old": {"type": "string"}, "new": {"type": "string"}}, "required": ["path", "old", "new"]}}}]`)

// message is one message of the conversation. An assistant's is sent back as it came.
type message struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []toolCall `json:"tool_calls,omitempty"`
	CallID    string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func text(role, s string) message { return message{Role: role, Content: &s} }

// Main is the agent program: it reads a [Spec], acts until the policy answers without a tool call, and returns its exit
// code. Tool output and files are the sandbox's own; problems go to stderr.
func Main(ctx context.Context, stdin io.Reader, stderr io.Writer) int {
	var spec Spec
	if err := json.NewDecoder(stdin).Decode(&spec); err != nil {
		fmt.Fprintln(stderr, "agent: reading its specification:", err)
		return exitBroken
	}
	var log io.Writer = io.Discard
	if spec.Transcript != "" {
		f, err := os.Create(spec.Transcript)
		if err != nil {
			fmt.Fprintln(stderr, "agent:", err)
			return exitBroken
		}
		defer f.Close()
		log = f
	}
	err := act(ctx, spec, json.NewEncoder(log))
	var stop *apiError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errTurns):
		return exitTurns
	case errors.As(err, &stop) && stop.Code == "context_length_exceeded":
		fmt.Fprintln(stderr, "agent:", err)
		return exitContext
	}
	fmt.Fprintln(stderr, "agent:", err)
	return exitBroken
}

var errTurns = errors.New("out of turns")

func act(ctx context.Context, spec Spec, log *json.Encoder) error {
	c := newClient(spec)
	history := []message{text("system", systemPrompt), text("user", spec.Instruction)}
	for _, m := range history {
		if err := log.Encode(m); err != nil {
			return err
		}
	}
	limit := spec.MaxTurns
	if limit == 0 {
		limit = defaultTurns
	}
	add := func(m message) error {
		history = append(history, m)
		return log.Encode(m)
	}
	for turn := range limit {
		reply, err := c.complete(ctx, history, turn)
		if err != nil {
			return err
		}
		if err := add(reply); err != nil {
			return err
		}
		if len(reply.Calls) == 0 {
			return nil
		}
		for _, call := range reply.Calls {
			m := text("tool", run(ctx, spec, call.Function))
			m.CallID = call.ID
			if err := add(m); err != nil {
				return err
			}
		}
	}
	return errTurns
}
