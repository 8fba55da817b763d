package host

import (
	"sync"

	"github.com/tito-rl/tito/internal/session"
)

// mailbox is an unbounded queue of effects for one waiting request: the session never waits for a slow client.
type mailbox struct {
	ready chan struct{} // holds one token while the queue may be non-empty

	mu   sync.Mutex
	list []session.Effect
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

func (m *mailbox) put(e session.Effect) {
	m.mu.Lock()
	m.list = append(m.list, e)
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// take empties the queue; call it after ready gave its token.
func (m *mailbox) take() []session.Effect {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.list
	m.list = nil
	return out
}
