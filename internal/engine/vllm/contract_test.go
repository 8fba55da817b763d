package vllm

import (
	"net/http/httptest"
	"testing"

	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/engine/enginetest"
	"github.com/tito-rl/tito/internal/engine/rehearsal"
)

// serve plays a set-up over HTTP and gives a client of it.
func serve(t testing.TB, s enginetest.Setup) (engine.Engine, func()) {
	t.Helper()
	e, err := rehearsal.New(rehearsal.Config{Policy: s.Policy, Params: s.Params, Faults: s.Faults, Seed: s.Seed,
		MaxContext: s.MaxContext, Chunk: s.Chunk, APIKey: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(e.Handler())
	c, err := New(Config{URL: srv.URL + "/v1", APIKey: "secret", Processed: true})
	if err != nil {
		t.Fatal(err)
	}
	return c, func() { c.CloseIdle(); srv.Close() }
}

func TestTheClientKeepsTheContract(t *testing.T) { enginetest.Run(t, serve) }
