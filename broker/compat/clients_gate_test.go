package compat_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// gate is a TCP address that stays open while the broker behind it restarts: a
// new connection waits for the broker instead of being refused. A client of a
// cluster would ask another node meanwhile; one node has none, and some clients
// give a refused connection to their user.
type gate struct {
	listener net.Listener
	backend  string
	wait     sync.WaitGroup
	done     chan struct{}
	mu       sync.Mutex
	open     map[net.Conn]bool
}

// openGate listens on a free port until the test ends; the backend is set
// before the first client comes.
func openGate(t testing.TB) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, done: make(chan struct{}), open: map[net.Conn]bool{}}
	t.Cleanup(func() {
		close(g.done)
		_ = l.Close()
		g.mu.Lock()
		for c := range g.open {
			_ = c.Close()
		}
		g.mu.Unlock()
		g.wait.Wait()
	})
	return g
}

func (g *gate) addr() string { return g.listener.Addr().String() }

// serve passes connections on to the backend.
func (g *gate) serve(backend string) {
	g.backend = backend
	g.wait.Go(func() {
		for {
			c, err := g.listener.Accept()
			if err != nil {
				return
			}
			g.wait.Go(func() { g.pass(c) })
		}
	})
}

// pass joins a client to the backend until one of them closes.
func (g *gate) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	server := g.dial()
	if server == nil {
		return
	}
	defer func() { _ = server.Close() }()
	g.mu.Lock()
	g.open[client], g.open[server] = true, true
	g.mu.Unlock()
	both := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		g.wait.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // either side may end it at any time
			both <- struct{}{}
		})
	}
	<-both
	g.mu.Lock()
	delete(g.open, client)
	delete(g.open, server)
	g.mu.Unlock()
}

// dial waits for the backend to listen; nil when the test ends first.
func (g *gate) dial() net.Conn {
	for {
		if c, err := net.DialTimeout("tcp", g.backend, time.Second); err == nil {
			return c
		}
		select {
		case <-g.done:
			return nil
		case <-time.After(5 * time.Millisecond): // another process acts
		}
	}
}
