package brokertest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/offsets"
)

// TestReady follows what a broker says of itself: why it isn't ready, in all
// that a node goes through, and that it is when the next one may be stopped.
func TestReady(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
		l := newLoad()
		n := c.Nodes[2]
		n.Kill()
		l.send(t, cl, "missed", 100)
		for _, other := range c.Nodes[:2] {
			c.Fabric.Delay(other.Host, n.Host, 200*time.Millisecond)
		}
		n.Start()
		said := reasons(n, 5*time.Second)
		if !strings.Contains(said, "catches up") || !strings.HasSuffix(said, "ready") {
			t.Errorf("after its start: %s", said)
		}
		for _, p := range partitionsSeen(t, c.Nodes[0]) {
			if len(p.ISR) != 3 {
				t.Errorf("it is ready, and partition %d has ISR %v", p.Partition, p.ISR)
			}
		}
		c.Fabric.Heal()
		c.Isolate(n)
		if said := reasons(n, 5*time.Second); !strings.Contains(said, "has not reached the active controller") && !strings.Contains(said, "no active controller") || strings.HasSuffix(said, "ready") {
			t.Errorf("cut off: %s", said)
		}
		c.Fabric.Heal()
		if said := reasons(n, 5*time.Second); !strings.HasSuffix(said, "ready") {
			t.Errorf("healed: %s", said)
		}
		for _, other := range c.Nodes[:2] {
			other.Kill()
		}
		if said := reasons(n, 5*time.Second); !strings.HasSuffix(said, "no active controller can be reached: more than half of the nodes that vote on the metadata, 3, must be up") {
			t.Errorf("alone: %s", said)
		}
		c.StartAll()
		if err := n.Broker.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if said := reasons(n, time.Second); !strings.Contains(said, "leaves") {
			t.Errorf("on its way out: %s", said)
		}
		cl.Close()
	})
}

// reasons are the answers of a node over some time, each once in a row.
func reasons(n *brokertest.Node, during time.Duration) string {
	var all []string
	for range during / (5 * time.Millisecond) {
		now := "ready"
		if err := n.Broker.Ready(); err != nil {
			now = err.Error()
		}
		if len(all) == 0 || all[len(all)-1] != now {
			all = append(all, now)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return strings.Join(all, "; then: ")
}

// TestStages: a node that can't finish its start says what it waits for.
func TestStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		at := map[offsets.BrokerID]string{}
		c := brokertest.NewCluster(t, 3)
		c.Change = func(b *broker.Config) {
			id := b.NodeID
			b.Stage = func(text string) {
				mu.Lock()
				defer mu.Unlock()
				at[id] = text
			}
		}
		waits := func(n *brokertest.Node, want string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := n.Open(ctx); err == nil {
				t.Errorf("node %d came up alone", n.ID)
			}
			mu.Lock()
			defer mu.Unlock()
			if !strings.Contains(at[n.ID], want) {
				t.Errorf("node %d said %q, want %q", n.ID, at[n.ID], want)
			}
		}
		waits(c.Nodes[1], "joins the cluster at n1:9093, n3:9093")
		c.StartAll()
		for _, n := range c.Nodes {
			n.Kill()
		}
		waits(c.Nodes[0], "waits for the active controller")
		c.StartAll()
	})
}
