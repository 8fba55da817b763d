package rehearsal

import (
	"math"
	"strconv"
	"strings"

	"github.com/tito-rl/tito/internal/ojson"
	policy "github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/token"
)

// answer writes one completion in vLLM's wire format.
type answer struct {
	q       *wireRequest
	run     *run
	created int64
	begun   bool       // the first event was written
	held    []token.ID // ids whose text is not certain yet
	offset  int        // of the text so far, in characters
	spans   []token.VersionSpan
	n       int // ids whose version is in spans
}

// event appends one server-sent event.
func (a *answer) event(b []byte, p piece) []byte {
	fresh := a.versions(p)
	b = append(b, "data: "...)
	b = a.open(b)
	b = a.choice(b, p, !a.begun, fresh)
	a.begun = true
	return append(b, "]}\n\n"...)
}

func (a *answer) usageEvent(b []byte) []byte {
	b = append(b, "data: "...)
	b = a.open(b)
	b = append(b, "],"...)
	b = a.usage(b)
	return append(b, "}\n\n"...)
}

// object appends the whole answer as one object.
func (a *answer) object(b []byte, p piece) []byte {
	b = a.open(b)
	b = a.choice(b, p, true, true)
	b = append(b, "],"...)
	b = a.usage(b)
	return append(b, '}')
}

func (a *answer) open(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = ojson.AppendString(b, "cmpl-"+a.run.req.Key)
	b = append(b, `,"object":"text_completion","created":`...)
	b = strconv.AppendInt(b, a.created, 10)
	b = append(b, `,"model":`...)
	b = ojson.AppendString(b, a.run.e.c.Model)
	return append(b, `,"choices":[`...)
}

func (a *answer) usage(b []byte) []byte {
	prompt, n := len(a.run.req.IDs), a.run.n
	b = append(b, `"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(prompt+n), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '}')
}

func (a *answer) choice(b []byte, p piece, first, versions bool) []byte {
	b = append(b, `{"index":0,"text":`...)
	b = ojson.AppendString(b, a.text(p))
	b = append(b, `,"logprobs":`...)
	if a.q.Logprobs != nil && p.lps != nil {
		b = a.logprobs(b, p)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"finish_reason":`...)
	if p.finish == "" {
		b = append(b, "null"...)
	} else {
		b = ojson.AppendString(b, p.finish)
	}
	b = append(b, `,"stop_reason":`...)
	// As in vLLM, the ordinary stop ends a completion without a stop reason; other stops name themselves.
	if stops := a.run.e.c.Policy.Stops(); p.finish == "stop" && a.run.last != stops[0] {
		b = strconv.AppendUint(b, uint64(a.run.last), 10)
	} else {
		b = append(b, "null"...)
	}
	if a.q.ReturnTokenIDs {
		if first {
			b = append(b, `,"prompt_token_ids":`...)
			b = appendIDs(b, a.prompt())
		}
		if !p.noIDs {
			b = append(b, `,"token_ids":`...)
			b = appendIDs(b, p.ids)
		}
	}
	if versions {
		b = a.appendVersions(b)
	}
	return append(b, '}')
}

// prompt is what is reported as the prompt.
func (a *answer) prompt() []token.ID {
	ids := a.run.req.IDs
	if a.run.fault(policy.FaultPrompt) == nil {
		return ids
	}
	wrong := append([]token.ID(nil), ids...)
	wrong[len(wrong)-1] ^= 1
	return wrong
}

// text decodes what has become certain: ids that end inside a character wait for the next.
func (a *answer) text(p piece) string {
	ids := p.ids
	if n := len(ids); n > 0 && p.finish == "stop" && (a.q.SkipSpecial == nil || *a.q.SkipSpecial) {
		ids = ids[:n-1]
	}
	a.held = append(a.held, ids...)
	s := a.run.e.c.Policy.Decode(a.held)
	if strings.HasSuffix(s, "\uFFFD") && a.run.finish == "" {
		return ""
	}
	a.held = a.held[:0]
	return s
}

func (a *answer) logprobs(b []byte, p piece) []byte {
	label := func(i int) string {
		if a.q.TokensAsIDs {
			return "token_id:" + strconv.FormatUint(uint64(p.ids[i]), 10)
		}
		return a.run.e.c.Policy.Decode(p.ids[i : i+1])
	}
	b = append(b, `{"text_offset":[`...)
	for i := range p.lps {
		b = comma(b, i)
		b = strconv.AppendInt(b, int64(a.offset), 10)
		a.offset += len([]rune(label(i)))
	}
	b = append(b, `],"token_logprobs":[`...)
	for i, lp := range p.lps {
		b = comma(b, i)
		b = appendFloat(b, lp)
	}
	b = append(b, `],"tokens":[`...)
	for i := range p.lps {
		b = comma(b, i)
		b = ojson.AppendString(b, label(i))
	}
	b = append(b, `],"top_logprobs":[`...)
	for i, lp := range p.lps {
		b = comma(b, i)
		b = append(b, '{')
		b = ojson.AppendString(b, label(i))
		b = append(b, ':')
		b = appendFloat(b, lp)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// versions notes which weights sampled a piece, and says whether its spans are news to the client.
func (a *answer) versions(p piece) bool {
	end := a.n + len(p.ids)
	last := len(a.spans) - 1
	fresh := last < 0 || a.spans[last].Version != p.version
	if fresh {
		a.spans = append(a.spans, token.VersionSpan{Span: token.Span{Start: a.n, End: end}, Version: p.version})
	} else {
		a.spans[last].End = end
	}
	a.n = end
	return fresh
}

func (a *answer) appendVersions(b []byte) []byte {
	b = append(b, `,"weight_versions":[`...)
	for i, s := range a.spans {
		b = comma(b, i)
		b = append(b, `{"version":`...)
		b = ojson.AppendString(b, s.Version)
		b = append(b, `,"start":`...)
		b = strconv.AppendInt(b, int64(s.Start), 10)
		b = append(b, `,"end":`...)
		b = strconv.AppendInt(b, int64(s.End), 10)
		b = append(b, '}')
	}
	return append(b, ']')
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

func appendIDs(b []byte, ids []token.ID) []byte {
	b = token.AppendList(append(b, '['), ids)
	return append(b, ']')
}

// appendFloat writes a log probability as vLLM does: through float64, null where it is not a number, -9999.0 for -inf.
func appendFloat(b []byte, f float32) []byte {
	switch v := float64(f); {
	case math.IsNaN(v) || math.IsInf(v, 1):
		return append(b, "null"...)
	case v < -9999:
		return append(b, "-9999.0"...)
	default:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	}
}
