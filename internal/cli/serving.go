package cli

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tito-rl/tito/internal/dialect"
	"github.com/tito-rl/tito/internal/dialect/chatcompletions"
	"github.com/tito-rl/tito/internal/engine"
	rehearsing "github.com/tito-rl/tito/internal/engine/rehearsal"
	"github.com/tito-rl/tito/internal/engine/vllm"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/harness"
	"github.com/tito-rl/tito/internal/host"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/session"
	"github.com/tito-rl/tito/internal/store"
	"github.com/tito-rl/tito/internal/trajectory"
	"github.com/tito-rl/tito/internal/trial"
)

// serveFlags are the flags of every command that serves a policy.
type serveFlags struct {
	policyFlags
	model, engine, engineURL, engineModel, keyEnv string
	books                                         []string
	faults                                        string
	render, promptMode, stream, durability        string
	maxBody                                       int64
	keepAlive                                     time.Duration
	processed                                     bool
	seed                                          uint64
	verbose                                       bool
}

func (s *serveFlags) add(c *cobra.Command) {
	s.policyFlags.add(c)
	f := c.Flags()
	f.StringVar(&s.model, "model", "builtin", "folder with tokenizer.json and chat template, or builtin")
	f.StringVar(&s.engine, "engine", "rehearsal", "rehearsal or vllm")
	f.StringVar(&s.engineURL, "engine-url", "", "address of the engine, such as http://127.0.0.1:8000")
	f.StringVar(&s.engineModel, "engine-model", "", "name under which the engine serves the model; empty = the first that it lists")
	f.StringVar(&s.keyEnv, "engine-key-env", "", "environment variable that holds the engine's key")
	f.BoolVar(&s.processed, "engine-processed-logprobs", false, "the engine reports log probabilities after temperature and truncation (vLLM: --logprobs-mode processed_logprobs)")
	f.StringArrayVar(&s.books, "book", nil, "rehearsal book (JSON) that the rehearsal engine plays; may be given more than once")
	f.StringVar(&s.faults, "faults", "", "script of faults (JSON) that the rehearsal engine makes")
	f.StringVar(&s.render, "render", "tito", "who renders prompts: tito")
	f.StringVar(&s.promptMode, "tito-prompt-mode", "full_history", "full_history")
	f.StringVar(&s.stream, "stream", "buffered", "buffered (an answer is sent when it is whole) or live (text streams as it is sampled)")
	f.StringVar(&s.durability, "durability", "process", "what a recorded turn survives: process (kill -9) or power")
	f.Int64Var(&s.maxBody, "max-body", host.DefaultMaxBody, "largest request, in bytes")
	f.DurationVar(&s.keepAlive, "keep-alive", host.DefaultKeepAlive, "between comments on a stream that waits")
	f.Uint64Var(&s.seed, "seed", 1, "seed of everything that is drawn here")
	f.BoolVar(&s.verbose, "verbose", false, "log every call to standard error")
}

func (s *serveFlags) check() error {
	for _, c := range []struct {
		flag, value string
		known       []string
		later       []string
	}{
		{"engine", s.engine, []string{"rehearsal", "vllm"}, []string{"sglang", "llamacpp", "fireworks", "openai"}},
		{"render", s.render, []string{"tito"}, []string{"engine"}},
		{"tito-prompt-mode", s.promptMode, []string{"full_history"}, []string{"incremental"}},
		{"stream", s.stream, []string{"buffered", "live"}, nil},
	} {
		if err := oneOf(c.flag, c.value, c.known, c.later...); err != nil {
			return err
		}
	}
	if s.engine == "vllm" && s.engineURL == "" {
		return fault.New(fault.BadFlag, "--engine vllm needs --engine-url")
	}
	if s.engine != "vllm" && (s.engineURL != "" || s.keyEnv != "") {
		return fault.New(fault.BadFlag, "--engine-url and --engine-key-env belong to --engine vllm")
	}
	if s.engine != "rehearsal" && (len(s.books) > 0 || s.faults != "") {
		return fault.New(fault.BadFlag, "--book and --faults belong to --engine rehearsal")
	}
	return nil
}

// serving is everything that serves trajectories in this process.
type serving struct {
	model     *model.Model
	rehearsal *rehearsing.Engine // nil with another engine
	host      *host.Host
	server    *host.Server
	listener  net.Listener
	base      string // folder of the journals' store
	info      engine.Info
	secret    string // environment variable of the engine's key, which no agent is given; "" = none
}

// serve loads the model, starts or reaches the engine, and listens. base is the folder under which journals are kept.
func (a *app) serve(ctx context.Context, s *serveFlags, base, listen, custody string, onTurn func(host.TurnReport)) (*serving, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	policy, err := s.policy()
	if err != nil {
		return nil, err
	}
	durability, err := store.ParseDurability(s.durability)
	if err != nil {
		return nil, err
	}
	m, err := loadModel(s.model)
	if err != nil {
		return nil, err
	}
	v := &serving{model: m, secret: s.keyEnv}
	eng, err := a.engine(s, v)
	if err != nil {
		return nil, err
	}
	if v.info, err = eng.Info(ctx); err != nil {
		return nil, err
	}
	if v.base, err = filepath.Abs(base); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(v.base, 0o755); err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "making %s", v.base)
	}
	v.host = host.New(host.Config{
		Model: m, Engine: eng, Info: v.info, Name: v.modelName(), Dialects: []dialect.Dialect{chatcompletions.Dialect{}},
		Journals: store.NewDir(v.base, durability), Durability: durability, Policy: policy, MaxContext: policy.MaxContext,
		Live: s.stream == "live", Custody: custody, Writer: writer(), MaxBody: s.maxBody, KeepAlive: s.keepAlive,
		Log: a.logger(s.verbose), OnTurn: onTurn,
	})
	if v.listener, err = host.Listen(listen); err != nil {
		return nil, err
	}
	v.server = host.Serve(v.listener, v.host.Handler())
	return v, nil
}

func (a *app) logger(verbose bool) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: level}))
}

// close seals what is open and stops listening.
func (v *serving) close(reason string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := v.host.Close(ctx, reason)
	if serr := v.server.Close(ctx); err == nil {
		err = serr
	}
	return err
}

func (v *serving) url(e host.Endpoint) string { return host.URL(v.listener) + e.Path }

// modelName is what clients are told to ask for.
func (v *serving) modelName() string { return "policy" }

func (a *app) engine(s *serveFlags, v *serving) (engine.Engine, error) {
	if s.engine == "vllm" {
		key := ""
		if s.keyEnv != "" {
			if key = a.Env(s.keyEnv); key == "" {
				return nil, fault.New(fault.BadConfig, "the environment has no %s, which --engine-key-env names", s.keyEnv)
			}
		}
		return vllm.New(vllm.Config{URL: s.engineURL, Model: s.engineModel, APIKey: key, Processed: s.processed})
	}
	book, err := readBooks(s.books)
	if err != nil {
		return nil, err
	}
	faults, err := readFaults(s.faults)
	if err != nil {
		return nil, err
	}
	faults = append(faults, book.Faults...)
	p, err := compileBook(book, v.model)
	if err != nil {
		return nil, err
	}
	v.rehearsal, err = rehearsing.New(rehearsing.Config{Policy: p, Params: p.Initial("v0"), Faults: faults, Seed: s.seed})
	return v.rehearsal, err
}

// readBooks merges books; none gives the empty book, which answers everything by its default reply.
func readBooks(paths []string) (*rehearsal.Book, error) {
	books := []*rehearsal.Book{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, fileError(p, err)
		}
		book, err := rehearsal.ParseBook(b)
		if err != nil {
			return nil, fault.Wrap(fault.BadConfig, err, "%s", p)
		}
		books = append(books, book)
	}
	return rehearsal.Merge(books...)
}

func readFaults(path string) ([]rehearsal.Fault, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	f, err := rehearsal.ParseFaults(b)
	return f, fault.Wrap(fault.BadConfig, err, "%s", path)
}

// compileBook binds a book to a model.
func compileBook(b *rehearsal.Book, m *model.Model) (*rehearsal.Policy, error) {
	format, err := rehearsing.FormatOf(m.Tokenizer, m.Family)
	if err != nil {
		return nil, err
	}
	return rehearsal.Compile(b, format)
}

// Open implements [trial.Server].
func (v *serving) Open(ctx context.Context, ids trajectory.Identities, info harness.Info, journal string) (trial.Served, error) {
	rel, err := filepath.Rel(v.base, journal)
	if err != nil || strings.HasPrefix(rel, "..") {
		return nil, fault.New(fault.StoreFailed, "journal %s lies outside %s", journal, v.base)
	}
	e, err := v.host.Open(ctx, host.Open{Identities: ids, Journal: rel, Harness: strings.TrimSpace(info.Name + " " + info.Version), Classify: classifier(info)})
	return &served{v, e}, err
}

func classifier(info harness.Info) session.Classifier {
	if len(info.Marks) == 0 {
		return nil
	}
	return func(c *session.CallArrived) (trajectory.Class, string) { return info.Classify(c.Request, c.Marks) }
}

// served is one trajectory of a trial.
type served struct {
	v *serving
	e host.Endpoint
}

func (s *served) Endpoint() harness.Endpoint {
	return harness.Endpoint{BaseURL: s.v.url(s.e), APIKey: s.e.Token, Model: s.v.modelName()}
}

func (s *served) Seal(ctx context.Context, reason string) (trial.Sealed, error) {
	r, err := s.v.host.Seal(ctx, s.e.Trajectory, reason)
	return trial.Sealed{
		Turns: r.Turns, Head: hexOf(r.Head), Prompt: r.Usage.Prompt, Cached: r.Usage.Cached, Completion: r.Usage.Completion,
		OutOfContext: r.Last == fault.ContextLength, Broken: broken(r),
	}, err
}

// broken names the first refusal that leaves the record in doubt: the engine or the journal contradicted itself.
func broken(r host.Sealed) error {
	var codes []string
	for c := range r.Refused {
		switch c {
		case fault.EnginePrompt, fault.EngineIDs, fault.SessionInvariant, fault.StoreFailed, fault.DiskFull:
			codes = append(codes, string(c))
		}
	}
	if len(codes) == 0 {
		return nil
	}
	sort.Strings(codes)
	return fault.New(fault.Code(codes[0]), "%d answers failed with %s", r.Refused[fault.Code(codes[0])], strings.Join(codes, ", "))
}

// writeEndpoint tells scripts where a trajectory is served.
func writeEndpoint(path string, url string, e host.Endpoint) error {
	b, err := json.Marshal(map[string]string{"base_url": url, "api_key": e.Token, "trajectory_id": e.Trajectory})
	if err != nil {
		return err
	}
	return store.WriteFile(path, append(b, '\n'), 0o600)
}
