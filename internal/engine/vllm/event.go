package vllm

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
)

// chunk is what one event says, before it is checked.
type chunk struct {
	choices int
	text    bool // there is some
	ids     []token.ID
	hasIDs  bool
	lps     []float32
	hasLps  bool
	labels  []int64 // the id that each log probability is said to belong to, -1 where it is not said
	problem string  // with the prompt's ids
	failure string  // the error object, where there is one
}

// event reads one JSON event and checks it.
func (s *stream) event(data string) error {
	p := scanner{s: data}
	var c chunk
	p.object(func(key string) {
		switch key {
		case "choices":
			p.array(func() { c.choices++; s.choice(&p, &c) })
		case "usage":
			s.count(&p)
		case "error":
			start := p.i
			p.skip()
			c.failure = data[start:p.i]
		default:
			p.skip()
		}
	})
	if p.peek() != 0 {
		p.bad = true
	}
	switch {
	case c.failure != "" && c.failure != "null":
		return streamed(c.failure)
	case p.bad:
		return fault.New(fault.EngineProtocol, "an event of the engine's stream is not a completions chunk: %.120q at byte %d", data, p.i)
	case c.choices == 0:
		return nil
	case c.choices > 1:
		return fault.New(fault.EngineProtocol, "the engine sent %d completions for one", c.choices)
	case c.problem != "":
		return fault.New(fault.EnginePrompt, "%s", c.problem)
	case !s.echoed:
		return fault.New(fault.EnginePrompt, "the engine does not report the prompt's ids").
			WithFix("the server must know return_token_ids (vLLM 0.10.2 and later), and no proxy may drop the field")
	case !c.hasIDs && (c.text || len(c.labels) > 0 || len(c.lps) > 0):
		return fault.New(fault.EngineIDs, "the engine sent text without ids after %d ids", s.n)
	}
	s.deliver(&c)
	return nil
}

// streamed reads an error that came inside a stream, where the status was sent long ago.
func streamed(obj string) error {
	var e struct {
		Code int `json:"code"`
	}
	if json.Unmarshal([]byte(obj), &e) != nil || e.Code < 400 {
		e.Code = http.StatusInternalServerError
	}
	return refusal(e.Code, http.Header{}, []byte(`{"error":`+obj+`}`))
}

func (s *stream) choice(p *scanner, c *chunk) {
	p.object(func(key string) {
		switch key {
		case "text":
			c.text = !p.null() && p.raw() != ""
		case "token_ids":
			c.hasIDs = p.ids(func(id token.ID) { c.ids = append(c.ids, id) })
		case "prompt_token_ids":
			s.echo(p, c)
		case "logprobs":
			s.logprobs(p, c)
		case "finish_reason":
			if !p.null() {
				s.finish = p.str()
			}
		case "stop_reason":
			s.reason(p)
		case "weight_versions":
			s.versions(p)
		default:
			p.skip()
		}
	})
}

// echo compares the reported prompt with the one that was sent, as it is read.
func (s *stream) echo(p *scanner, c *chunk) {
	n, first := 0, -1 // the first difference
	if !p.ids(func(id token.ID) {
		if first < 0 && (n >= len(s.prompt) || s.prompt[n] != id) {
			first = n
		}
		n++
	}) {
		return
	}
	s.echoed = true
	switch {
	case first >= 0:
		c.problem = "the engine reports another id at position " + strconv.Itoa(first) + " of the prompt than it was sent"
	case n != len(s.prompt):
		c.problem = "the engine reports a prompt of " + strconv.Itoa(n) + " ids for one of " + strconv.Itoa(len(s.prompt))
	}
}

func (s *stream) logprobs(p *scanner, c *chunk) {
	if p.null() {
		return
	}
	p.object(func(key string) {
		switch key {
		case "token_logprobs":
			c.hasLps = p.array(func() { c.lps = append(c.lps, p.float()) })
		case "tokens":
			p.array(func() { c.labels = append(c.labels, label(p.raw())) })
		default:
			p.skip()
		}
	})
}

// label reads "token_id:7", the form that return_tokens_as_token_ids asks for.
func label(s string) int64 {
	if digits, ok := strings.CutPrefix(s, "token_id:"); ok {
		if n, err := strconv.ParseUint(digits, 10, 32); err == nil {
			return int64(n)
		}
	}
	return -1
}

// deliver makes a checked event ready to be read, cut where the weights changed.
func (s *stream) deliver(c *chunk) {
	for i := range min(len(c.lps), len(c.ids), len(c.labels)) {
		if c.labels[i] >= 0 && c.labels[i] != int64(c.ids[i]) {
			c.lps[i] = float32(math.NaN()) // it is another id's
		}
	}
	lps := c.lps
	switch {
	case s.short || !c.hasLps:
		lps = nil
	case len(lps) > len(c.ids):
		lps = lps[:max(0, len(c.ids)-1)]
	case lps == nil:
		lps = []float32{} // a list without entries, as opposed to none
	}
	s.short = s.short || len(c.lps) != len(c.ids)
	if len(c.ids) == 0 {
		return
	}
	for from := 0; from < len(c.ids); {
		name, to := s.version(s.n+from, s.n+len(c.ids))
		to -= s.n
		out := engine.Chunk{IDs: c.ids[from:to:to], Version: name}
		if lps != nil {
			out.Logprobs = lps[min(from, len(lps)):min(to, len(lps))]
		}
		s.ready = append(s.ready, out)
		from = to
	}
	s.n += len(c.ids)
	s.last = c.ids[len(c.ids)-1]
}

// version is the name of the weights that sampled id at, and where they end, at most at end.
func (s *stream) version(at, end int) (string, int) {
	name := ""
	for _, v := range s.spans {
		if v.start > at {
			return name, min(end, v.start)
		}
		name = v.name
	}
	return name, end
}

func (s *stream) reason(p *scanner) {
	switch c := p.peek(); {
	case c == '"':
		p.skip() // a stop string
	case c >= '0' && c <= '9':
		s.stop = int64(p.id())
	default:
		p.skip()
	}
}

// versions reads which weights sampled which ids. Whenever the field is there, it is the whole list so far.
func (s *stream) versions(p *scanner) {
	var spans []version
	if p.array(func() {
		var v version
		p.object(func(key string) {
			switch key {
			case "version":
				v.name = p.str()
			case "start":
				v.start = p.int()
			default:
				p.skip()
			}
		})
		spans = append(spans, v)
	}) {
		s.spans = spans
	}
}

func (s *stream) count(p *scanner) {
	if p.null() {
		return
	}
	p.object(func(key string) {
		switch key {
		case "completion_tokens":
			if !p.null() {
				s.usage = p.int()
			}
		case "prompt_tokens_details":
			if p.null() {
				return
			}
			p.object(func(key string) {
				if key == "cached_tokens" && !p.null() {
					s.final.Cached = p.int()
				} else {
					p.skip()
				}
			})
		default:
			p.skip()
		}
	})
}
