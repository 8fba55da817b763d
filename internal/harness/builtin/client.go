package builtin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// client speaks streaming Chat Completions.
type client struct {
	spec Spec
	http *http.Client
}

func newClient(spec Spec) *client { return &client{spec: spec, http: &http.Client{}} }

// apiError is an answer that refuses the request.
type apiError struct {
	Status int
	Code   string
	Text   string
	after  time.Duration
}

func (e *apiError) Error() string {
	return fmt.Sprintf("the endpoint answered %d: %s", e.Status, e.Text)
}

const retries = 4

// complete asks for the next message. An answer that is dropped, or a status that asks for it, is tried again under the
// same idempotency key, so that the policy is not sampled twice for one step.
func (c *client) complete(ctx context.Context, history []message, turn int) (message, error) {
	wait := 200 * time.Millisecond
	for attempt := 0; ; attempt++ {
		m, err := c.once(ctx, history, turn, attempt)
		if err == nil || ctx.Err() != nil {
			return m, err
		}
		var api *apiError
		if errors.As(err, &api) && api.Status != http.StatusTooManyRequests && api.Status < 500 || attempt == retries {
			return m, err
		}
		pause := wait << attempt
		if api != nil && api.after > 0 {
			pause = api.after
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return m, ctx.Err()
		}
	}
}

func (c *client) once(ctx context.Context, history []message, turn, attempt int) (message, error) {
	body := map[string]any{
		"model": c.spec.Model, "messages": history, "tools": tools, "stream": true,
		"stream_options": map[string]bool{"include_usage": true},
	}
	if c.spec.MaxTokens > 0 {
		body["max_tokens"] = c.spec.MaxTokens
	}
	b, err := json.Marshal(body)
	if err != nil {
		return message{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.spec.BaseURL, "/")+"/chat/completions", bytes.NewReader(b))
	if err != nil {
		return message{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.spec.APIKey)
	req.Header.Set("User-Agent", "tito-agent/"+Version)
	req.Header.Set("Idempotency-Key", fmt.Sprintf("%s/%d", c.spec.Session, turn))
	if c.spec.Session != "" {
		req.Header.Set("X-Session-Id", c.spec.Session)
	}
	if attempt > 0 {
		req.Header.Set("X-Retry-Count", strconv.Itoa(attempt))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return message{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return message{}, refusal(resp)
	}
	return readStream(resp.Body)
}

func refusal(resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	e := &apiError{Status: resp.StatusCode, Text: strings.TrimSpace(string(b))}
	var wire struct {
		Error struct{ Message, Code string }
	}
	if json.Unmarshal(b, &wire) == nil && wire.Error.Message != "" {
		e.Text, e.Code = wire.Error.Message, wire.Error.Code
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		e.after = time.Duration(s) * time.Second
	}
	return e
}

// chunk is what the agent reads of a stream's event.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content   *string `json:"content"`
			Reasoning string  `json:"reasoning_content"`
			Calls     []struct {
				Index int `json:"index"`
				toolCall
			} `json:"tool_calls"`
		} `json:"delta"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
}

// readStream puts a streamed message together. A stream without its end is an error: nothing of it is used.
func readStream(r io.Reader) (message, error) {
	m := message{Role: "assistant"}
	finished := false
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return m, fmt.Errorf("the answer broke off: %w", err)
		}
		data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data:")
		if !ok {
			continue // an empty line, or a comment that keeps the connection alive
		}
		data = strings.TrimSpace(data)
		if data == "[DONE]" {
			if !finished {
				return m, errors.New("the answer has no finish_reason")
			}
			return m, nil
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return m, fmt.Errorf("the answer cannot be read: %w", err)
		}
		for _, ch := range c.Choices {
			m.Reasoning += ch.Delta.Reasoning
			if ch.Delta.Content != nil {
				s := *ch.Delta.Content
				if m.Content != nil {
					s = *m.Content + s
				}
				m.Content = &s
			}
			for _, d := range ch.Delta.Calls {
				if d.Index < 0 || d.Index > len(m.Calls) {
					return m, fmt.Errorf("the answer's tool call has index %d", d.Index)
				}
				if d.Index == len(m.Calls) {
					m.Calls = append(m.Calls, toolCall{ID: d.ID, Type: "function"})
				}
				call := &m.Calls[d.Index]
				call.Function.Name += d.Function.Name
				call.Function.Arguments += d.Function.Arguments
			}
			finished = finished || ch.Finish != ""
		}
	}
}
