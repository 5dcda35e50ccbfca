package hdfs

import (
	"context"
	"net"
	"time"
)

// wire dials connections that break when a context is done, whatever they wait
// for.
type wire struct {
	limits limits
	ctx    context.Context
}

// dial connects. The context the library gives never ends.
func (w wire) dial(network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: w.limits.call}).DialContext(w.ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &boundConn{conn, context.AfterFunc(w.ctx, func() { _ = conn.Close() })}, nil
}

// boundConn is a connection that a context closes.
type boundConn struct {
	net.Conn
	release func() bool
}

func (c *boundConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// nameConn is a connection to a NameNode. The library sets no deadline and goes
// on with a connection that failed, on which each later answer belongs to an
// earlier question; so every question arms the deadline of its answer, and the
// first error closes the connection.
type nameConn struct {
	net.Conn
	limit time.Duration
}

func (w wire) dialNameNode(_ context.Context, network, addr string) (net.Conn, error) {
	conn, err := w.dial(network, addr)
	if err != nil {
		return nil, err
	}
	return &nameConn{conn, w.limits.call}, nil
}

func (c *nameConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, c.broken(err)
	}
	n, err := c.Conn.Write(p)
	return n, c.broken(err)
}

func (c *nameConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.broken(err)
}

func (c *nameConn) broken(err error) error {
	if err != nil {
		_ = c.Close() // the error is the one to report
	}
	return err
}

// dataConn is a connection to a DataNode: each read and write has a deadline of
// its own, also those before the library would set one.
type dataConn struct {
	net.Conn
	limit time.Duration
}

func (w wire) dialDataNode(_ context.Context, network, addr string) (net.Conn, error) {
	conn, err := w.dial(network, addr)
	if err != nil {
		return nil, err
	}
	return &dataConn{conn, w.limits.idle}, nil
}

func (c *dataConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *dataConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// SetDeadline does nothing: the library only ever takes deadlines away.
func (c *dataConn) SetDeadline(time.Time) error { return nil }
