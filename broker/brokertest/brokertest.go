// Package brokertest starts brokers inside a test, on loopback or with an
// in-memory network and disk.
package brokertest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"sawlog/broker"
)

// Start runs a broker on a free loopback port, over a directory of the test's,
// until the test ends. New groups don't wait for more members there. change,
// when not nil, may alter the config.
func Start(t testing.TB, change func(*broker.Config)) *broker.Broker {
	t.Helper()
	c := broker.Config{
		Listen: "127.0.0.1:0",
		Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if change != nil {
		change(&c)
	}
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	const delay = "group.initial.rebalance.delay.ms"
	if _, ok := c.Defaults[delay]; !ok {
		c.Defaults = maps.Clone(c.Defaults)
		if c.Defaults == nil {
			c.Defaults = map[string]string{}
		}
		c.Defaults[delay] = "0"
	}
	b, err := open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Stop(t, b) })
	return b
}

// open opens a broker, also where one has just been closed at its address: a
// process that another test is starting holds copies of all sockets until it has
// become another program.
func open(ctx context.Context, c broker.Config) (*broker.Broker, error) {
	for late := time.Now().Add(10 * time.Second); ; {
		b, err := broker.Open(ctx, c)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(late) {
			return b, err
		}
		time.Sleep(time.Millisecond) // another process acts
	}
}

// Stop closes a broker and fails the test if that isn't clean.
func Stop(t testing.TB, b *broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// testWriter sends a logger's lines to the test's log.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(string(line))
	return len(line), nil
}

// Network is a listener whose connections stay inside the process, so that a
// test in a synctest bubble has time in its hand.
type Network struct {
	once   sync.Once
	closed chan struct{}
	conns  chan net.Conn
}

// NewNetwork makes a network with one listener on it.
func NewNetwork() *Network {
	return &Network{closed: make(chan struct{}), conns: make(chan net.Conn)}
}

// Dial connects to the listener; it fits kgo.Dialer.
func (n *Network) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-n.closed:
		return nil, errors.Join(net.ErrClosed, client.Close())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), client.Close())
	}
}

// Accept waits for the next Dial.
func (n *Network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept and Dial fail.
func (n *Network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// Addr is a name, not an address.
func (n *Network) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "broker:9092" }
