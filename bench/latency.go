package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tito-rl/tito/internal/artifact"
	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/engine/vllm"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/token"
	"github.com/tito-rl/tito/internal/trajectory"
)

// setting is one history length under one model.
type setting struct {
	name     string
	dir      string // of the model
	label    string
	tokens   int // of history, in the middle of what is timed
	sidecars int // one trajectory each
	turns    int // timed, in each
	grow     int // bytes of each tool result while the history grows
	p50, p99 float64
}

// latency compares a harness's call through a sidecar with sending the same ids to the engine.
func latency(ctx context.Context, e env) (Result, error) {
	r := Result{Title: "Added latency per turn"}
	r.note("Three processes on loopback: the client, `tito sidecar --engine vllm --durability process`, and the rehearsal engine served over HTTP without delay. " +
		"A tool-using conversation grows turn by turn from nothing; tool results are this repository's own source. Timed are 20 turns in each of 20 sidecars (Qwen3: 10) at 8k, 40 in each of 2 at 128k. At the length named, each turn (about 50 sampled ids, " +
		"a tool result of about 600 bytes) is made through the sidecar (request sent to answer read); then its exact prompt ids are read from the journal " +
		"and sent to the engine twice with tito's own engine client. *Added* is the difference of the two, turn by turn. *Noise* is the second direct call less the first: " +
		"what the machine alone does to such a difference. *Fastest tenth*: the calls that other work on the machine disturbed least, each side by itself. " +
		"*Processor time* of the sidecar includes its own engine client, which costs what the direct call's does.")
	r.note("*First call*: the whole history at once, as after a restart of the harness's conversation: nothing can be taken over.")
	all := []setting{
		{name: "8k", tokens: 8 << 10, dir: "builtin", label: "built-in tokenizer", sidecars: 20, turns: 20, grow: 2400, p50: 0.3, p99: 1},
		{name: "128k", tokens: 128 << 10, dir: "builtin", label: "built-in tokenizer", sidecars: 2, turns: 40, grow: 12000, p50: 20, p99: 0},
	}
	if e.qwen3 != "" {
		all = append(all,
			setting{name: "8k", tokens: 8 << 10, dir: e.qwen3, label: "Qwen3", sidecars: 10, turns: 20, grow: 2400, p50: 0.3, p99: 1},
			setting{name: "128k", tokens: 128 << 10, dir: e.qwen3, label: "Qwen3", sidecars: 2, turns: 40, grow: 12000, p50: 20, p99: 0})
	}
	for _, s := range all {
		if !strings.HasPrefix(s.name, e.only) {
			continue
		}
		if err := s.run(ctx, e, &r); err != nil {
			return r, fmt.Errorf("%s, %s: %w", s.name, s.label, err)
		}
	}
	return r, nil
}

// times are what one setting gathers, in milliseconds, a value a turn.
type times struct{ via, direct, added, noise, first, cpu, spent, ids []float64 }

func (s *setting) run(ctx context.Context, e env, r *Result) error {
	url, stop, err := startEngine(ctx, s.dir)
	if err != nil {
		return err
	}
	defer stop()
	var t times
	for range s.sidecars {
		if err := s.trajectory(ctx, e, url, &t); err != nil {
			return err
		}
	}
	for _, v := range []*[]float64{&t.via, &t.direct, &t.added, &t.noise, &t.first, &t.cpu, &t.spent, &t.ids} {
		slices.Sort(*v)
	}
	at := s.name + " tokens, " + s.label + ": "
	r.atMost(at+"added, p50", quantile(t.added, 0.5), "ms", s.p50)
	if s.p99 > 0 {
		r.atMost(at+"added, p99", quantile(t.added, 0.99), "ms", s.p99)
	} else {
		r.add(at+"added, p99", quantile(t.added, 0.99), "ms")
	}
	r.add(at+"fastest tenth: p10 via tito less p10 direct", quantile(t.via, 0.1)-quantile(t.direct, 0.1), "ms")
	r.add(at+"direct, p50", quantile(t.direct, 0.5), "ms")
	r.add(at+"ratio via tito : direct, p50", quantile(t.via, 0.5)/quantile(t.direct, 0.5), "×")
	r.add(at+"noise, p50 of its size", quantile(sizes(t.noise), 0.5), "ms")
	r.add(at+"noise, p99", quantile(t.noise, 0.99), "ms")
	r.add(at+"processor time of the sidecar, p50", quantile(t.cpu, 0.5), "ms")
	r.add(at+"processor time of the client of the direct call, p50", quantile(t.spent, 0.5), "ms")
	r.add(at+"prompt, p50", quantile(t.ids, 0.5), "ids")
	r.add(at+"first call, added, p50", quantile(t.first, 0.5), "ms")
	return nil
}

func sizes(v []float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = max(x, -x)
	}
	slices.Sort(out)
	return out
}

// trajectory grows one conversation in a sidecar of its own, times its last turns, and a first call of all of it.
func (s *setting) trajectory(ctx context.Context, e env, url string, t *times) error {
	text, err := newReader(e.root)
	if err != nil {
		return err
	}
	c, err := s.connect(ctx, e, url)
	if err != nil {
		return err
	}
	defer c.close()
	talk := newConvo("Read this project and say what it does.")
	before := s.tokens - s.turns*120 // a timed turn adds about 240 ids
	for n := 0; n < before; {
		out, err := c.call(ctx, talk)
		if err != nil {
			return err
		}
		if n, err = promptTokens(out); err != nil {
			return err
		}
		if err := talk.answer(out, text.next(min(s.grow, max(200, 3*(before-n))))); err != nil {
			return err
		}
	}
	for range s.turns {
		used, err := onCPU(c.side.cmd.Process.Pid)
		if err != nil {
			return err
		}
		begin := time.Now()
		out, err := c.call(ctx, talk)
		via := time.Since(begin)
		if err != nil {
			return err
		}
		now, err := onCPU(c.side.cmd.Process.Pid)
		if err != nil {
			return err
		}
		n, err := promptTokens(out)
		if err != nil {
			return err
		}
		t.cpu, t.ids = append(t.cpu, ms(now-used)), append(t.ids, float64(n))
		direct, again, spent, err := c.direct(ctx)
		if err != nil {
			return err
		}
		t.spent = append(t.spent, ms(spent))
		t.via, t.direct = append(t.via, ms(via)), append(t.direct, ms(direct))
		t.added, t.noise = append(t.added, ms(via-direct)), append(t.noise, ms(again-direct))
		if err := talk.answer(out, text.next(600)); err != nil {
			return err
		}
	}
	return s.firstCall(ctx, e, url, talk, t)
}

// firstCall sends all of a conversation to a sidecar that has not seen it.
func (s *setting) firstCall(ctx context.Context, e env, url string, talk *convo, t *times) error {
	c, err := s.connect(ctx, e, url)
	if err != nil {
		return err
	}
	defer c.close()
	begin := time.Now()
	if _, err := c.call(ctx, talk); err != nil {
		return err
	}
	via := time.Since(begin)
	direct, _, _, err := c.direct(ctx)
	t.first = append(t.first, ms(via-direct))
	return err
}

// connection is a sidecar, and a client of the engine behind it.
type connection struct {
	side   *sidecar
	http   *http.Client
	engine *vllm.Client
	path   string // of the journal
}

func (s *setting) connect(ctx context.Context, e env, url string) (*connection, error) {
	side, err := startSidecar(ctx, e.tito, "--model", s.dir, "--engine", "vllm", "--engine-url", url, "--durability", "process")
	if err != nil {
		return nil, err
	}
	direct, err := vllm.New(vllm.Config{URL: url})
	if err != nil {
		side.stop()
		return nil, err
	}
	return &connection{side, &http.Client{Transport: &http.Transport{}}, direct, side.journal()}, nil
}

func (c *connection) close() {
	c.http.CloseIdleConnections()
	c.engine.CloseIdle()
	c.side.stop()
}

func (c *connection) call(ctx context.Context, talk *convo) ([]byte, error) {
	return post(ctx, c.http, c.side.at, talk.request())
}

// direct sends the prompt of the journal's last turn to the engine, twice. cpu is this process's time for the second.
func (c *connection) direct(ctx context.Context) (first, second, cpu time.Duration, err error) {
	tree, err := openTree(c.path)
	if err != nil {
		return 0, 0, 0, err
	}
	last := trajectory.Seq(tree.Len())
	turn, prompt := tree.Turn(last), tree.Prompt(last)
	req := engine.Request{IDs: prompt, MaxTokens: turn.MaxTokens, Sampling: chat.Neutral(), Stops: tree.Header().Stops, Model: "rehearsal", Key: turn.Call}
	for _, d := range []*time.Duration{&first, &second} {
		begin, used := time.Now(), cpuTime()
		ids, err := generate(ctx, c.engine, req)
		if err != nil {
			return 0, 0, 0, err
		}
		*d, cpu = time.Since(begin), cpuTime()-used
		if !slices.Equal(ids, turn.Completion) {
			return 0, 0, 0, fmt.Errorf("turn %d: the engine said other ids when it was asked directly", last)
		}
	}
	return first, second, cpu, nil
}

func generate(ctx context.Context, e engine.Engine, r engine.Request) (ids []token.ID, err error) {
	s, err := e.Generate(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	for {
		c, err := s.Next()
		if errors.Is(err, io.EOF) {
			return ids, nil
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, c.IDs...)
	}
}

// openTree reads a journal that is still being written.
func openTree(path string) (*trajectory.Tree, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := artifact.Decode(b)
	if err != nil && fault.CodeOf(err) != fault.ArtifactTruncated {
		return nil, err
	}
	return artifact.ToTree(f)
}

// onCPU is the time that a process has run on any core, all threads together. Clock ticks are too coarse for one call.
func onCPU(pid int) (time.Duration, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(tasks) == 0 {
		return 0, fmt.Errorf("process %d has no threads to be seen: %w", pid, err)
	}
	var sum time.Duration
	for _, p := range tasks {
		b, err := os.ReadFile(p)
		if err != nil {
			return 0, err
		}
		var ns int64
		if _, err := fmt.Sscan(string(b), &ns); err != nil {
			return 0, fmt.Errorf("%s: %w", p, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

func promptTokens(response []byte) (int, error) {
	var r struct {
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	err := json.Unmarshal(response, &r)
	return r.Usage.Prompt, err
}

// startEngine runs this program again as the engine, and gives its address.
func startEngine(ctx context.Context, dir string) (url string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, self, "engine", "-model", dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("the engine did not start: %w", err)
	}
	return strings.TrimSpace(line), stop, nil
}

// sidecar is a running `tito sidecar`.
type sidecar struct {
	cmd   *exec.Cmd
	dir   string
	at    endpoint
	ready time.Duration // from exec to the endpoint file
}

func startSidecar(ctx context.Context, tito string, args ...string) (*sidecar, error) {
	dir, err := os.MkdirTemp("", "tito-bench-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "endpoint.json")
	s := &sidecar{dir: dir, cmd: exec.CommandContext(ctx, tito, append([]string{"sidecar", "--endpoint-file", file, "--out", filepath.Join(dir, "runs")}, args...)...)}
	var log strings.Builder
	s.cmd.Stderr = &log
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for {
		b, err := os.ReadFile(file)
		if err == nil {
			s.ready = time.Since(begin)
			return s, json.Unmarshal(b, &s.at)
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Since(begin) > 30*time.Second {
			s.stop()
			return nil, fmt.Errorf("the sidecar is not ready: %w\n%s", err, log.String())
		}
		time.Sleep(200 * time.Microsecond)
	}
}

func (s *sidecar) journal() string {
	return filepath.Join(s.dir, "runs", s.at.Trajectory, "trajectory.tito")
}

func (s *sidecar) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}
