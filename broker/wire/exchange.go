package wire

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// Client is who sent a request.
type Client struct {
	ID    string
	Host  string // as Kafka prints it: "/127.0.0.1"
	Batch bool   // a load task: its client id starts with BatchPrefix
	// Peer is the broker of the cluster at the other end, as its connection has
	// proved; 0 for all others.
	Peer offsets.BrokerID
}

// BatchPrefix starts the client ids of load tasks, whose reads are kept from
// disturbing others.
const BatchPrefix = "sawlog-batch/"

// Handler serves requests. Serve is called on the connection's reader, one
// request after the other; it must end the exchange by Reply, ReplyPieces,
// Silent or Fail, now or later, or Park it.
type Handler interface {
	Serve(*Exchange)
}

// Parked is a request that waits for an event.
type Parked interface {
	// Resume tries again and ends the exchange when it can. It must when
	// expired. It runs on the connection's writer.
	Resume(expired bool)
	// Drop undoes the parking: the connection is gone, nobody waits any more.
	Drop()
}

// Exchange is one request and its reply.
type Exchange struct {
	Client  Client
	Key     int16
	Version int16
	// Body is the request after its header. Where the Rule says Reuse it is
	// valid until Serve returns, else for as long as it is referred to.
	Body []byte

	conn        *serverConn
	correlation int32
	flexible    bool
	weight      int64 // its share of the semaphore, kept until it ends
	weightOf    int64 // one byte of its frame
	held        int   // bytes of the connection's intake that Body lies in
	pooled      *[]byte
	woken       atomic.Bool

	// Guarded by conn.mu.
	done     bool
	closing  bool // close the connection instead of replying
	message  kmsg.Response
	pieces   *Response
	parked   Parked
	deadline time.Time
}

// NewResponse starts a reply made of pieces, with room for n bytes of memory.
func (e *Exchange) NewResponse(n int) *Response {
	return newResponse(e.conn.server.pool, e.correlation, e.flexible && e.Key != keyApiVersions, n+16)
}

// Reply ends the exchange with a message, which is encoded later: it must not
// change any more.
func (e *Exchange) Reply(m kmsg.Response) { e.end(m, nil, false) }

// ReplyPieces ends the exchange with r.
func (e *Exchange) ReplyPieces(r *Response) { e.end(nil, r, false) }

// Silent ends the exchange without a reply.
func (e *Exchange) Silent() { e.end(nil, nil, false) }

// Fail ends the exchange by closing the connection, after the replies that are
// due before it. It is the only answer where the protocol has no place for an
// error.
func (e *Exchange) Fail(err error) {
	e.conn.logClose(e, err)
	e.end(nil, nil, true)
}

func (e *Exchange) end(m kmsg.Response, r *Response, closing bool) {
	c := e.conn
	c.mu.Lock()
	if e.done || c.gone {
		c.mu.Unlock()
		if r != nil {
			r.Drop()
		}
		return
	}
	e.done, e.message, e.pieces, e.closing = true, m, r, closing
	e.parked = nil
	if r != nil && r.Rest > 0 {
		c.resting = time.Now().Add(r.Rest)
	}
	reader := c.serving == e
	c.mu.Unlock()
	if !reader {
		c.signal()
	}
}

// slow tells whether a finished exchange may take long to send, or ends the
// connection. The connection's mu is held.
func (e *Exchange) slow() bool { return e.closing || e.pieces != nil && len(e.pieces.regions) > 0 }

// Park leaves the exchange waiting for Wake or the deadline. Events that came
// since Serve began aren't lost.
func (e *Exchange) Park(deadline time.Time, p Parked) {
	c := e.conn
	c.mu.Lock()
	gone := c.gone
	if !gone && !e.done {
		e.parked, e.deadline = p, deadline
		c.expect()
	}
	c.mu.Unlock()
	if gone {
		p.Drop()
	}
}

// Wake makes a parked exchange resume. It may be called at any time, also too
// often.
func (e *Exchange) Wake() {
	if !e.woken.Swap(true) {
		e.conn.signal()
	}
}
