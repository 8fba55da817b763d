package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/materialize"
	"github.com/tito-rl/tito/internal/schedule"
)

// StepMetrics is one line of metrics.jsonl. Continuity and the ledger are of the rollouts that ended in this step while this
// process ran it: after a resume in the middle of a step, of the rest of it.
type StepMetrics struct {
	schedule.StepReport
	Metrics
	Continuity materialize.Summary `json:"continuity"`
	Failed     map[string]int      `json:"failed,omitempty"` // tries that broke, by fault code
	Seconds    float64             `json:"seconds"`
}

// metrics gathers a step's figures and appends a line a step.
type metrics struct {
	f     *os.File
	lines []StepMetrics

	mu    sync.Mutex // guards what is below
	now   StepMetrics
	ended int
	begun time.Time
}

func openMetrics(path string) (*metrics, error) {
	m := &metrics{begun: time.Now()}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.StoreFailed, err, "reading the run's metrics")
	}
	whole := 0
	for l := range bytes.Lines(b) {
		var s StepMetrics
		if !bytes.HasSuffix(l, []byte("\n")) || json.Unmarshal(l, &s) != nil {
			break // cut by a crash: its step is reported again
		}
		m.lines = append(m.lines, s)
		whole += len(l)
	}
	m.f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		err = m.f.Truncate(int64(whole))
	}
	if err == nil {
		_, err = m.f.Seek(int64(whole), 0)
	}
	return m, fault.Wrap(fault.StoreFailed, err, "opening the run's metrics")
}

func (m *metrics) close() { m.f.Close() }

func (m *metrics) rolled(r report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.err != nil {
		if m.now.Failed == nil {
			m.now.Failed = map[string]int{}
		}
		m.now.Failed[string(fault.CodeOf(r.err))]++
		return
	}
	m.ended++
	m.now.Continuity.Add(r.out.Summary)
}

func (m *metrics) trained(_ int, t Metrics) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Metrics = t
}

func (m *metrics) done() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// step closes a step's line. A step that has its line already gives nil.
func (m *metrics) step(r schedule.StepReport) (*StepMetrics, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.lines); n > 0 && m.lines[n-1].Step >= r.Step {
		return nil, nil
	}
	s := m.now
	s.StepReport, s.Seconds = r, time.Since(m.begun).Seconds()
	b, err := line(s)
	if err == nil {
		_, err = m.f.Write(b)
	}
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "writing the run's metrics")
	}
	m.lines = append(m.lines, s)
	m.now, m.ended, m.begun = StepMetrics{}, 0, time.Now()
	return &s, nil
}
