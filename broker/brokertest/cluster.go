package brokertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/vfs"
	"sawlog/broker/wire"
	"sawlog/offsets"
)

// Cluster is whole brokers in one process, over a network and disks in memory.
// It belongs into a synctest bubble.
type Cluster struct {
	Fabric *Fabric
	Nodes  []*Node
	// Change, when not nil, may alter each broker's config.
	Change func(*broker.Config)

	t testing.TB
}

// Node is one machine of a cluster: a host of the network, a disk, and a broker
// while it runs.
type Node struct {
	ID     offsets.BrokerID
	Host   string
	FS     *vfs.Mem
	Broker *broker.Broker // nil while it doesn't run

	cluster *Cluster
	boot    int
	joins   bool // an empty disk begins by joining
	dying   sync.WaitGroup
}

// NewCluster is n nodes, not yet started.
func NewCluster(t testing.TB, n int) *Cluster {
	c := &Cluster{t: t, Fabric: NewFabric()}
	for range n {
		c.Add()
	}
	t.Cleanup(c.Stop)
	return c
}

// Add makes one more node; the first founds the cluster, the others join.
func (c *Cluster) Add() *Node {
	id := offsets.BrokerID(len(c.Nodes) + 1)
	n := &Node{ID: id, Host: fmt.Sprintf("n%d", id), FS: vfs.NewMem(), cluster: c, joins: id != 1}
	c.Nodes = append(c.Nodes, n)
	return n
}

// Twin is a node with another's id on another host and disk, not yet started: a
// copy of that one's disk, or its successor's empty one.
func (c *Cluster) Twin(of *Node, host string, fs *vfs.Mem) *Node {
	n := &Node{ID: of.ID, Host: host, FS: fs, cluster: c, joins: true}
	c.Nodes = append(c.Nodes, n)
	return n
}

// StartAll starts the nodes that don't run and waits until all are in service.
func (c *Cluster) StartAll() {
	c.t.Helper()
	var starting sync.WaitGroup
	for i, n := range c.Nodes {
		switch {
		case n.Broker != nil:
		case i == 0 && n.founds():
			n.Start() // there must be something to join
		default:
			starting.Go(n.Start)
		}
	}
	starting.Wait()
	c.Settle()
	c.awaitVoters()
}

// founds tells whether the start of this node makes the cluster.
func (n *Node) founds() bool {
	_, err := n.FS.Stat("/data")
	return err != nil && !n.joins
}

// awaitVoters waits until as many nodes vote on the metadata as there can be:
// before, the end of one may be the end of all.
func (c *Cluster) awaitVoters() {
	c.t.Helper()
	want := min(5, (len(c.Nodes)+1)/2*2-1)
	var have int
	for range 600 {
		for _, n := range c.Nodes {
			if n.Broker == nil {
				continue
			}
			if have = n.voters(); have == want {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.t.Fatalf("%d voters of %d nodes after 30 s", have, len(c.Nodes))
}

// voters is how many nodes vote, as far as this one knows.
func (n *Node) voters() int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := n.Conn(ctx, "quorum")
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }() // it has answered
	r := kmsg.NewPtrDescribeQuorumRequest()
	r.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	m, err := conn.Request(ctx, r)
	if err != nil || m.(*kmsg.DescribeQuorumResponse).ErrorCode != 0 {
		return 0
	}
	return len(m.(*kmsg.DescribeQuorumResponse).Topics[0].Partitions[0].CurrentVoters)
}

// Settle waits until all nodes that run are in service.
func (c *Cluster) Settle() {
	c.t.Helper()
	var err error
	for range 3000 {
		err = nil
		for _, n := range c.Nodes {
			if n.Broker != nil {
				err = errors.Join(err, n.Broker.Ready())
			}
		}
		if err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("not in service after 30 s: %v", err)
}

// Stop closes what runs, all at once: nobody waits for others to take over.
func (c *Cluster) Stop() {
	c.Fabric.Heal()
	var stopping sync.WaitGroup
	for _, n := range c.Nodes {
		stopping.Go(func() {
			n.dying.Wait()
			if b := n.Broker; b != nil {
				n.Broker = nil
				gone, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				if err := b.Close(gone); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					c.t.Errorf("node %d: %v", n.ID, err)
				}
			}
		})
	}
	stopping.Wait()
}

// Start runs the node's broker.
func (n *Node) Start() {
	n.cluster.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.Open(ctx); err != nil {
		n.cluster.t.Errorf("node %d: %v", n.ID, err)
	}
}

// Open runs the node's broker, or tells why it doesn't.
func (n *Node) Open(ctx context.Context) error {
	n.dying.Wait()
	f := n.cluster.Fabric
	c := broker.Config{
		Dir: "/data", FS: n.FS, NodeID: n.ID, BootID: fmt.Sprintf("%s-%d", n.Host, n.boot),
		Listener: f.Listen(n.Host + ":9092"), Advertise: n.Host + ":9092",
		PeerListener: f.Listen(n.Host + ":9093"), PeerDial: f.Dialer(n.Host),
		Defaults: map[string]string{"group.initial.rebalance.delay.ms": "0"},
		Logger: slog.New(slog.NewTextHandler(nodeWriter{n.cluster.t, n.Host}, &slog.HandlerOptions{
			Level: slog.LevelInfo,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					a.Value = slog.StringValue(a.Value.Time().Format("04:05.000"))
				}
				return a
			},
		})),
	}
	if n.joins {
		for _, other := range n.cluster.Nodes {
			if other != n {
				c.Join = append(c.Join, other.Host+":9093")
			}
		}
	}
	if n.cluster.Change != nil {
		n.cluster.Change(&c)
	}
	b, err := broker.Open(ctx, c)
	if err != nil {
		f.Kill(n.Host)
		return err
	}
	n.Broker = b
	return nil
}

// Stop ends the node's broker in good order: others take over first.
func (n *Node) Stop() {
	n.cluster.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n.Broker.Close(ctx); err != nil {
		n.cluster.t.Errorf("node %d: close: %v", n.ID, err)
	}
	n.Broker = nil
}

// Kill ends the process as kill -9 does: what was written is there.
func (n *Node) Kill() { n.end(n.FS.CrashClone(nil)) }

// PowerOff cuts the machine's power: of what wasn't synced anything may be lost.
func (n *Node) PowerOff(rnd *rand.Rand) {
	n.boot++
	n.end(n.FS.CrashClone(rnd))
}

// Wipe replaces the disk of a node that doesn't run by an empty one.
func (n *Node) Wipe() {
	n.dying.Wait()
	n.FS, n.joins = vfs.NewMem(), true
}

// end leaves the broker that runs without network, over a disk nobody reads.
func (n *Node) end(left *vfs.Mem) {
	n.cluster.Fabric.Kill(n.Host)
	n.FS = left
	b := n.Broker
	n.Broker = nil
	n.dying.Go(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = b.Close(gone) // it is dead: nothing it says counts
	})
}

// Isolate cuts a node off from the other nodes, and from clients too when they
// are named.
func (c *Cluster) Isolate(n *Node, others ...string) {
	for _, other := range c.Nodes {
		if other != n {
			others = append(others, other.Host)
		}
	}
	for _, host := range others {
		c.Fabric.Cut(n.Host, host)
		c.Fabric.Cut(host, n.Host)
	}
}

// Client is a client on a host of its own that knows all nodes.
func (c *Cluster) Client(host string, opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	var seeds []string
	for _, n := range c.Nodes {
		seeds = append(seeds, n.Host+":9092")
	}
	dial := c.Fabric.Dialer(host)
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.Dialer(func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) }),
		kgo.DialTimeout(2 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RequestTimeoutOverhead(3 * time.Second),
	}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// Producer is a client that has its producer id before harm comes: kgo asks for it
// under a lock, and the clock of a bubble stands for as long as anybody waits for
// a lock.
func (c *Cluster) Producer(host string, opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client := c.Client(host, opts...)
	if _, _, err := client.ProducerID(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	return client
}

// Conn is a connection to one node.
func (n *Node) Conn(ctx context.Context, host string) (*wire.Conn, error) {
	nc, err := n.cluster.Fabric.Dialer(host)(ctx, n.Host+":9092")
	if err != nil {
		return nil, err
	}
	return wire.NewConn(ctx, nc, host)
}

// nodeWriter sends a broker's lines to the test's log.
type nodeWriter struct {
	t    testing.TB
	host string
}

func (w nodeWriter) Write(line []byte) (int, error) {
	w.t.Logf("%s %s", w.host, line)
	return len(line), nil
}
