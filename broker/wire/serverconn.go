package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"
)

// serverConn is one connection of a Server.
type serverConn struct {
	server *Server
	net    net.Conn
	raw    syscall.RawConn // of a plain TCP connection: sendfile works
	ip     string
	last   Client // of the request before: its strings are used again

	wake  chan struct{} // capacity 1: the writer has something to look at
	space chan struct{} // one token for each request in the queue

	mu      sync.Mutex
	queue   []*Exchange // in order of arrival, the reader appends, the writer pops
	active  time.Time   // when the last request came or reply went
	ended   bool        // no more requests come
	drained bool        // parked requests are to answer now
	gone    bool        // the writer left: replies are dropped
}

func newServerConn(s *Server, nc net.Conn, ip string) *serverConn {
	c := &serverConn{
		server: s,
		net:    nc,
		ip:     ip,
		last:   Client{Host: "/" + ip},
		active: time.Now(),
		wake:   make(chan struct{}, 1),
		space:  make(chan struct{}, s.config.MaxInFlight),
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
	return c
}

// client is the sender of a request with this client id.
func (c *serverConn) client(id []byte) Client {
	if string(id) != c.last.ID {
		c.last.ID = string(id)
		c.last.Batch = strings.HasPrefix(c.last.ID, BatchPrefix)
	}
	return c.last
}

func (c *serverConn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// armIdle sets the deadline for the next request, unless the connection is
// being drained.
func (c *serverConn) armIdle() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drained {
		return net.ErrClosed
	}
	from := c.active
	if len(c.queue) > 0 {
		from = time.Now()
	}
	return c.net.SetReadDeadline(from.Add(c.server.config.Idle))
}

// idle tells whether nothing happened for as long as may be: no reply is due,
// and the last one is long ago.
func (c *serverConn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drained || c.gone || len(c.queue) == 0 && time.Since(c.active) >= c.server.config.Idle
}

// drain makes the connection answer what it has and end.
func (c *serverConn) drain() {
	c.mu.Lock()
	c.drained = true
	_ = c.net.SetReadDeadline(time.Unix(1, 0)) // fails only when already closed
	c.mu.Unlock()
	c.signal()
}

// abort ends the connection now.
func (c *serverConn) abort() {
	_ = c.net.Close() // the goroutines notice, whatever it returns
	c.mu.Lock()
	c.ended, c.drained = true, false
	c.mu.Unlock()
	c.signal()
}

// read takes requests until the connection ends or sends what isn't one.
func (c *serverConn) read() {
	defer c.server.wg.Done()
	in := bufio.NewReaderSize(c.net, 4<<10)
	for {
		select {
		case c.space <- struct{}{}:
		case <-c.server.stop.Done():
			c.endReading(nil)
			return
		}
		e, body, err := c.readFrame(c.server.stop, in)
		if err != nil {
			c.room()
			c.endReading(err)
			return
		}
		c.mu.Lock()
		gone := c.gone
		if !gone {
			c.queue = append(c.queue, e)
			c.active = time.Now()
		}
		c.mu.Unlock()
		if gone {
			c.server.inFlight.release(e.weight)
			return
		}
		c.server.metrics.Requests.Add(1)
		c.serve(e)
		if body != nil {
			c.server.pool.put(body)
		}
		c.mu.Lock()
		closing := e.closing || c.gone
		c.mu.Unlock()
		if closing {
			c.endReading(nil)
			return
		}
	}
}

// serve runs the handler; a panic costs the connection.
func (c *serverConn) serve(e *Exchange) {
	defer func() {
		if p := recover(); p != nil {
			c.panicked(e, p)
		}
	}()
	c.server.config.Handler.Serve(e)
}

func (c *serverConn) panicked(e *Exchange, p any) {
	c.server.metrics.Panics.Add(1)
	c.server.config.Logger.Error("panic while serving a request", "panic", fmt.Sprint(p), "key", e.Key, "version", e.Version,
		"client", e.Client.ID, "host", e.Client.Host, "stack", string(debug.Stack()))
	e.end(nil, nil, true)
}

func (c *serverConn) logClose(e *Exchange, err error) {
	c.server.config.Logger.Info("closing a connection", "error", err, "key", e.Key, "version", e.Version,
		"client", e.Client.ID, "host", c.last.Host)
}

// endReading records why no more requests come.
func (c *serverConn) endReading(err error) {
	if errors.Is(err, ErrBadFrame) {
		c.server.metrics.BadFrames.Add(1)
		c.server.config.Logger.Info("closing a connection", "error", err, "host", c.last.Host)
	}
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.signal()
}

// write sends replies in order until none can come any more.
func (c *serverConn) write() {
	defer c.server.wg.Done()
	defer c.leave()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		e, finished, wait, over := c.head()
		switch {
		case over:
			return
		case finished:
			err := c.answer(e)
			c.server.inFlight.release(e.weight)
			if err != nil {
				if !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
					c.server.config.Logger.Debug("connection lost", "error", err, "host", c.last.Host)
				}
				return
			}
			c.room()
			continue
		}
		timer.Reset(wait)
		select {
		case <-c.wake:
		case <-timer.C:
		}
	}
}

// head looks at the oldest request: it is popped when finished, resumed when it
// is parked and was woken or is out of time, and waited for otherwise. over
// tells that the connection has no more to say.
func (c *serverConn) head() (e *Exchange, finished bool, wait time.Duration, over bool) {
	for {
		c.mu.Lock()
		if len(c.queue) == 0 {
			over = c.ended
			c.mu.Unlock()
			return nil, false, time.Hour, over
		}
		e = c.queue[0]
		if e.done {
			c.pop()
			c.mu.Unlock()
			return e, true, 0, false
		}
		parked, deadline, drained, ended := e.parked, e.deadline, c.drained, c.ended
		c.mu.Unlock()
		switch {
		case ended && !drained: // nobody is there to hear a late answer
			return nil, false, 0, true
		case parked == nil:
			return e, false, time.Hour, false
		}
		wait = time.Until(deadline)
		if !e.woken.Swap(false) && wait > 0 && !drained {
			return e, false, wait, false
		}
		if !c.resume(e, parked, wait <= 0 || drained) {
			return e, false, max(wait, time.Millisecond), false
		}
	}
}

// pop takes the head off the queue. Called with mu held.
func (c *serverConn) pop() {
	copy(c.queue, c.queue[1:])
	c.queue[len(c.queue)-1] = nil
	c.queue = c.queue[:len(c.queue)-1]
	c.active = time.Now()
}

// room makes room for one more request in the queue and tells whether there was
// one to make it for.
func (c *serverConn) room() bool {
	select {
	case <-c.space:
		return true
	default:
		return false
	}
}

// resume lets a parked request try again and tells whether it ended.
func (c *serverConn) resume(e *Exchange, p Parked, expired bool) (ended bool) {
	defer func() {
		if r := recover(); r != nil {
			c.panicked(e, r)
			ended = true
		}
	}()
	p.Resume(expired)
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.done
}

// answer writes one finished exchange.
func (c *serverConn) answer(e *Exchange) error {
	switch {
	case e.closing:
		return io.EOF
	case e.pieces != nil:
		return c.send(e.pieces)
	case e.message != nil:
		r := newResponse(c.server.pool, e.correlation, e.message.IsFlexible() && e.Key != keyApiVersions, 0)
		r.Buf = e.message.AppendTo(r.Buf)
		return c.send(r)
	}
	return nil // silent
}

// leave closes the connection and drops everything unanswered.
func (c *serverConn) leave() {
	_ = c.net.Close() // the peer learns by it; an error changes nothing
	c.mu.Lock()
	c.gone = true
	rest := c.queue
	c.queue = nil
	c.mu.Unlock()
	for _, e := range rest {
		c.server.inFlight.release(e.weight)
		if e.pieces != nil {
			e.pieces.Drop()
		}
		if e.parked != nil {
			e.parked.Drop()
		}
	}
	for c.room() { // the reader may wait for it
	}
	c.server.forget(c)
}
