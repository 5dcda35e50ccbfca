package hdfs

import (
	"fmt"
	"sync/atomic"
	"testing"

	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs/mini"
	"sawlog/loader/sink/sinktest"
)

// open returns a sink on a folder of a cluster.
func open(t testing.TB, c *mini.Cluster, folder string) *Sink {
	t.Helper()
	s, err := Open(c.URI(folder), sink.Access{})
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

func TestOnHDFS(t *testing.T) {
	c := mini.Start(t, mini.Options{})
	var count atomic.Int64
	sinktest.Run(t, func(t *testing.T) sink.Sink {
		return open(t, c, fmt.Sprintf("/new/%d/root", count.Add(1)))
	})
}
