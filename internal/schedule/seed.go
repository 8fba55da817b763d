package schedule

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Seed derives the seed of an attempt from the run's: 63 bits, so that it fits an int64. Issue does not count: the same
// try started again draws the same.
func Seed(run uint64, a Attempt) uint64 {
	return derive("rollout", run, a.Step, a.Group, a.Member, a.Retry) >> 1
}

// derive hashes a label and numbers to 64 bits. Labels keep uses apart.
func derive(label string, run uint64, nums ...int) uint64 {
	b := append([]byte("tito/seed/1/"), label...)
	b = append(b, 0)
	b = binary.LittleEndian.AppendUint64(b, run)
	for _, n := range nums {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	h := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(h[:])
}

// task is the task of the given row, counted through the whole run.
func (c Config) task(row int) string {
	epoch, i := row/len(c.Tasks), row%len(c.Tasks)
	if !c.Shuffle {
		return c.Tasks[i]
	}
	order := make([]int, len(c.Tasks))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(derive("epoch", c.Seed, epoch, a), derive("epoch", c.Seed, epoch, b))
	})
	return c.Tasks[order[i]]
}
