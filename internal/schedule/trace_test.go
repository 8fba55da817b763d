package schedule

import (
	"flag"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write the traces anew")

// A block is one command or more, a line each:
//
//	new tasks=a,b groups=2 members=2 steps=1   makes a scheduler (or prints a code)
//	begin | stop | restore                     restore saves the state and takes it back
//	done 0/1/0 reward=1 tokens=5               group/member/retry[/issue] was scored
//	fail 0/1/0 code=sandbox_failed retryable   it broke
//	cancelled 0/1/0                            it was stopped
//	trained 0 | published 1
func TestTracesGiveTheRecordedEffects(t *testing.T) {
	testkit.Traces(t, 10, *rewrite, func(t *testing.T) (func([]string) string, func()) {
		var s *Scheduler
		return func(block []string) string {
			var out strings.Builder
			for _, cmd := range block {
				for _, l := range command(t, &s, cmd) {
					out.WriteString(l + "\n")
				}
			}
			return out.String()
		}, func() {}
	})
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
