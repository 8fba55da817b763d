package vllm

import (
	"net/http/httptest"
	"testing"

	"github.com/tito-rl/tito/internal/chat"
	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/engine/enginetest"
	"github.com/tito-rl/tito/internal/engine/rehearsal"
	policy "github.com/tito-rl/tito/internal/rehearsal"
)

// serve plays a set-up over HTTP and gives a client of it.
func serve(t testing.TB, s enginetest.Setup) (engine.Engine, func()) {
	t.Helper()
	e, err := rehearsal.New(rehearsal.Config{Policy: s.Policy, Params: s.Params, Faults: s.Faults, Seed: s.Seed,
		MaxContext: s.MaxContext, Chunk: s.Chunk, APIKey: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	return over(t, e, 0)
}

// over is a client of an engine that is served over loopback.
func over(t testing.TB, e *rehearsal.Engine, interval int) (engine.Engine, func()) {
	t.Helper()
	srv := httptest.NewServer(e.Handler())
	c, err := New(Config{URL: srv.URL + "/v1", APIKey: "secret", Processed: true, Interval: interval})
	if err != nil {
		t.Fatal(err)
	}
	return c, func() { c.CloseIdle(); srv.Close() }
}

// policyOf is a policy that says one text, whatever the prompt.
func policyOf(text string) (*policy.Policy, error) {
	return policy.Compile(&policy.Book{Default: []policy.Reply{{Content: chat.T(text)}}}, enginetest.Toy())
}

func TestTheClientKeepsTheContract(t *testing.T) { enginetest.Run(t, serve) }
