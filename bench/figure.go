package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Result is what one part measured, in one run.
type Result struct {
	Part    string    `json:"part"`
	Title   string    `json:"title"`
	How     []string  `json:"how"`
	Date    string    `json:"date"`
	Commit  string    `json:"commit"`
	Machine string    `json:"machine"`
	Load    [2]string `json:"load"` // of the machine, before and after: processes that want a core
	Figures []Figure  `json:"figures"`
}

// Figure is one number. Goal is "" where none is set; Reached is meaningful only with a goal.
type Figure struct {
	What    string  `json:"what"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Goal    string  `json:"goal,omitempty"`
	Reached bool    `json:"reached,omitempty"`
	Note    string  `json:"note,omitempty"`
}

func (r *Result) add(what string, value float64, unit string) {
	r.Figures = append(r.Figures, Figure{What: what, Value: value, Unit: unit})
}

func (r *Result) atMost(what string, value float64, unit string, goal float64) {
	r.Figures = append(r.Figures, Figure{What: what, Value: value, Unit: unit, Goal: fmt.Sprintf("≤ %g", goal), Reached: value <= goal})
}

func (r *Result) atLeast(what string, value float64, unit string, goal float64) {
	r.Figures = append(r.Figures, Figure{What: what, Value: value, Unit: unit, Goal: fmt.Sprintf("≥ %g", goal), Reached: value >= goal})
}

func (r *Result) note(format string, args ...any) {
	r.How = append(r.How, fmt.Sprintf(format, args...))
}

func (r *Result) save(out string) error {
	r.Date = time.Now().UTC().Format("2006-01-02")
	r.Machine = machine()
	for i := range r.Figures {
		r.Figures[i].Value = significant(r.Figures[i].Value)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return err
	}
	for _, f := range r.Figures {
		fmt.Fprintf(os.Stderr, "   %-64s %10.4g %-12s %s\n", f.What, f.Value, f.Unit, f.verdict())
	}
	return os.WriteFile(filepath.Join(out, "results", r.Part+".json"), b.Bytes(), 0o644)
}

// significant keeps three digits: more would be noise.
func significant(v float64) float64 {
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		return v
	}
	return out
}

func (f *Figure) verdict() string {
	switch {
	case f.Goal == "":
		return ""
	case f.Reached:
		return f.Goal
	}
	return f.Goal + " **not reached**"
}

// machine describes where this runs, in words.
func machine() string {
	mem := ""
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int
		if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kb); err == nil {
			mem = fmt.Sprintf(", %d GB of memory", (kb+1<<19)>>20)
		}
	}
	return fmt.Sprintf("%d shared virtual cores%s, %s/%s, %s", runtime.NumCPU(), mem, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// commit names the commit that is measured, before results are written over.
func commit() string {
	b, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// load is how many processes want a core, averaged over the last minute.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// report writes README.md from the results that are there.
func report(out string) error {
	var b strings.Builder
	b.WriteString("# Figures\n\nMade by `make bench` from `results/*.json`; do not edit. Each figure was taken in one run beside what it is compared with.\n" +
		"A goal that was not reached says so.\n")
	n := 0
	for _, p := range slices.Backward(parts) {
		data, err := os.ReadFile(filepath.Join(out, "results", p.name+".json"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		var r Result
		if err := json.Unmarshal(data, &r); err != nil {
			return fmt.Errorf("results/%s.json: %w", p.name, err)
		}
		n++
		r.write(&b)
	}
	if n == 0 {
		return fmt.Errorf("there are no results in %s", out)
	}
	return os.WriteFile(filepath.Join(out, "README.md"), []byte(b.String()), 0o644)
}

func (r *Result) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n| what | measured | goal |\n|---|---|---|\n", r.Title)
	for _, f := range r.Figures {
		fmt.Fprintf(b, "| %s | %s %s | %s |\n", f.What, number(f.Value), f.Unit, f.verdict())
	}
	b.WriteString("\n")
	for _, h := range r.How {
		fmt.Fprintf(b, "- %s\n", h)
	}
	fmt.Fprintf(b, "- %s, commit %s, on %s; load average %s before, %s after.\n", r.Date, r.Commit, r.Machine, r.Load[0], r.Load[1])
}

func number(v float64) string {
	s := fmt.Sprintf("%g", v)
	if v >= 10000 {
		s = fmt.Sprintf("%.0f", v)
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
	}
	return s
}

// quantile of sorted values.
func quantile(sorted []float64, q float64) float64 {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func median(v []float64) float64 { return quantile(slices.Sorted(slices.Values(v)), 0.5) }

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
