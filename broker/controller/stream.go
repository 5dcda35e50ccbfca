package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"sawlog/broker/peer"
)

// How long a dial waits before it tries again, at first and at last.
const (
	redialFirst = 25 * time.Millisecond
	redialLast  = 200 * time.Millisecond
)

// stream is the network as Raft sees it: connections between peers, and one
// kind without a network, from a node to itself. It is a raft.StreamLayer.
type stream struct {
	self  raft.ServerID
	addr  raft.ServerAddress // of this node, which Raft tells the others
	peers *peer.Peers        // nil = alone
	where *addresses
	// parted is told when a node's connection to this one has ended.
	parted func(raft.ServerID)

	arrived chan net.Conn
	ctx     context.Context // ends when the stream is closed
	cancel  context.CancelFunc

	mu   sync.Mutex
	open map[*trackedConn]struct{}
}

func newStream(peers *peer.Peers, self raft.ServerID, addr string, where *addresses, parted func(raft.ServerID)) *stream {
	s := &stream{
		self: self, addr: raft.ServerAddress(addr), peers: peers, where: where, parted: parted,
		arrived: make(chan net.Conn), open: make(map[*trackedConn]struct{}),
	}
	if addr == "" {
		s.addr = raft.ServerAddress(self)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if peers != nil {
		peers.Accept(peer.Raft, func(c *peer.Conn) {
			s.deliver(&incoming{c, serverID(c.Remote.Node, UUID(c.Remote.Directory)), s.parted})
		})
	}
	return s
}

// deliver hands a connection to Raft.
func (s *stream) deliver(conn net.Conn) {
	tracked, err := s.track(conn, "")
	if err != nil {
		return
	}
	select {
	case s.arrived <- tracked:
	case <-s.ctx.Done():
		_ = tracked.Close()
	}
}

// incoming is a connection another node made.
type incoming struct {
	net.Conn
	from   raft.ServerID
	parted func(raft.ServerID)
}

// Close closes the connection.
func (c *incoming) Close() error {
	c.parted(c.from)
	return c.Conn.Close()
}

// track keeps a connection in mind until it is closed; to is whom this node
// dialled.
func (s *stream) track(conn net.Conn, to raft.ServerID) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	t := &trackedConn{conn, s, to}
	s.open[t] = struct{}{}
	return t, nil
}

// trackedConn is a connection its stream closes.
type trackedConn struct {
	net.Conn
	stream *stream
	to     raft.ServerID
}

// Close closes the connection.
func (c *trackedConn) Close() error {
	c.stream.mu.Lock()
	delete(c.stream.open, c)
	c.stream.mu.Unlock()
	return c.Conn.Close()
}

// Accept waits for a connection.
func (s *stream) Accept() (net.Conn, error) {
	select {
	case conn := <-s.arrived:
		return conn, nil
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// ServerAddr tells Raft the address of a node: this one's own is for the others,
// theirs are their ids, as only Dial knows where they are. It is a
// raft.ServerAddressProvider.
func (s *stream) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if id == s.self {
		return s.addr, nil
	}
	return raft.ServerAddress(id), nil
}

// Dial connects to a member. It doesn't fail before its time is up: Raft waits
// after each failure, in the end for ten seconds, and a node that comes back
// must not wait that long for what it missed.
func (s *stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	if address == s.addr {
		return s.loop(ctx)
	}
	for wait := redialFirst; ; wait = min(2*wait, redialLast) {
		conn, err := s.dial(ctx, raft.ServerID(address))
		if err == nil {
			return s.track(conn, raft.ServerID(address))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// loop is a connection of the node to itself.
func (s *stream) loop(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go s.deliver(far) // ends at the latest when the stream is closed
	conn, err := s.track(near, s.self)
	if err != nil {
		return nil, err
	}
	return conn, ctx.Err()
}

// dial connects once. Whoever answers must be the member that Raft means: what
// another node acknowledges doesn't count for it.
func (s *stream) dial(ctx context.Context, to raft.ServerID) (net.Conn, error) {
	member, ok := parseServerID(to)
	address := s.where.of(to)
	if !ok || address == "" || s.peers == nil {
		return nil, fmt.Errorf("it isn't known where member %s of the metadata quorum is", to)
	}
	conn, err := s.peers.Dial(ctx, address, peer.Raft, member.ID)
	if err != nil {
		return nil, err
	}
	if UUID(conn.Remote.Directory) != member.Directory {
		err := fmt.Errorf("node %d at %s has another data directory than the member of the metadata quorum", member.ID, address)
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Addr is the node's own address.
func (s *stream) Addr() net.Addr { return streamAddr(s.addr) }

// streamAddr is an address of Raft's.
type streamAddr raft.ServerAddress

func (streamAddr) Network() string  { return "peer" }
func (a streamAddr) String() string { return string(a) }

// hangUp closes the connections this node made to another one, which has moved.
func (s *stream) hangUp(on raft.ServerID) {
	s.closeAll(func(t *trackedConn) bool { return t.to == on })
}

// Close closes all connections.
func (s *stream) Close() error {
	s.cancel()
	s.closeAll(func(*trackedConn) bool { return true })
	return nil
}

func (s *stream) closeAll(which func(*trackedConn) bool) {
	s.mu.Lock()
	var open []net.Conn
	for conn := range s.open {
		if which(conn) {
			open = append(open, conn)
		}
	}
	s.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close() // nobody is left to be told
	}
}
