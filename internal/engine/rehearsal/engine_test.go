package rehearsal

import (
	"testing"

	"github.com/tito-rl/tito/internal/engine"
	"github.com/tito-rl/tito/internal/engine/enginetest"
)

func build(t testing.TB, s enginetest.Setup) *Engine {
	t.Helper()
	e, err := New(Config{Policy: s.Policy, Params: s.Params, Faults: s.Faults, Seed: s.Seed, MaxContext: s.MaxContext, Chunk: s.Chunk})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestTheEngineInProcessKeepsTheContract(t *testing.T) {
	enginetest.Run(t, func(t testing.TB, s enginetest.Setup) (engine.Engine, func()) { return build(t, s), func() {} })
}
