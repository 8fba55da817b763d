package host

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/tito-rl/tito/internal/fault"
)

// Listen opens addr: "host:port" (port 0 for a free one) or "unix:PATH".
func Listen(addr string) (net.Listener, error) {
	network, at := "tcp", addr
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, at = "unix", path
	}
	l, err := net.Listen(network, at)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fault.Wrap(fault.PortInUse, err, "%s is taken", addr)
	case err != nil:
		return nil, fault.Wrap(fault.BadFlag, err, "cannot listen on %s", addr)
	}
	return l, nil
}

// URL is how clients on this machine spell a listener's address.
func URL(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "http+unix://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

// Server serves a handler on a listener until it is closed.
type Server struct {
	http *http.Server
	done chan error
}

// Serve starts serving h on l, which the server then owns.
func Serve(l net.Listener, h http.Handler) *Server {
	s := &Server{http: &http.Server{Handler: h, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 5 * time.Minute}, done: make(chan error, 1)}
	go func() { s.done <- s.http.Serve(l) }()
	return s
}

// Close waits for answers under way until ctx ends, then cuts what is left.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) && !errors.Is(served, os.ErrClosed) {
		return served
	}
	return err
}
