// Package token holds token ids and the columns that run beside them.
//
// It is pure and knows nothing of tokenizers, models or messages. Functions never keep or change a slice that they are
// given unless their comment says so.
package token

// ID is one entry of a model's vocabulary.
type ID uint32

// Span is the half-open range [Start, End) of a sequence of ids.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Len is the number of ids in s.
func (s Span) Len() int { return s.End - s.Start }

// VersionSpan says which published weights sampled a stretch of a completion. The spans of one completion are in order,
// do not overlap and together cover it.
type VersionSpan struct {
	Span
	Version string `json:"version"`
}

// CommonPrefix is the number of leading ids that a and b share.
func CommonPrefix(a, b []ID) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
