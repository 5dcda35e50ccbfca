package wire

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/vfs"
)

// sumBody answers with the checksum of the request's body.
func sumBody(e *Exchange) {
	r := e.NewResponse(4)
	r.Buf = binary.BigEndian.AppendUint32(r.Buf, crc32.ChecksumIEEE(e.Body))
	e.ReplyPieces(r)
}

// TestFramesOfEverySize sends frames below, at and above every size at which
// their way into memory changes, many at once and in pieces of any length.
func TestFramesOfEverySize(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	type sent struct {
		key, version int16
		body         []byte
	}
	var all []sent
	var stream []byte
	for _, around := range []int{0, 300, 4 << 10, 20 << 10, readBuffer - 12, readBuffer, frameChunk, 4 << 20, 5 << 20} {
		for _, off := range []int{-3, -1, 0, 1, 7} {
			for _, key := range []int16{0, 12} {
				n := max(0, around+off)
				if key == 12 && n > 900<<10 {
					continue
				}
				s := sent{key, 4, make([]byte, n)}
				for i := range s.body {
					s.body[i] = byte(rng.Uint32())
				}
				all = append(all, s)
			}
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, s := range all {
		header := []byte{255, 255}
		if s.key == 12 {
			header = append(header, 0) // no tags: version 4 is flexible
		}
		stream = append(stream, frameOf(s.key, s.version, int32(i), append(header, s.body...)...)...)
	}
	check := func(t *testing.T, conn net.Conn) {
		go func() {
			for rest := stream; len(rest) > 0; {
				n := min(len(rest), 1+rng.IntN(1<<rng.IntN(22)))
				if _, err := conn.Write(rest[:n]); err != nil {
					t.Error(err)
					return
				}
				rest = rest[n:]
			}
		}()
		for i, s := range all {
			got := make([]byte, 12)
			if s.key == 12 {
				got = make([]byte, 13)
			}
			if _, err := io.ReadFull(conn, got); err != nil {
				t.Fatalf("reply %d: %v", i, err)
			}
			if id := binary.BigEndian.Uint32(got[4:]); id != uint32(i) {
				t.Fatalf("reply %d has correlation id %d", i, id)
			}
			if sum := binary.BigEndian.Uint32(got[len(got)-4:]); sum != crc32.ChecksumIEEE(s.body) {
				t.Fatalf("the body of %d bytes of key %d arrived damaged", len(s.body), s.key)
			}
		}
		_ = conn.Close() // all was answered
	}
	t.Run("tcp", func(t *testing.T) {
		s, addr := serveTCP(t, Config{Handler: handlerFunc(sumBody)})
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		check(t, conn)
		for s.Metrics().Open.Load() > 0 {
			runtime.Gosched()
		}
		if s.inFlight.free != s.inFlight.size {
			t.Errorf("%d of %d bytes came back", s.inFlight.free, s.inFlight.size)
		}
	})
	t.Run("memory", func(t *testing.T) {
		_, conn := pipeServer(t, Config{Handler: handlerFunc(sumBody)})
		check(t, conn)
	})
}

// writes counts the writes on a connection.
type writes struct {
	net.Conn
	n atomic.Int64
}

func (w *writes) Write(b []byte) (int, error) {
	w.n.Add(1)
	return w.Conn.Write(b)
}

func TestRepliesToRequestsThatCameTogetherGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Config{Handler: handlerFunc(sumBody), Rules: testRules})
		conn, far := net.Pipe()
		counted := &writes{Conn: far}
		s.ServeConn(counted)
		var stream []byte
		const requests = 10
		for i := range requests {
			stream = append(stream, frameOf(0, 4, int32(i), 255, 255, byte(i))...)
		}
		if _, err := conn.Write(stream); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 12*requests)); err != nil {
			t.Fatal(err)
		}
		// The writer may wake before the reader is through with all of them.
		if n := counted.n.Load(); n > requests/2 {
			t.Errorf("%d writes", n)
		}
		_ = conn.Close() // all was answered
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestUnsentRepliesHoldNobodyUp: requests that came together may take more
// memory than all requests may have; the ones before are answered first.
func TestUnsentRepliesHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, conn := pipeServer(t, Config{QueuedBytes: 10 << 10, Handler: handlerFunc(sumBody)})
		var stream []byte
		const requests = 12
		for i := range requests {
			stream = append(stream, frameOf(0, 4, int32(i), append([]byte{255, 255}, make([]byte, 4<<10)...)...)...)
		}
		began := time.Now()
		go func() { _, _ = conn.Write(stream) }()
		if _, err := io.ReadFull(conn, make([]byte, 12*requests)); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it took %v", waited)
		}
		_ = conn.Close() // all was answered
	})
}

// TestLongReplyDoesNotStopTheReader: while a client doesn't take a long reply,
// what it sent behind is executed.
func TestLongReplyDoesNotStopTheReader(t *testing.T) {
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, make([]byte, 32<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := vfs.OS.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	executed := make(chan int16, 2)
	var released atomic.Int64
	_, addr := serveTCP(t, Config{Handler: handlerFunc(func(e *Exchange) {
		if e.Version == 1 {
			r := e.NewResponse(0)
			if err := r.AddRegion(region(t, f, 0, 32<<20, &released)); err != nil {
				t.Error(err)
			}
			e.ReplyPieces(r)
		} else {
			heartbeatCode(e, 0)
		}
		executed <- e.Version
	})})
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // replies are left on it
	if _, err := conn.Write(append(frameOf(12, 1, 1, 255, 255), frameOf(12, 2, 2, 255, 255)...)); err != nil {
		t.Fatal(err)
	}
	if a, b := <-executed, <-executed; a != 1 || b != 2 {
		t.Errorf("executed %d, then %d", a, b)
	}
}

func TestIdleConnectionsHoldNoBuffers(t *testing.T) {
	_, addr := serveTCP(t, Config{Handler: handlerFunc(sumBody)})
	inuse := func() uint64 {
		var m runtime.MemStats
		runtime.GC() // what was pooled goes with the second
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := inuse()
	const conns = 200
	for range conns {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }() // all was answered
		if _, err := conn.Write(frameOf(0, 4, 1, 255, 255)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 12)); err != nil {
			t.Fatal(err)
		}
	}
	if each := int64(inuse()-before) / conns; each > 16<<10 {
		t.Errorf("each of %d idle connections holds %d bytes", conns, each)
	}
}

// TestDeadlinesOfTheBusy: a connection that is older than the longest pause, and
// whose requests come slower than they are read, is answered as at its first
// request, and so is one whose frame comes in pieces; a reader whose deadline has
// passed waits, and doesn't turn in circles.
func TestDeadlinesOfTheBusy(t *testing.T) {
	const idle = 200 * time.Millisecond
	_, addr := serveTCP(t, Config{Idle: idle, Frame: idle, Handler: handlerFunc(sumBody)})
	for _, test := range []struct {
		name   string
		pieces int
	}{{"whole", 1}, {"in pieces", 2}} {
		t.Run(test.name, func(t *testing.T) {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			var before syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for n := int32(1); time.Since(began) < 5*idle; n++ {
				frame := frameOf(12, 1, n, 255, 255, 1, 2, 3)
				for i := range test.pieces {
					from, to := i*len(frame)/test.pieces, (i+1)*len(frame)/test.pieces
					if _, err := c.Write(frame[from:to]); err != nil {
						t.Fatal(err)
					}
					time.Sleep(idle / 4)
				}
				if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
					t.Fatal(err)
				}
				var answer [12]byte
				if _, err := io.ReadFull(c, answer[:]); err != nil {
					t.Fatalf("request %d, %v after the connection was made: %v", n, time.Since(began), err)
				}
				if got := int32(binary.BigEndian.Uint32(answer[4:])); got != n {
					t.Fatalf("answer %d to request %d", got, n)
				}
			}
			var after syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
				t.Fatal(err)
			}
			if spent := time.Duration(after.Utime.Nano() - before.Utime.Nano()); spent > idle {
				t.Errorf("%v of CPU for a few requests", spent)
			}
		})
	}
}
