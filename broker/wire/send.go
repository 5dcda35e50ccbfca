package wire

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"sawlog/broker/vfs"
)

// sendChunk is the most that one system call sends, and what must leave within
// one write deadline.
const sendChunk = 1 << 20

// copyChunk is the buffer for regions that can't be sent by sendfile.
const copyChunk = 128 << 10

// passingChunk is the buffer for what is read past the page cache: such reads wait
// for the disk, and a few large ones cost a third less CPU time than those of
// copyChunk do.
const passingChunk = 1 << 20

// ErrShortSendfile tells that a file ended before its region did. The frame's
// size is out already, so the connection can't go on.
var ErrShortSendfile = errors.New("short sendfile")

// mostHeld is how many bytes of small replies are put together.
const mostHeld = 32 << 10

// output is the sending side of a connection; whoever has set the connection's
// sending flag may use it. A write deadline is set only where a send has to wait.
type output struct {
	conn *serverConn
	held *[]byte // small replies that go with the next one; may be nil

	// One send: bytes, or a piece of a file, and what came of it. tryBytes and
	// tryFile are the methods' values, made once so that no send allocates.
	bytes    []byte
	flags    int
	src      int
	pos      int64
	left     int64
	waited   bool // a write deadline is set
	err      error
	tryBytes func(fd uintptr) bool
	tryFile  func(fd uintptr) bool
}

func newOutput(c *serverConn) *output {
	o := &output{conn: c}
	o.tryBytes, o.tryFile = o.sendOnce, o.sendFileOnce
	return o
}

// send writes a response and gives up its pieces. With more a small one is kept
// until the next, which follows at once.
func (o *output) send(r *Response, more bool) error {
	defer r.Drop()
	r.seal()
	o.conn.server.metrics.BytesOut.Add(r.Size())
	if len(r.regions) == 0 && (more || o.held != nil) && len(r.Buf) <= mostHeld {
		if o.held == nil {
			o.held = o.conn.server.pool.get(4 << 10)
		}
		*o.held = append(*o.held, r.Buf...)
		return o.flush(more && len(*o.held) < mostHeld)
	}
	if o.held != nil {
		if err := o.writeHeld(true); err != nil {
			return err
		}
	}
	at := 0
	for i := range r.regions {
		p := &r.regions[i]
		if err := o.write(r.Buf[at:p.at], true); err != nil {
			return err
		}
		at = p.at
		if err := o.region(p.region, r.Passing); err != nil {
			return err
		}
	}
	return o.write(r.Buf[at:], false)
}

// flush writes what is held, unless more follows at once.
func (o *output) flush(more bool) error {
	if more || o.held == nil {
		return nil
	}
	return o.writeHeld(false)
}

func (o *output) writeHeld(more bool) error {
	err := o.write(*o.held, more)
	o.conn.server.pool.put(o.held)
	o.held = nil
	return err
}

// write sends bytes; with more the kernel is asked to wait with the packet.
func (o *output) write(b []byte, more bool) error {
	c := o.conn
	for len(b) > 0 {
		n := min(len(b), sendChunk)
		if c.raw == nil {
			if err := c.net.SetWriteDeadline(time.Now().Add(c.server.config.Write)); err != nil {
				return err
			}
			if _, err := c.net.Write(b[:n]); err != nil {
				return err
			}
		} else {
			o.bytes, o.flags = b[:n], unix.MSG_NOSIGNAL
			if more || n < len(b) {
				o.flags |= unix.MSG_MORE
			}
			if err := o.run(o.tryBytes); err != nil {
				return err
			}
		}
		b = b[n:]
	}
	return nil
}

// run repeats one send until it is done.
func (o *output) run(try func(fd uintptr) bool) error {
	c := o.conn
	o.err = nil
	err := c.raw.Write(try)
	o.bytes = nil
	if o.waited {
		o.waited = false
		if derr := c.net.SetWriteDeadline(time.Time{}); err == nil {
			err = derr
		}
	}
	if o.err != nil {
		return o.err
	}
	return err
}

// wait sets the deadline of a send that has to wait, once.
func (o *output) wait() bool {
	if !o.waited {
		o.waited = true
		c := o.conn
		o.err = c.net.SetWriteDeadline(time.Now().Add(c.server.config.Write))
	}
	return o.err != nil
}

// sendOnce sends bytes; false means that the socket has no room for the rest.
func (o *output) sendOnce(fd uintptr) bool {
	for len(o.bytes) > 0 {
		n, err := unix.SendmsgN(int(fd), o.bytes, nil, nil, o.flags)
		switch err {
		case nil:
			o.bytes = o.bytes[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			return o.wait()
		default:
			o.err = fmt.Errorf("sendmsg: %w", err)
			return true
		}
	}
	return true
}

func (o *output) region(region vfs.Region, passing bool) error {
	if passing { // also what is in memory: it may only be read ahead for this reader
		o.conn.server.metrics.PassingBytes.Add(region.Len)
		pass := vfs.NewPassing(region)
		defer pass.Done()
		return o.copyRegion(region, pass, passingChunk)
	}
	if src, ok := region.File.Fd(); ok && o.conn.raw != nil {
		return o.file(int(src), region.Pos, region.Len)
	}
	return o.copyRegion(region, region.File, copyChunk)
}

// file moves a region from the page cache to the socket. The offset is ours, so
// any number of connections may send from one descriptor.
func (o *output) file(src int, pos, length int64) error {
	o.src, o.pos = src, pos
	end := pos + length
	for o.pos < end {
		o.left = min(end-o.pos, sendChunk)
		if err := o.run(o.tryFile); err != nil {
			if errors.Is(err, ErrShortSendfile) {
				s := o.conn.server
				s.metrics.ShortSendfiles.Add(1)
				s.config.Logger.Error("a segment ended inside a reply", "at", o.pos, "missing", end-o.pos)
			}
			return err
		}
	}
	return nil
}

// sendFileOnce sends a piece of a file; false means that the socket has no room
// for the rest.
func (o *output) sendFileOnce(fd uintptr) bool {
	for o.left > 0 {
		n, err := unix.Sendfile(int(fd), o.src, &o.pos, int(o.left))
		switch {
		case err == unix.EAGAIN:
			return o.wait()
		case err == unix.EINTR:
			continue
		case err != nil:
			o.err = fmt.Errorf("sendfile: %w", err)
			return true
		case n == 0:
			o.err = ErrShortSendfile
			return true
		}
		o.left -= int64(n)
		o.conn.server.metrics.SendfileBytes.Add(int64(n))
	}
	return true
}

// copyRegion sends a region through memory, where sendfile can't.
func (o *output) copyRegion(region vfs.Region, from io.ReaderAt, chunk int) error {
	s := o.conn.server
	buf := s.pool.get(int(min(region.Len, int64(chunk))))
	defer s.pool.put(buf)
	for pos, left := region.Pos, region.Len; left > 0; {
		b := (*buf)[:min(left, int64(chunk))]
		n, err := from.ReadAt(b, pos)
		if n < len(b) {
			if err == nil || err == io.EOF {
				err = ErrShortSendfile
				s.metrics.ShortSendfiles.Add(1)
			}
			return err
		}
		if err := o.write(b, false); err != nil {
			return err
		}
		pos += int64(n)
		left -= int64(n)
	}
	return nil
}
