package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/train"
)

// screen shows a run as it goes: on a terminal one line that changes, elsewhere one line a step.
type screen struct {
	a     *app
	start time.Time
	live  bool // the line is drawn
	sum   float64
	n     int
}

func newScreen(a *app) *screen { return &screen{a: a, start: time.Now()} }

func (s *screen) show(p train.Progress) {
	switch p.Kind {
	case train.RolloutEnded:
		if p.Err == nil {
			s.sum += p.Rolled.Reward
			s.n++
		} else if c := fault.CodeOf(p.Err); c != fault.Interrupted {
			s.print("  %s: %s [%s]", train.Name(p.Rollout.Attempt), p.Err, c)
		}
		s.line("step %d  %s  %d/%d rollouts, reward %.2f", p.Rollout.Step+1, bar(float64(p.Done)/float64(max(p.Total, 1)), 24), p.Done, p.Total, s.sum/float64(max(s.n, 1)))
	case train.StepEnded:
		c := p.Step.Continuity
		s.print("  step %3d  reward %.2f %s  %d turns, %d extend, %d realign, %d split, %s  %.1fs", p.Step.Step+1, p.Step.Reward,
			bar(p.Step.Reward, 20), c.Turns, c.Extends, c.Realigns, c.SplitCount(), learned(p.Step), p.Step.Seconds)
		s.sum, s.n = 0, 0
	case train.Resumed:
		s.print("  going on where the run was stopped")
	case train.Stopping:
		s.print("  stopping; what is finished is kept")
	}
}

// learned is what a step trained on. A group whose rewards are all equal teaches nothing.
func learned(s train.StepMetrics) string {
	if s.Tokens == 0 && s.Scored > 0 {
		return "all groups alike, nothing to learn"
	}
	return fmt.Sprintf("%d ids trained", s.Tokens)
}

// line draws the changing line, on a terminal only.
func (s *screen) line(format string, args ...any) {
	if !s.a.Terminal {
		return
	}
	s.live = true
	fmt.Fprintf(s.a.Err, "\r\x1b[K%5.1fs  "+format, append([]any{time.Since(s.start).Seconds()}, args...)...)
}

// print writes a line that stays.
func (s *screen) print(format string, args ...any) {
	s.close()
	fmt.Fprintf(s.a.Err, format+"\n", args...)
}

// close removes the changing line.
func (s *screen) close() {
	if s.live {
		fmt.Fprint(s.a.Err, "\r\x1b[K")
		s.live = false
	}
}

// bar is a share between 0 and 1, drawn width characters wide.
func bar(share float64, width int) string {
	n := int(share*float64(width) + 0.5)
	n = min(max(n, 0), width)
	return strings.Repeat("█", n) + strings.Repeat("░", width-n)
}
