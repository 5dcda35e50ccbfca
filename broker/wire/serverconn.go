package wire

import (
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
	in     *intake
	out    *output

	wake  chan struct{} // capacity 1: the writer has something to look at
	roomy chan struct{} // capacity 1: a full queue has room again

	mu      sync.Mutex
	queue   []*Exchange // in order of arrival; the reader appends, whoever sends pops
	serving *Exchange   // the reader runs it, and looks at the queue afterwards
	sending bool        // somebody sends replies, and looks at the queue afterwards
	full    bool        // the reader waits for room in the queue
	active  time.Time   // when the last reply went
	timer   *time.Timer // wakes the writer, at alarm or before
	alarm   time.Time
	ended   bool      // no more requests come
	drained bool      // parked requests are to answer now
	gone    bool      // the writer left: replies are dropped
	resting time.Time // until then no request is looked at
}

// farOff is when the writer looks without a reason.
const farOff = time.Hour

func newServerConn(s *Server, nc net.Conn, ip string) *serverConn {
	c := &serverConn{
		server: s,
		net:    nc,
		ip:     ip,
		last:   Client{Host: "/" + ip},
		active: time.Now(),
		timer:  time.NewTimer(farOff),
		wake:   make(chan struct{}, 1),
		roomy:  make(chan struct{}, 1),
	}
	c.alarm = c.active.Add(farOff)
	if tcp, ok := nc.(syscall.Conn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
	c.in, c.out = newIntake(c), newOutput(c)
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

// mostUnsent is how many requests are served before the first one's reply goes.
const mostUnsent = 16

// read takes requests until the connection ends or sends what isn't one. While
// the next request is there already, replies wait: several go in one write.
func (c *serverConn) read() {
	defer c.server.wg.Done()
	for unsent := 0; ; unsent++ {
		if unsent == mostUnsent || !c.in.wholeFrame() {
			if err := c.settle(true); err != nil {
				c.lost(err)
				return
			}
			unsent = 0
		}
		if !c.awaitRoom() {
			c.endReading(nil)
			return
		}
		e, err := c.readFrame(c.server.stop)
		if err != nil {
			c.endReading(err)
			return
		}
		if err := c.rest(); err != nil {
			c.server.inFlight.release(e.weight)
			c.lost(err)
			return
		}
		c.mu.Lock()
		gone := c.gone
		if !gone {
			c.queue = append(c.queue, e)
			c.serving = e
		}
		c.mu.Unlock()
		if gone {
			c.server.inFlight.release(e.weight)
			return
		}
		c.server.metrics.Requests.Add(1)
		c.serve(e)
		c.reclaim(e)
		c.mu.Lock()
		c.serving = nil
		closing := e.closing || c.gone
		c.mu.Unlock()
		if closing {
			c.endReading(nil)
			return
		}
	}
}

// awaitRoom waits until the queue takes one more request; false tells that no
// more are to be read.
func (c *serverConn) awaitRoom() bool {
	for {
		c.mu.Lock()
		c.full = len(c.queue) >= c.server.config.MaxInFlight && !c.gone
		full, drained := c.full, c.drained
		c.mu.Unlock()
		if !full || drained {
			return !drained
		}
		if err := c.settle(true); err != nil {
			c.lost(err)
			return false
		}
		select {
		case <-c.roomy:
		case <-c.server.stop.Done():
			return false
		}
	}
}

// rest waits for as long as the last reply told. Those that are due go before.
func (c *serverConn) rest() error {
	c.mu.Lock()
	left := time.Until(c.resting)
	c.mu.Unlock()
	if left <= 0 {
		return nil
	}
	if err := c.settle(true); err != nil {
		return err
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.server.stop.Done():
	}
	return nil
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

// write waits for replies that are due later than their requests were served,
// lets parked requests try again, and ends the connection when nothing can come
// any more.
func (c *serverConn) write() {
	defer c.server.wg.Done()
	defer c.leave()
	defer c.timer.Stop()
	for {
		finished, over := c.head()
		switch {
		case over:
			return
		case finished:
			if err := c.settle(false); err != nil {
				c.lost(err)
				return
			}
			continue
		}
		select {
		case <-c.wake:
		case now := <-c.timer.C:
			c.rang(now)
		}
	}
}

// head looks at the oldest request: it is to be sent when finished, resumed when
// it is parked and was woken or is out of time, and waited for otherwise. over
// tells that the connection has no more to say.
func (c *serverConn) head() (finished, over bool) {
	for {
		c.mu.Lock()
		switch {
		case c.sending:
			c.mu.Unlock()
			return false, false
		case len(c.queue) == 0:
			over = c.ended
			c.mu.Unlock()
			return false, over
		}
		e := c.queue[0]
		if e.done {
			c.mu.Unlock()
			return true, false
		}
		parked, drained := e.parked, c.drained
		expired := drained || parked != nil && !time.Now().Before(e.deadline)
		switch {
		case c.ended && !drained: // nobody is there to hear a late answer
			c.mu.Unlock()
			return false, true
		case parked == nil:
			c.mu.Unlock()
			return false, false
		case !e.woken.Swap(false) && !expired:
			c.ring(e.deadline)
			c.mu.Unlock()
			return false, false
		}
		c.mu.Unlock()
		if !c.resume(e, parked, expired) {
			c.mu.Lock()
			c.ring(time.Now().Add(max(time.Until(e.deadline), time.Millisecond)))
			c.mu.Unlock()
			return false, false
		}
	}
}

// ring has the writer look at a time, or before. One that rings before costs less
// than one set anew for every request. Called with mu held.
func (c *serverConn) ring(at time.Time) {
	if at.Before(c.alarm) {
		c.alarm = at
		c.timer.Reset(time.Until(at))
	}
}

// rang notes that the timer is to be set again.
func (c *serverConn) rang(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarm = now.Add(farOff)
	c.timer.Reset(farOff)
}

// expect has the writer come to the head of the queue when it is due: at once,
// or at its deadline. Called with mu held.
func (c *serverConn) expect() {
	if len(c.queue) == 0 || c.sending {
		return // whoever sends looks at the queue afterwards
	}
	switch e := c.queue[0]; {
	case e.done || e.parked != nil && e.woken.Load():
		c.signal()
	case e.parked != nil:
		c.ring(e.deadline)
	}
}

// settle sends the replies that are due, in order, unless somebody is at it
// already. The reader leaves to the writer what takes long to send, so that it
// can go on with the next request.
func (c *serverConn) settle(reader bool) error {
	sendable := func() bool {
		return len(c.queue) > 0 && c.queue[0].done && !(reader && c.queue[0].slow())
	}
	c.mu.Lock()
	for !c.sending && sendable() {
		e := c.pop()
		more := sendable()
		c.sending = true
		c.mu.Unlock()
		err := c.answer(e, more)
		c.server.inFlight.release(e.weight)
		c.mu.Lock()
		c.sending = false
		if err != nil {
			c.mu.Unlock()
			return err
		}
	}
	if reader {
		c.expect()
	}
	c.mu.Unlock()
	return nil
}

// pop takes the head off the queue. Called with mu held.
func (c *serverConn) pop() *Exchange {
	e := c.queue[0]
	copy(c.queue, c.queue[1:])
	c.queue[len(c.queue)-1] = nil
	c.queue = c.queue[:len(c.queue)-1]
	c.active = time.Now()
	if c.full {
		c.full = false
		c.room()
	}
	return e
}

// room wakes the reader that waits for room in the queue.
func (c *serverConn) room() {
	select {
	case c.roomy <- struct{}{}:
	default:
	}
}

// lost notes that a reply could not be sent: the connection ends.
func (c *serverConn) lost(err error) {
	if !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		c.server.config.Logger.Debug("connection lost", "error", err, "host", c.ip)
	}
	_ = c.net.Close() // the other goroutine notices, whatever it returns
	c.mu.Lock()
	c.ended, c.drained = true, false
	c.mu.Unlock()
	c.signal()
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

// answer sends one finished exchange; more tells that another one follows at
// once.
func (c *serverConn) answer(e *Exchange, more bool) error {
	r := e.pieces
	switch {
	case e.closing:
		return errors.Join(c.out.flush(false), io.EOF)
	case e.message != nil:
		r = newResponse(c.server.pool, e.correlation, e.message.IsFlexible() && e.Key != keyApiVersions, 0)
		r.Buf = e.message.AppendTo(r.Buf)
	case r == nil: // silent
		return c.out.flush(more)
	}
	return c.out.send(r, more)
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
	c.room() // the reader may wait for it
	c.server.forget(c)
}
