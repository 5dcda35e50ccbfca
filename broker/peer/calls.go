package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"sawlog/offsets"
)

// Method names what a call asks for; the rooms above share the numbers out.
type Method byte

// Handler answers the calls of a method. from is who calls.
type Handler func(ctx context.Context, from Identity, body []byte) ([]byte, error)

// RemoteError is an error of the far side's handler.
type RemoteError struct{ Msg string }

func (e *RemoteError) Error() string { return e.Msg }

// ErrNotSent: the far side has done nothing of the call, so it may be made
// again.
var ErrNotSent = errors.New("call not carried out")

const (
	maxCall    = 16 << 20
	callHeader = 9
	// writeTime bounds how long a frame may take to leave.
	writeTime = 5 * time.Second
	// lineTime bounds the making of a connection that several calls may wait for.
	// One begun while the network was cut goes on waiting when it isn't any more,
	// where a new one would be through at once.
	lineTime = time.Second
	// maxServing bounds the calls of one connection that are carried out at once.
	maxServing = 256

	answered  = 0
	failed    = 1
	undone    = 2
	requested = 0x80 // requests have a method from here up on the wire
)

// Serve says who answers a method (1 to 127).
func (p *Peers) Serve(m Method, fn Handler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.methods[m] = fn
}

// OnClosed adds a function that is told when a connection of calls that a node
// made to us has ended.
func (p *Peers) OnClosed(fn func(Identity)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = append(p.closed, fn)
}

// Call asks a node at an address and waits for its answer. Of an error that is
// ErrNotSent nothing was done; of others, but for *RemoteError, it isn't known.
func (p *Peers) Call(ctx context.Context, addr string, m Method, body []byte) ([]byte, error) {
	if len(body) > maxCall {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrNotSent, len(body), maxCall)
	}
	l, err := p.line(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return l.call(ctx, m, body)
}

// line is the connection of calls to an address, made when there is none.
func (p *Peers) line(ctx context.Context, addr string) (*line, error) {
	p.mu.Lock()
	l := p.lines[addr]
	if l == nil {
		if err := p.ctx.Err(); err != nil {
			p.mu.Unlock()
			return nil, err
		}
		l = &line{ready: make(chan struct{}), waiting: map[uint64]chan reply{}, writing: make(chan struct{}, 1)}
		p.lines[addr] = l
		p.wg.Go(func() { p.connect(l, addr) })
	}
	p.mu.Unlock()
	select {
	case <-l.ready:
		return l, l.failure()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connect dials for a line, and reads its answers until it breaks.
func (p *Peers) connect(l *line, addr string) {
	forget := func() {
		p.mu.Lock()
		if p.lines[addr] == l {
			delete(p.lines, addr)
		}
		p.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(p.ctx, lineTime)
	c, err := p.Dial(ctx, addr, Calls, offsets.NoBroker)
	cancel()
	if err != nil {
		forget()
		l.fail(err)
		close(l.ready)
		return
	}
	l.mu.Lock()
	l.conn = c
	l.mu.Unlock()
	if p.ctx.Err() != nil {
		_ = c.Close() // Close may not have seen it
	}
	close(l.ready)
	in := bufio.NewReaderSize(c, 16<<10)
	for {
		id, what, body, err := readFrame(in)
		if err != nil {
			forget()
			l.fail(fmt.Errorf("peer %s: %w", addr, err))
			return
		}
		l.mu.Lock()
		w := l.waiting[id]
		delete(l.waiting, id)
		l.mu.Unlock()
		if w != nil {
			w <- reply{what, body}
		}
	}
}

// line is one connection of calls we make.
type line struct {
	ready chan struct{} // closed when dialing has ended

	mu      sync.Mutex
	conn    *Conn
	broken  error
	next    uint64
	waiting map[uint64]chan reply
	writing chan struct{} // holds the token of who writes: waiting for it ends with the caller's time
}

type reply struct {
	what byte
	body []byte
}

func (l *line) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// fail ends the line: who waits on it does not learn what became of the call.
func (l *line) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = err
	}
	if l.conn != nil {
		_ = l.conn.Close() // it is broken already
	}
	for id, w := range l.waiting {
		delete(l.waiting, id)
		close(w)
	}
}

func (l *line) close() { l.fail(errors.New("peer: closed")) }

func (l *line) call(ctx context.Context, m Method, body []byte) ([]byte, error) {
	w := make(chan reply, 1)
	l.mu.Lock()
	if l.broken != nil {
		defer l.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrNotSent, l.broken)
	}
	l.next++
	id, conn := l.next, l.conn
	l.waiting[id] = w
	l.mu.Unlock()
	select {
	case l.writing <- struct{}{}:
	case <-ctx.Done():
		l.mu.Lock()
		delete(l.waiting, id)
		l.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
	}
	err := writeFrame(conn, id, requested|byte(m), body)
	<-l.writing
	if err != nil {
		l.fail(err)
		return nil, fmt.Errorf("call: %w", err)
	}
	select {
	case r, ok := <-w:
		switch {
		case !ok:
			return nil, fmt.Errorf("call: the connection broke: %w", l.failure())
		case r.what == failed:
			return nil, &RemoteError{string(r.body)}
		case r.what == undone:
			return nil, fmt.Errorf("%w: %w", ErrNotSent, &RemoteError{string(r.body)})
		}
		return r.body, nil
	case <-ctx.Done():
		l.mu.Lock()
		delete(l.waiting, id)
		l.mu.Unlock()
		return nil, ctx.Err()
	}
}

// serveCalls answers the calls that come over an accepted connection.
func (p *Peers) serveCalls(c *Conn) {
	ctx, cancel := context.WithCancel(p.ctx)
	var running sync.WaitGroup
	writing := make(chan struct{}, 1) // the token of who writes
	slots := make(chan struct{}, maxServing)
	in := bufio.NewReaderSize(c, 16<<10)
	for {
		id, what, body, err := readFrame(in)
		if err != nil {
			break
		}
		slots <- struct{}{}
		running.Go(func() {
			verdict, result := p.answer(ctx, c.Remote, what, body)
			<-slots
			writing <- struct{}{}
			err := writeFrame(c, id, verdict, result)
			<-writing
			if err != nil {
				_ = c.Close() // the reader ends with it
			}
		})
	}
	cancel()
	_ = c.Close() // it has ended already
	p.mu.Lock()
	told := p.closed
	p.mu.Unlock()
	if p.ctx.Err() == nil {
		for _, fn := range told {
			fn(c.Remote)
		}
	}
	running.Wait()
}

// answer runs the handler of a request.
func (p *Peers) answer(ctx context.Context, from Identity, what byte, body []byte) (byte, []byte) {
	p.mu.Lock()
	fn := p.methods[Method(what&^requested)]
	p.mu.Unlock()
	if what&requested == 0 || fn == nil {
		return undone, fmt.Appendf(nil, "method %d isn't served here now", what&^requested)
	}
	result, err := fn(ctx, from, body)
	if err == nil && len(result) > maxCall {
		err = fmt.Errorf("an answer of %d bytes", len(result))
	}
	if err != nil {
		return failed, []byte(err.Error())
	}
	return answered, result
}

func writeFrame(c *Conn, id uint64, what byte, body []byte) error {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+callHeader+len(body)), uint32(callHeader+len(body)))
	b = binary.BigEndian.AppendUint64(b, id)
	b = append(append(b, what), body...)
	if err := c.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	_, err := c.Write(b)
	return err
}

// readFrame reads one frame. Memory is taken as bytes arrive, so that a length
// alone costs nothing.
func readFrame(r io.Reader) (id uint64, what byte, body []byte, err error) {
	var head [4 + callHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < callHeader || n > maxCall+callHeader {
		return 0, 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	id, what = binary.BigEndian.Uint64(head[4:]), head[12]
	n -= callHeader
	for left := int(n); left > 0; {
		piece := make([]byte, min(left, 64<<10))
		if _, err := io.ReadFull(r, piece); err != nil {
			return 0, 0, nil, err
		}
		if body == nil && len(piece) == left {
			return id, what, piece, nil
		}
		body = append(body, piece...)
		left -= len(piece)
	}
	return id, what, body, nil
}
