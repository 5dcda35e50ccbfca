package peer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cluster is brokers that know each other, each in a process of its own.
type Cluster struct {
	Name  string
	Nodes []*Server // node i has id i+1
}

// SawlogCluster runs brokers that have all come to know each other, until the
// test ends.
func SawlogCluster(t testing.TB, size int, o Options) *Cluster {
	t.Helper()
	key := filepath.Join(t.TempDir(), "cluster.key")
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	if err := os.WriteFile(key, []byte(hex.EncodeToString(secret)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Name: "sawlog"}
	var peers []string
	for id := 1; id <= size; id++ {
		to := o
		listen := address(t, 0)
		to.Args = append(slices.Clone(o.Args), "--peer", listen, "--cluster-key", key)
		if id > 1 {
			to.Args = append(to.Args, "--join", strings.Join(peers, ","))
		}
		if o.Racks {
			to.Args = append(to.Args, "--rack", fmt.Sprint("r", id))
		}
		peers = append(peers, listen)
		c.Nodes = append(c.Nodes, sawlog(t, id, to))
	}
	t.Cleanup(func() { c.each((*Server).Stop) })
	// The first founds the cluster; ids are given in the order of joining.
	for i, s := range c.Nodes {
		s.launch()
		s.await(i + 1)
	}
	c.Await()
	return c
}

// KafkaCluster runs as many nodes of Apache Kafka, each broker and controller,
// until the test ends.
func KafkaCluster(t testing.TB, size int, o Options) *Cluster {
	t.Helper()
	c := &Cluster{Name: "kafka"}
	q := newQuorum(t, size)
	for id := 1; id <= size; id++ {
		c.Nodes = append(c.Nodes, kafka(t, q, id, o))
	}
	// A node that is to stop waits for controllers that are gone.
	t.Cleanup(func() { c.each((*Server).Kill) })
	for _, s := range c.Nodes {
		s.launch()
	}
	c.Await()
	return c
}

// Addr is the address of every node, separated by commas.
func (c *Cluster) Addr() string {
	var all []string
	for _, s := range c.Nodes {
		all = append(all, s.Addr)
	}
	return strings.Join(all, ",")
}

// Node is that of an id.
func (c *Cluster) Node(id int32) *Server { return c.Nodes[id-1] }

// Await waits until every node knows all nodes.
func (c *Cluster) Await() {
	for _, s := range c.Nodes {
		s.await(len(c.Nodes))
	}
}

// InSync waits until every node says of every partition that all its replicas
// are in sync.
func (c *Cluster) InSync(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var err error
		for _, s := range c.Nodes {
			err = cmp.Or(err, s.inSync(ctx))
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", limit, err)
		case <-tick.C: // other processes act
		}
	}
}

// inSync says which partition a node knows to lack a replica or a leader.
func (s *Server) inSync(ctx context.Context) error {
	conn, err := Dial(ctx, s.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // only read from
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 8 // no topics named: all of them
	resp, err := conn.Ask(req, 5*time.Second)
	if err != nil {
		return err
	}
	for _, topic := range resp.(*kmsg.MetadataResponse).Topics {
		for _, p := range topic.Partitions {
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
				return fmt.Errorf("node %d: %s/%d has leader %d, replicas %d, in sync %d", s.ID, *topic.Topic, p.Partition, p.Leader, p.Replicas, p.ISR)
			}
		}
	}
	return nil
}

// each does something to all nodes that were started, at a time.
func (c *Cluster) each(fn func(*Server)) {
	var wg sync.WaitGroup
	for _, s := range c.Nodes {
		if s.process != nil {
			wg.Go(func() { fn(s) })
		}
	}
	wg.Wait()
}
