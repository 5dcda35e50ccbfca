package hdfs

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs/mini"
)

// mute is a NameNode that takes connections and never says a word.
func mute(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		var all []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			all = append(all, c)
		}
		for _, c := range all {
			_ = c.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// away is an address nobody listens at.
func away(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// acts are calls of every kind on a sink.
var acts = map[string]func(*Sink) error{
	"ask":    func(s *Sink) error { _, err := s.List("a"); return err },
	"change": func(s *Sink) error { return s.Mkdir("a") },
	"put":    func(s *Sink) error { return s.PutIfAbsent("a/b", nil) },
	"create": func(s *Sink) error { _, err := s.Create("a"); return err },
	"all of them, one after the other": func(s *Sink) error {
		err := s.MkdirAll("a")
		return errors.Join(err, sink.Write(s, "a/b", nil), s.Rename("a/b", "c"), s.RemoveAll("a"))
	},
}

// Whoever waits for a NameNode stops when its context is done, whatever the
// NameNode does.
func TestCallsEndWithTheContext(t *testing.T) {
	for server, start := range map[string]func(*testing.T) string{"mute": mute, "away": away} {
		for name, act := range acts {
			t.Run(server+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				s, err := Open(ctx, "hdfs://"+start(t)+"/x", sink.Access{User: "u"})
				if err != nil {
					t.Fatal(err)
				}
				var cut time.Time
				time.AfterFunc(200*time.Millisecond, func() { cut = time.Now(); cancel() })
				err = act(s)
				if took := time.Since(cut); took > grace+time.Second {
					t.Errorf("it ended %v after its context", took)
				}
				if !errors.Is(err, context.Canceled) || sink.ClassOf(err) != sink.Retryable {
					t.Errorf("%v (%v), want one that may be tried again, by its context", err, sink.ClassOf(err))
				}
				start := time.Now()
				if err := act(s); !errors.Is(err, context.Canceled) || time.Since(start) > time.Second {
					t.Errorf("the next one ended after %v: %v", time.Since(start), err)
				}
			})
		}
	}
}

// Whoever says how long a NameNode is waited for is kept to it.
func TestCallsEndWithThePatience(t *testing.T) {
	const patience = 400 * time.Millisecond
	for server, start := range map[string]func(*testing.T) string{"mute": mute, "away": away} {
		for name, act := range acts {
			t.Run(server+"/"+name, func(t *testing.T) {
				t.Parallel()
				s, err := Open(t.Context(), "hdfs://"+start(t)+"/x", sink.Access{User: "u", Patience: patience})
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				err = act(s)
				if took := time.Since(start); took < patience/4 || took > 20*patience {
					t.Errorf("it ended after %v, want about %v", took, patience)
				}
				if err == nil || sink.ClassOf(err) != sink.Retryable {
					t.Errorf("%v (%v), want one that may be tried again", err, sink.ClassOf(err))
				}
			})
		}
	}
}

// A sink that rests has taken leave of its context, which may live on for long.
func TestRestingSinksAreForgotten(t *testing.T) {
	s, err := Open(t.Context(), "hdfs://"+away(t)+"/x", sink.Access{User: "u", Patience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(""); err == nil {
		t.Fatal("nobody answered")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unbind != nil {
		t.Error("its context still knows it")
	}
}

// Once a sink is closed, and its context goes on, none of its connections is left,
// though the library connects again in order to renew a lease of nothing.
func closedLeaveNoConnection(t *testing.T, c *mini.Cluster) {
	p := startProxy(t, c.NameNodes[0], func(method string) harm {
		if method == "renewLease" {
			return lostCall // it connects again, with the next question
		}
		return none
	})
	for range 8 {
		s, err := Open(t.Context(), "hdfs://"+p.Addr+"/closed", sink.Access{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.MkdirAll(""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // with the renewal of a second
		if err := s.Close(); err != nil {
			t.Log(err) // the connection was lost
		}
	}
	for end := time.Now().Add(10 * time.Second); p.open() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections are left", p.open())
		}
	}
}
