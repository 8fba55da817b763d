//go:build e2e

package tokenizer

import (
	"strings"
	"testing"
	"time"
)

// TestE2EAMegabyteOfAnythingTakesLessThanASecond looks for quadratic time, in processor time.
func TestE2EAMegabyteOfAnythingTakesLessThanASecond(t *testing.T) {
	units := []string{"a", " ", "\n", "👍", "7", "\u0301", "日", "=", "\t", "<", "<|im_start|", "ab", "▁", "\x00", "'s"}
	for _, real := range realTokenizers {
		t.Run(real.name, func(t *testing.T) {
			tok := realTokenizer(t, real.pkg)
			list := append([]string(nil), units...)
			for i, a := range tok.Added() {
				if i < 3 {
					list = append(list, a.Content, a.Content[:len(a.Content)-1], a.Content+" ", " "+a.Content+"\nx")
				}
			}
			worst, which := time.Duration(0), ""
			for _, unit := range list {
				text := strings.Repeat(unit, 1<<20/len(unit))
				start := cpuTime(t)
				ids := tok.Encode(text)
				took := cpuTime(t) - start
				if took > worst {
					worst, which = took, unit
				}
				if took > time.Second {
					t.Errorf("%q: %v", unit, took)
				}
				start = cpuTime(t)
				tok.Decode(ids)
				if took := cpuTime(t) - start; took > time.Second {
					t.Errorf("%q: decoding %v", unit, took)
				}
			}
			t.Logf("at most %v, for %q", worst.Round(time.Millisecond), which)
		})
	}
}
