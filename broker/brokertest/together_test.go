package brokertest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/vfs"
)

// together is a cluster whose nodes are all told the same: to join each other,
// each in an order of its own.
func together(t *testing.T, n int) *brokertest.Cluster {
	c := brokertest.NewCluster(t, n)
	turns := 0
	var mu sync.Mutex
	c.Change = func(config *broker.Config) {
		mu.Lock()
		defer mu.Unlock()
		config.Join = nil
		for _, other := range c.Nodes {
			config.Join = append(config.Join, other.Host+":9093")
		}
		if turns++; turns%2 == 0 {
			slices.Reverse(config.Join)
		}
	}
	return c
}

// TestStartTogether: nodes that name each other become one cluster, whatever the
// order in which they start, and go on as one after all stood still.
func TestStartTogether(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		synctest.Test(t, func(t *testing.T) {
			c := together(t, 3)
			for range 2 { // the second time as members
				var starting sync.WaitGroup
				for _, i := range order {
					starting.Go(c.Nodes[i].Start)
					time.Sleep(3 * time.Second)
				}
				starting.Wait()
				c.Settle()
				oneCluster(t, c)
				c.Stop()
			}
		})
	}
}

// TestFounderWaits: the one that founds does nothing while a node that may be a
// member of a cluster can't be asked.
func TestFounderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 3)
		for _, n := range c.Nodes[:2] {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := n.Open(ctx); err == nil {
				t.Errorf("node %d serves, while not all could be asked", n.ID)
			}
			cancel()
		}
	})
}

// TestFounderWithoutItsDisk: the one that founded, with an empty disk and the
// flags it always had, becomes a member again; also where the others are down
// when it starts.
func TestFounderWithoutItsDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 3)
		var starting sync.WaitGroup
		for _, n := range c.Nodes {
			starting.Go(n.Start)
		}
		starting.Wait()
		c.Settle()
		want := oneCluster(t, c)

		c.Nodes[0].Stop()
		c.Nodes[0].Wipe()
		c.Nodes[0].Start()
		c.Settle()
		if got := oneCluster(t, c); got != want {
			t.Fatalf("cluster %s is %s now", want, got)
		}

		c.Stop()
		c.Nodes[0].Wipe()
		starting.Go(c.Nodes[0].Start)
		time.Sleep(5 * time.Second)
		starting.Go(c.Nodes[1].Start)
		time.Sleep(5 * time.Second)
		starting.Go(c.Nodes[2].Start)
		starting.Wait()
		c.Settle()
		if got := oneCluster(t, c); got != want {
			t.Fatalf("cluster %s is %s after a start of all", want, got)
		}
	})
}

// oneCluster is the id all nodes have.
func oneCluster(t *testing.T, c *brokertest.Cluster) string {
	t.Helper()
	ids := map[string]bool{}
	for _, n := range c.Nodes {
		ids[n.Broker.ClusterID()] = true
	}
	if len(ids) != 1 {
		t.Fatalf("clusters %v", ids)
	}
	return c.Nodes[0].Broker.ClusterID()
}

// TestFoundedBeside: the founder of a cluster comes back with an empty disk, and
// without --join, while the others are down. It founds another, ends when they
// look for it, and is not to be had a second time.
func TestFoundedBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokertest.NewCluster(t, 3)
		c.StartAll()
		want := oneCluster(t, c)
		c.Stop()

		first := c.Nodes[0]
		first.FS = vfs.NewMem()
		c.Change = func(config *broker.Config) {
			if config.NodeID == first.ID {
				config.Join = nil
			}
		}
		first.Start()
		var starting sync.WaitGroup
		for _, n := range c.Nodes[1:] {
			starting.Go(n.Start)
		}
		var former *broker.FormerMemberError
		select {
		case err := <-first.Broker.Failed():
			if !errors.As(err, &former) || former.Cluster != want {
				t.Errorf("it ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("it serves cluster %s beside %s", first.Broker.ClusterID(), want)
		}
		first.Kill()
		starting.Wait()
		c.Isolate(first) // nobody tells it anew
		if err := first.Open(t.Context()); !errors.As(err, &former) || former.Cluster != want {
			t.Errorf("a second start: %v", err)
		}
		c.Fabric.Heal()
		first.Wipe()
		c.Change = nil
		first.Start()
		c.Settle()
		if got := oneCluster(t, c); got != want {
			t.Errorf("cluster %s is %s now", want, got)
		}
		c.Stop()
	})
}
