package wire

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"sawlog/offsets"
)

// Config is how a Server treats its connections. Zero numbers mean the default
// beside them.
type Config struct {
	Handler     Handler
	Rules       func(key int16) (Rule, bool)
	Logger      *slog.Logger
	MaxFrame    int32         // bytes; 104857600
	MaxConns    int           // 10000
	MaxPerIP    int           // 1000
	MaxInFlight int           // requests of one connection read ahead; 64
	QueuedBytes int64         // memory of all requests in flight; 256 MiB
	Idle        time.Duration // a connection without requests; 10 min
	Frame       time.Duration // the next MiB of a frame that began; 30 s
	Write       time.Duration // the next MiB of a reply; 60 s
}

func (c Config) withDefaults() Config {
	set := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.Idle, 10*time.Minute)
	set(&c.Frame, 30*time.Second)
	set(&c.Write, 60*time.Second)
	if c.MaxFrame == 0 {
		c.MaxFrame = 100 << 20
	}
	if c.MaxConns == 0 {
		c.MaxConns = 10000
	}
	if c.MaxPerIP == 0 {
		c.MaxPerIP = 1000
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 64
	}
	if c.QueuedBytes == 0 {
		c.QueuedBytes = 256 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Server serves connections until it is closed.
type Server struct {
	config   Config
	metrics  Metrics
	pool     *bufferPool
	inFlight *bytesSemaphore

	stop context.Context // ends waits when the server closes
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu        sync.Mutex
	draining  bool
	conns     map[*serverConn]struct{}
	perIP     map[string]int
	listeners []net.Listener
}

// NewServer makes a server; Serve starts it.
func NewServer(c Config) *Server {
	c = c.withDefaults()
	s := &Server{
		config:   c,
		pool:     &bufferPool{},
		inFlight: newBytesSemaphore(c.QueuedBytes),
		conns:    map[*serverConn]struct{}{},
		perIP:    map[string]int{},
	}
	s.stop, s.end = context.WithCancel(context.Background())
	return s
}

// Metrics counts the server's work.
func (s *Server) Metrics() *Metrics { return &s.metrics }

// Serve accepts connections in the background until Close.
func (s *Server) Serve(l net.Listener) {
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			switch {
			case err == nil:
				s.ServeConn(c)
			case errors.Is(err, net.ErrClosed) || s.stop.Err() != nil:
				return
			default: // out of descriptors, or the peer was gone already
				s.config.Logger.Warn("accept", "error", err)
				select {
				case <-time.After(50 * time.Millisecond):
				case <-s.stop.Done():
					return
				}
			}
		}
	})
}

// ServeConn serves one connection in the background.
func (s *Server) ServeConn(nc net.Conn) { s.ServePeer(nc, 0) }

// ServePeer serves a connection that is known to come from a broker.
func (s *Server) ServePeer(nc net.Conn, peer offsets.BrokerID) {
	ip := hostOf(nc)
	s.mu.Lock()
	refused := s.draining || len(s.conns) >= s.config.MaxConns || s.perIP[ip] >= s.config.MaxPerIP
	if refused {
		s.mu.Unlock()
		s.metrics.Refused.Add(1)
		_ = nc.Close() // nothing was exchanged: no error can matter
		return
	}
	c := newServerConn(s, nc, ip)
	c.last.Peer = peer
	s.conns[c] = struct{}{}
	s.perIP[ip]++
	s.wg.Add(2)
	s.mu.Unlock()
	s.metrics.Accepted.Add(1)
	s.metrics.Open.Add(1)
	go c.read()
	go c.write()
}

// forget is called once by a connection that ended.
func (s *Server) forget(c *serverConn) {
	s.mu.Lock()
	delete(s.conns, c)
	if s.perIP[c.ip]--; s.perIP[c.ip] == 0 {
		delete(s.perIP, c.ip)
	}
	s.mu.Unlock()
	s.metrics.Open.Add(-1)
}

// Close stops accepting and reading, answers what is in flight (parked requests
// as if their time were over) until ctx ends, and closes every connection.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	var err error
	for _, l := range s.listeners {
		err = errors.Join(err, l.Close())
	}
	for c := range s.conns {
		c.drain()
	}
	s.mu.Unlock()
	s.end()
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.conns {
		c.abort()
	}
	s.mu.Unlock()
	<-done
	return err
}

// hostOf is the address connections are counted by.
func hostOf(c net.Conn) string {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.IP.String()
	}
	return c.RemoteAddr().String()
}
