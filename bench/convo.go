package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/tito-rl/tito/internal/ojson"
)

// convo is a harness's side of a conversation: the request body grows by the answer as it came, and a tool's result.
type convo struct{ body []byte } // up to and without the end of the list of messages

const (
	bodyOpen  = `{"model":"policy","stream":false,"tools":[` + toolsJSON + `],"messages":[`
	bodyClose = `]}`
	toolsJSON = `{"type":"function","function":{"name":"bash","description":"Run a command in the project's folder and return what it prints.",` +
		`"parameters":{"type":"object","properties":{"command":{"type":"string","description":"The command."},"timeout":{"type":"integer"}},"required":["command"]}}},` +
		`{"type":"function","function":{"name":"edit","description":"Replace a text in a file by another.",` +
		`"parameters":{"type":"object","properties":{"path":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"}},"required":["path","old","new"]}}}`
	systemPrompt = "You are an agent that works on a software project. Read before you write. Use the tools; say what you found in few words."
)

func newConvo(task string) *convo {
	c := &convo{body: []byte(bodyOpen)}
	c.add("system", systemPrompt)
	c.body = append(c.body, ',')
	c.add("user", task)
	return c
}

func (c *convo) add(role, content string) {
	c.body = append(c.body, `{"role":"`+role+`","content":`...)
	c.body = append(ojson.AppendString(c.body, content), '}')
}

// request is the body of the next call.
func (c *convo) request() []byte { return append(bytes.Clone(c.body), bodyClose...) }

// answer takes in a reply's message, as the harness got it, and the result of its tool call.
func (c *convo) answer(response []byte, result string) error {
	var r struct {
		Choices []struct {
			Message json.RawMessage `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(response, &r); err != nil || len(r.Choices) != 1 {
		return fmt.Errorf("no answer in %.200s", response)
	}
	var m struct {
		Calls []struct {
			ID string `json:"id"`
		} `json:"tool_calls"`
	}
	if err := json.Unmarshal(r.Choices[0].Message, &m); err != nil || len(m.Calls) != 1 {
		return fmt.Errorf("no call in %.200s", r.Choices[0].Message)
	}
	c.body = append(append(append(c.body, ','), r.Choices[0].Message...), `,{"role":"tool","tool_call_id":`...)
	c.body = append(ojson.AppendString(c.body, m.Calls[0].ID), `,"content":`...)
	c.body = append(ojson.AppendString(c.body, result), '}')
	return nil
}

// endpoint is what a sidecar tells its harness.
type endpoint struct {
	BaseURL    string `json:"base_url"`
	Key        string `json:"api_key"`
	Trajectory string `json:"trajectory_id"`
}

// post makes one call and reads all of its answer.
func post(ctx context.Context, c *http.Client, e endpoint, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.BaseURL+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+e.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", res.StatusCode, b)
	}
	return b, err
}
