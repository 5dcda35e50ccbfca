package hdfs

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs/mini"
	"sawlog/loader/sink/sinktest"
)

// open returns a sink on a folder of a cluster.
func open(t testing.TB, c *mini.Cluster, folder string) *Sink {
	t.Helper()
	s, err := Open(t.Context(), c.URI(folder), sink.Access{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Log(err) // the cluster may be gone
		}
	})
	return s
}

// TestOnHDFS has one cluster for all that leaves it as it is.
func TestOnHDFS(t *testing.T) {
	c := mini.Start(t, mini.Options{})
	for what, shows := range map[string]func(*testing.T, *mini.Cluster){
		"is a sink": isSink, "rests": restsUnused, "two drivers": twoDrivers, "each call is lost": eachCallIsLost,
		"swept while put": sweptWhilePut, "looks are lost": looksAreLost, "closed": closedLeaveNoConnection, "above": findsAbove,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // they wait most of their time
			shows(t, c)
		})
	}
}

func isSink(t *testing.T, c *mini.Cluster) {
	var count atomic.Int64
	sinktest.Run(t, func(t *testing.T) sink.Sink {
		return open(t, c, fmt.Sprintf("/new/%d/root", count.Add(1)))
	})
}

// findsAbove looks in each folder above the root, and not in the root.
func findsAbove(t *testing.T, c *mini.Cluster) {
	outer, inner := open(t, c, "/above/outer"), open(t, c, "/above/outer/a/b")
	for _, err := range []error{outer.MkdirAll("mark"), inner.MkdirAll("own")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"mark": outer.Root(), "own": ""} {
		if got, err := inner.Above(name); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if got, err := outer.Above("mark"); err != nil || got != "" {
		t.Errorf("its own: %q, %v", got, err)
	}
}

// restsUnused gives a connection up that nobody needs, keeps it for a file that is
// being written, and connects again.
func restsUnused(t *testing.T, c *mini.Cluster) {
	s := open(t, c, "/rests")
	s.limits.rest = 50 * time.Millisecond
	connected := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.client != nil
	}
	rests := func() {
		t.Helper()
		for end := time.Now().Add(time.Minute); connected(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it stays connected")
			}
		}
	}
	for _, name := range []string{"a", "b"} {
		if err := s.MkdirAll(""); err != nil {
			t.Fatal(err)
		}
		w, err := s.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * s.limits.rest)
		if !connected() {
			t.Error("it gave the connection of an open file up")
		}
		if _, err := w.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		rests()
	}
	if entries, err := s.List(""); err != nil || len(entries) != 2 {
		t.Errorf("it holds %v: %v", entries, err)
	}
}
