package brokertest_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker/brokertest"
	"sawlog/broker/vfs"
)

// ends waits for a node's broker to fail, and tells why it did.
func ends(t *testing.T, n *brokertest.Node) string {
	t.Helper()
	select {
	case err := <-n.Broker.Failed():
		return err.Error()
	case <-time.After(30 * time.Second):
		t.Fatalf("node %s goes on", n.Host)
		return ""
	}
}

// TestRegisteredOver: when another registration has come under a broker's id,
// from a copy of its disk, it registers anew by itself and serves on, once the
// other is gone.
func TestRegisteredOver(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
		for _, n := range c.Nodes[1:3] { // the first leads the metadata
			twin := c.Twin(n, n.Host+"copy", n.FS.CrashClone(nil))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if err := twin.Open(ctx); err != nil {
				t.Fatal(err)
			}
			cancel()
			twin.Kill()
			c.Settle()
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: []byte(n.Host)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-n.Broker.Failed():
				t.Fatalf("node %d: %v", n.ID, err)
			case <-time.After(10 * time.Second): // until the others look for it at its own address again
			}
		}
	})
}

// TestCopiesOfOneDisk: two processes on copies of one disk don't take the place
// from each other for ever: one of them ends, and says why; the cluster goes on.
func TestCopiesOfOneDisk(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
		n := c.Nodes[2]
		twin := c.Twin(n, "copy", n.FS.CrashClone(nil))
		twin.Start()
		var why string
		select {
		case err := <-n.Broker.Failed():
			why = err.Error()
			n.Kill()
		case err := <-twin.Broker.Failed():
			why = err.Error()
			twin.Kill()
		case <-time.After(30 * time.Second):
			t.Fatal("both go on")
		}
		if !strings.Contains(why, "from a copy of /data: only one of the copies may be started") {
			t.Error(why)
		}
		c.Settle()
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: []byte("after")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPlaceTaken: a broker that was cut off while an empty disk took its place
// ends, and says why.
func TestPlaceTaken(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, _ *kgo.Client) {
		old := c.Nodes[2]
		c.Isolate(old)
		time.Sleep(2 * time.Second) // until it is out of service
		heir := c.Twin(old, "heir", vfs.NewMem())
		c.Isolate(old) // from that one too
		heir.Start()
		c.Fabric.Heal()
		if why := ends(t, old); !strings.Contains(why, "another data directory has its place") {
			t.Error(why)
		}
		old.Kill()
		c.Settle()
	})
}

// TestOneVoterIsNotReady: while only one of three brokers or more votes on the
// metadata, which would end with it, none says that it is ready.
func TestOneVoterIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokertest.NewCluster(t, 2)
		c.StartAll()
		c.Nodes[1].Kill()
		third := c.Add()
		third.Start()
		time.Sleep(5 * time.Second)
		for _, n := range []*brokertest.Node{c.Nodes[0], third} {
			if err := n.Broker.Ready(); err == nil || !strings.Contains(err.Error(), "metadata is kept by one voter only") {
				t.Errorf("node %d: %v", n.ID, err)
			}
		}
		c.Nodes[1].Start()
		began := time.Now()
		c.Settle()
		if took := time.Since(began); took > time.Second {
			t.Errorf("ready after %v", took)
		}
	})
}
