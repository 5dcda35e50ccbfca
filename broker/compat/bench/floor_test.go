package bench

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// floor is the CPU time in seconds per GB that the kernel takes for what any
// broker has to have it do, by bare loops of system calls.
type floor struct {
	Fetch   float64 `json:"fetch"`   // sendfile of 1 MiB at a time to a socket
	Produce float64 `json:"produce"` // read of 64 KiB at most from a socket, pwrite of every 16 KiB
}

// measureFloor measures both on the brokers' core, with a peer on the client's.
func measureFloor(t *testing.T, bytes int64) floor {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "segment"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it goes with the test
	var f floor
	const piece = batchBytes + 300 // no batch is as long as a page
	f.Produce = onBrokerCore(t, bytes, func(socket int) error {
		var pos, have int
		buf := make([]byte, 64<<10+piece)
		for pos < int(bytes) {
			n, err := unix.Read(socket, buf[have:have+64<<10])
			if err != nil || n == 0 {
				return err
			}
			have += n
			at := 0
			for ; have-at >= piece; at += piece {
				if _, err := unix.Pwrite(int(file.Fd()), buf[at:at+piece], int64(pos)); err != nil {
					return err
				}
				pos += piece
			}
			have = copy(buf, buf[at:have])
		}
		return nil
	}, func(c net.Conn) error {
		out := make([]byte, 1<<20)
		for sent := int64(0); sent < bytes+piece; sent += int64(len(out)) {
			if _, err := c.Write(out); err != nil {
				return err
			}
		}
		return nil
	})
	f.Fetch = onBrokerCore(t, bytes, func(socket int) error {
		for pos := int64(0); pos < bytes; {
			if _, err := unix.Sendfile(socket, int(file.Fd()), &pos, int(min(sendfileChunk, bytes-pos))); err != nil {
				return err
			}
		}
		return nil
	}, func(c net.Conn) error {
		_, err := io.CopyN(io.Discard, struct{ io.Reader }{c}, bytes)
		return err
	})
	return f
}

const sendfileChunk = 1 << 20

// onBrokerCore runs one side of a connection on a thread of the brokers' core
// and the other on the client's, and returns the first one's CPU time per GB.
func onBrokerCore(t *testing.T, bytes int64, measured func(socket int) error, other func(net.Conn) error) float64 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // one connection was taken
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = far.Close() }() // all bytes passed
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = near.Close() }() // all bytes passed
	socket, err := near.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }() // a second descriptor of near
	type outcome struct {
		cpu time.Duration
		err error
	}
	done := make(chan outcome)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends, it is on another core
		var set unix.CPUSet
		set.Set(brokerCore)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			done <- outcome{0, err}
			return
		}
		before := thread()
		err := measured(int(socket.Fd())) // Fd makes it blocking
		done <- outcome{thread() - before, err}
	}()
	if err := other(far); err != nil {
		t.Fatal(err)
	}
	o := <-done
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o.cpu.Seconds() / (float64(bytes) / 1e9)
}

// thread is the CPU time of the calling thread.
func thread() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &u) // can't fail with these arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
