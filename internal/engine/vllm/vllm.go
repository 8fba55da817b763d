// Package vllm is a client of vLLM's completions API with token ids in and out.
//
// It promises: the prompt is sent as ids and the ids that the server reports are the same; the sampled ids are the
// server's own (return_token_ids), none missing by the server's count, the stop among them, as vLLM keeps the stop in its
// ids; a log probability that is labelled with another id than the one beside it is reported as NaN. By vLLM's default log
// probabilities are those before temperature and truncation; Config.Processed says that the server runs with
// --logprobs-mode processed_logprobs.
//
// It cannot promise which weights sampled an id, unless the server sends weight_versions with its completions. vLLM has no
// code for a request over the context limit: that one is known by the words "maximum context length". An infinite log
// probability comes as -9999.0 and is reported as -Inf. The server must know return_token_ids (vLLM 0.10.2 and later).
package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
)

// Config says which server to talk to, and how.
type Config struct {
	URL       string            // http://host:port, with or without /v1
	Model     string            // name that the server serves; "" = the first that it lists
	APIKey    string            // sent as a bearer token; "" = none
	Header    map[string]string // more headers for each request
	Processed bool              // the server reports processed log probabilities
	Priority  int               // needs a server with priority scheduling; 0 = not sent
	Interval  int               // most ids a chunk, where the server knows stream_interval; 0 = the server's own
	Idle      time.Duration     // longest wait for the next byte; 0 = 10 minutes
	Transport http.RoundTripper // nil = one of its own, fit for many streams at once
}

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	c    Config
	base string
	http *http.Client
}

var _ engine.Engine = (*Client)(nil)

// New makes a client. It does not talk to the server; a URL that is not http or https is a [fault.BadConfig].
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fault.New(fault.BadConfig, "the engine's URL %q is not an http or https address", c.URL)
	}
	if c.Idle == 0 {
		c.Idle = 10 * time.Minute
	}
	if c.Transport == nil {
		c.Transport = transport()
	}
	base := strings.TrimSuffix(strings.TrimRight(c.URL, "/"), "/v1")
	return &Client{c: c, base: base, http: &http.Client{Transport: c.Transport}}, nil
}

// transport keeps one connection a stream and throws none away: HTTP/1.1, because a cancelled request must end its
// connection for the server to stop at once.
func transport() *http.Transport {
	return &http.Transport{
		Proxy:               nil,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
		WriteBufferSize:     16 << 10,
		ReadBufferSize:      8 << 10,
	}
}

// CloseIdle closes connections that no stream uses.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Info implements [engine.Engine]: it asks for the model and, where the server tells, the version of its weights.
func (c *Client) Info(ctx context.Context) (engine.Info, error) {
	var models struct {
		Data []struct {
			ID          string `json:"id"`
			MaxModelLen int    `json:"max_model_len"`
		} `json:"data"`
	}
	if err := c.get(ctx, "/v1/models", &models); err != nil {
		return engine.Info{}, err
	}
	info := engine.Info{Kind: "vllm", Model: c.c.Model, EchoesIDs: true, ReturnsStop: true, Processed: c.c.Processed}
	found := false
	for _, m := range models.Data {
		if c.c.Model == "" || m.ID == c.c.Model {
			info.Model, info.MaxContext, found = m.ID, m.MaxModelLen, true
			break
		}
	}
	if !found {
		return engine.Info{}, fault.New(fault.EngineStatus, "the engine at %s does not serve the model %q", c.base, c.c.Model).
			WithFix("use a name that %s/v1/models lists", c.base)
	}
	var weights struct {
		Version string `json:"weight_version"`
	}
	if err := c.get(ctx, "/weight_info", &weights); err == nil { // served in vLLM's development mode only
		info.Version = weights.Version
	}
	return info, nil
}

// Server asks for the version of the server's program.
func (c *Client) Server(ctx context.Context) (string, error) {
	var v struct {
		Version string `json:"version"`
	}
	err := c.get(ctx, "/version", &v)
	return v.Version, err
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return fault.Wrap(fault.BadConfig, err, "the engine's URL")
	}
	c.headers(req)
	res, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(ctx, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 8<<20))
	if err != nil {
		return c.unreachable(ctx, err)
	}
	if res.StatusCode != http.StatusOK {
		return refusal(res.StatusCode, res.Header, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &fault.Error{Code: fault.EngineProtocol, Msg: "the engine's answer to " + path, Err: err}
	}
	return nil
}

func (c *Client) headers(req *http.Request) {
	for k, v := range c.c.Header {
		req.Header.Set(k, v)
	}
	if c.c.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.c.APIKey)
	}
}

// unreachable gives a failed round trip its code; the caller's own cancelling is not the engine's failure.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if e := gone(ctx); e != nil {
		return e
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the URL is in the message already
	}
	return &fault.Error{Code: fault.EngineUnreachable, Msg: "the engine at " + c.base, Err: err}
}

func gone(ctx context.Context) error {
	switch err := context.Cause(ctx); {
	case err == nil:
		return nil
	case errors.Is(err, errIdle):
		return &fault.Error{Code: fault.EngineUnreachable, Msg: "the engine", Err: err}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &fault.Error{Code: fault.EngineUnreachable, Msg: "the engine gave no answer in time", Err: ctx.Err()}
	default:
		return &fault.Error{Code: fault.ClientGone, Msg: "the generation was cancelled", Err: ctx.Err()}
	}
}

var errIdle = errors.New("sent nothing for too long")

// refusal reads an error status. vLLM answers {"error":{"message","type","param","code"}}; older versions the inner object,
// proxies anything.
func refusal(status int, h http.Header, body []byte) error {
	msg := message(body)
	switch {
	case status == http.StatusBadRequest && strings.Contains(msg, "maximum context length"):
		return fault.New(fault.ContextLength, "%s", msg)
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable, status == http.StatusRequestTimeout:
		e := fault.New(fault.EngineBusy, "the engine answered with status %d: %s", status, msg)
		if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s > 0 {
			e.Err = &engine.Busy{After: time.Duration(s) * time.Second}
		}
		return e
	case status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		return fault.New(fault.EngineUnreachable, "the engine cannot be reached through its proxy: status %d: %s", status, msg)
	}
	e := fault.New(fault.EngineStatus, "the engine answered with status %d: %s", status, msg)
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		return e.WithFix("check the engine's key")
	}
	return e
}

// message finds the words of an error body.
func message(body []byte) string {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(body, &e) == nil {
		if e.Message != "" {
			return e.Message
		}
		var inner struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(e.Error, &inner) == nil && inner.Message != "" {
			return inner.Message
		}
	}
	const most = 400
	if len(body) > most {
		return fmt.Sprintf("%.*s…", most, body)
	}
	return strings.TrimSpace(string(body))
}
