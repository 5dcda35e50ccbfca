package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
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

// readFrame reads one request into an exchange, and the buffer to take back when
// it was served (nil: it stays with the request). The connection's deadlines
// are idle before the first byte and frame from then on.
func (c *serverConn) readFrame(ctx context.Context, in *bufio.Reader) (*Exchange, *[]byte, error) {
	var head [4 + headerFixed]byte
	if err := c.readSize(in, head[:4]); err != nil {
		return nil, nil, err
	}
	size := int32(binary.BigEndian.Uint32(head[:4]))
	if size < headerFixed || size > c.server.config.MaxFrame {
		return nil, nil, fmt.Errorf("%w: size %d", ErrBadFrame, size)
	}
	if err := c.net.SetReadDeadline(time.Now().Add(c.server.config.Frame)); err != nil {
		return nil, nil, err
	}
	if _, err := io.ReadFull(in, head[4:]); err != nil {
		return nil, nil, err
	}
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
		return nil, nil, fmt.Errorf("%w: unknown key %d", ErrBadFrame, e.Key)
	case size > rule.Bytes:
		return nil, nil, fmt.Errorf("%w: key %d with %d bytes, the limit is %d", ErrBadFrame, e.Key, size, rule.Bytes)
	case unsupported && e.Key != keyApiVersions:
		return nil, nil, fmt.Errorf("%w: key %d version %d", ErrBadFrame, e.Key, e.Version)
	}
	rest := int(size) - headerFixed
	e.weightOf = max(rule.Weight, 1)
	body, err := c.readBody(ctx, in, e, rest, rule.Reuse)
	if err == nil {
		c.server.metrics.BytesIn.Add(int64(size) + 4)
		e.flexible = e.Version >= rule.Flexible && !unsupported
		if !unsupported {
			err = c.parseHeader(e, *body)
		}
	}
	if err != nil {
		c.server.inFlight.release(e.weight)
		return nil, nil, err
	}
	if !rule.Reuse {
		body = nil
	}
	return e, body, nil
}

// readSize waits for the next frame. An idle connection is closed, one that
// still waits for a reply isn't idle.
func (c *serverConn) readSize(in *bufio.Reader, size []byte) error {
	for {
		if err := c.armIdle(); err != nil {
			return err
		}
		_, err := in.Peek(1)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() && !c.idle() {
			continue
		}
		if err != nil {
			return err
		}
		if err := c.net.SetReadDeadline(time.Now().Add(c.server.config.Frame)); err != nil {
			return err
		}
		_, err = io.ReadFull(in, size)
		return err
	}
}

// readBody reads n bytes. Both the buffer and the request's share of the
// semaphore grow as bytes arrive, so a claim alone keeps nobody else out. A
// request that waits for its share longer than a frame may take is given up:
// where many large ones hold a part each, that lets some of them finish.
func (c *serverConn) readBody(ctx context.Context, in *bufio.Reader, e *Exchange, n int, reuse bool) (*[]byte, error) {
	room := min(n, firstChunk)
	if err := c.share(ctx, e, int64(room)+headerFixed); err != nil {
		return nil, err
	}
	var body *[]byte
	if reuse {
		body = c.server.pool.get(room)
	} else {
		b := make([]byte, 0, room)
		body = &b
	}
	err := c.fillBody(ctx, in, e, body, n, reuse)
	if err != nil && reuse {
		c.server.pool.put(body)
	}
	return body, err
}

func (c *serverConn) fillBody(ctx context.Context, in *bufio.Reader, e *Exchange, body *[]byte, n int, reuse bool) error {
	for len(*body) < n {
		if len(*body) == cap(*body) {
			room := min(n, 4*cap(*body))
			if err := c.share(ctx, e, int64(room-len(*body))); err != nil {
				return err
			}
			c.grow(body, room, reuse)
		}
		next := min(n, cap(*body), len(*body)+frameChunk)
		if err := c.net.SetReadDeadline(time.Now().Add(c.server.config.Frame)); err != nil {
			return err
		}
		got, err := io.ReadFull(in, (*body)[len(*body):next])
		*body = (*body)[:len(*body)+got]
		if err != nil {
			return err
		}
	}
	return nil
}

// share takes n more bytes of the memory for requests in flight.
func (c *serverConn) share(ctx context.Context, e *Exchange, n int64) error {
	s := c.server.inFlight
	// The largest requests may count for more than there is: then all will do.
	want := min(n*e.weightOf, s.size-e.weight)
	got, ok := s.try(want)
	if !ok {
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

func (c *serverConn) grow(body *[]byte, room int, reuse bool) {
	if !reuse {
		*body = append(make([]byte, 0, room), *body...)
		return
	}
	larger := c.server.pool.get(room)
	*larger = append((*larger)[:0], *body...)
	*body, *larger = *larger, *body
	c.server.pool.put(larger)
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
