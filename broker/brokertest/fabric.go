package brokertest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Fabric is a network in memory with many hosts on it. An address is HOST:PORT;
// what goes from one host to another can be cut, each way for itself, or
// delayed, and hosts can be killed.
type Fabric struct {
	mu    sync.Mutex
	ports map[string]*port
	links map[way]*link
	conns map[*fabricConn]bool
	boots map[string]int // of each host: what was started before has no network any more
}

// way is a direction between two hosts.
type way struct{ from, to string }

// connectTime is how long a connect waits for an answer.
const connectTime = 3 * time.Second

type link struct {
	cut   bool
	delay time.Duration
}

// NewFabric is a network without hosts.
func NewFabric() *Fabric {
	return &Fabric{ports: map[string]*port{}, links: map[way]*link{}, conns: map[*fabricConn]bool{}, boots: map[string]int{}}
}

func hostOf(addr string) string {
	host, _, _ := strings.Cut(addr, ":")
	return host
}

// port is a listener.
type port struct {
	*Network
	fabric *Fabric
	addr   string
}

// Listen takes connections to an address.
func (f *Fabric) Listen(addr string) net.Listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &port{Network: NewNetwork(), fabric: f, addr: addr}
	f.ports[addr] = p
	return p
}

// Close has later connections refused.
func (p *port) Close() error {
	_ = p.Network.Close() // never fails
	p.fabric.mu.Lock()
	defer p.fabric.mu.Unlock()
	if p.fabric.ports[p.addr] == p {
		delete(p.fabric.ports, p.addr)
	}
	return nil
}

// Addr is where it listens.
func (p *port) Addr() net.Addr { return memoryAddr(p.addr) }

// Dialer connects from a host, until that host is killed.
func (f *Fabric) Dialer(from string) func(ctx context.Context, to string) (net.Conn, error) {
	f.mu.Lock()
	boot := f.boots[from]
	f.mu.Unlock()
	return func(ctx context.Context, to string) (net.Conn, error) {
		f.mu.Lock()
		p, alive := f.ports[to], f.boots[from] == boot
		there, back := f.link(from, hostOf(to)), f.link(hostOf(to), from)
		cut, delay := there.cut || back.cut, there.delay+back.delay
		f.mu.Unlock()
		switch {
		case !alive:
			return nil, net.ErrClosed
		case cut: // no answer to the first packet
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(connectTime):
				return nil, dialError(syscall.ETIMEDOUT)
			}
		case p == nil:
			return nil, dialError(syscall.ECONNREFUSED)
		}
		time.Sleep(delay)
		a, b := net.Pipe()
		near, far := f.conn(a, from, hostOf(to)), f.conn(b, hostOf(to), from)
		near.twin, far.twin = far, near
		select {
		case p.conns <- far:
			return near, nil
		case <-p.closed:
			return nil, errors.Join(dialError(syscall.ECONNREFUSED), near.Close(), far.Close())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), near.Close(), far.Close())
		}
	}
}

// dialError is a connect that failed, as the net package tells it.
func dialError(err error) error {
	return &net.OpError{Op: "dial", Net: "memory", Err: err}
}

// link is the state of a direction; mu is held.
func (f *Fabric) link(from, to string) *link {
	w := way{from, to}
	if f.links[w] == nil {
		f.links[w] = &link{}
	}
	return f.links[w]
}

// fabricConn is one end of a connection. Of what is written while its way is
// cut nothing arrives, and nobody is told; such a connection breaks when the way
// is healed, as nothing is sent again.
type fabricConn struct {
	net.Conn
	fabric   *Fabric
	from, to string
	twin     *fabricConn
	lossy    bool // guarded by fabric.mu: something was lost
}

func (f *Fabric) conn(c net.Conn, from, to string) *fabricConn {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := &fabricConn{Conn: c, fabric: f, from: from, to: to}
	f.conns[k] = true
	return k
}

// Write sends, as far as the network goes.
func (c *fabricConn) Write(b []byte) (int, error) {
	c.fabric.mu.Lock()
	l := c.fabric.link(c.from, c.to)
	c.lossy = c.lossy || l.cut
	lossy, delay := c.lossy, l.delay
	c.fabric.mu.Unlock()
	if lossy {
		return len(b), nil
	}
	time.Sleep(delay)
	n, err := c.Conn.Write(b)
	return n, broken(err)
}

// Read takes what the other end has sent.
func (c *fabricConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, broken(err)
}

// broken is the error of a connection that was closed, as a kernel tells it.
func broken(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return &net.OpError{Op: "io", Net: "memory", Err: syscall.EPIPE}
	}
	return err
}

// Close ends the connection; over a way that is cut the other end isn't told.
func (c *fabricConn) Close() error {
	c.fabric.mu.Lock()
	delete(c.fabric.conns, c)
	silent := c.lossy || c.fabric.link(c.from, c.to).cut
	_, twin := c.fabric.conns[c.twin]
	c.lossy = silent
	c.fabric.mu.Unlock()
	if silent && twin {
		return c.SetDeadline(time.Unix(1, 0)) // this end is woken
	}
	return c.Conn.Close()
}

// RemoteAddr is the other end.
func (c *fabricConn) RemoteAddr() net.Addr { return memoryAddr(c.to + ":0") }

// Cut loses all that goes from one host to another.
func (f *Fabric) Cut(from, to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.link(from, to).cut = true
	for c := range f.conns {
		if c.from == from && c.to == to {
			c.lossy = true
		}
	}
}

// Delay holds all that goes from one host to another up for a time.
func (f *Fabric) Delay(from, to string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.link(from, to).delay = d
}

// Heal undoes all cuts and delays. Connections that lost something break.
func (f *Fabric) Heal() {
	f.mu.Lock()
	clear(f.links)
	var broken []*fabricConn
	for c := range f.conns {
		if c.lossy || c.twin != nil && c.twin.lossy {
			broken = append(broken, c)
		}
	}
	for _, c := range broken {
		c.lossy = false
		if c.twin != nil {
			c.twin.lossy = false
		}
	}
	f.mu.Unlock()
	for _, c := range broken {
		_ = c.Close() // it breaks
	}
}

// Kill ends all connections of a host and all it listens on; what was started
// there has no network from then on.
func (f *Fabric) Kill(host string) {
	f.mu.Lock()
	f.boots[host]++
	var broken []*fabricConn
	for c := range f.conns {
		if c.from == host || c.to == host {
			broken = append(broken, c)
		}
	}
	var ports []*port
	for addr, p := range f.ports {
		if hostOf(addr) == host {
			ports = append(ports, p)
		}
	}
	f.mu.Unlock()
	for _, p := range ports {
		_ = p.Close() // never fails
	}
	for _, c := range broken {
		_ = c.Close() // it breaks
	}
}
