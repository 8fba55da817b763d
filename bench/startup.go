package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// binarySize weighs the binary of `make build`.
func binarySize(_ context.Context, e env) (Result, error) {
	r := Result{Title: "Binary"}
	r.note("`make build`: static, stripped, for the machine that this ran on.")
	i, err := os.Stat(e.tito)
	if err != nil {
		return r, err
	}
	r.atMost("size", float64(i.Size())/1e6, "MB", 30)
	return r, nil
}

// startup times a sidecar from exec to the endpoint file.
func startup(ctx context.Context, e env) (Result, error) {
	r := Result{Title: "Start of a sidecar"}
	r.note("`tito sidecar --engine rehearsal`, from exec to the endpoint file being there (looked for every 0.2 ms), file cache warm; memory is the process's resident " +
		"size at that moment. Built-in model: 21 starts. Qwen3: 7 starts; its tokenizer.json is parsed each time, as there is no compiled cache yet.")
	type of struct {
		dir, label string
		n          int
		goal       bool
	}
	all := []of{{"builtin", "built-in model", 21, true}}
	if e.qwen3 != "" {
		all = append(all, of{e.qwen3, "Qwen3", 7, false})
	}
	for _, m := range all {
		var took, rss []float64
		for range m.n {
			s, err := startSidecar(ctx, e.tito, "--model", m.dir)
			if err != nil {
				return r, err
			}
			took = append(took, ms(s.ready))
			mb, err := resident(s.cmd.Process.Pid)
			s.stop()
			if err != nil {
				return r, err
			}
			rss = append(rss, mb)
		}
		if m.goal {
			r.atMost(m.label+": ready, p50", median(took), "ms", 100)
			r.atMost(m.label+": memory, p50", median(rss), "MB", 60)
		} else {
			r.add(m.label+": ready, p50", median(took), "ms")
			r.add(m.label+": memory, p50", median(rss), "MB")
		}
	}
	return r, nil
}

// resident is a process's resident memory in MB.
func resident(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		var kb float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kb); err == nil {
			return kb / 1000, nil
		}
	}
	return 0, fmt.Errorf("process %d has no resident size", pid)
}
