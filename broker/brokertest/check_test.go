package brokertest_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker/brokertest"
	"sawlog/broker/log"
	"sawlog/offsets"
)

// check reads topic t: all that was acknowledged is there exactly once. Then it
// stops all brokers and compares what is on their disks.
func check(t *testing.T, c *brokertest.Cluster, acked map[string]bool) {
	t.Helper()
	cl := c.Client("checker", kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	seen := map[string]int{}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	missing := func() (n int) {
		for v := range acked {
			if seen[v] == 0 {
				n++
			}
		}
		return n
	}
	for missing() > 0 && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	cl.Close()
	if n := missing(); n > 0 {
		t.Errorf("%d of %d acknowledged records are gone", n, len(acked))
	}
	for v, n := range seen {
		if n > 1 {
			t.Errorf("%s is there %d times", v, n)
		}
	}
	time.Sleep(5 * time.Second) // followers learn the last high watermark
	c.Stop()
	compareDisks(t, c)
}

// compareDisks compares the logs of all nodes: those of one partition that
// are replicas of one another hold the same bytes and the same epochs.
func compareDisks(t *testing.T, c *brokertest.Cluster) {
	t.Helper()
	type replica struct {
		node  *brokertest.Node
		bytes []byte
		start offsets.Offset
	}
	first := map[offsets.TopicPartition]replica{}
	for _, n := range c.Nodes {
		disk, err := log.OpenDisk(n.FS, "/data", log.DiskConfig{BootID: "check"})
		if err != nil {
			t.Errorf("node %d: %v", n.ID, err)
			continue
		}
		for _, l := range disk.Logs() {
			all, err := l.ReadBytes(l.Start(), 1<<30, l.End())
			if err != nil {
				t.Errorf("node %d: %s: %v", n.ID, l.TopicPartition(), err)
			}
			other, ok := first[l.TopicPartition()]
			switch {
			case !ok:
				first[l.TopicPartition()] = replica{n, all, l.Start()}
			case other.start != l.Start(), !bytes.Equal(other.bytes, all):
				t.Errorf("%s: node %d has %d bytes from %d, node %d has others: %d from %d", l.TopicPartition(),
					other.node.ID, len(other.bytes), other.start, n.ID, len(all), l.Start())
			}
		}
		if err := disk.Close(); err != nil {
			t.Errorf("node %d: %v", n.ID, err)
		}
	}
}
