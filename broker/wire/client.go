package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxReply bounds what a client takes from a server.
const maxReply = 1 << 30

// Conn is a client's connection to one broker. Its methods may be used at the
// same time; requests are sent in the order of the calls.
type Conn struct {
	net      net.Conn
	format   *kmsg.RequestFormatter
	versions map[int16]kmsg.ApiVersionsResponseApiKey

	mu      sync.Mutex
	next    int32
	pending []*call // in the order sent
	broken  error
	done    chan struct{}
}

type call struct {
	correlation int32
	response    kmsg.Response
	finished    chan error
}

// Dial connects to a broker and learns which versions it speaks.
func Dial(ctx context.Context, addr, clientID string) (*Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return NewConn(ctx, nc, clientID)
}

// NewConn makes a client of an open connection, which is the Conn's from here
// on.
func NewConn(ctx context.Context, nc net.Conn, clientID string) (*Conn, error) {
	c := &Conn{
		net:    nc,
		format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)),
		done:   make(chan struct{}),
	}
	go c.receive()
	ask := kmsg.NewPtrApiVersionsRequest()
	ask.Version = 3
	ask.ClientSoftwareName, ask.ClientSoftwareVersion = "sawlog", "1"
	m, err := c.Exchange(ctx, ask)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask for versions: %w", err), c.Close())
	}
	answer := m.(*kmsg.ApiVersionsResponse)
	if answer.ErrorCode != 0 {
		return nil, errors.Join(fmt.Errorf("ask for versions: error code %d", answer.ErrorCode), c.Close())
	}
	versions := make(map[int16]kmsg.ApiVersionsResponseApiKey, len(answer.ApiKeys))
	for _, k := range answer.ApiKeys {
		versions[k.ApiKey] = k
	}
	c.versions = versions
	return c, nil
}

// Request sends a request at the highest version both sides know, and waits for
// the reply.
func (c *Conn) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	k, ok := c.versions[req.Key()]
	v := min(k.MaxVersion, req.MaxVersion())
	if !ok || v < k.MinVersion {
		return nil, fmt.Errorf("%s: the broker doesn't know it in a version of ours", kmsg.Key(req.Key()).Name())
	}
	req.SetVersion(v)
	return c.Exchange(ctx, req)
}

// Exchange sends a request at the version it carries, and waits for the reply.
// For a Produce request with acks 0 there is none: the response is nil.
func (c *Conn) Exchange(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	p, ok := req.(*kmsg.ProduceRequest)
	silent := ok && p.Acks == 0
	w := &call{response: req.ResponseKind(), finished: make(chan error, 1)}
	if err := c.send(ctx, req, w, silent); err != nil || silent {
		return nil, err
	}
	select {
	case err := <-w.finished:
		if err != nil {
			return nil, err
		}
		return w.response, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *Conn) send(ctx context.Context, req kmsg.Request, w *call, silent bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return c.broken
	}
	w.correlation = c.next
	c.next++
	deadline, _ := ctx.Deadline() // none is the zero time, which means none
	if err := c.net.SetWriteDeadline(deadline); err != nil {
		return err
	}
	if !silent {
		c.pending = append(c.pending, w)
	}
	if _, err := c.net.Write(c.format.AppendRequest(nil, req, w.correlation)); err != nil {
		c.fail(err)
		return err
	}
	return nil
}

// receive hands replies to their callers until the connection ends.
func (c *Conn) receive() {
	defer close(c.done)
	in := bufio.NewReaderSize(c.net, 64<<10)
	for {
		err := c.receiveOne(in)
		if err != nil {
			c.mu.Lock()
			c.fail(err)
			c.mu.Unlock()
			return
		}
	}
}

func (c *Conn) receiveOne(in *bufio.Reader) error {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return err
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:])))
	if size < 4 || size > maxReply {
		return fmt.Errorf("%w: a reply of %d bytes", ErrBadFrame, size)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(in, body); err != nil {
		return err
	}
	c.mu.Lock()
	if len(c.pending) == 0 {
		c.mu.Unlock()
		return fmt.Errorf("%w: a reply nobody asked for", ErrBadFrame)
	}
	w := c.pending[0]
	c.pending = c.pending[1:]
	c.mu.Unlock()
	w.finished <- w.decode(int32(binary.BigEndian.Uint32(head[4:])), body)
	return nil
}

func (w *call) decode(correlation int32, body []byte) error {
	if correlation != w.correlation {
		return fmt.Errorf("%w: reply %d where %d was due", ErrBadFrame, correlation, w.correlation)
	}
	if w.response.Key() == keyApiVersions && len(body) >= 2 && binary.BigEndian.Uint16(body) == 35 {
		w.response.SetVersion(0) // a broker answers a version it doesn't know in the oldest form
	}
	if w.response.IsFlexible() && w.response.Key() != keyApiVersions {
		if len(body) == 0 || body[0] != 0 {
			return fmt.Errorf("%w: tagged fields in a response header", ErrBadFrame)
		}
		body = body[1:]
	}
	return w.response.ReadFrom(body)
}

// fail ends all calls with an error. Called with mu held.
func (c *Conn) fail(err error) {
	if c.broken == nil {
		c.broken = err
	}
	for _, w := range c.pending {
		w.finished <- c.broken
	}
	c.pending = nil
	_ = c.net.Close() // it is broken already
}

// Close ends the connection; calls that wait get net.ErrClosed.
func (c *Conn) Close() error {
	err := c.net.Close()
	<-c.done
	return err
}
