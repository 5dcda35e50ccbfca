package brokertest_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker/brokertest"
	"sawlog/broker/vfs"
)

// fillable makes the disk of a node one that has no room for records, nor for the
// ballast, while full is set.
func fillable(n *brokertest.Node) (full *atomic.Bool) {
	full = new(atomic.Bool)
	n.FS.Inject(func(op vfs.Op, name string) error {
		records := strings.Contains(name, "/t-") || strings.Contains(name, "/alone-") || strings.HasSuffix(name, "ballast")
		if full.Load() && records && (op == vfs.OpWrite || op == vfs.OpAllocate) {
			return syscall.ENOSPC
		}
		return nil
	})
	return full
}

// longestFull is how long a partition may take no records after its leader's disk
// is found full: a heartbeat, a look of the controller, and clients' news.
const longestFull = 2 * time.Second

// TestFullDisk: what the broker with a full disk leads goes on with others, what
// nobody else can lead is read still, and it comes back when there is room.
func TestFullDisk(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
		create(t, cl, "alone", 3, 1)
		l := newLoad()
		l.send(t, cl, "before", 10)
		for p := range int32(3) {
			r := &kgo.Record{Topic: "alone", Partition: p, Value: []byte("kept")}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range c.Nodes {
			full := fillable(n)
			full.Store(true)
			for p := range int32(3) {
				began := time.Now()
				r := &kgo.Record{Topic: "t", Partition: p, Value: fmt.Appendf(nil, "%d-%d:0", n.ID, p)}
				sendOne(t, cl, r)
				l.ack(r)
				if took := time.Since(began); took > longestFull {
					t.Errorf("partition %d with a full disk at node %d takes a record after %v", p, n.ID, took)
				}
			}
			readAlone(t, c)
			time.Sleep(leadersBack)
			if led := leds(t, c, n); led > 0 {
				t.Errorf("node %d leads %d partitions with a full disk", n.ID, led)
			}
			full.Store(false)
			time.Sleep(leadersBack)
			awaitISR(t, c, 3)
			if led := leds(t, c, n); led == 0 {
				t.Errorf("node %d has room again and leads nothing", n.ID)
			}
		}
		cl.Close()
		check(t, c, l)
	}, kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// TestAllDisksFull: nothing is taken, everything is read, and it goes on once
// there is room.
func TestAllDisksFull(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
		l := newLoad()
		l.send(t, cl, "before", 30)
		var disks []*atomic.Bool
		for _, n := range c.Nodes {
			disks = append(disks, fillable(n))
			disks[len(disks)-1].Store(true)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := cl.ProduceSync(ctx, kgo.StringRecord("refused:0")).FirstErr(); err == nil {
			t.Error("a record is taken without room for it")
		}
		for p := range int32(3) {
			if n := leaderOf(t, c, p); n == nil {
				t.Errorf("partition %d can't be read", p)
			}
		}
		reader := c.Client("reader", kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer reader.Close()
		for read := 0; read < 30; {
			fetches := reader.PollFetches(t.Context())
			read += fetches.NumRecords()
		}
		for _, full := range disks {
			full.Store(false)
		}
		l.send(t, cl, "after", 30)
		awaitISR(t, c, 3)
		cl.Close()
		check(t, c, l)
	})
}

// readAlone reads what topic alone holds.
func readAlone(t *testing.T, c *brokertest.Cluster) {
	t.Helper()
	cl := c.Client("reader", kgo.ConsumeTopics("alone"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for read := 0; read < 3; {
		read += cl.PollFetches(ctx).NumRecords()
		if ctx.Err() != nil {
			t.Fatalf("%d of 3 records of topic alone are read", read)
		}
	}
}

// leds is how many partitions of topic t a node leads.
func leds(t *testing.T, c *brokertest.Cluster, n *brokertest.Node) (led int) {
	t.Helper()
	for _, p := range partitionsSeen(t, c.Nodes[0]) {
		if p.LeaderID == int32(n.ID) {
			led++
		}
	}
	return led
}
