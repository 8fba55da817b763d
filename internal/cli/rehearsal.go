package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	rehearsing "github.com/tito-rl/tito/internal/engine/rehearsal"
	"github.com/tito-rl/tito/internal/fault"
	"github.com/tito-rl/tito/internal/host"
)

func (a *app) rehearsal() *cobra.Command {
	var model, listen, faults string
	var books []string
	var seed uint64
	var maxContext int
	c := &cobra.Command{
		Use: "rehearsal", Short: "Serve the rehearsal policy as an engine of its own, in the wire format of vLLM's completions",
		Long: "Serves POST /v1/completions (prompt as ids, return_token_ids, log probabilities), /v1/models, /health and /version until it is\n" +
			"stopped. It plays books and makes faults on purpose: an engine to test harnesses, gateways and trainers against. A sidecar reaches\n" +
			"it with --engine vllm --engine-url.",
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := loadModel(model)
			if err != nil {
				return err
			}
			book, err := readBooks(books)
			if err != nil {
				return err
			}
			script, err := readFaults(faults)
			if err != nil {
				return err
			}
			p, err := compileBook(book, m)
			if err != nil {
				return err
			}
			e, err := rehearsing.New(rehearsing.Config{Policy: p, Params: p.Initial("v0"), Faults: append(script, book.Faults...), Seed: seed, MaxContext: maxContext})
			if err != nil {
				return err
			}
			return a.serveEngine(c.Context(), e, listen)
		},
	}
	f := c.Flags()
	f.StringVar(&model, "model", "builtin", "folder with tokenizer.json and chat template, or builtin")
	f.StringVar(&listen, "listen", "127.0.0.1:8000", "address (port 0 = a free one), or unix:PATH")
	f.StringArrayVar(&books, "book", nil, "rehearsal book (JSON); may be given more than once")
	f.StringVar(&faults, "faults", "", "script of faults (JSON)")
	f.Uint64Var(&seed, "seed", 1, "seed of what is drawn")
	f.IntVar(&maxContext, "max-context", 0, "ids of prompt and completion together; 0 = 131,072")
	return c
}

func (a *app) serveEngine(ctx context.Context, e *rehearsing.Engine, listen string) error {
	l, err := host.Listen(listen)
	if err != nil {
		return err
	}
	s := host.Serve(l, e.Handler())
	info, err := e.Info(ctx)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(map[string]any{"url": host.URL(l), "model": info.Model, "version": info.Version})
	} else {
		a.say("serving %s as model %s", host.URL(l), info.Model)
	}
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return fault.Wrap(fault.InternalError, s.Close(end), "closing")
}
