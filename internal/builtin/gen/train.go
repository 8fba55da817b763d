package main

import (
	"cmp"
	"slices"
)

// pair is two adjacent tokens, by their bytes.
type pair [2]string

// word is a piece of text as it is merged so far, and how often it occurs.
type word struct {
	tokens []string
	n      int
}

// trainer keeps, for every pair, how often it occurs and in which words.
type trainer struct {
	words []word
	count map[pair]int
	where map[pair]map[int]bool
}

// train learns at most limit merges: always the most frequent pair, of several the first in the order of their bytes. It
// stops early when no pair occurs twice.
func train(pieces map[string]int, limit int) [][2]string {
	t := &trainer{count: map[pair]int{}, where: map[pair]map[int]bool{}}
	keys := make([]string, 0, len(pieces))
	for p := range pieces {
		keys = append(keys, p)
	}
	slices.Sort(keys)
	for _, p := range keys {
		w := word{n: pieces[p]}
		for i := range len(p) {
			w.tokens = append(w.tokens, p[i:i+1])
		}
		t.words = append(t.words, w)
		t.change(len(t.words)-1, 1)
	}
	var merges [][2]string
	seen := map[string]bool{}
	for len(merges) < limit {
		best, ok := t.best()
		if !ok {
			break
		}
		t.merge(best)
		// Two pairs may give the same bytes; one token has one merge, or it would have two ids.
		if joined := best[0] + best[1]; !seen[joined] {
			seen[joined] = true
			merges = append(merges, best)
		}
	}
	return merges
}

func (t *trainer) best() (pair, bool) {
	var best pair
	most := 1
	for p, n := range t.count {
		if n > most || n == most && most > 1 && compare(p, best) < 0 {
			best, most = p, n
		}
	}
	return best, most > 1
}

func compare(a, b pair) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }

// change adds (sign 1) or takes away (sign -1) the pairs of one word.
func (t *trainer) change(i, sign int) {
	w := t.words[i]
	for k := range len(w.tokens) - 1 {
		p := pair{w.tokens[k], w.tokens[k+1]}
		t.count[p] += sign * w.n
		if t.count[p] == 0 {
			delete(t.count, p)
		}
		if sign > 0 {
			if t.where[p] == nil {
				t.where[p] = map[int]bool{}
			}
			t.where[p][i] = true
		}
	}
}

// merge joins a pair everywhere.
func (t *trainer) merge(p pair) {
	words := t.where[p]
	delete(t.where, p)
	for i := range words {
		t.change(i, -1)
		w := &t.words[i]
		joined := w.tokens[:0]
		for k := 0; k < len(w.tokens); k++ {
			if k+1 < len(w.tokens) && w.tokens[k] == p[0] && w.tokens[k+1] == p[1] {
				joined = append(joined, p[0]+p[1])
				k++
				continue
			}
			joined = append(joined, w.tokens[k])
		}
		w.tokens = joined
		t.change(i, 1)
	}
}
