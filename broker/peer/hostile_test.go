package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// script is a far side that says what it was told to and hears everything.
type script struct {
	net.Conn
	says *bytes.Reader
}

func (s *script) Read(b []byte) (int, error)  { return s.says.Read(b) }
func (s *script) Write(b []byte) (int, error) { return len(b), nil }

// FuzzHandshake lets the other side say anything: without the key nobody gets
// in, whichever side we are.
func FuzzHandshake(f *testing.F) {
	key := []byte("secret secret secret")
	self := Identity{Cluster: "c", Node: 1}
	hello, err := appendHello(Identity{Cluster: "c", Node: 2}, key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
	f.Add(hello)
	f.Add(append(bytes.Clone(hello), make([]byte, 34)...))
	f.Add(append(bytes.Clone(hello), 3, 'n', 'o', '!'))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"))
	f.Fuzz(func(t *testing.T, said []byte) {
		if _, _, err := welcome(&script{says: bytes.NewReader(said)}, self, key); err == nil {
			t.Error("somebody without the key was welcomed")
		}
		if _, err := greet(&script{says: bytes.NewReader(said)}, self, key, Calls); err == nil {
			t.Error("somebody without the key was believed")
		}
	})
}

// FuzzFrame reads any bytes as frames: what is read is written as it was.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x01\x81hi"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := bytes.NewReader(raw)
		for {
			before := len(raw) - in.Len()
			id, what, body, err := readFrame(in)
			if err != nil {
				return
			}
			var out sink
			if err := writeFrame(&Conn{Conn: &out}, id, what, body); err != nil {
				t.Fatal(err)
			}
			if after := len(raw) - in.Len(); !bytes.Equal(out.Bytes(), raw[before:after]) {
				t.Errorf("%x became %x", raw[before:after], out.Bytes())
			}
		}
	})
}

// sink is a connection that keeps what is written to it.
type sink struct {
	net.Conn
	bytes.Buffer
}

func (s *sink) Read([]byte) (int, error)         { return 0, io.EOF }
func (s *sink) Write(b []byte) (int, error)      { return s.Buffer.Write(b) }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// TestSilenceEnds dials one that never says a word, and is dialed by one.
func TestSilenceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer func() { _ = theirs.Close() }()
		p, err := Open(Config{
			Self: func() Identity { return Identity{Cluster: "c", Node: 1} },
			Dial: func(context.Context, string) (net.Conn, error) { return ours, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := p.Call(t.Context(), "silent", 1, nil); !errors.Is(err, ErrNotSent) || time.Since(began) != lineTime {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		far, near := net.Pipe()
		defer func() { _ = far.Close() }()
		p.strange <- struct{}{}
		began = time.Now()
		p.meet(near)
		if time.Since(began) != handshakeTime || len(p.strange) != 0 {
			t.Errorf("a silent stranger was kept for %s; %d tokens are out", time.Since(began), len(p.strange))
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestACallEndsWithItsContext: the far side never answers; the line serves the
// next call all the same.
func TestACallEndsWithItsContext(t *testing.T) {
	a, b := node(t, 1, "c", ""), node(t, 2, "c", "")
	entered := make(chan struct{})
	b.Serve(1, func(ctx context.Context, _ Identity, _ []byte) ([]byte, error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	b.Serve(2, func(context.Context, Identity, []byte) ([]byte, error) { return []byte("yes"), nil })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	if _, err := a.Call(ctx, b.Addr(), 1, nil); !errors.Is(err, context.Canceled) || errors.Is(err, ErrNotSent) {
		t.Errorf("a cancelled call: %v", err)
	}
	if got, err := a.Call(t.Context(), b.Addr(), 2, nil); err != nil || string(got) != "yes" {
		t.Errorf("the next one: %q, %v", got, err)
	}
}
