package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"

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
	Tokens     []*uint32  `json:"tokens"`
	LossMask   []*int     `json:"loss_mask"`
	Logprobs   []*float32 `json:"logprobs"`
	Finish     string     `json:"finish_reason"`
	Turns      []span     `json:"turns"`
	RunSamples *int       `json:"run_samples"`
	RunTrained *int       `json:"run_trained"`
	Reward     *float64   `json:"reward"`
}

type span struct {
	Turn int `json:"turn"`
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
	for k, t := range s.turns {
		if got.Turns[k].Turn != int(t.Seq) {
			return v.fail(t.Seq, i, "segment %d has turn %d in its place", i, got.Turns[k].Turn)
		}
	}
	last := s.turns[len(s.turns)-1]
	if got.Finish != string(last.Finish) {
		return v.fail(last.Seq, i, "segment %d finishes with %q, not %q", i, got.Finish, last.Finish)
	}
	for at := range n {
		owner := s.owner(at)
		id, mask, lp := got.Tokens[at], got.LossMask[at], got.Logprobs[at]
		switch {
		case id == nil || mask == nil || lp == nil:
			return v.fail(owner, at, "segment %d: a null", i)
		case *id != uint32(s.tokens[at]):
			return v.fail(owner, at, "segment %d: id %d, derived was %d", i, *id, s.tokens[at])
		case *mask != 0 && *mask != 1 || (*mask == 1) != s.mask[at]:
			return v.fail(owner, at, "segment %d: mask %d", i, *mask)
		case *lp != s.logprobs[at]: // 0 where the mask is 0
			return v.fail(owner, at, "segment %d: log probability %v, recorded was %v", i, *lp, s.logprobs[at])
		}
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
