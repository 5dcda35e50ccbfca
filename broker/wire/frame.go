package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	keyApiVersions = 18
	headerFixed    = 8        // key, version, correlation id
	firstChunk     = 64 << 10 // what a body may take before any of it arrived
	frameChunk     = 1 << 20  // what must arrive within one frame deadline
)

// ErrBadFrame is wrapped by every error about bytes that are no request of
// ours. It costs the sender its connection.
var ErrBadFrame = errors.New("bad frame")

// Rule is what a Server must know of one request kind before it reads a body.
type Rule struct {
	Min, Max int16 // versions; ApiVersions above Max is passed on without a body
	Flexible int16 // first flexible version
	Bytes    int32 // longest frame
	Weight   int64 // bytes of memory one byte of the frame may become
	Reuse    bool  // the body's buffer is taken back when Serve returns
}

// readFrame reads one request into an exchange. Where the Rule lets its memory
// be used again, reclaim has to be called when it was served.
func (c *serverConn) readFrame(ctx context.Context) (*Exchange, error) {
	in := c.in
	in.due = time.Time{}
	if err := in.fill(4); err != nil {
		return nil, err
	}
	size := int32(binary.BigEndian.Uint32(in.there(4)))
	if size < headerFixed || size > c.server.config.MaxFrame {
		return nil, fmt.Errorf("%w: size %d", ErrBadFrame, size)
	}
	in.large = int(size)+4 > readBuffer
	if err := in.fill(4 + headerFixed); err != nil {
		return nil, err
	}
	head := in.there(4 + headerFixed)
	e := &Exchange{
		conn:        c,
		Key:         int16(binary.BigEndian.Uint16(head[4:])),
		Version:     int16(binary.BigEndian.Uint16(head[6:])),
		correlation: int32(binary.BigEndian.Uint32(head[8:])),
	}
	rule, ok := c.server.config.Rules(e.Key)
	unsupported := e.Version < rule.Min || e.Version > rule.Max
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: unknown key %d", ErrBadFrame, e.Key)
	case size > rule.Bytes:
		return nil, fmt.Errorf("%w: key %d with %d bytes, the limit is %d", ErrBadFrame, e.Key, size, rule.Bytes)
	case unsupported && e.Key != keyApiVersions:
		return nil, fmt.Errorf("%w: key %d version %d", ErrBadFrame, e.Key, e.Version)
	}
	e.weightOf = max(rule.Weight, 1)
	err := c.readBody(ctx, e, int(size), rule.Reuse)
	if err == nil {
		c.server.metrics.BytesIn.Add(int64(size) + 4)
		e.flexible = e.Version >= rule.Flexible && !unsupported
		if !unsupported {
			err = c.parseHeader(e, e.Body)
		}
	}
	if err != nil {
		c.server.inFlight.release(e.weight)
		return nil, err
	}
	return e, nil
}

// readBody reads the rest of a frame. A small one that may be used again stays
// where it was received; any other gets memory of its own. That memory and the
// request's share of the semaphore grow as bytes arrive, so a claim alone keeps
// nobody else out. A request that waits for its share longer than a frame may
// take is given up: where many large ones hold a part each, that lets some of
// them finish.
func (c *serverConn) readBody(ctx context.Context, e *Exchange, size int, reuse bool) error {
	n := size - headerFixed
	room := min(n, firstChunk)
	if err := c.share(ctx, e, int64(room)+headerFixed); err != nil {
		return err
	}
	if reuse && 4+size <= readBuffer {
		if err := c.in.fill(4 + size); err != nil {
			return err
		}
		e.held = 4 + size
		e.Body = c.in.there(e.held)[4+headerFixed:]
		return nil
	}
	c.in.take(4 + headerFixed)
	if !reuse {
		e.Body = make([]byte, 0, room)
		return c.fillBody(ctx, e, n)
	}
	e.pooled = c.server.pool.get(room)
	e.Body = *e.pooled
	err := c.fillBody(ctx, e, n)
	*e.pooled = e.Body
	if err != nil {
		c.reclaim(e)
	}
	return err
}

func (c *serverConn) fillBody(ctx context.Context, e *Exchange, n int) error {
	for next := 0; len(e.Body) < n; {
		if len(e.Body) == cap(e.Body) {
			// The first time by more: most frames then need one copy.
			room := min(n, max(4*cap(e.Body), frameChunk))
			if err := c.share(ctx, e, int64(room-len(e.Body))); err != nil {
				return err
			}
			c.grow(e, room)
		}
		if len(e.Body) >= next {
			c.in.due, next = time.Time{}, len(e.Body)+frameChunk
		}
		var err error
		if e.Body, err = c.in.move(e.Body, n); err != nil {
			return err
		}
	}
	return nil
}

// grow moves the part of a body that arrived to memory with more room.
func (c *serverConn) grow(e *Exchange, room int) {
	if e.pooled == nil {
		e.Body = append(make([]byte, 0, room), e.Body...)
		return
	}
	larger := c.server.pool.get(room)
	*larger = append((*larger)[:0], e.Body...)
	*e.pooled = e.Body
	c.server.pool.put(e.pooled)
	e.pooled, e.Body = larger, *larger
}

// reclaim takes the memory of a served request back.
func (c *serverConn) reclaim(e *Exchange) {
	if e.held > 0 {
		c.in.take(e.held)
	}
	if e.pooled != nil {
		c.server.pool.put(e.pooled)
	}
	e.held, e.pooled = 0, nil
}

// share takes n more bytes of the memory for requests in flight.
func (c *serverConn) share(ctx context.Context, e *Exchange, n int64) error {
	s := c.server.inFlight
	// The largest requests may count for more than there is: then all will do.
	want := min(n*e.weightOf, s.size-e.weight)
	got, ok := s.try(want)
	if !ok {
		// What waits to be sent has shares, too.
		if err := c.settle(true); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, c.server.config.Frame)
		defer cancel()
		var err error
		if got, err = s.acquire(waiting, want); err != nil {
			return fmt.Errorf("wait for room: %w", err)
		}
	}
	e.weight += got
	return nil
}

// parseHeader takes the client id and the tagged fields off the front.
func (c *serverConn) parseHeader(e *Exchange, rest []byte) error {
	b := kbin.Reader{Src: rest}
	n := b.Int16()
	var id []byte
	if n >= 0 {
		id = b.Span(int(n))
	}
	if e.flexible {
		kmsg.SkipTags(&b)
	}
	if !b.Ok() {
		return fmt.Errorf("%w: key %d version %d: header cut off", ErrBadFrame, e.Key, e.Version)
	}
	e.Client = c.client(id)
	e.Body = b.Src
	return nil
}
