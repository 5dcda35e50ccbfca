package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"sawlog/offsets"
)

// Config is how a node meets the others.
type Config struct {
	Listen   string                                                   // host:port; "" = no listener
	Listener net.Listener                                             // instead of Listen; closed by Close
	Dial     func(ctx context.Context, addr string) (net.Conn, error) // nil = TCP
	Key      []byte                                                   // secret of the cluster; nil = none, loopback only
	Self     func() Identity                                          // asked at each handshake
	Met      func(Identity)                                           // nil, or told who connected and has the key, of whatever cluster
	Logger   *slog.Logger                                             // nil = discard
}

const (
	handshakeTime = 5 * time.Second
	// maxStrangers bounds the connections that have not proved who they are.
	maxStrangers = 256
)

// Peers is a node's side of all connections to the others.
type Peers struct {
	config   Config
	listener net.Listener
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	strange  chan struct{} // a token for each connection in its handshake

	mu      sync.Mutex
	accept  map[Kind]func(*Conn)
	methods map[Method]Handler
	closed  []func(Identity)
	open    map[net.Conn]struct{} // accepted ones, closed by Close
	lines   map[string]*line

	once sync.Once
	end  error
}

// Open starts to listen, if that is asked for.
func Open(c Config) (*Peers, error) {
	if c.Self == nil {
		return nil, errors.New("peer: no identity")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Dial == nil {
		d := &net.Dialer{KeepAlive: 5 * time.Second}
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	}
	p := &Peers{
		config: c, listener: c.Listener, strange: make(chan struct{}, maxStrangers),
		accept: map[Kind]func(*Conn){}, methods: map[Method]Handler{}, open: map[net.Conn]struct{}{}, lines: map[string]*line{},
	}
	if p.listener == nil && c.Listen != "" {
		if err := checkListen(c.Listen, c.Key); err != nil {
			return nil, err
		}
		var err error
		if p.listener, err = net.Listen("tcp", c.Listen); err != nil {
			return nil, err
		}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.Accept(Calls, p.serveCalls)
	if p.listener != nil {
		p.wg.Go(p.listen)
	}
	return p, nil
}

// checkListen refuses an address that others reach when there is no key.
func checkListen(addr string, key []byte) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("peer: address %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); key == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("peer: %s is reachable from other machines and needs a cluster key", addr)
	}
	return nil
}

// Addr is the address the listener is bound to, "" without one.
func (p *Peers) Addr() string {
	if p.listener == nil {
		return ""
	}
	return p.listener.Addr().String()
}

// Accept says who takes the connections of a kind. fn runs in a goroutine of
// the connection's own, which is fn's from there on; Close closes it too.
func (p *Peers) Accept(k Kind, fn func(*Conn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accept[k] = fn
}

// listen takes connections until the listener is closed.
func (p *Peers) listen() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			if p.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			p.config.Logger.Error("peer: accept", "error", err)
			select {
			case <-time.After(100 * time.Millisecond): // no file is free; some will be
				continue
			case <-p.ctx.Done():
				return
			}
		}
		select {
		case p.strange <- struct{}{}:
		default:
			_ = c.Close() // too many strangers
			continue
		}
		p.wg.Go(func() { p.meet(c) })
	}
}

// errNotYet: a node that starts listens before it can do everything.
var errNotYet = errors.New("nobody takes connections of this kind yet")

// meet lets a connection prove who it is and hands it to who takes its kind.
func (p *Peers) meet(c net.Conn) {
	if !p.hold(c) {
		<-p.strange
		return
	}
	_ = c.SetDeadline(time.Now().Add(handshakeTime)) // an error shows at the next use
	other, kind, err := welcome(c, p.config.Self(), p.config.Key)
	<-p.strange
	if p.config.Met != nil && (err == nil || errors.Is(err, errForeign)) {
		p.config.Met(other)
	}
	p.mu.Lock()
	take := p.accept[kind]
	p.mu.Unlock()
	if err == nil && take == nil {
		err = errNotYet
	}
	if err != nil {
		level := slog.LevelWarn
		// A probe only asks whether somebody listens; and a node that starts does
		// so before it can do what others want of it.
		if errors.Is(err, io.EOF) || errors.Is(err, errNotYet) {
			level = slog.LevelDebug
		}
		p.config.Logger.Log(p.ctx, level, "peer: a connection is refused", "from", c.RemoteAddr().String(), "node", int(other.Node), "error", err)
		_ = p.drop(c) // it is refused already
		return
	}
	_ = c.SetDeadline(time.Time{})
	take(&Conn{Conn: &held{Conn: c, peers: p}, Remote: other})
}

// held is an accepted connection that is forgotten when it is closed.
type held struct {
	net.Conn
	peers *Peers
}

// Close closes the connection.
func (h *held) Close() error { return h.peers.drop(h.Conn) }

// SyscallConn gives the socket beneath to who sends files over it.
func (h *held) SyscallConn() (syscall.RawConn, error) {
	if c, ok := h.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

func (p *Peers) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		_ = c.Close()
		return false
	}
	p.open[c] = struct{}{}
	return true
}

func (p *Peers) drop(c net.Conn) error {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	return c.Close()
}

// Dial connects to a node for one kind of traffic; want is the node that must
// answer, or NoBroker.
func (p *Peers) Dial(ctx context.Context, addr string, k Kind, want offsets.BrokerID) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	stop := context.AfterFunc(p.ctx, cancel)
	defer stop()
	c, err := p.config.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	unblock := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	other, err := greet(c, p.config.Self(), p.config.Key, k)
	if !unblock() && err == nil {
		err = ctx.Err()
	}
	if err == nil && want != offsets.NoBroker && other.Node != want {
		err = &WrongNodeError{Addr: addr, Want: want, Got: other.Node}
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("peer %s: %w", addr, err)
	}
	return &Conn{Conn: c, Remote: other}, nil
}

// Probe dials an address anew, without a handshake: ECONNREFUSED says that
// nobody listens there.
func (p *Peers) Probe(ctx context.Context, addr string) error {
	c, err := p.config.Dial(ctx, addr)
	if err != nil {
		return err
	}
	return c.Close()
}

// Close ends all connections and waits for what was started. A second call
// returns what the first did.
func (p *Peers) Close() error {
	p.once.Do(func() { p.end = p.shut() })
	return p.end
}

func (p *Peers) shut() error {
	p.cancel()
	var err error
	if p.listener != nil {
		err = p.listener.Close()
	}
	p.mu.Lock()
	for c := range p.open {
		_ = c.Close() // what goes over it is over
	}
	lines := p.lines
	p.lines = map[string]*line{}
	p.mu.Unlock()
	for _, l := range lines {
		l.close()
	}
	p.wg.Wait()
	return err
}
