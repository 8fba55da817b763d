package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/tito-rl/tito/internal/fault"
)

// rollout is what is compared of a run, in the field names of materialize's output.
type rollout struct {
	Trajectory string   `json:"trajectory"`
	Segments   []rows   `json:"segments"`
	Ledger     *Ledger  `json:"ledger"`
	Reward     *float64 `json:"reward"`
}

type rows struct {
	Tokens     column    `json:"tokens"`
	LossMask   column    `json:"loss_mask"`
	Logprobs   column    `json:"logprobs"`
	Raw        column    `json:"raw_logprobs"` // nil where there is none
	Finish     string    `json:"finish_reason"`
	Turns      []span    `json:"turns"`
	Versions   []stretch `json:"versions"`
	Trained    *int      `json:"trained"`
	RunSamples *int      `json:"run_samples"`
	RunTrained *int      `json:"run_trained"`
	Reward     *float64  `json:"reward"`
}

// span is a turn's part of a segment; what a trainer's format leaves out is nil.
type span struct {
	Turn    int   `json:"turn"`
	Start   *int  `json:"start"`
	End     *int  `json:"end"`
	Sampled *int  `json:"sampled"`
	Trains  *bool `json:"trains"`
	Cut     bool  `json:"truncated_support"`
}

type stretch struct {
	Start   int    `json:"start"`
	End     int    `json:"end"`
	Version string `json:"version"`
}

// column is a JSON array of numbers. All token ids and 32-bit floats are exact in it.
type column []float64

// UnmarshalJSON refuses what is no number, null too.
func (c *column) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if len(b) < 2 || b[0] != '[' {
		return errors.New("a column is no array")
	}
	*c = column{}
	if b = bytes.TrimSpace(b[1 : len(b)-1]); len(b) == 0 {
		return nil
	}
	*c = make(column, 0, bytes.Count(b, []byte(","))+1)
	for more := true; more; {
		var one []byte
		one, b, more = bytes.Cut(b, []byte(","))
		f, err := strconv.ParseFloat(string(bytes.TrimSpace(one)), 64)
		if err != nil {
			return errors.New("a column holds what is no number")
		}
		*c = append(*c, f)
	}
	return nil
}

// runs compares every given run of this trajectory with the derived one.
func (v *verifier) runs() error {
	if v.o.Runs == nil {
		return nil
	}
	v.begin(ClaimRuns)
	d := json.NewDecoder(bytes.NewReader(v.o.Runs))
	for line := 1; ; line++ {
		var r rollout
		err := d.Decode(&r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			v.failed = &Failure{fault.VerifyFailed, ClaimRuns, 0, line, "it cannot be read"}
			return fault.Wrap(fault.VerifyFailed, err, "run %d of the file cannot be read", line)
		}
		if r.Trajectory != v.rep.Trajectory {
			continue
		}
		if err := v.compare(&r); err != nil {
			return err
		}
		v.rep.Runs++
		v.count(1)
	}
	if v.rep.Runs == 0 {
		return v.fail(0, -1, "the file has no run of this trajectory")
	}
	return nil
}

func (v *verifier) compare(r *rollout) error {
	var want []*sample
	trained := 0
	for _, s := range v.samples {
		if s.trained > 0 { // a sample that trains nothing is not in a run
			want = append(want, s)
			trained += s.trained
		}
	}
	if len(r.Segments) != len(want) {
		return v.fail(0, -1, "the run has %d segments, %d were derived", len(r.Segments), len(want))
	}
	for i, s := range want {
		got := &r.Segments[i]
		if err := v.compareRows(i, got, s); err != nil {
			return err
		}
		switch {
		case got.RunSamples != nil && *got.RunSamples != len(want):
			return v.fail(0, i, "segment %d says the run has %d samples, not %d", i, *got.RunSamples, len(want))
		case got.RunTrained != nil && *got.RunTrained != trained:
			return v.fail(0, i, "segment %d says the run trains %d ids, not %d", i, *got.RunTrained, trained)
		case got.Reward != nil && (r.Reward == nil || *got.Reward != *r.Reward):
			return v.fail(0, i, "segment %d has a reward of its own", i)
		}
	}
	l := &v.rep.Ledger
	if r.Ledger == nil || r.Ledger.Sampled != l.Sampled || r.Ledger.Trained != l.Trained || r.Ledger.Auxiliary != l.Auxiliary ||
		!maps.Equal(nonzero(r.Ledger.Masked), l.Masked) || !maps.Equal(nonzero(r.Ledger.Discarded), l.Discarded) {
		return v.fail(0, -1, "the run's ledger is %+v, derived was %+v", r.Ledger, *l)
	}
	return nil
}

func (v *verifier) compareRows(i int, got *rows, s *sample) error {
	n := len(s.tokens)
	if len(got.Tokens) != n || len(got.LossMask) != n || len(got.Logprobs) != n {
		return v.fail(0, i, "segment %d has %d tokens, %d masks and %d log probabilities for %d ids",
			i, len(got.Tokens), len(got.LossMask), len(got.Logprobs), n)
	}
	if len(got.Turns) != len(s.turns) {
		return v.fail(0, i, "segment %d has %d turns, not %d", i, len(got.Turns), len(s.turns))
	}
	last := s.turns[len(s.turns)-1]
	if got.Finish != string(last.Finish) {
		return v.fail(last.Seq, i, "segment %d finishes with %q, not %q", i, got.Finish, last.Finish)
	}
	if err := v.compareTurns(i, got, s); err != nil {
		return err
	}
	for at := range n {
		what := ""
		id, mask, lp := got.Tokens[at], got.LossMask[at], got.Logprobs[at]
		switch {
		case id != float64(s.tokens[at]):
			what = fmt.Sprintf("id %v, derived was %d", id, s.tokens[at])
		case mask != 0 && mask != 1 || (mask == 1) != s.mask[at]:
			what = fmt.Sprintf("mask %v", mask)
		case float32(lp) != s.logprobs[at]: // 0 where the mask is 0
			what = fmt.Sprintf("log probability %v, recorded was %v", lp, s.logprobs[at])
		default:
			continue
		}
		return v.fail(s.owner(at), at, "segment %d: %s", i, what)
	}
	return nil
}

// compareTurns holds what a segment says of its turns, and what else it says turn by turn, against the facts.
func (v *verifier) compareTurns(i int, got *rows, s *sample) error {
	differs := func(has *int, want int) bool { return has != nil && *has != want }
	var versions []stretch
	raw := got.Raw != nil
	if raw && len(got.Raw) != len(s.tokens) {
		return v.fail(0, i, "segment %d has %d raw log probabilities for %d ids", i, len(got.Raw), len(s.tokens))
	}
	for k, t := range s.turns {
		start, end := t.prompt, t.prompt+s.keeps(k)
		trains := t.home == s.number && t.outcome == ""
		switch g := &got.Turns[k]; {
		case g.Turn != int(t.Seq):
			return v.fail(t.Seq, i, "segment %d has turn %d in its place", i, g.Turn)
		case differs(g.Start, start), differs(g.End, end), differs(g.Sampled, len(t.Completion)), g.Trains != nil && *g.Trains != trains:
			return v.fail(t.Seq, i, "segment %d: it stands at %d to %d of %d sampled ids, trains: %v", i, start, end, len(t.Completion), trains)
		}
		if c := t.Sampling; got.Turns[k].Trains != nil && got.Turns[k].Cut != (c.TopK > 0 || c.MinP != 0 || c.TopP != 0 && c.TopP != 1) {
			return v.fail(t.Seq, i, "segment %d: truncated support is said to be %v", i, got.Turns[k].Cut)
		}
		for _, p := range t.Versions {
			if at := (stretch{start + p.Start, min(start+p.End, end), p.Version}); at.Start < at.End {
				versions = append(versions, at)
			}
		}
		if !raw || !trains {
			continue
		}
		for at := start; at < end; at++ {
			if len(t.RawLogprobs) != len(t.Completion) || float32(got.Raw[at]) != t.RawLogprobs[at-start] {
				return v.fail(t.Seq, at, "segment %d: raw log probability %v was not recorded", i, got.Raw[at])
			}
		}
	}
	switch {
	case differs(got.Trained, s.trained):
		return v.fail(0, i, "segment %d says that it trains %d ids, not %d", i, *got.Trained, s.trained)
	case got.Versions != nil && !slices.Equal(got.Versions, versions):
		return v.fail(0, i, "segment %d has policy versions %v, recorded were %v", i, got.Versions, versions)
	}
	return nil
}

func nonzero(m map[string]int) map[string]int {
	out := map[string]int{}
	for k, n := range m {
		if n != 0 {
			out[k] = n
		}
	}
	return out
}
