package host

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tito-rl/tito/internal/fault"
)

// Listen opens addr: "host:port" (port 0 for a free one) or "unix:PATH". A socket file that nobody listens on, as a crash
// leaves it, is replaced.
func Listen(addr string) (net.Listener, error) {
	network, at := "tcp", addr
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, at = "unix", path
	}
	l, err := net.Listen(network, at)
	if network == "unix" && errors.Is(err, syscall.EADDRINUSE) && abandoned(at) && os.Remove(at) == nil {
		l, err = net.Listen(network, at)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fault.Wrap(fault.PortInUse, err, "%s is taken", addr)
	case err != nil:
		return nil, fault.Wrap(fault.BadFlag, err, "cannot listen on %s", addr)
	}
	return l, nil
}

func abandoned(path string) bool {
	if i, err := os.Stat(path); err != nil || i.Mode().Type() != os.ModeSocket {
		return false
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
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
	http  *http.Server
	close sync.Once
	done  chan struct{}
	err   error // of serving; valid once done is closed
}

// maxHeader bounds a request's headers: they are names and ids, and some of them are recorded.
const maxHeader = 64 << 10

// Serve starts serving h on l, which the server then owns.
func Serve(l net.Listener, h http.Handler) *Server {
	s := &Server{done: make(chan struct{}), http: &http.Server{
		Handler: h, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: maxHeader,
	}}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
		}
	}()
	return s
}

// Close waits for answers under way until ctx ends, then cuts what is left. It returns why serving ended, if that was not
// Close. Closing again does nothing more.
func (s *Server) Close(ctx context.Context) error {
	var err error
	s.close.Do(func() {
		if s.http.Shutdown(ctx) != nil {
			err = s.http.Close()
		}
	})
	<-s.done
	return errors.Join(s.err, err)
}
