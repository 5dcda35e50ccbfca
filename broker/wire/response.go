package wire

import (
	"encoding/binary"
	"io"
	"time"

	"sawlog/broker/vfs"
)

// smallRegion is the length below which a piece of a file is copied into the
// reply's memory: one write is cheaper than a write and a sendfile.
const smallRegion = 16 << 10

// Response is one reply made of pieces: bytes that the handler appends to Buf,
// and regions of files at fixed places between them. It owns the regions'
// references until it is written or dropped.
type Response struct {
	// Buf begins with the frame's header; append the body to it.
	Buf []byte
	// Passing tells that whoever gets the regions comes by once: reading them
	// leaves the page cache as it was (vfs.Passing), at the price of a copy.
	Passing bool
	// Rest is for how long nothing that the connection sends afterwards is looked at
	// (KIP-219).
	Rest time.Duration

	pooled  *[]byte
	pool    *bufferPool
	regions []placed
	outside int64 // bytes in regions
}

type placed struct {
	at     int // the region stands before Buf[at]
	region vfs.Region
}

// AddRegion puts a piece of a file after the bytes appended so far. Small ones
// are read at once; the error is that of the read. The region is the
// response's from here on, also when an error is returned.
func (r *Response) AddRegion(region vfs.Region) error {
	if region.Len >= smallRegion {
		r.regions = append(r.regions, placed{at: len(r.Buf), region: region})
		r.outside += region.Len
		return nil
	}
	defer release(region)
	at := len(r.Buf)
	r.Buf = append(r.Buf, make([]byte, region.Len)...)
	n, err := region.File.ReadAt(r.Buf[at:], region.Pos)
	if n == int(region.Len) {
		return nil
	}
	r.Buf = r.Buf[:at]
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Size is the length of the whole frame.
func (r *Response) Size() int64 { return int64(len(r.Buf)) + r.outside }

// Drop gives up all pieces unwritten.
func (r *Response) Drop() {
	for _, p := range r.regions {
		release(p.region)
	}
	r.regions = nil
	if r.pooled != nil {
		*r.pooled = r.Buf[:0]
		r.pool.put(r.pooled)
		r.pooled = nil
	}
	r.Buf = nil
}

func release(region vfs.Region) {
	if region.Release != nil {
		region.Release()
	}
}

// newResponse starts a frame for a correlation id.
func newResponse(pool *bufferPool, correlation int32, flexible bool, room int) *Response {
	b := pool.get(room)
	r := &Response{pooled: b, pool: pool, Buf: append((*b)[:0], 0, 0, 0, 0)}
	r.Buf = binary.BigEndian.AppendUint32(r.Buf, uint32(correlation))
	if flexible {
		r.Buf = append(r.Buf, 0)
	}
	return r
}

// seal writes the frame's size into its first four bytes.
func (r *Response) seal() { binary.BigEndian.PutUint32(r.Buf, uint32(r.Size()-4)) }
