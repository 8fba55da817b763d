package rehearsal

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
	policy "github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/token"
)

const maxBody = 256 << 20

// Handler serves the engine as a vLLM server does: POST /v1/completions (prompt as ids, one completion), GET /v1/models,
// /version, /weight_info and /health. Request fields that it cannot honour are refused with a 400 that names them. Faults
// happen on the wire: a drop really cuts the connection.
func (e *Engine) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/completions", e.completions)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{"id": e.c.Model, "object": "model",
			"owned_by": "tito", "root": e.c.Model, "max_model_len": e.c.MaxContext}}})
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]string{"version": "tito-rehearsal"})
	})
	mux.HandleFunc("GET /weight_info", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]string{"weight_version": e.Weights().Version()})
	})
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" && e.c.APIKey != "" &&
			subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+e.c.APIKey)) != 1 {
			reply(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// wireRequest is the body of a completions request, as far as it is honoured or refused.
type wireRequest struct {
	Model             string          `json:"model"`
	Prompt            json.RawMessage `json:"prompt"`
	MaxTokens         *int            `json:"max_tokens"`
	N                 *int            `json:"n"`
	Stream            bool            `json:"stream"`
	StreamOptions     streamOptions   `json:"stream_options"`
	StreamInterval    int             `json:"stream_interval"`
	Logprobs          *int            `json:"logprobs"`
	Temperature       *float64        `json:"temperature"`
	TopP              *float64        `json:"top_p"`
	TopK              *int            `json:"top_k"`
	MinP              *float64        `json:"min_p"`
	PresencePenalty   *float64        `json:"presence_penalty"`
	FrequencyPenalty  *float64        `json:"frequency_penalty"`
	RepetitionPenalty *float64        `json:"repetition_penalty"`
	Seed              *int64          `json:"seed"`
	StopTokenIDs      []token.ID      `json:"stop_token_ids"`
	SkipSpecial       *bool           `json:"skip_special_tokens"`
	ReturnTokenIDs    bool            `json:"return_token_ids"`
	TokensAsIDs       bool            `json:"return_tokens_as_token_ids"`
	RequestID         string          `json:"request_id"`
	SessionID         string          `json:"session_id"`

	Echo             refused `json:"echo"`
	Suffix           refused `json:"suffix"`
	BestOf           refused `json:"best_of"`
	Stop             refused `json:"stop"`
	LogitBias        refused `json:"logit_bias"`
	BeamSearch       refused `json:"use_beam_search"`
	MinTokens        refused `json:"min_tokens"`
	IgnoreEOS        refused `json:"ignore_eos"`
	AllowedTokenIDs  refused `json:"allowed_token_ids"`
	BadWords         refused `json:"bad_words"`
	PromptLogprobs   refused `json:"prompt_logprobs"`
	TruncatePrompt   refused `json:"truncate_prompt_tokens"`
	ResponseFormat   refused `json:"response_format"`
	StructuredOutput refused `json:"structured_outputs"`
	PromptEmbeds     refused `json:"prompt_embeds"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// refused is a field that must keep its neutral value.
type refused bool

func (f *refused) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "null", "false", "0", `""`, "[]", "{}", "1":
	default:
		*f = true
	}
	return nil
}

// read turns a body into a request of the contract.
func (q *wireRequest) read(r *http.Request) (engine.Request, error) {
	var zero engine.Request
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), maxBody)) + bytes.MinRead)
	if _, err := body.ReadFrom(http.MaxBytesReader(nil, r.Body, maxBody)); err != nil {
		return zero, fault.Wrap(fault.BadRequest, err, "the body cannot be read")
	}
	ids, err := q.unmarshal(body.Bytes())
	if err != nil {
		return zero, fault.Wrap(fault.BadRequest, err, "the body is not a completions request")
	}
	for _, f := range []struct {
		name string
		bad  refused
	}{
		{"echo", q.Echo}, {"suffix", q.Suffix}, {"best_of", q.BestOf}, {"stop", q.Stop}, {"logit_bias", q.LogitBias},
		{"use_beam_search", q.BeamSearch}, {"min_tokens", q.MinTokens}, {"ignore_eos", q.IgnoreEOS},
		{"allowed_token_ids", q.AllowedTokenIDs}, {"bad_words", q.BadWords}, {"prompt_logprobs", q.PromptLogprobs},
		{"truncate_prompt_tokens", q.TruncatePrompt}, {"response_format", q.ResponseFormat},
		{"structured_outputs", q.StructuredOutput}, {"prompt_embeds", q.PromptEmbeds},
		{"n", q.N != nil && *q.N != 1}, {"logprobs", q.Logprobs != nil && (*q.Logprobs < 0 || *q.Logprobs > 1)},
	} {
		if f.bad {
			return zero, fault.New(fault.UnsupportedField, "the rehearsal engine cannot honour %s", f.name)
		}
	}
	req := engine.Request{IDs: ids, MaxTokens: or(q.MaxTokens, 16), Stops: q.StopTokenIDs, Model: q.Model, Affinity: q.SessionID, Key: q.RequestID}
	if id := r.Header.Get("X-Request-Id"); id != "" {
		req.Key = id
	}
	n := chat.Neutral()
	req.Sampling = chat.Sampling{Temperature: or(q.Temperature, n.Temperature), TopP: or(q.TopP, n.TopP), TopK: or(q.TopK, 0),
		MinP: or(q.MinP, 0), PresencePenalty: or(q.PresencePenalty, 0), FrequencyPenalty: or(q.FrequencyPenalty, 0),
		RepetitionPenalty: or(q.RepetitionPenalty, n.RepetitionPenalty), Seed: q.Seed}
	return req, nil
}

// promptMark stands for a prompt that was read apart from its body.
const promptMark = "[  ]"

// unmarshal reads the body, its prompt apart: a long list of ids costs encoding/json many times what it must.
func (q *wireRequest) unmarshal(body []byte) ([]token.ID, error) {
	if key := []byte(`"prompt":`); bytes.Contains(body, key) { // within a string the quotes would be escaped
		before, list, _ := bytes.Cut(body, key)
		if end := bytes.IndexByte(list, ']'); end >= 0 {
			if ids, err := parseIDs(bytes.TrimSpace(list[:end+1])); err == nil {
				short := slices.Concat(before, key, []byte(promptMark), list[end+1:])
				if err := json.Unmarshal(short, q); err != nil {
					return nil, err
				}
				if string(q.Prompt) == promptMark {
					return ids, nil
				}
				*q = wireRequest{} // it was the key of an inner object
			}
		}
	}
	if err := json.Unmarshal(body, q); err != nil {
		return nil, err
	}
	return parseIDs(q.Prompt)
}

func or[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

// parseIDs reads a JSON array of ids.
func parseIDs(b []byte) ([]token.ID, error) {
	bad := fault.New(fault.BadRequest, "prompt must be one list of token ids")
	if len(b) < 2 || b[0] != '[' {
		return nil, bad
	}
	ids := make([]token.ID, 0, len(b)/6+1)
	for i, id, digits := 1, uint64(0), 0; i < len(b); i++ {
		switch c := b[i]; {
		case c >= '0' && c <= '9' && digits < 10:
			id, digits = id*10+uint64(c-'0'), digits+1
		case c == ',' || c == ']':
			if c == ']' && digits == 0 && len(ids) == 0 {
				return ids, nil
			}
			if digits == 0 || id > 1<<32-1 {
				return nil, bad
			}
			ids, id, digits = append(ids, token.ID(id)), 0, 0
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
		default:
			return nil, bad
		}
	}
	return ids, nil
}

func (e *Engine) completions(w http.ResponseWriter, r *http.Request) {
	var q wireRequest
	req, err := q.read(r)
	if err != nil {
		refuse(w, err)
		return
	}
	size := e.c.Chunk
	if q.StreamInterval > 0 {
		size = min(q.StreamInterval, 1024)
	}
	x, err := e.start(req, size)
	if err != nil {
		refuse(w, err)
		return
	}
	if f := x.fault(policy.FaultStatus); f != nil {
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		reply(w, f.Status, wireError("the engine was told to fail", "InternalServerError", f.Status))
		return
	}
	a := &answer{q: &q, run: x, created: time.Now().Unix()}
	if q.Stream {
		a.stream(r.Context(), w)
	} else {
		a.whole(r.Context(), w)
	}
}

// stream writes the completion as server-sent events.
func (a *answer) stream(ctx context.Context, w http.ResponseWriter) {
	var waited bool
	flush := func(b []byte) bool {
		_, err := w.Write(b)
		return err == nil && http.NewResponseController(w).Flush() == nil
	}
	buf := make([]byte, 0, 512+7*len(a.run.req.IDs))
	for done := false; !done; {
		if a.run.wait(ctx, &waited) != nil {
			return
		}
		if a.run.n == 0 {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		}
		p := a.run.next()
		done = p.cut || a.run.finish != ""
		if a.run.fault(policy.FaultNoFinish) != nil {
			p.finish = ""
		}
		buf = a.event(buf[:0], p)
		if !flush(buf) || ctx.Err() != nil {
			return
		}
		if p.cut {
			panic(http.ErrAbortHandler) // the server cuts the connection without an end
		}
	}
	if a.q.StreamOptions.IncludeUsage {
		buf = a.usageEvent(buf[:0])
	} else {
		buf = buf[:0]
	}
	flush(append(buf, "data: [DONE]\n\n"...))
}

// whole writes the completion as one JSON object.
func (a *answer) whole(ctx context.Context, w http.ResponseWriter) {
	var all piece
	var waited bool
	for done := false; !done; {
		if a.run.wait(ctx, &waited) != nil {
			return
		}
		p := a.run.next()
		a.versions(p)
		done = p.cut || a.run.finish != ""
		all.ids, all.finish, all.cut = append(all.ids, p.ids...), p.finish, p.cut
		if p.lps != nil {
			all.lps = append(all.lps, p.lps...)
		}
		all.noIDs = all.noIDs || p.noIDs
	}
	if a.run.fault(policy.FaultNoFinish) != nil {
		all.finish = ""
	}
	b := a.object(nil, all)
	w.Header().Set("Content-Type", "application/json")
	if all.cut {
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		_, _ = w.Write(b[:len(b)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(b)
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that is gone needs no answer
}

func wireError(msg, kind string, status int) any {
	return map[string]any{"error": map[string]any{"message": msg, "type": kind, "param": nil, "code": status}}
}

// refuse answers an error in vLLM's form.
func refuse(w http.ResponseWriter, err error) {
	var f *fault.Error
	msg, status, kind := err.Error(), http.StatusBadRequest, "BadRequestError"
	if errors.As(err, &f) && f.Code == fault.EngineStatus {
		status, kind = http.StatusNotFound, "NotFoundError"
	}
	reply(w, status, wireError(msg, kind, status))
}
