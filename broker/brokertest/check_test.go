package brokertest_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker/brokertest"
	"sawlog/broker/log"
	"sawlog/broker/record"
	"sawlog/offsets"
)

// place is where a record is.
type place struct {
	partition int32
	offset    int64
}

// load is what clients were promised: where each acknowledged record is.
type load struct {
	mu    sync.Mutex
	acked map[string]place
}

func newLoad() *load { return &load{acked: map[string]place{}} }

func (l *load) ack(r *kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[string(r.Value)] = place{r.Partition, r.Offset}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// send writes n records one after the other; each must be acknowledged.
func (l *load) send(t *testing.T, cl *kgo.Client, who string, n int) {
	t.Helper()
	for i := range n {
		r := kgo.StringRecord(who + ":" + strconv.Itoa(i))
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatalf("%s: %v", r.Value, err)
		}
		l.ack(r)
	}
}

// check reads topic t: all that was acknowledged is there exactly once, where
// it was said to be, and what one producer wrote to a partition is in order.
// Then it stops all brokers and compares what is on their disks.
func check(t *testing.T, c *brokertest.Cluster, l *load) {
	t.Helper()
	cl := c.Client("checker", kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	seen := map[string]place{}
	last := map[string]int{} // by producer and partition
	left := maps.Clone(l.acked)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(left) > 0 && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			v, at := string(r.Value), place{r.Partition, r.Offset}
			if before, twice := seen[v]; twice {
				t.Errorf("%s is at %+v and at %+v", v, before, at)
			}
			if want, ok := l.acked[v]; ok && want != at {
				t.Errorf("%s was acknowledged at %+v, found at %+v", v, want, at)
			}
			seen[v] = at
			delete(left, v)
			who, n, _ := strings.Cut(v, ":")
			number, _ := strconv.Atoi(n)
			who += "/" + strconv.Itoa(int(r.Partition))
			if before, any := last[who]; any && number <= before {
				t.Errorf("%s comes after %d", v, before)
			}
			last[who] = number
		})
	}
	cl.Close()
	if len(left) > 0 {
		t.Errorf("%d of %d acknowledged records are gone: %v", len(left), len(l.acked), left)
	}
	time.Sleep(5 * time.Second) // followers learn the last high watermark
	c.Stop()
	compareDisks(t, c)
}

// compareDisks compares the logs of all nodes: those of one partition hold the
// same bytes, which have the epochs in them.
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
			all, err := wholeLog(l)
			if err != nil {
				t.Errorf("node %d: %s: %v", n.ID, l.TopicPartition(), err)
			}
			other, ok := first[l.TopicPartition()]
			switch {
			case !ok:
				first[l.TopicPartition()] = replica{n, all, l.Start()}
			case other.start != l.Start(), !bytes.Equal(other.bytes, all):
				t.Errorf("%s: node %d has %d bytes from %d, node %d has others: %d from %d; %s", l.TopicPartition(),
					other.node.ID, len(other.bytes), other.start, n.ID, len(all), l.Start(), difference(other.bytes, all))
			}
		}
		if err := disk.Close(); err != nil {
			t.Errorf("node %d: %v", n.ID, err)
		}
	}
}

// wholeLog reads a log over all its segments.
func wholeLog(l *log.Log) (all []byte, err error) {
	for at := l.Start(); at < l.End(); {
		b, err := l.ReadBytes(at, 1<<20, l.End())
		if err != nil {
			return all, err
		}
		all = append(all, b...)
		before := at
		for len(b) > 0 {
			var batch record.Batch
			if batch, b, err = record.Split(b); err != nil {
				return all, err
			}
			at = batch.LastOffset() + 1
		}
		if at == before {
			return all, fmt.Errorf("nothing to read at %d, before the end at %d", at, l.End())
		}
	}
	return all, nil
}

// difference tells of the first batches that aren't the same.
func difference(a, b []byte) string {
	tell := func(x record.Batch) string {
		if x == nil {
			return "none"
		}
		return fmt.Sprintf("%d-%d epoch %d producer %d.%d sequence %d crc %08x", x.BaseOffset(), x.LastOffset(), x.Epoch(), x.ProducerID(), x.ProducerEpoch(), x.BaseSequence(), x.CRC())
	}
	for len(a) > 0 || len(b) > 0 {
		var x, y record.Batch
		if len(a) > 0 {
			x, a, _ = record.Split(a) // it was split before
		}
		if len(b) > 0 {
			y, b, _ = record.Split(b)
		}
		if !bytes.Equal(x, y) {
			return tell(x) + " and " + tell(y)
		}
	}
	return ""
}
