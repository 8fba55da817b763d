package trial_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tito-rl/tito/internal/harness/nop"
	"github.com/tito-rl/tito/internal/trial"
)

func BenchmarkATrialThatDoesNothing(b *testing.B) {
	p, tk, dir := provider(b), countTask(b, nil), b.TempDir()
	for i := range b.N {
		if _, err := trial.Run(b.Context(), trial.Config{Task: tk, Harness: nop.Harness{}, Provider: p, Dir: filepath.Join(dir, fmt.Sprint(i))}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkManyTrialsAtOnce(b *testing.B) {
	p, tk, dir := provider(b), countTask(b, nil), b.TempDir()
	b.SetParallelism(16)
	names := make(chan int)
	go func() {
		for i := range b.N {
			names <- i
		}
		close(names)
	}()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := trial.Run(b.Context(), trial.Config{Task: tk, Harness: nop.Harness{}, Provider: p, Dir: filepath.Join(dir, fmt.Sprint(<-names))}); err != nil {
				b.Error(err)
			}
		}
	})
}
