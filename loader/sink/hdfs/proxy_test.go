package hdfs

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// harm is what a proxy does to a call.
type harm uint8

const (
	none      harm = iota
	lostReply      // carried out, the answer is lost with the connection
	lostCall       // lost with the connection before it came to the NameNode
	lateCall       // the connection is lost, and the call is carried out later
)

// lateness is how long a late call takes. What was asked for in its place may
// be done by then, or not.
const lateness = 300 * time.Millisecond

// proxy stands between a client and a NameNode and does harm to single calls of
// Hadoop's RPC: a length, then messages with their lengths before them, of
// which the second one begins with the name of the method.
type proxy struct {
	Addr string

	t       testing.TB
	to      string
	listen  net.Listener
	mu      sync.Mutex
	harm    func(method string) harm
	suffers map[harm]int
	conns   int // open
	wg      sync.WaitGroup
}

// startProxy runs a proxy until the test ends; what says what becomes of a call.
func startProxy(t testing.TB, nameNode string, what func(method string) harm) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Addr: l.Addr().String(), t: t, to: nameNode, listen: l, harm: what, suffers: map[harm]int{}}
	p.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.wg.Wait()
	})
	return p
}

// count is how often a harm was done.
func (p *proxy) count(h harm) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suffers[h]
}

// open is how many connections it has.
func (p *proxy) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns
}

// serve passes one call after the other on, as the library makes them.
func (p *proxy) serve(client net.Conn) {
	count := func(n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.conns += n
	}
	count(1)
	defer count(-1)
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if _, err := io.CopyN(server, client, 7); err != nil { // "hrpc", version, service class, no SASL
		return
	}
	for {
		call, err := frame(client)
		if err != nil {
			return
		}
		method := methodOf(call)
		what := none
		if method != "" {
			p.mu.Lock()
			what = p.harm(method)
			p.suffers[what]++
			p.mu.Unlock()
		}
		switch what {
		case lostCall:
			return
		case lateCall:
			_ = client.Close()
			time.Sleep(lateness)
		}
		if _, err := server.Write(call); err != nil {
			return
		}
		if method == "" {
			continue // who the user is; it has no answer
		}
		answer, err := frame(server)
		if err != nil || what != none {
			return
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

// frame reads one frame, with the length before it.
func frame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	all := append(head, make([]byte, binary.BigEndian.Uint32(head))...)
	_, err := io.ReadFull(r, all[4:])
	return all, err
}

// methodOf is the method a frame calls, "" when it is none.
func methodOf(call []byte) string {
	rest := call[4:]
	skip, n := binary.Uvarint(rest)
	if n <= 0 || int(skip)+n > len(rest) {
		return ""
	}
	rest = rest[n+int(skip):]
	_, n = binary.Uvarint(rest)
	if n <= 0 || n+2 > len(rest) || rest[n] != 1<<3|2 {
		return "" // field 1 of the second message is no string
	}
	name, _, _ := bytes.Cut(rest[n+2:min(n+2+int(rest[n+1]), len(rest))], []byte{0})
	return string(name)
}
