// Command testsum reads what `go test -json` prints and says it in a few lines: one a package as it ends, the whole output of
// what failed, every skip with its reason, and the counts.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"
)

// event is one line of go test -json, or of go build -json inside it.
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
	Elapsed                                                float64
}

// summary gathers events.
type summary struct {
	passed, failed, skipped int
	output                  map[string][]string // of tests and packages that have not ended well
	skips, failures         []string
	start                   time.Time
}

func main() {
	s := &summary{output: map[string][]string{}, start: time.Now()}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		var e event
		switch {
		case line == "":
		case json.Unmarshal([]byte(line), &e) == nil:
			s.take(e)
		default:
			fmt.Print(line) // not of the test runner
		}
		if err != nil {
			break
		}
	}
	os.Exit(s.end())
}

func (s *summary) take(e event) {
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "output":
		s.output[key] = append(s.output[key], e.Output)
	case "build-output":
		fmt.Print(e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			s.endPackage(e, key)
		} else {
			s.endTest(e, key)
		}
	}
}

func (s *summary) endTest(e event, key string) {
	name := strings.TrimPrefix(e.Package, "github.com/tito-rl/tito/") + "." + e.Test
	switch e.Action {
	case "pass":
		s.passed++
		delete(s.output, key)
	case "skip":
		s.skipped++
		s.skips = append(s.skips, name+": "+reason(s.output[key]))
		delete(s.output, key)
	case "fail":
		s.failed++
		s.failures = append(s.failures, "--- "+name+"\n"+strings.Join(s.output[key], ""))
	}
}

func (s *summary) endPackage(e event, key string) {
	name := strings.TrimPrefix(e.Package, "github.com/tito-rl/tito/")
	switch e.Action {
	case "pass":
		fmt.Printf("ok    %-34s %6.1fs\n", name, e.Elapsed)
	case "fail":
		fmt.Printf("FAIL  %-34s %6.1fs\n", name, e.Elapsed)
		if e.FailedBuild != "" || s.failed == 0 {
			s.failed++
			s.failures = append(s.failures, "--- "+name+"\n"+strings.Join(s.output[key], ""))
		}
	}
	delete(s.output, key)
}

// reason is what a skipped test said.
func reason(output []string) string {
	for _, o := range output {
		if o = strings.TrimSpace(o); o != "" && !strings.HasPrefix(o, "=== ") && !strings.HasPrefix(o, "--- ") {
			return o
		}
	}
	return "no reason given"
}

func (s *summary) end() int {
	for _, f := range s.failures {
		fmt.Println("\n" + f)
	}
	sort.Strings(s.skips)
	for _, k := range s.skips {
		fmt.Println("skipped", k)
	}
	fmt.Printf("\nin %.0fs\n%d passed, %d failed, %d skipped\n", time.Since(s.start).Seconds(), s.passed, s.failed, s.skipped)
	if s.failed > 0 || s.passed == 0 {
		return 1
	}
	return 0
}
