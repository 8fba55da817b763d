package vllm

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/ojson"
	"github.com/tito-rl/tito/internal/token"
)

// Generate implements [engine.Engine]. It returns when the server's headers are there.
func (c *Client) Generate(ctx context.Context, r engine.Request) (engine.Stream, error) {
	if len(r.IDs) == 0 || r.MaxTokens < 1 {
		return nil, fault.New(fault.BadRequest, "a generation needs a prompt and room for at least one id")
	}
	body, err := c.body(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		cancel(nil)
		return nil, fault.Wrap(fault.BadConfig, err, "the engine's URL")
	}
	c.headers(req)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	if r.Key != "" {
		req.Header.Set("X-Request-Id", r.Key)
	}
	idle := time.AfterFunc(c.c.Idle, func() { cancel(errIdle) })
	res, err := c.http.Do(req)
	if err == nil && res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // what could be read of it
		res.Body.Close()
		err = refusal(res.StatusCode, res.Header, text)
		idle.Stop()
		cancel(nil)
		return nil, err
	}
	if err != nil {
		err = c.unreachable(ctx, err)
		idle.Stop()
		cancel(nil)
		return nil, err
	}
	return &stream{
		ctx: ctx, cancel: cancel, idle: idle, wait: c.c.Idle, body: res.Body,
		in: bufio.NewReaderSize(res.Body, 8<<10), prompt: r.IDs, stops: r.Stops,
		stop: -1, usage: -1, final: engine.Final{StopToken: -1},
	}, nil
}

// body writes the request. What a field means when it is absent is the server's to decide (vLLM takes sampling settings
// from the model's generation_config), so every one is sent.
func (c *Client) body(r engine.Request) ([]byte, error) {
	s := r.Sampling
	for _, f := range []float64{s.Temperature, s.TopP, s.MinP, s.PresencePenalty, s.FrequencyPenalty, s.RepetitionPenalty} {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fault.New(fault.BadRequest, "a sampling setting is not a finite number")
		}
	}
	model := r.Model
	if model == "" {
		model = c.c.Model
	}
	b := make([]byte, 0, 768+7*len(r.IDs))
	b = append(b, '{')
	if model != "" {
		b = appendString(b, "model", model)
		b = append(b, ',')
	}
	b = appendIDs(b, "prompt", r.IDs)
	b = append(b, `,"n":1,"stream":true,"stream_options":{"include_usage":true},"logprobs":0,"return_token_ids":true,`+
		`"return_tokens_as_token_ids":true,"include_stop_str_in_output":true,"skip_special_tokens":false,`+
		`"spaces_between_special_tokens":false,"add_special_tokens":false`...)
	b = appendInt(b, "max_tokens", int64(r.MaxTokens))
	b = appendFloat(b, "temperature", s.Temperature)
	b = appendFloat(b, "top_p", s.TopP)
	b = appendInt(b, "top_k", int64(s.TopK))
	b = appendFloat(b, "min_p", s.MinP)
	b = appendFloat(b, "presence_penalty", s.PresencePenalty)
	b = appendFloat(b, "frequency_penalty", s.FrequencyPenalty)
	b = appendFloat(b, "repetition_penalty", s.RepetitionPenalty)
	if s.Seed != nil {
		b = appendInt(b, "seed", *s.Seed)
	}
	if len(s.Stop) > 0 {
		b = append(b, `,"stop":[`...)
		for i, t := range s.Stop {
			if i > 0 {
				b = append(b, ',')
			}
			b = ojson.AppendString(b, t)
		}
		b = append(b, ']')
	}
	if len(r.Stops) > 0 {
		b = append(b, ',')
		b = appendIDs(b, "stop_token_ids", r.Stops)
	}
	if r.Salt != "" {
		b = append(b, ',')
		b = appendString(b, "cache_salt", r.Salt)
	}
	if r.Affinity != "" {
		b = append(b, ',')
		b = appendString(b, "session_id", r.Affinity)
	}
	if c.c.Priority != 0 {
		b = appendInt(b, "priority", int64(c.c.Priority))
	}
	if c.c.Interval > 0 {
		b = appendInt(b, "stream_interval", int64(c.c.Interval))
	}
	return append(b, '}'), nil
}

func appendString(b []byte, key, s string) []byte {
	b = append(b, '"')
	b = append(b, key...)
	b = append(b, `":`...)
	return ojson.AppendString(b, s)
}

func appendIDs(b []byte, key string, ids []token.ID) []byte {
	b = append(b, '"')
	b = append(b, key...)
	b = append(b, `":[`...)
	b = token.AppendList(b, ids)
	return append(b, ']')
}

func appendInt(b []byte, key string, n int64) []byte {
	b = append(b, `,"`...)
	b = append(b, key...)
	b = append(b, `":`...)
	return strconv.AppendInt(b, n, 10)
}

func appendFloat(b []byte, key string, f float64) []byte {
	b = append(b, `,"`...)
	b = append(b, key...)
	b = append(b, `":`...)
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}
