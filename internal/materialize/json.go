package materialize

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/tito-rl/tito/internal/token"
)

// MarshalJSON writes the run in the shape of spec/materialize.md. The same run gives the same bytes. A log probability is
// written in the shortest spelling that reads back to the same float32, always as a JSON real (-1.0, not -1).
func (r *RolloutRun) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// AppendJSON appends the run's JSON, without a line end.
func (r *RolloutRun) AppendJSON(b []byte) []byte {
	b = appendKey(append(b, '{'), "run_id", r.RunID)
	b = appendKey(append(b, ','), "trajectory", r.Trajectory)
	b = appendKey(append(b, ','), "group", r.Group)
	b = appendReal(append(b, `,"advantage":`...), r.Advantage)
	b = appendReal(append(b, `,"reward":`...), r.Reward)
	b = append(b, `,"segments":[`...)
	for i := range r.Segments {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.Segments[i].appendJSON(b, r.RunID)
	}
	b = append(b, `],"ledger":`...)
	b = append(b, marshal(r.Ledger)...)
	b = appendInt(b, "untrained_segments", r.Untrained)
	if r.Nothing != "" {
		b = appendKey(append(b, ','), "nothing", r.Nothing)
	}
	return append(b, '}')
}

func (s *Segment) appendJSON(b []byte, run string) []byte {
	b = append(b, `{"tokens":`...)
	b = appendIDs(b, s.Tokens)
	b = append(b, `,"loss_mask":[`...)
	for i, m := range s.LossMask {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '0'+m)
	}
	b = append(b, `],"logprobs":`...)
	b = appendFloats(b, s.Logprobs)
	if s.RawLogprobs != nil {
		b = append(b, `,"raw_logprobs":`...)
		b = appendFloats(b, s.RawLogprobs)
	}
	b = appendKey(append(b, ','), "finish_reason", string(s.FinishReason))
	b = appendKey(append(b, ','), "start_reason", s.StartReason)
	b = append(b, `,"turns":[`...)
	for i, t := range s.Turns {
		if i > 0 {
			b = append(b, ',')
		}
		b = t.appendJSON(b)
	}
	b = append(b, `],"versions":[`...)
	for i, v := range s.Versions {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, marshal(v)...)
	}
	b = appendInt(append(b, ']'), "trained", s.Trained)
	b = appendKey(append(b, ','), "run_id", run)
	b = appendInt(b, "run_samples", s.RunSamples)
	b = appendInt(b, "run_trained", s.RunTrained)
	return append(b, '}')
}

func (t TurnSpan) appendJSON(b []byte) []byte {
	b = append(b, `{"turn":`...)
	b = strconv.AppendUint(b, uint64(t.Turn), 10)
	b = appendKey(append(b, ','), "kind", string(t.Kind))
	if t.Reason != "" {
		b = appendKey(append(b, ','), "reason", t.Reason)
	}
	b = appendInt(b, "start", t.Start)
	b = appendInt(b, "end", t.End)
	b = appendInt(b, "sampled", t.Sampled)
	b = append(b, `,"trains":`...)
	b = strconv.AppendBool(b, t.Trains)
	if t.Why != "" {
		b = appendKey(append(b, ','), "why", t.Why)
	}
	if t.Truncated {
		b = append(b, `,"truncated_support":true`...)
	}
	return append(b, '}')
}

// marshal is for small values of our own types, which always encode.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return b
}

func appendKey(b []byte, key, val string) []byte {
	b = append(append(append(b, '"'), key...), `":`...)
	return append(b, marshal(val)...)
}

func appendInt(b []byte, key string, n int) []byte {
	b = append(append(append(b, `,"`...), key...), `":`...)
	return strconv.AppendInt(b, int64(n), 10)
}

func appendReal(b []byte, v *float64) []byte {
	if v == nil {
		return append(b, "null"...)
	}
	return appendFloat(b, *v, 64)
}

func appendIDs(b []byte, ids []token.ID) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(id), 10)
	}
	return append(b, ']')
}

func appendFloats(b []byte, vs []float32) []byte {
	b = append(b, '[')
	for i, v := range vs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendFloat(b, float64(v), 32)
	}
	return append(b, ']')
}

// appendFloat writes a finite number so that no reader takes it for an integer.
func appendFloat(b []byte, v float64, bits int) []byte {
	form := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e16) {
		form = 'e'
	}
	n := len(b)
	b = strconv.AppendFloat(b, v, form, -1, bits)
	for _, c := range b[n:] {
		if c == '.' || c == 'e' {
			return b
		}
	}
	return append(b, '.', '0')
}
