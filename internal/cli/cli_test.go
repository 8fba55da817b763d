package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tito-rl/tito/internal/cli"
	"github.com/tito-rl/tito/internal/sandbox/local"
)

// TestMain lets the test binary be tito, and the init of tito's sandboxes.
func TestMain(m *testing.M) {
	local.MaybeInit()
	testscript.Main(m, map[string]func(){"tito": tito})
}

// tito is cmd/tito's main.
func tito() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, os.Args[1:], cli.Std()))
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "await": await, "chat": chat, "damage": damage, "keys": keys, "takeport": takePort, "signal": send,
			"bundle": bundle,
		},
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, "HOME="+e.WorkDir, "PATH="+os.Getenv("PATH"), // $PATH holds tito
				"GORACE=atexit_sleep_ms=0") // else a binary with the race detector stays a second after its end
			return nil
		},
		RequireExplicitExec: true,
	})
}

// exits CODE [FAULT] -- CMD…: the command ends with that exit code, and its standard error names the fault. With --json
// among its arguments the last line of its standard output does too.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	at := slices.Index(args, "--")
	if neg || at < 1 || at > 2 {
		ts.Fatalf("usage: exits CODE [FAULT] -- CMD…")
	}
	err := ts.Exec(args[at+1], args[at+2:]...)
	code := 0
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		code = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if want, _ := strconv.Atoi(args[0]); code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
	if at == 1 {
		return
	}
	if stderr := strings.TrimSpace(ts.ReadFile("stderr")); !strings.HasSuffix(stderr, "["+args[1]+"]") {
		ts.Fatalf("standard error does not end with [%s]", args[1])
	}
	if slices.Contains(args, "--json") {
		var e struct {
			Error struct {
				Code, Boundary, Message string
				Retry                   *bool
			}
		}
		ts.Check(json.Unmarshal([]byte(lastLine(ts.ReadFile("stdout"))), &e))
		if e.Error.Code != args[1] || e.Error.Boundary == "" || e.Error.Message == "" || e.Error.Retry == nil {
			ts.Fatalf("the error's object: %+v", e.Error)
		}
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return lines[len(lines)-1]
}

// await PATTERN [N]: waits until the pattern matches N files (1).
func await(ts *testscript.TestScript, _ bool, args []string) {
	want := 1
	if len(args) == 2 {
		want, _ = strconv.Atoi(args[1])
	}
	until(ts.Fatalf, 60*time.Second, args[0], func() bool {
		found, err := filepath.Glob(ts.MkAbs(args[0]))
		ts.Check(err)
		return len(found) >= want
	})
}

// until polls.
func until(fail func(string, ...any), limit time.Duration, what string, ok func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(end) {
			fail("%s: not within %s", what, limit)
		}
	}
}

// signal INT|TERM|KILL: to the background command that was started last.
func send(ts *testscript.TestScript, _ bool, args []string) {
	all := ts.BackgroundCmds()
	sig := map[string]os.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}[args[0]]
	ts.Check(all[len(all)-1].Process.Signal(sig))
}

// chat ENDPOINTFILE TEXT: one call as any client makes it; its status and answer are printed.
func chat(ts *testscript.TestScript, _ bool, args []string) {
	var e struct {
		URL string `json:"base_url"`
		Key string `json:"api_key"`
		ID  string `json:"trajectory_id"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &e))
	if !strings.HasSuffix(e.URL, "/v1") || e.Key == "" || e.ID == "" {
		ts.Fatalf("endpoint %+v", e)
	}
	body, err := json.Marshal(map[string]any{"model": "policy", "messages": []map[string]string{{"role": "user", "content": args[1]}}})
	ts.Check(err)
	req, err := http.NewRequest(http.MethodPost, e.URL+"/chat/completions", bytes.NewReader(body))
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+e.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%d %s\n", resp.StatusCode, answer)
}

// damage FILE flip|cut|version TO: a copy of an artifact with one byte changed in its midst, without its last bytes, or
// with a newer format version.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	switch args[1] {
	case "flip":
		b[len(b)/2] ^= 1
	case "cut":
		b = b[:len(b)-7]
	case "version":
		b[versionByte]++
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), b, 0o644))
}

const versionByte = len("tito-artifact/")

// keys FILE KEY…: the last line of FILE (or stdout) is an object of exactly these keys.
func keys(ts *testscript.TestScript, _ bool, args []string) {
	var o map[string]json.RawMessage
	ts.Check(json.Unmarshal([]byte(lastLine(ts.ReadFile(args[0]))), &o))
	want := slices.Sorted(slices.Values(args[1:]))
	if got := slices.Sorted(maps.Keys(o)); !slices.Equal(got, want) {
		ts.Fatalf("keys %q, want %q", got, want)
	}
}

// takeport: listens on a port until the script ends, and names it in $PORT.
func takePort(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	ts.Setenv("PORT", port)
}
