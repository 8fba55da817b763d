package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tito-rl/tito/internal/dialect"
	"github.com/tito-rl/tito/internal/dialect/chatcompletions"
	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/host"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/trajectory"
)

// served is one host in this process, behind a listener on loopback.
type served struct {
	host *host.Host
	http *host.Server
	url  string
	dir  string
	n    atomic.Int64
}

func serve(ctx context.Context, m *model.Model, e engine.Engine) (*served, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tito-bench-")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &served{dir: dir, url: "http://" + l.Addr().String(), host: host.New(host.Config{
		Model: m, Engine: e, Info: info, Dialects: []dialect.Dialect{chatcompletions.Dialect{}},
		Journals: store.NewDir(dir, store.Process), Durability: store.Process, Writer: "bench",
	})}
	s.http = host.Serve(l, s.host.Handler())
	return s, nil
}

func (s *served) close() {
	_ = s.host.Close(context.Background(), "done")
	_ = s.http.Close(context.Background())
	_ = os.RemoveAll(s.dir)
}

// open begins a trajectory.
func (s *served) open(ctx context.Context) (endpoint, error) {
	id := fmt.Sprintf("b%d", s.n.Add(1))
	e, err := s.host.Open(ctx, host.Open{Identities: trajectory.Identities{Trajectory: id}})
	return endpoint{BaseURL: s.url + e.Path, Key: e.Token, Trajectory: id}, err
}

func (s *served) seal(ctx context.Context, e endpoint) error {
	if _, err := s.host.Seal(ctx, e.Trajectory, "done"); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(s.dir, e.Trajectory))
}

const (
	gatewayTime    = 12 * time.Second
	gatewayClients = 16
	gatewayTurns   = 20
	openAtOnce     = 1000
)

// gateway measures turns a second of many trajectories in one host, and the memory of open ones.
func gateway(ctx context.Context, e env) (Result, error) {
	r := Result{Title: "Many trajectories in one host"}
	r.note("Host, client and the rehearsal engine (in process, no delay, answers of about 50 ids in one chunk) share one process and both cores. %d clients over HTTP on loopback each play "+
		"one trajectory after another: a first call of about 3,500 ids, then %d more turns with tool results of about 200 bytes, up to about 5,000 ids; then it is sealed. Built-in model; "+
		"journals are written (`--durability process`). Requests are made while the clock runs, so the clients' work is in the figure: the host alone would be faster.", gatewayClients, gatewayTurns)
	r.note("Memory: the Go heap in use after a collection, with %d trajectories open after one call of about 4,000 ids each, less the heap before; the clients' side holds no text.", openAtOnce)
	m, err := model.Builtin()
	if err != nil {
		return r, err
	}
	eng, err := rehearse(m, 1024)
	if err != nil {
		return r, err
	}
	s, err := serve(ctx, m, eng)
	if err != nil {
		return r, err
	}
	defer s.close()
	if err := throughput(ctx, e, s, &r); err != nil {
		return r, err
	}
	return r, openMemory(ctx, e, s, &r)
}

func throughput(ctx context.Context, e env, s *served, r *Result) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var turns, tokens atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, gatewayClients)
	stop := make(chan struct{})
	begin, cpu := time.Now(), cpuTime()
	for i := range gatewayClients {
		wg.Go(func() {
			text, err := newReader(e.root)
			if err == nil {
				text.at = i * 50_000 % (len(text.text) - 50_000)
				client := &http.Client{Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				for err == nil && !closed(stop) {
					err = play(ctx, s, client, text, stop, &turns, &tokens)
				}
			}
			if err != nil {
				errs <- err
			}
		})
	}
	time.AfterFunc(gatewayTime, func() { close(stop) })
	wg.Wait()
	took, used := time.Since(begin), cpuTime()-cpu
	select {
	case err := <-errs:
		return err
	default:
	}
	n := float64(turns.Load())
	r.atLeast("turns a second", n/took.Seconds(), "turns/s", 2000)
	r.add("prompt ids of a turn, mean", float64(tokens.Load())/n, "ids")
	r.add("processor time a turn, clients included", ms(used)/n, "ms")
	r.add("so two cores that do nothing else give, computed", 2/(used.Seconds()/n), "turns/s")
	r.add("cores that it got", used.Seconds()/took.Seconds(), "cores")
	return nil
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// play is one trajectory.
func play(ctx context.Context, s *served, client *http.Client, text *reader, stop chan struct{}, turns, tokens *atomic.Int64) error {
	at, err := s.open(ctx)
	if err != nil {
		return err
	}
	talk := newConvo("Read this and say what it does.\n" + text.next(10_000))
	for range gatewayTurns + 1 {
		if closed(stop) {
			break
		}
		out, err := post(ctx, client, at, talk.request())
		if err != nil {
			return err
		}
		n, err := promptTokens(out)
		if err != nil {
			return err
		}
		turns.Add(1)
		tokens.Add(int64(n))
		if err := talk.answer(out, text.next(200)); err != nil {
			return err
		}
	}
	return s.seal(ctx, at)
}

func openMemory(ctx context.Context, e env, s *served, r *Result) error {
	text, err := newReader(e.root)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{}}
	before := heap()
	tokens := 0
	for range openAtOnce {
		at, err := s.open(ctx)
		if err != nil {
			return err
		}
		out, err := post(ctx, client, at, newConvo("Read this and say what it does.\n"+text.next(11_500)).request())
		if err != nil {
			return err
		}
		n, err := promptTokens(out)
		if err != nil {
			return err
		}
		tokens += n
	}
	client.CloseIdleConnections()
	per := (heap() - before) / openAtOnce
	r.add("prompt ids of each open trajectory, mean", float64(tokens)/openAtOnce, "ids")
	r.atMost("memory of an open trajectory", per/1e3, "kB", 400)
	r.add("so 10,000 open ones", per*10_000/1e9, "GB")
	return nil
}

func heap() float64 {
	debug.FreeOSMemory()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}

// cpuTime is what this process has used of all cores.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
