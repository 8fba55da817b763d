package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/schedule"
)

// StepMetrics is one line of metrics.jsonl. All but Seconds is the same whether the run was interrupted or not.
type StepMetrics struct {
	schedule.StepReport
	Metrics
	Continuity materialize.Summary `json:"continuity"` // of the rollouts that were scored
	Seconds    float64             `json:"seconds"`    // of the process that ended the step
}

// metrics is the file of metrics, one line a step. It is used by the loop's goroutine alone.
type metrics struct {
	f         *os.File
	lines     []StepMetrics
	summaries map[schedule.Attempt]materialize.Summary // of this process's rollouts of the step
	begun     time.Time
}

// openMetrics reads the lines that are there. A last line that a crash cut is removed: its step is reported again.
func openMetrics(path string) (*metrics, error) {
	m := &metrics{begun: time.Now(), summaries: map[schedule.Attempt]materialize.Summary{}}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "opening the run's metrics")
	}
	b, err := io.ReadAll(f)
	if err != nil {
		f.Close()
		return nil, fault.Wrap(fault.StoreFailed, err, "reading the run's metrics")
	}
	whole := b[:bytes.LastIndexByte(b, '\n')+1]
	for l := range bytes.Lines(whole) {
		var s StepMetrics
		if err := json.Unmarshal(l, &s); err != nil {
			f.Close()
			return nil, fault.Wrap(fault.CheckpointBad, err, "%s, line %d", path, len(m.lines)+1)
		}
		m.lines = append(m.lines, s)
	}
	if err := errors.Join(f.Truncate(int64(len(whole))), seekEnd(f)); err != nil {
		f.Close()
		return nil, fault.Wrap(fault.StoreFailed, err, "opening the run's metrics")
	}
	m.f = f
	return m, nil
}

func seekEnd(f *os.File) error {
	_, err := f.Seek(0, io.SeekEnd)
	return err
}

func (m *metrics) close() { m.f.Close() }

// has is whether a step has its line.
func (m *metrics) has(step int) bool { return len(m.lines) > 0 && m.lines[len(m.lines)-1].Step >= step }

// write adds a step's line, at once.
func (m *metrics) write(s StepMetrics) error {
	b, err := json.Marshal(s)
	if err == nil {
		_, err = m.f.Write(append(b, '\n'))
	}
	if err != nil {
		return fault.Wrap(fault.StoreFailed, err, "writing the run's metrics")
	}
	m.lines = append(m.lines, s)
	clear(m.summaries)
	m.begun = time.Now()
	return nil
}

// readIfThere reads a file; one that does not exist gives nil.
func readIfThere(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}
