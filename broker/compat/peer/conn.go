package peer

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Conn is a connection to a broker on which frames are written as they are
// given: requests no client would send, too.
type Conn struct {
	net.Conn
	correlation int32
}

// mostBytes is more than any answer in a test has.
const mostBytes = 256 << 20

// Dial connects to a broker.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c}, nil
}

// Ask sends a request at the version it is set to and returns the answer to it,
// decoded at that version. A closed connection is io.EOF or io.ErrUnexpectedEOF.
func (c *Conn) Ask(req kmsg.Request, limit time.Duration) (kmsg.Response, error) {
	body, err := c.AskRaw(Frame(c.next(), "sawlog-peer", req), limit)
	if err != nil {
		return nil, err
	}
	return Decode(req, body)
}

// next is the correlation id of the next request.
func (c *Conn) next() int32 {
	c.correlation++
	return c.correlation
}

// AskRaw sends a frame (its length is put before it) and returns the frame that
// comes back, correlation id included.
func (c *Conn) AskRaw(frame []byte, limit time.Duration) ([]byte, error) {
	if err := c.Tell(frame, limit); err != nil {
		return nil, err
	}
	return c.Hear(limit)
}

// Tell sends a frame and reads nothing.
func (c *Conn) Tell(frame []byte, limit time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}

// Hear reads the next frame.
func (c *Conn) Hear(limit time.Duration) ([]byte, error) {
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > mostBytes {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(c, body)
	return body, err
}

// Frame is a request as its bytes after the length: header (KIP-482) and body.
func Frame(correlation int32, client string, req kmsg.Request) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(req.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = binary.BigEndian.AppendUint16(b, uint16(len(client)))
	b = append(b, client...)
	if req.IsFlexible() {
		b = append(b, 0) // no tags
	}
	return req.AppendTo(b)
}

// Decode reads the answer to a request from its frame.
func Decode(req kmsg.Request, frame []byte) (kmsg.Response, error) {
	resp := req.ResponseKind()
	body := frame[4:]
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		r := kbin.Reader{Src: body}
		kmsg.SkipTags(&r)
		if !r.Ok() {
			return nil, fmt.Errorf("%s v%d: an answer without tags in its header", kmsg.NameForKey(req.Key()), req.GetVersion())
		}
		body = r.Src
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s v%d: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp, nil
}
