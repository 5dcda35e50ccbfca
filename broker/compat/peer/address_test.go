package peer

import (
	"net"
	"testing"
)

// TestAddress: a held port can be listened at again and again by who knows it,
// and in between is given to nobody, however many ask for one.
func TestAddress(t *testing.T) {
	addr := Address(t)
	for range 3 {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		var taken []net.Listener
		for range 2000 {
			other, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, other)
			if conn, err := net.Dial("tcp", addr); err == nil {
				t.Fatalf("%s took a connection from %s although nobody was told to listen there", addr, conn.LocalAddr())
			}
		}
		for _, other := range taken {
			if other.Addr().String() == addr {
				t.Errorf("%s was given to somebody else", addr)
			}
			_ = other.Close()
		}
	}
}
