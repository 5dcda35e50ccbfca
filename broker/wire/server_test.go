package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/vfs"
)

// handlerFunc is a Handler; ApiVersions is answered for it, so that clients can
// connect.
type handlerFunc func(*Exchange)

func (f handlerFunc) Serve(e *Exchange) {
	if e.Key == keyApiVersions {
		m := kmsg.NewPtrApiVersionsResponse()
		m.Version = e.Version
		m.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: 12, MaxVersion: 4}, {ApiKey: 18, MaxVersion: 4}}
		e.Reply(m)
		return
	}
	f(e)
}

func testRules(key int16) (Rule, bool) {
	switch key {
	case 0:
		return Rule{Min: 3, Max: 13, Flexible: 9, Bytes: 100 << 20, Reuse: true}, true
	case 12:
		return Rule{Min: 0, Max: 4, Flexible: 4, Bytes: 1 << 20}, true
	case keyApiVersions:
		return Rule{Min: 0, Max: 4, Flexible: 3, Bytes: 1 << 20}, true
	}
	return Rule{}, false
}

// heartbeatCode answers a Heartbeat with a code of the test's choice.
func heartbeatCode(e *Exchange, code int16) {
	m := kmsg.NewPtrHeartbeatResponse()
	m.Version, m.ErrorCode = e.Version, code
	e.Reply(m)
}

// serveTCP starts a server on loopback and returns its address.
func serveTCP(t *testing.T, c Config) (*Server, string) {
	t.Helper()
	c.Rules = testRules
	s := NewServer(c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(l)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

func dial(t *testing.T, addr string) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), addr, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the server may have closed it
	return c
}

func heartbeat(t *testing.T, c *Conn) int16 {
	t.Helper()
	m, err := c.Request(t.Context(), kmsg.NewPtrHeartbeatRequest())
	if err != nil {
		t.Fatal(err)
	}
	return m.(*kmsg.HeartbeatResponse).ErrorCode
}

func frameOf(key, version int16, correlation int32, rest ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(rest)))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	return append(b, rest...)
}

func TestHostileFramesHurtOnlyTheirConnection(t *testing.T) {
	s, addr := serveTCP(t, Config{Handler: handlerFunc(func(e *Exchange) {
		if e.Version == 0 {
			panic("a handler's bug")
		}
		heartbeatCode(e, 7)
	})})
	good := dial(t, addr)
	cases := []struct {
		name  string
		bytes []byte
	}{
		{"size 0", []byte{0, 0, 0, 0}},
		{"size 7", []byte{0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7}},
		{"size negative", []byte{255, 255, 255, 255}},
		{"size 2^31-1", []byte{127, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0}},
		{"over the key's limit", append([]byte{0, 32, 0, 0}, frameOf(12, 4, 1)[4:]...)},
		{"unknown key 999", frameOf(999, 0, 1, 255, 255)},
		{"version 99", frameOf(12, 99, 1, 255, 255)},
		{"version negative", frameOf(12, -1, 1, 255, 255)},
		{"refused produce version", frameOf(0, 2, 1, 255, 255)},
		{"client id longer than the frame", frameOf(12, 4, 1, 0, 200, 'a')},
		{"tag count without tags", frameOf(12, 4, 1, 255, 255, 255, 255, 255, 255, 15)},
		{"random", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")},
		{"a panic in the handler", frameOf(12, 0, 1, 255, 255)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			bad, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = bad.Close() }() // it may be closed already
			if _, err := bad.Write(c.bytes); err != nil {
				t.Fatal(err)
			}
			if err := bad.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := bad.Read(make([]byte, 1))
			var timeout net.Error
			if n != 0 || err == nil || errors.As(err, &timeout) && timeout.Timeout() {
				t.Errorf("read %d, %v: want the connection closed without a reply", n, err)
			}
			if got := heartbeat(t, good); got != 7 {
				t.Errorf("the other connection got %d", got)
			}
		})
	}
	if got := s.Metrics().Panics.Load(); got != 1 {
		t.Errorf("panics counted: %d", got)
	}
	if got := s.Metrics().BadFrames.Load(); got < 10 {
		t.Errorf("bad frames counted: %d", got)
	}
}

func TestNullAndEmptyClientID(t *testing.T) {
	ids := make(chan Client, 2)
	_, addr := serveTCP(t, Config{Handler: handlerFunc(func(e *Exchange) {
		ids <- e.Client
		heartbeatCode(e, 0)
	})})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // it may be closed already
	for _, id := range [][]byte{{255, 255}, {0, 0}} {
		if _, err := c.Write(frameOf(12, 1, 5, id...)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 14)
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatal(err)
		}
		if from := <-ids; from.ID != "" || from.Host != "/127.0.0.1" || from.Batch {
			t.Errorf("client %+v", from)
		}
	}
}

func TestBatchClassIsRecognised(t *testing.T) {
	ids := make(chan Client, 1)
	_, addr := serveTCP(t, Config{Handler: handlerFunc(func(e *Exchange) {
		ids <- e.Client
		heartbeatCode(e, 0)
	})})
	c, err := Dial(t.Context(), addr, BatchPrefix+"run-1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // it may be closed already
	heartbeat(t, c)
	if from := <-ids; !from.Batch || from.ID != "sawlog-batch/run-1" {
		t.Errorf("client %+v", from)
	}
}

// parkedFunc is a Parked whose Drop is counted.
type parkedFunc struct {
	resume func(expired bool)
	drop   func()
}

func (p parkedFunc) Resume(expired bool) { p.resume(expired) }
func (p parkedFunc) Drop()               { p.drop() }

// pipeServer serves one in-memory connection.
func pipeServer(t *testing.T, c Config) (*Server, net.Conn) {
	t.Helper()
	c.Rules = testRules
	s := NewServer(c)
	client, server := net.Pipe()
	s.ServeConn(server)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, client
}

func TestRepliesKeepTheOrderOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first *Exchange
		var executed []string
		_, conn := pipeServer(t, Config{Handler: handlerFunc(func(e *Exchange) {
			if first == nil {
				first = e
				executed = append(executed, "parked")
				e.Park(time.Now().Add(time.Hour), parkedFunc{resume: func(bool) { heartbeatCode(e, 1) }})
				return
			}
			executed = append(executed, "second")
			heartbeatCode(e, 2)
		})})
		c, err := NewConn(t.Context(), conn, "x")
		if err != nil {
			t.Fatal(err)
		}
		codes := make(chan int16, 2)
		for range 2 {
			go func() { codes <- heartbeat(t, c) }()
			synctest.Wait()
		}
		if len(executed) != 2 {
			t.Fatalf("executed %v: the second must run while the first is parked", executed)
		}
		if len(codes) != 0 {
			t.Fatal("a reply came before its turn")
		}
		began := time.Now()
		first.Wake()
		if a, b := <-codes, <-codes; a+b != 3 {
			t.Errorf("codes %d and %d", a, b)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the event took %v", waited)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestParkedRequestExpiresOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, conn := pipeServer(t, Config{Handler: handlerFunc(func(e *Exchange) {
			e.Park(time.Now().Add(1500*time.Millisecond), parkedFunc{resume: func(expired bool) {
				if expired {
					heartbeatCode(e, 3)
				}
			}})
			e.Wake() // too early: it must go on waiting
		})})
		c, err := NewConn(t.Context(), conn, "x")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if got := heartbeat(t, c); got != 3 {
			t.Errorf("code %d", got)
		}
		if waited := time.Since(began); waited != 1500*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestDeadlines(t *testing.T) {
	closedAfter := func(t *testing.T, send []byte, want time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			_, conn := pipeServer(t, Config{Handler: handlerFunc(func(e *Exchange) {
				e.Park(time.Now().Add(25*time.Minute), parkedFunc{resume: func(bool) { heartbeatCode(e, 0) }})
			})})
			began := time.Now()
			if _, err := conn.Write(send); err != nil {
				t.Fatal(err)
			}
			_, err := io.Copy(io.Discard, conn)
			if err != nil || time.Since(began) != want {
				t.Errorf("closed after %v, %v; want %v", time.Since(began), err, want)
			}
		})
	}
	t.Run("idle", func(t *testing.T) { closedAfter(t, nil, 10*time.Minute) })
	t.Run("frame begun", func(t *testing.T) { closedAfter(t, []byte{0, 0}, 30*time.Second) })
	t.Run("body missing", func(t *testing.T) { closedAfter(t, frameOf(0, 9, 1, make([]byte, 100)...)[:50], 30*time.Second) })
	// A connection that waits for a reply isn't idle: it is closed 10 minutes
	// after the reply.
	t.Run("waiting", func(t *testing.T) { closedAfter(t, frameOf(12, 1, 1, 255, 255), 35*time.Minute) })
}

func TestDropWhenThePeerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dropped := 0
		s, conn := pipeServer(t, Config{Handler: handlerFunc(func(e *Exchange) {
			e.Park(time.Now().Add(time.Hour), parkedFunc{resume: func(bool) {}, drop: func() { dropped++ }})
		})})
		if _, err := conn.Write(frameOf(12, 1, 1, 255, 255)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if dropped != 1 || s.Metrics().Open.Load() != 0 {
			t.Errorf("dropped %d, open %d", dropped, s.Metrics().Open.Load())
		}
		if s.inFlight.free != s.inFlight.size {
			t.Errorf("%d of %d bytes came back", s.inFlight.free, s.inFlight.size)
		}
	})
}

func TestCloseAnswersWhatIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn := pipeServer(t, Config{Handler: handlerFunc(func(e *Exchange) {
			e.Park(time.Now().Add(time.Hour), parkedFunc{resume: func(expired bool) {
				if expired {
					heartbeatCode(e, 5)
				}
			}})
		})})
		c, err := NewConn(t.Context(), conn, "x")
		if err != nil {
			t.Fatal(err)
		}
		code := make(chan int16, 1)
		go func() { code <- heartbeat(t, c) }()
		synctest.Wait()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := <-code; got != 5 {
			t.Errorf("code %d", got)
		}
		_ = c.Close() // closed by the server
	})
}

func TestConnectionCaps(t *testing.T) {
	s, addr := serveTCP(t, Config{MaxPerIP: 2, Handler: handlerFunc(func(e *Exchange) { heartbeatCode(e, 0) })})
	a, b := dial(t, addr), dial(t, addr)
	if _, err := Dial(t.Context(), addr, "third"); err == nil {
		t.Error("a third connection of one address was served")
	}
	heartbeat(t, a)
	heartbeat(t, b)
	if s.Metrics().Refused.Load() != 1 {
		t.Errorf("refused %d", s.Metrics().Refused.Load())
	}
}

func TestBigClaimBuysNoMemory(t *testing.T) {
	_, addr := serveTCP(t, Config{Handler: handlerFunc(func(e *Exchange) { heartbeatCode(e, 0) })})
	good := dial(t, addr)
	heartbeat(t, good)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }() // it may be closed already
		claim := binary.BigEndian.AppendUint32(nil, 90<<20)
		if _, err := c.Write(append(claim, frameOf(0, 9, 1, 255, 255, 0)[4:]...)); err != nil {
			t.Fatal(err)
		}
	}
	heartbeat(t, good)
	runtime.ReadMemStats(&after)
	if grew := after.TotalAlloc - before.TotalAlloc; grew > 8<<20 {
		t.Errorf("20 claims of 90 MiB took %d bytes", grew)
	}
}

func TestSemaphoreBoundsAndServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBytesSemaphore(100)
		if got, err := s.acquire(t.Context(), 1000); err != nil || got != 100 {
			t.Fatalf("acquired %d, %v", got, err)
		}
		var mu sync.Mutex
		var order []int64
		for _, n := range []int64{60, 50, 10} {
			go func() {
				got, err := s.acquire(t.Context(), n)
				if err != nil || got != n {
					t.Errorf("acquired %d, %v", got, err)
				}
				mu.Lock()
				order = append(order, n)
				mu.Unlock()
			}()
			synctest.Wait()
		}
		gone, cancel := context.WithCancel(t.Context())
		go cancel()
		if _, err := s.acquire(gone, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		s.release(70)
		synctest.Wait()
		if len(order) != 1 || order[0] != 60 {
			t.Errorf("after 70 of 100: %v", order) // 10 is left, 50 waits before 10
		}
		s.release(30)
		s.release(60)
		synctest.Wait()
		if len(order) != 3 || s.free != 40 {
			t.Errorf("order %v, free %d", order, s.free)
		}
	})
}

// region is a region of a file that counts its releases.
func region(t *testing.T, f vfs.File, pos, n int64, released *atomic.Int64) vfs.Region {
	t.Helper()
	return vfs.Region{File: f, Pos: pos, Len: n, Release: func() { released.Add(1) }}
}

func TestRegionsAreSentByteForByte(t *testing.T) {
	content := make([]byte, 3<<20)
	for i := range content {
		content[i] = byte(i * 7 >> 3)
	}
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := vfs.OS.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it may be closed already
	type part struct{ pos, n int64 }
	cases := []struct {
		name     string
		parts    []part
		sendfile bool
		short    bool
	}{
		{"one small", []part{{5, 100}}, false, false},
		{"one large", []part{{1, 2 << 20}}, true, false},
		{"many", []part{{0, 20000}, {7, 3}, {100, 1 << 20}, {2 << 20, 1 << 20}}, true, false},
		{"past the end of the file", []part{{3<<20 - 100, 20000}}, true, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var released atomic.Int64
			s, addr := serveTCP(t, Config{Handler: handlerFunc(func(e *Exchange) {
				r := e.NewResponse(10)
				for _, p := range c.parts {
					r.Buf = append(r.Buf, "<"...)
					if err := r.AddRegion(region(t, f, p.pos, p.n, &released)); err != nil {
						t.Error(err)
					}
				}
				r.Buf = append(r.Buf, ">"...)
				e.ReplyPieces(r)
			})})
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }() // it may be closed already
			if _, err := conn.Write(frameOf(12, 4, 77, 255, 255, 0)); err != nil {
				t.Fatal(err)
			}
			want := []byte{0, 0, 0, 77, 0}
			for _, p := range c.parts {
				want = append(want, '<')
				want = append(want, content[p.pos:min(p.pos+p.n, int64(len(content)))]...)
			}
			want = append(want, '>')
			var size [4]byte
			if _, err := io.ReadFull(conn, size[:]); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, binary.BigEndian.Uint32(size[:]))
			_, err = io.ReadFull(conn, got)
			if c.short {
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("a short file gave %v", err)
				}
			} else if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
			}
			_ = conn.Close()
			for s.Metrics().Open.Load() > 0 {
				runtime.Gosched()
			}
			if released.Load() != int64(len(c.parts)) {
				t.Errorf("released %d of %d", released.Load(), len(c.parts))
			}
			if by := s.Metrics().SendfileBytes.Load(); (by > 0) != c.sendfile {
				t.Errorf("sendfile moved %d bytes", by)
			}
			if short := s.Metrics().ShortSendfiles.Load(); (short > 0) != c.short {
				t.Errorf("short sendfiles %d", short)
			}
		})
	}
}

func TestRegionsOfMemoryFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		f, err := fs.OpenFile("/x", os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		content := bytes.Repeat([]byte("0123456789"), 40000)
		if _, err := f.Write(content); err != nil {
			t.Fatal(err)
		}
		var released atomic.Int64
		_, conn := pipeServer(t, Config{Handler: handlerFunc(func(e *Exchange) {
			r := e.NewResponse(0)
			if err := r.AddRegion(region(t, f, 0, int64(len(content)), &released)); err != nil {
				t.Error(err)
			}
			e.ReplyPieces(r)
		})})
		go func() { _, _ = conn.Write(frameOf(12, 1, 9, 255, 255)) }()
		got := make([]byte, 8+len(content))
		if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got[8:], content) {
			t.Errorf("memory file: %v", err)
		}
		synctest.Wait()
		if released.Load() != 1 {
			t.Errorf("released %d", released.Load())
		}
		_ = conn.Close()
	})
}
