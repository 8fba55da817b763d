package enginetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/rehearsal"
)

func (s suite) cancel(t *testing.T) {
	const hour = 3600 * 1000
	prompt := Prompt("say hello", "x", "y")
	for _, c := range []struct {
		name  string
		after int
	}{{"BeforeTheFirstByte", 0}, {"InTheMiddle", 5}} {
		t.Run(c.name, func(t *testing.T) {
			f := rehearsal.Fault{Kind: rehearsal.FaultSlow, Turn: -1, After: c.after, Delay: hour}
			// The engine is freed at the end, which fails to happen while work goes on upstream.
			s.with(t, Setup{Chunk: 5, Faults: []rehearsal.Fault{f}}, func(e engine.Engine) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.after == 0 {
					time.AfterFunc(5*time.Millisecond, cancel)
				}
				st, err := e.Generate(ctx, Request(prompt, "k"))
				n := 0
				for err == nil {
					var got engine.Chunk
					if n > 0 && n == c.after {
						cancel()
					}
					got, err = st.Next()
					n += len(got.IDs)
				}
				if n != c.after || !errors.Is(err, context.Canceled) || fault.CodeOf(err) != fault.ClientGone {
					t.Errorf("after %d ids: %v (%s)", n, err, fault.CodeOf(err))
				}
				if st != nil {
					_ = st.Close()
				}
			})
		})
	}
	t.Run("InTime", func(t *testing.T) {
		f := rehearsal.Fault{Kind: rehearsal.FaultSlow, Turn: -1, Delay: hour}
		s.with(t, Setup{Faults: []rehearsal.Fault{f}}, func(e engine.Engine) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			if got := Collect(ctx, e, Request(prompt, "k")); got.Code != fault.EngineUnreachable {
				t.Errorf("%+v", got)
			}
		})
	})
	t.Run("BeforeItStarts", func(t *testing.T) {
		s.with(t, Setup{}, func(e engine.Engine) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if got := Collect(ctx, e, Request(prompt, "k")); got.Code != fault.ClientGone {
				t.Errorf("%+v", got)
			}
		})
	})
}

func (s suite) close(t *testing.T) {
	s.with(t, Setup{Chunk: 2}, func(e engine.Engine) {
		for _, read := range []int{0, 1, 1000} {
			st, err := e.Generate(t.Context(), Request(greeting, "k"))
			if err != nil {
				t.Fatal(err)
			}
			for range read {
				if _, err := st.Next(); err != nil {
					break
				}
			}
			for range 3 {
				if err := st.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}
			if _, err := st.Next(); err == nil {
				t.Error("a closed stream gives more")
			}
			if read == 1000 && st.Final().Finish == "" {
				t.Error("closing forgot the end")
			}
		}
	})
}
