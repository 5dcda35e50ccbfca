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

// ErrShortSendfile tells that a file ended before its region did. The frame's
// size is out already, so the connection can't go on.
var ErrShortSendfile = errors.New("short sendfile")

// send writes a response and gives up its pieces.
func (c *serverConn) send(r *Response) error {
	defer r.Drop()
	r.seal()
	at := 0
	for i := range r.regions {
		p := &r.regions[i]
		if err := c.sendBytes(r.Buf[at:p.at], true); err != nil {
			return err
		}
		at = p.at
		if err := c.sendRegion(p.region); err != nil {
			return err
		}
	}
	if err := c.sendBytes(r.Buf[at:], false); err != nil {
		return err
	}
	c.server.metrics.BytesOut.Add(r.Size())
	return nil
}

func (c *serverConn) sendBytes(b []byte, more bool) error {
	for len(b) > 0 {
		if err := c.net.SetWriteDeadline(time.Now().Add(c.server.config.Write)); err != nil {
			return err
		}
		n := min(len(b), sendChunk)
		var err error
		if more && c.raw != nil {
			err = c.sendMore(b[:n])
		} else {
			_, err = c.net.Write(b[:n])
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// sendMore writes bytes that a file region follows: the kernel is asked to wait
// with the packet.
func (c *serverConn) sendMore(b []byte) error {
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		for len(b) > 0 {
			n, err := unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
			switch {
			case err == unix.EAGAIN:
				return false
			case err == unix.EINTR:
				continue
			case err != nil:
				failed = fmt.Errorf("sendmsg: %w", err)
				return true
			}
			b = b[n:]
		}
		return true
	})
	return errors.Join(failed, err)
}

func (c *serverConn) sendRegion(region vfs.Region) error {
	if src, ok := region.File.Fd(); ok && c.raw != nil {
		return c.sendFile(int(src), region.Pos, region.Len)
	}
	return c.copyRegion(region)
}

// sendFile moves a region from the page cache to the socket. The offset is
// ours, so any number of connections may send from one descriptor.
func (c *serverConn) sendFile(src int, pos, length int64) error {
	var failed error
	for length > 0 && failed == nil {
		if err := c.net.SetWriteDeadline(time.Now().Add(c.server.config.Write)); err != nil {
			return err
		}
		want := min(length, sendChunk)
		err := c.raw.Write(func(fd uintptr) bool {
			for want > 0 {
				n, err := unix.Sendfile(int(fd), src, &pos, int(want))
				switch {
				case err == unix.EAGAIN:
					return false
				case err == unix.EINTR:
					continue
				case err != nil:
					failed = fmt.Errorf("sendfile: %w", err)
					return true
				case n == 0:
					failed = ErrShortSendfile
					return true
				}
				want -= int64(n)
				length -= int64(n)
				c.server.metrics.SendfileBytes.Add(int64(n))
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	if errors.Is(failed, ErrShortSendfile) {
		c.server.metrics.ShortSendfiles.Add(1)
		c.server.config.Logger.Error("a segment ended inside a reply", "at", pos, "missing", length)
	}
	return failed
}

// copyRegion sends a region through memory, where sendfile can't.
func (c *serverConn) copyRegion(region vfs.Region) error {
	buf := c.server.pool.get(copyChunk)
	defer c.server.pool.put(buf)
	for pos, left := region.Pos, region.Len; left > 0; {
		b := (*buf)[:min(left, copyChunk)]
		n, err := region.File.ReadAt(b, pos)
		if n < len(b) {
			if err == nil || err == io.EOF {
				err = ErrShortSendfile
				c.server.metrics.ShortSendfiles.Add(1)
			}
			return err
		}
		if err := c.sendBytes(b, false); err != nil {
			return err
		}
		pos += int64(n)
		left -= int64(n)
	}
	return nil
}
