package wire

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// resting answers each request, and has those of a number rest after it; odd ones
// are answered only when they have waited for a second.
func resting(rest time.Duration, number int32) Handler {
	return handlerFunc(func(e *Exchange) {
		answer := func(bool) {
			r := e.NewResponse(8)
			r.Buf = append(r.Buf, make([]byte, 6)...)
			if e.correlation == number {
				r.Rest = rest
			}
			e.ReplyPieces(r)
		}
		if e.correlation%2 == 0 {
			answer(false)
			return
		}
		e.Park(time.Now().Add(time.Second), parkedFunc{resume: answer})
	})
}

// answered reads a reply and tells when it came.
func answered(t *testing.T, conn net.Conn, began time.Time) time.Duration {
	t.Helper()
	if _, err := io.ReadFull(conn, make([]byte, 14)); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// A connection that is to rest is heard no further until then: neither what it
// had sent before, nor what it sends after the reply. What is due to it goes out.
func TestRest(t *testing.T) {
	const rest = 5 * time.Second
	frames := func(numbers ...int32) (all []byte) {
		for _, n := range numbers {
			all = append(all, frameOf(12, 1, n, 255, 255)...)
		}
		return all
	}
	synctest.Test(t, func(t *testing.T) {
		_, conn := pipeServer(t, Config{Handler: resting(rest, 4)})
		began := time.Now()
		go func() { _, _ = conn.Write(frames(2, 4, 6, 8)) }() // what isn't read in the end fails
		for i, want := range []time.Duration{0, 0, rest, rest} {
			if at := answered(t, conn, began); at != want {
				t.Errorf("reply %d after %v, not %v", i, at, want)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, conn := pipeServer(t, Config{Handler: resting(rest, 3)})
		began := time.Now()
		for i, number := range []int32{3, 5, 5} {
			if _, err := conn.Write(frames(number)); err != nil {
				t.Fatal(err)
			}
			want := time.Duration(i+1) * time.Second
			if i > 0 {
				want += rest
			}
			if at := answered(t, conn, began); at != want {
				t.Errorf("reply %d after %v, not %v", i, at, want)
			}
		}
	})
}

// A server that closes waits for nobody's rest.
func TestCloseDuringRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn := pipeServer(t, Config{Handler: resting(time.Hour, 2)})
		began := time.Now()
		if _, err := conn.Write(frameOf(12, 1, 2, 255, 255)); err != nil {
			t.Fatal(err)
		}
		answered(t, conn, began)
		if _, err := conn.Write(frameOf(12, 1, 4, 255, 255)); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, conn) }() // until the server closes it
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil || time.Since(began) > 0 {
			t.Errorf("closed after %v, %v", time.Since(began), err)
		}
	})
}
