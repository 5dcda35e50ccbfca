package peer

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sawlog/offsets"
)

// node opens a node on a free port of 127.0.0.1.
func node(t *testing.T, id int32, cluster, key string) *Peers {
	t.Helper()
	c := Config{
		Listen: "127.0.0.1:0",
		Self: func() Identity {
			return Identity{Cluster: cluster, Node: offsets.BrokerID(id), Directory: [16]byte{byte(id)}, Incarnation: [16]byte{9, byte(id)}}
		},
	}
	if key != "" {
		c.Key = []byte(key)
	}
	p, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestCalls(t *testing.T) {
	a, b := node(t, 1, "c", "secret secret secret"), node(t, 2, "c", "secret secret secret")
	const echo, fails Method = 1, 2
	b.Serve(echo, func(_ context.Context, from Identity, body []byte) ([]byte, error) {
		return append([]byte{byte(from.Node)}, body...), nil
	})
	b.Serve(fails, func(context.Context, Identity, []byte) ([]byte, error) { return nil, errors.New("not so") })
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			body := slices.Repeat([]byte{byte(i)}, i*1000)
			got, err := a.Call(t.Context(), b.Addr(), echo, body)
			if err != nil || !slices.Equal(got, append([]byte{1}, body...)) {
				t.Errorf("call %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
	var remote *RemoteError
	if _, err := a.Call(t.Context(), b.Addr(), fails, nil); !errors.As(err, &remote) || remote.Msg != "not so" || errors.Is(err, ErrNotSent) {
		t.Errorf("a handler's error: %v", err)
	}
	if _, err := a.Call(t.Context(), b.Addr(), 3, nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("a method nobody serves: %v", err)
	}
}

func TestWhoIsRefused(t *testing.T) {
	const key = "secret secret secret"
	b := node(t, 2, "c", key)
	for name, a := range map[string]struct {
		cluster, key, says string
		want               int32
	}{
		"another key":     {"c", "secret secret secreT", "keys differ", -1},
		"no key":          {"c", "", "has none", -1},
		"another cluster": {"d", key, "one of", -1},
		"another node":    {"c", key, "node 2 answers", 3},
		"the right one":   {"c", key, "", 2},
		"a joining one":   {"", key, "", -1},
	} {
		t.Run(name, func(t *testing.T) {
			b.Accept(Raft, func(c *Conn) { _ = c.Close() })
			c, err := node(t, 1, a.cluster, a.key).Dial(t.Context(), b.Addr(), Raft, offsets.BrokerID(a.want))
			if a.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				_ = c.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), a.says) {
				t.Errorf("%v, want it to say %q", err, a.says)
			}
		})
	}
}

// TestProofsAreOfNoUseTwice plays a side that has no key and sends back what it
// saw: the other side's own proof, and one of an earlier handshake.
func TestProofsAreOfNoUseTwice(t *testing.T) {
	key := []byte("secret secret secret")
	self := Identity{Cluster: "c", Node: 1}
	hello, err := appendHello(Identity{Cluster: "c", Node: 7}, key)
	if err != nil {
		t.Fatal(err)
	}
	var earlier []byte
	for range 3 {
		ours, theirs := net.Pipe()
		done := make(chan error, 1)
		go func() {
			_, err := greet(theirs, self, key, Raft) // a true node dials the liar
			done <- err
		}()
		dialer, _, _, err := readHello(ours)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Write(hello); err != nil {
			t.Fatal(err)
		}
		seen := make([]byte, 32)
		if _, err := ours.Read(seen); err != nil {
			t.Fatal(err)
		}
		answer := seen
		if earlier != nil {
			answer = earlier
		}
		earlier = seen
		if _, err := ours.Write(append([]byte{0}, answer...)); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, ErrRefused) {
			t.Errorf("the node that said %q took a proof it made itself: %v", dialer[:4], err)
		}
		_ = ours.Close()
	}
}

func TestEndsAreTold(t *testing.T) {
	a, b := node(t, 1, "c", ""), node(t, 2, "c", "")
	gone := make(chan Identity, 2)
	b.OnClosed(func(id Identity) { gone <- id })
	entered := make(chan struct{})
	b.Serve(1, func(ctx context.Context, _ Identity, _ []byte) ([]byte, error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	called := make(chan error, 1)
	go func() {
		_, err := a.Call(context.Background(), b.Addr(), 1, nil)
		called <- err
	}()
	<-entered
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-called; err == nil || errors.Is(err, ErrNotSent) {
		t.Errorf("a call in flight when the line closed: %v", err)
	}
	if id := <-gone; id.Node != 1 || id.Incarnation != [16]byte{9, 1} {
		t.Errorf("%+v has gone", id)
	}
	addr := b.Addr()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := node(t, 3, "c", "").Probe(t.Context(), addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("probe of a closed listener: %v", err)
	}
}

func TestACallOutlivesABrokenLine(t *testing.T) {
	a, b := node(t, 1, "c", ""), node(t, 2, "c", "")
	b.Serve(1, func(context.Context, Identity, []byte) ([]byte, error) { return []byte("yes"), nil })
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		var err error
		for ctx.Err() == nil { // the break may be met by the first call after it
			if _, err = a.Call(ctx, b.Addr(), 1, nil); err == nil {
				break
			}
		}
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		for c := range b.open {
			_ = c.Close()
		}
		b.mu.Unlock()
	}
}

func TestBeyondLoopbackNeedsAKey(t *testing.T) {
	_, err := Open(Config{Listen: "0.0.0.0:0", Self: func() Identity { return Identity{} }})
	if err == nil || !strings.Contains(err.Error(), "cluster key") {
		t.Errorf("%v", err)
	}
}

func TestFramesAreBounded(t *testing.T) {
	for _, head := range []string{"\xff\xff\xff\xff", "\x00\x00\x00\x00", "\x01\x00\x00\x0a"} {
		if _, _, _, err := readFrame(strings.NewReader(head + "012345678")); err == nil || !strings.Contains(err.Error(), "frame of") {
			t.Errorf("%q: %v", head, err)
		}
	}
}
