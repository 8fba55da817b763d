package schedule

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tito-rl/tito/internal/fault"
)

var rewrite = flag.Bool("rewrite", false, "write the traces anew")

// A trace is comment lines, then blocks: command lines, "----", and what they gave, up to an empty line.
//
//	new tasks=a,b groups=2 members=2 steps=1   makes a scheduler (or prints a code)
//	begin | stop | restore                     restore saves the state and takes it back
//	done 0/1/0 reward=1 tokens=5               group/member/retry[/issue] was scored
//	fail 0/1/0 code=sandbox_failed retryable   it broke
//	cancelled 0/1/0                            it was stopped
//	trained 0 | published 1
func TestTracesGiveTheRecordedEffects(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d traces, %v; want at least 10", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			had, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got := runTrace(t, string(had))
			if *rewrite {
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(had), got); d != "" {
				t.Errorf("trace differs (-recorded +now):\n%s", d)
			}
		})
	}
}

func runTrace(t *testing.T, text string) string {
	var out strings.Builder
	var s *Scheduler
	var block []string
	skip := false
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case skip:
			skip = line != ""
		case strings.HasPrefix(line, "#") || line == "":
			out.WriteString(line + "\n")
		case line == "----":
			out.WriteString("----\n")
			for _, cmd := range block {
				for _, l := range command(t, &s, cmd) {
					out.WriteString(l + "\n")
				}
			}
			out.WriteString("\n")
			block, skip = nil, true
		default:
			block = append(block, line)
			out.WriteString(line + "\n")
		}
	}
	if len(block) > 0 {
		t.Fatalf("the last block has no ----")
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func command(t *testing.T, s **Scheduler, line string) []string {
	t.Helper()
	words := strings.Fields(line)
	args := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		args[k] = v
	}
	num := func(k string) int { n, _ := strconv.Atoi(args[k]); return n }
	if words[0] == "new" {
		c := Config{Seed: uint64(num("seed")), Steps: num("steps"), Groups: num("groups"), Members: num("members"),
			MinGroup: num("min_group"), MaxRetries: num("retries"), Concurrency: num("concurrency"), MaxRejected: num("max_rejected")}
		_, c.Shuffle = args["shuffle"]
		if args["tasks"] != "" {
			c.Tasks = strings.Split(args["tasks"], ",")
		}
		n, err := New(c)
		if err != nil {
			return []string{"error " + string(fault.CodeOf(err))}
		}
		*s = n
		return []string{"ok"}
	}
	if words[0] == "restore" {
		data, err := (*s).State()
		if err == nil {
			*s, err = Restore(data)
		}
		if err != nil {
			t.Fatal(err)
		}
		return []string{"ok"}
	}
	e := Event{Kind: EventKind(words[0])}
	switch words[0] {
	case "trained":
		e.Step, _ = strconv.Atoi(words[1])
	case "published":
		e.Version, _ = strconv.Atoi(words[1])
	case "done", "fail", "cancelled":
		e.Attempt = parseAttempt(t, words[1], (*s).Config().Groups)
		e.Reward, _ = strconv.ParseFloat(args["reward"], 64)
		e.Trainable = 5
		if _, ok := args["tokens"]; ok {
			e.Trainable = num("tokens")
		}
		e.Code = fault.Code(args["code"])
		_, e.Retryable = args["retryable"]
		e.Kind = map[string]EventKind{"done": Finished, "fail": Failed, "cancelled": Cancelled}[words[0]]
	}
	var out []string
	for _, f := range (*s).Step(e) {
		out = append(out, effectLines(f)...)
	}
	return out
}

func parseAttempt(t *testing.T, s string, groups int) Attempt {
	var n [4]int
	for i, p := range strings.Split(s, "/") {
		v, err := strconv.Atoi(p)
		if err != nil || i > 3 {
			t.Fatalf("attempt %q", s)
		}
		n[i] = v
	}
	return Attempt{Step: n[0] / groups, Group: n[0], Member: n[1], Retry: n[2], Issue: n[3]}
}

func effectLines(f Effect) []string {
	name := func(a Attempt) string {
		s := fmt.Sprintf("%d/%d/%d", a.Group, a.Member, a.Retry)
		if a.Issue > 0 {
			s += fmt.Sprintf("/%d", a.Issue)
		}
		return s
	}
	counts := func(m map[string]int) string {
		var out []string
		for k, n := range m {
			out = append(out, fmt.Sprintf("%s:%d", k, n))
		}
		sort.Strings(out)
		return strings.Join(out, ",")
	}
	switch f.Kind {
	case Start, Cancel:
		r := f.Rollout
		return []string{fmt.Sprintf("%s %s task=%s version=%d seed=%04x", f.Kind, name(r.Attempt), r.Task, r.Version, r.Seed&0xffff)}
	case Train:
		out := []string{fmt.Sprintf("train step=%d version=%d", f.Batch.Step, f.Batch.Version)}
		for _, g := range f.Batch.Groups {
			out = append(out, fmt.Sprintf("  group %d task=%s mean=%.4g std=%.4g", g.Group, g.Task, g.Mean, g.Std))
			for _, r := range g.Runs {
				out = append(out, fmt.Sprintf("    %s reward=%g advantage=%.4f", name(r.Attempt), r.Reward, r.Advantage))
			}
		}
		return out
	case Publish:
		return []string{fmt.Sprintf("publish %d", f.Version)}
	case Drop:
		return []string{fmt.Sprintf("drop group=%d task=%s reason=%s", f.Group, f.Task, f.Reason)}
	case Report:
		r := f.Report
		return []string{fmt.Sprintf("report step=%d version=%d scored=%d reward=%.4g groups=%d dropped=%s retries=%d failed=%s lost=%s",
			r.Step, r.Version, r.Scored, r.Reward, r.Groups, counts(r.Dropped), r.Retries, counts(r.Failed), counts(r.Lost))}
	}
	return []string{fmt.Sprintf("%s: %s", f.Kind, f.Reason)}
}
