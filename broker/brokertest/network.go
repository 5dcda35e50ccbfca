package brokertest

import (
	"context"
	"errors"
	"net"
	"sync"
)

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
func (n *Network) Addr() net.Addr { return memoryAddr("broker:9092") }

type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }
