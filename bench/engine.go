package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/engine"
	rehearsing "github.com/tito-rl/tito/internal/engine/rehearsal"
	"github.com/tito-rl/tito/internal/family"
	"github.com/tito-rl/tito/internal/model"
	"github.com/tito-rl/tito/internal/rehearsal"
	"github.com/tito-rl/tito/internal/token"
)

// maxContext is beyond what any part needs.
const maxContext = 1 << 20

func loadModel(dir string) (*model.Model, error) {
	if dir == model.BuiltinName {
		return model.Builtin()
	}
	return model.Load(dir)
}

// rehearse is the rehearsal engine, without delay, whose policy always makes one short tool call.
func rehearse(m *model.Model, chunk int) (*rehearsing.Engine, error) {
	opener, err := rehearsal.FindOpener(func(ms []chat.Message) ([]token.ID, error) {
		r, err := m.Family.Render(family.Conversation{Messages: ms})
		return r.IDs, err
	}, m.Stops)
	if err != nil {
		return nil, err
	}
	p, err := rehearsal.Compile(&rehearsal.Book{Default: []rehearsal.Reply{
		{Content: chat.T("I look at the next part."), Calls: []chat.Call{{Name: "bash", Arguments: `{"command": "sed -n 1,40p main.go"}`}}},
	}}, rehearsal.Format{
		Speak: m.Family.Speak, Encode: func(s string) ([]token.ID, error) { return m.Tokenizer.Encode(s), nil },
		Decode: m.Family.Decode, Opener: opener, Stops: m.Stops,
	})
	if err != nil {
		return nil, err
	}
	return rehearsing.New(rehearsing.Config{Policy: p, Params: p.Initial("v0"), MaxContext: maxContext, Chunk: chunk})
}

// serveEngine serves it over HTTP until the process is stopped, and prints its address.
func serveEngine(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("engine", flag.ContinueOnError)
	dir := f.String("model", model.BuiltinName, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	m, err := loadModel(*dir)
	if err != nil {
		return err
	}
	e, err := rehearse(m, 8)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "http://%s\n", l.Addr())
	s := &http.Server{Handler: e.Handler(), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := s.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

// talker is an engine in this process that says real text with log probabilities such as a language model's: most ids
// nearly certain, a long tail. It is for sizes, not for speed.
type talker struct {
	m    *model.Model
	text func() string
	rng  *rand.Rand
	call atomic.Int64
}

// Info implements engine.Engine.
func (t *talker) Info(context.Context) (engine.Info, error) {
	return engine.Info{Kind: "bench", Model: "talker", EchoesIDs: true, ReturnsStop: true, Processed: true, MaxContext: maxContext, Version: "v0"}, nil
}

// Generate implements engine.Engine.
func (t *talker) Generate(_ context.Context, r engine.Request) (engine.Stream, error) {
	n := t.call.Add(1)
	ids, err := t.m.Family.Speak(chat.Reply{Content: chat.T(t.text()), Finish: chat.FinishToolCalls,
		Calls: []chat.Call{{Name: "bash", Arguments: fmt.Sprintf(`{"command": "sed -n %d,%dp main.go"}`, n, n+40)}}})
	if err != nil {
		return nil, err
	}
	lps := make([]float32, len(ids))
	for i := range lps {
		lps[i] = -float32(math.Exp(t.rng.NormFloat64()*3 - 3.5))
	}
	return &spoken{c: engine.Chunk{IDs: ids, Logprobs: lps, Version: "v0"}, prompt: r.IDs}, nil
}

// spoken is a completion that comes in one chunk.
type spoken struct {
	c      engine.Chunk
	prompt []token.ID
}

func (s *spoken) Next() (engine.Chunk, error) {
	c := s.c
	s.c = engine.Chunk{}
	if c.IDs == nil {
		return c, io.EOF
	}
	return c, nil
}

func (s *spoken) Final() engine.Final {
	return engine.Final{Finish: "stop", Prompt: s.prompt, StopToken: -1}
}
func (s *spoken) Close() error { return nil }
