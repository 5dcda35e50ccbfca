package wire

import "sync/atomic"

// Metrics counts what passed through a Server. Every field may be read at any
// time.
type Metrics struct {
	Open           atomic.Int64 // connections now
	Accepted       atomic.Int64
	Refused        atomic.Int64 // closed at once: a connection cap was reached
	Requests       atomic.Int64
	BytesIn        atomic.Int64
	BytesOut       atomic.Int64
	SendfileBytes  atomic.Int64 // of BytesOut
	PassingBytes   atomic.Int64 // of BytesOut, read past the page cache
	BadFrames      atomic.Int64 // connections closed because of what they sent
	Panics         atomic.Int64
	ShortSendfiles atomic.Int64
}
