package hdfs

import (
	"context"
	"net"
	"time"
)

// nameConn is a connection to a NameNode. The library sets no deadline and goes
// on with a connection that failed, on which each later answer belongs to an
// earlier question; so every question arms the deadline of its answer, and the
// first error closes the connection.
type nameConn struct {
	net.Conn
	limit time.Duration
}

func (l limits) dialNameNode(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: l.call}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &nameConn{conn, l.call}, nil
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

func (l limits) dialDataNode(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: l.call}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &dataConn{conn, l.idle}, nil
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
