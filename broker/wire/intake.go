package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// readBuffer is how much is read at once: several small requests, or the
// beginning of a large one.
const readBuffer = 64 << 10

// intake is what a connection received and its reader has not taken yet. It
// borrows a buffer when bytes arrive and gives it back before it waits with
// none, so an idle connection holds no memory for them.
//
// The connection's read deadline is set only where a read has to wait, and left
// alone where it would fire earlier than needed: a timeout is judged when it
// comes. So a busy connection costs no timers.
type intake struct {
	conn  *serverConn
	buf   *[]byte   // nil: nothing is there
	at    int       // (*buf)[at:] is there
	large bool      // the frame before didn't fit in the buffer: this one may not, either
	due   time.Time // when the next MiB of the frame must be there; zero until a read waited for it
	armed time.Time // the connection's read deadline, zero: none

	// One read: where to (nil: the buffer) and what came of it. try is
	// tryRead, made once so that no read allocates.
	dst []byte
	n   int
	err error
	try func(fd uintptr) bool
}

func newIntake(c *serverConn) *intake {
	in := &intake{conn: c}
	in.try = in.tryRead
	return in
}

// have is the number of bytes that are there.
func (in *intake) have() int {
	if in.buf == nil {
		return 0
	}
	return len(*in.buf) - in.at
}

// there are the first n of them.
func (in *intake) there(n int) []byte { return (*in.buf)[in.at : in.at+n : in.at+n] }

// take drops the first n of them.
func (in *intake) take(n int) {
	in.at += n
	if in.at == len(*in.buf) {
		*in.buf, in.at = (*in.buf)[:0], 0
	}
}

// wholeFrame tells whether the next frame is there to its end.
func (in *intake) wholeFrame() bool {
	n := in.have()
	return n >= 4 && int64(n) >= 4+int64(binary.BigEndian.Uint32(in.there(4)))
}

// fill reads until n bytes are there, of readBuffer at most.
func (in *intake) fill(n int) error {
	for in.have() < n {
		if in.buf != nil && in.at > 0 && cap(*in.buf)-in.at < n {
			*in.buf = (*in.buf)[:copy((*in.buf)[:cap(*in.buf)], (*in.buf)[in.at:])]
			in.at = 0
		}
		if _, err := in.read(nil); err != nil {
			return err
		}
	}
	return nil
}

// move appends what is there to b, up to its capacity or to n bytes, and reads
// the rest of n once if nothing was there.
func (in *intake) move(b []byte, n int) ([]byte, error) {
	room := min(n, cap(b)) - len(b)
	if have := min(in.have(), room); have > 0 {
		b = append(b, in.there(have)...)
		in.take(have)
		return b, nil
	}
	got, err := in.read(b[len(b) : len(b)+room])
	return b[:len(b)+got], err
}

// read reads once, to dst or else to the buffer, and waits for it as long as
// may be.
func (in *intake) read(dst []byte) (int, error) {
	c := in.conn
	for {
		in.dst, in.n, in.err = dst, 0, nil
		var err error
		if c.raw != nil {
			err = c.raw.Read(in.try)
		} else {
			err = in.readPlain()
		}
		in.dst = nil
		if err == nil {
			err = in.err
		}
		var timeout net.Error
		if err != nil && errors.As(err, &timeout) && timeout.Timeout() {
			in.armed = time.Time{}
			if !in.over(dst != nil || in.have() > 0) {
				// A socket isn't even tried once its deadline has passed.
				if err = in.arm(); err == nil {
					continue
				}
			}
		}
		if in.n > 0 || err != nil {
			return in.n, err
		}
	}
}

// over tells whether a wait may end the connection.
func (in *intake) over(begun bool) bool {
	c := in.conn
	if !begun {
		return c.idle()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drained || c.gone || !time.Now().Before(in.due)
}

// firstLook is how much is read of a frame that may be large: the rest goes
// straight to where it stays.
const firstLook = 4 << 10

// room is where the next bytes go: dst, or else the rest of the buffer, which is
// borrowed when there is none.
func (in *intake) room() []byte {
	if in.dst != nil {
		return in.dst
	}
	if in.buf == nil {
		in.buf, in.at = in.conn.server.pool.get(readBuffer), 0
	}
	from, to := len(*in.buf), cap(*in.buf)
	if in.large {
		to = min(to, from+firstLook)
	}
	return (*in.buf)[from:to]
}

// came takes note of n bytes that were read to room.
func (in *intake) came(n int, err error) {
	if n > 0 && in.dst == nil {
		*in.buf = (*in.buf)[:len(*in.buf)+n]
	}
	in.n, in.err = max(n, 0), err
}

// tryRead reads what the socket has; false means that it has to be waited for.
func (in *intake) tryRead(fd uintptr) bool {
	for {
		n, err := unix.Read(int(fd), in.room())
		switch err {
		case nil:
			if n == 0 {
				err = io.EOF
			}
			in.came(n, err)
			return true
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			in.giveBack()
			in.err = in.arm()
			return in.err != nil
		}
		in.came(0, err)
		return true
	}
}

// readPlain reads from a connection that is no TCP socket.
func (in *intake) readPlain() error {
	if err := in.arm(); err != nil {
		return err
	}
	n, err := in.conn.net.Read(in.room())
	in.came(n, err)
	return nil
}

// giveBack returns the buffer when nothing is in it.
func (in *intake) giveBack() {
	if in.buf != nil && in.have() == 0 {
		in.conn.server.pool.put(in.buf)
		in.buf = nil
	}
}

// arm sets the deadline of a read that waits: for the next frame, or for more of
// one that began. A connection that is being drained has its own.
func (in *intake) arm() error {
	c := in.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drained {
		return net.ErrClosed
	}
	var limit time.Time
	if in.dst == nil && in.have() == 0 {
		from := c.active
		if len(c.queue) > 0 {
			from = time.Now()
		}
		limit = from.Add(c.server.config.Idle)
	} else {
		if in.due.IsZero() {
			in.due = time.Now().Add(c.server.config.Frame)
		}
		limit = in.due
	}
	if !in.armed.IsZero() && !in.armed.After(limit) {
		return nil
	}
	in.armed = limit
	return c.net.SetReadDeadline(limit)
}
