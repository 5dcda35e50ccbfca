package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/peer"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// network is one in memory, on which nodes are killed and cut off.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	cut       map[string]bool // addresses nothing goes to or comes from
	conns     map[*netConn]bool
}

func newNetwork() *network {
	return &network{listeners: map[string]*listener{}, cut: map[string]bool{}, conns: map[*netConn]bool{}}
}

// listener is where a node is reached.
type listener struct {
	net    *network
	addr   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (n *network) listen(addr string) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &listener{net: n, addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[addr] = l
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.closeNow()
	return nil
}

func (l *listener) closeNow() { l.once.Do(func() { close(l.closed) }) }

func (l *listener) Addr() net.Addr { return netAddr(l.addr) }

type netAddr string

func (netAddr) Network() string  { return "memory" }
func (a netAddr) String() string { return string(a) }

// dialer connects a node to others.
func (n *network) dialer(from string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, to string) (net.Conn, error) {
		n.mu.Lock()
		l, cut := n.listeners[to], n.cut[from] || n.cut[to]
		if n.listeners[from] == nil {
			l = nil // it was killed
		}
		n.mu.Unlock()
		switch {
		case cut:
			<-ctx.Done()
			return nil, ctx.Err()
		case l == nil:
			return nil, syscall.ECONNREFUSED
		}
		a, b := net.Pipe()
		near, far := n.conn(a, from, to), n.conn(b, to, from)
		select {
		case l.conns <- far:
			return near, nil
		case <-l.closed:
			return nil, errors.Join(syscall.ECONNREFUSED, a.Close(), b.Close())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), a.Close(), b.Close())
		}
	}
}

// netConn is one end of a connection. Once it was cut nothing arrives any more,
// and nobody is told.
type netConn struct {
	net.Conn
	net      *network
	from, to string
	dead     bool // guarded by net.mu
}

func (n *network) conn(c net.Conn, from, to string) *netConn {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := &netConn{Conn: c, net: n, from: from, to: to}
	n.conns[k] = true
	return k
}

func (c *netConn) RemoteAddr() net.Addr { return netAddr(c.to) }

func (c *netConn) Write(b []byte) (int, error) {
	c.net.mu.Lock()
	dead := c.dead
	c.net.mu.Unlock()
	if dead {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *netConn) Close() error {
	c.net.mu.Lock()
	delete(c.net.conns, c)
	dead := c.dead
	c.net.mu.Unlock()
	if dead {
		// The other end hears nothing; this one is woken.
		return c.SetDeadline(time.Unix(1, 0))
	}
	return c.Conn.Close()
}

// kill ends all that goes to and from an address, until somebody listens there.
func (n *network) kill(addr string) {
	n.mu.Lock()
	if l := n.listeners[addr]; l != nil {
		l.closeNow()
		delete(n.listeners, addr)
	}
	var broken []*netConn
	for c := range n.conns {
		if c.from == addr || c.to == addr {
			broken = append(broken, c)
		}
	}
	n.mu.Unlock()
	for _, c := range broken {
		_ = c.Close()
	}
}

func (n *network) killed(addr string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listeners[addr] == nil
}

// isolate cuts an address off.
func (n *network) isolate(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[addr] = true
	for c := range n.conns {
		if c.from == addr || c.to == addr {
			c.dead = true
		}
	}
}

// heal lets an address be reached again; connections that were cut break.
func (n *network) heal(addr string) {
	n.mu.Lock()
	delete(n.cut, addr)
	var broken []*netConn
	for c := range n.conns {
		if c.dead && (c.from == addr || c.to == addr) {
			c.dead = false
			broken = append(broken, c)
		}
	}
	n.mu.Unlock()
	for _, c := range broken {
		_ = c.Close()
	}
}

// member is one node of a cluster in a test.
type member struct {
	t       testing.TB
	net     *network
	id      offsets.BrokerID
	addr    string
	fs      *vfs.Mem
	dir     UUID
	folder  string // on a real disk
	starts  int
	cluster string
	joined  bool
	join    []string
	change  func(*Config)
	level   int16 // the newest format level it knows; 0 = that of this build

	born    UUID // its incarnation
	self    atomic.Pointer[peer.Identity]
	epoch   int64
	halt    chan struct{} // ends the beats
	beating sync.WaitGroup
	peers   *peer.Peers
	*Controller
	live atomic.Pointer[Controller] // the same, for others; nil while it isn't started
}

// newMember is a node that was never started.
func newMember(t testing.TB, n *network, id offsets.BrokerID) *member {
	return &member{t: t, net: n, id: id, addr: fmt.Sprintf("node%d:9093", id), fs: newDisk(t), dir: incarnation(id, 0), change: func(*Config) {}}
}

func (n *member) identity() peer.Identity { return *n.self.Load() }

// introduce settles what a node says of itself.
func (n *member) introduce() {
	n.self.Store(&peer.Identity{Cluster: n.cluster, Node: n.id, Directory: n.dir, Incarnation: n.born})
}

// open starts a node: it founds, joins, or goes on.
func (n *member) open(ctx context.Context) error {
	n.starts++
	n.born = incarnation(n.id, n.starts)
	n.introduce()
	var err error
	n.peers, err = peer.Open(peer.Config{Listener: n.net.listen(n.addr), Dial: n.net.dialer(n.addr), Self: n.identity, Logger: testLogger(n.t)})
	if err != nil {
		return err
	}
	if n.cluster == "" && len(n.join) > 0 {
		to, err := Join(ctx, n.peers, n.join, JoinRequest{n.id, n.dir, n.addr, LevelsTo(n.level)})
		if err != nil {
			return errors.Join(err, n.peers.Close())
		}
		n.cluster, n.id, n.joined = to.ClusterID, to.Node, true
	}
	if n.cluster == "" {
		n.cluster = testCluster
	}
	c := Config{
		FS: n.fs, Dir: "data", NodeID: n.id, Directory: n.dir, ClusterID: n.cluster,
		Peers: n.peers, PeerAddr: n.addr, Joined: n.joined, Join: n.join, Logger: testLogger(n.t), FormatLevel: n.level,
	}
	n.introduce()
	n.change(&c)
	if n.Controller, err = Open(ctx, c); err != nil {
		return errors.Join(err, n.peers.Close())
	}
	return nil
}

// start opens a node and registers its broker.
func (n *member) start() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Second)
	defer cancel()
	if err := n.open(ctx); err != nil {
		n.t.Fatalf("node %d: %v", n.id, err)
	}
	n.register()
}

// register registers a node's broker, which beats from then on.
func (n *member) register() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Second)
	defer cancel()
	var err error
	n.epoch, err = n.RegisterBroker(ctx, Registration{
		ID: n.id, Incarnation: n.born, Directory: n.dir,
		Endpoints: []Endpoint{n.endpoint(), {"PLAINTEXT", "client", 1}},
		Fenced:    len(n.join) > 0,
	})
	if err != nil {
		if n.net.killed(n.addr) {
			return // that isn't its fault
		}
		n.t.Fatalf("node %d registers: %v", n.id, err)
	}
	n.halt = make(chan struct{})
	n.beating.Go(n.keepBeating)
	n.live.Store(n.Controller)
}

func (n *member) endpoint() Endpoint {
	host, port, _ := net.SplitHostPort(n.addr)
	number, _ := strconv.Atoi(port)
	return Endpoint{"PEER", host, int32(number)}
}

// keepBeating is what a broker does all its life.
func (n *member) keepBeating() {
	t := time.NewTicker(150 * time.Millisecond)
	defer t.Stop()
	for {
		_, _ = n.Heartbeat(n.t.Context(), Beat{Broker: n.id, Epoch: n.epoch, Applied: n.Applied(), WantUnfence: true})
		select {
		case <-t.C:
		case <-n.halt:
			return
		}
	}
}

// inService waits until exactly some brokers are in service, as a node sees it.
func (n *member) inService(ids ...offsets.BrokerID) {
	n.t.Helper()
	for range 2000 {
		var have []offsets.BrokerID
		for _, b := range n.Image().Brokers {
			if b.usable() {
				have = append(have, b.ID)
			}
		}
		if slices.Equal(have, ids) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	n.t.Fatalf("not in service: %v\n%s", ids, describe(n.Image()))
}

// stop closes a node.
func (n *member) stop() {
	n.t.Helper()
	if n.Controller == nil {
		return
	}
	n.quiet()
	if err := n.Controller.Close(); err != nil {
		n.t.Errorf("node %d: %v", n.id, err)
	}
	if err := n.peers.Close(); err != nil {
		n.t.Errorf("node %d: %v", n.id, err)
	}
	n.net.mu.Lock()
	delete(n.net.listeners, n.addr)
	n.net.mu.Unlock()
	n.Controller = nil
}

// quiet ends the beats of a node's broker.
func (n *member) quiet() {
	n.live.Store(nil)
	if n.halt != nil {
		close(n.halt)
		n.beating.Wait()
		n.halt = nil
	}
}

// kill ends a node without warning: its disk is as a crash leaves it, its
// address refuses, and what it does still goes nowhere.
func (n *member) kill() {
	n.t.Helper()
	n.live.Store(nil)
	left := n.fs.CrashClone(nil)
	n.net.kill(n.addr)
	n.bury()
	n.fs = left
}

// bury closes what is left of a node that was killed.
func (n *member) bury() {
	n.t.Helper()
	if n.Controller == nil {
		return
	}
	if err := n.peers.Close(); err != nil {
		n.t.Errorf("node %d: %v", n.id, err)
	}
	n.quiet()
	_ = n.Controller.Close() // it can't say goodbye any more
	n.Controller = nil
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(string(line))
	return len(line), nil
}

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// clusterOf starts a founder and nodes that join it.
func clusterOf(t *testing.T, size int) (*network, []*member) {
	t.Helper()
	net := newNetwork()
	nodes := make([]*member, size)
	for i := range nodes {
		nodes[i] = newMember(t, net, offsets.BrokerID(i+1))
		if i > 0 {
			nodes[i].join = []string{nodes[0].addr}
		}
		nodes[i].start()
	}
	return net, nodes
}

// stopAll closes nodes.
func stopAll(nodes []*member) {
	for _, n := range slices.Backward(nodes) {
		n.stop()
	}
}
