package schedule

import (
	"math"

	"github.com/tito-rl/tito/internal/fault"
)

// minStd is the sample standard deviation under which rewards count as equal, and what is added to the divisor.
const minStd = 1e-8

// Advantage is what a group's rewards make of its runs. Every sample of a run carries the run's one value.
type Advantage struct {
	Mean    float64
	Std     float64   // sample standard deviation (n-1); 0 for fewer than two rewards
	Values  []float64 // by run, in the order of the rewards
	Uniform bool      // Std < 1e-8: nothing to learn, all values 0
}

// Advantages is (r - mean) / (std + 1e-8) for each reward of a group. A reward or a result that is not finite is an
// error.
func Advantages(rewards []float64) (Advantage, error) {
	a := Advantage{Values: make([]float64, len(rewards))}
	if len(rewards) == 0 {
		a.Uniform = true
		return a, nil
	}
	n := float64(len(rewards))
	for _, r := range rewards {
		a.Mean += r
	}
	a.Mean /= n
	if len(rewards) > 1 {
		for _, r := range rewards {
			a.Std += (r - a.Mean) * (r - a.Mean)
		}
		a.Std = math.Sqrt(a.Std / (n - 1))
	}
	if !finite(a.Mean) || !finite(a.Std) {
		return Advantage{}, fault.New(fault.RewardBad, "the rewards %v have no finite advantage", rewards)
	}
	if a.Std < minStd {
		a.Uniform = true
		return a, nil
	}
	for i, r := range rewards {
		a.Values[i] = (r - a.Mean) / (a.Std + minStd)
	}
	return a, nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
