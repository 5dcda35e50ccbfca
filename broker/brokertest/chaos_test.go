package brokertest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/brokertest"
)

// TestChaos: three brokers under faults drawn at random, one after the other,
// while producers write with acks=all and a group commits offsets.
func TestChaos(t *testing.T) {
	seeds := 12
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(t, uint64(seed), 20) })
		})
	}
}

func chaos(t *testing.T, seed uint64, faults int) {
	rnd := rand.New(rand.NewPCG(seed, 9))
	c := brokertest.NewCluster(t, 3)
	c.StartAll()
	cl := c.Client("client")
	create(t, cl, "t", 3, 3, "min.insync.replicas", "2")
	l := newLoad()
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 2 {
		producer := c.Producer(fmt.Sprint("p", i), kgo.DefaultProduceTopic("t"))
		clients.Go(func() { l.produce(ctx, t, producer, i) })
	}
	clients.Go(func() { commitForever(ctx, t, c) })
	clients.Go(func() { watchLeaders(ctx, t, c) })
	for range faults {
		fault(t, c, rnd)
	}
	c.Fabric.Heal()
	c.StartAll()
	stop()
	clients.Wait()
	cl.Close()
	awaitISR(t, c, 3)
	t.Logf("%d records acknowledged", l.count())
	check(t, c, l)
}

// fault does something to a node, lets time pass, and undoes it.
func fault(t *testing.T, c *brokertest.Cluster, rnd *rand.Rand) {
	n, other := c.Nodes[rnd.IntN(3)], c.Nodes[rnd.IntN(3)]
	pass := func() { time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond) }
	kind := rnd.IntN(7)
	t.Logf("fault %d at node %d (%d)", kind, n.ID, other.ID)
	switch kind {
	case 0:
		n.Kill()
	case 1:
		n.PowerOff(rnd)
	case 2:
		n.Stop()
	case 3:
		c.Isolate(n)
	case 4:
		c.Isolate(n, "client", "p0", "p1", "committer")
	case 5:
		c.Fabric.Cut(n.Host, other.Host)
	case 6:
		c.Fabric.Delay(n.Host, other.Host, time.Duration(rnd.IntN(200))*time.Millisecond)
	}
	pass()
	c.Fabric.Heal()
	if n.Broker == nil {
		n.Start()
	}
	if rnd.IntN(2) == 0 {
		c.Settle()
	}
	pass()
}

// produce writes numbered records until ctx ends, and waits for all of them.
func (l *load) produce(ctx context.Context, t *testing.T, cl *kgo.Client, i int) {
	defer cl.Close()
	for number := 0; ctx.Err() == nil; number++ {
		r := kgo.StringRecord(fmt.Sprintf("%d:%d", i, number))
		cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
			if err != nil {
				t.Logf("%s: %v", r.Value, err)
				return
			}
			l.ack(r)
		})
		time.Sleep(20 * time.Millisecond)
	}
	flushing, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := cl.Flush(flushing); err != nil {
		t.Errorf("producer %d: records are never acknowledged: %v", i, err)
	}
}

// commitForever commits ever greater offsets, and fetches them: what was
// acknowledged or seen never goes back.
func commitForever(ctx context.Context, t *testing.T, c *brokertest.Cluster) {
	cl := c.Client("committer")
	defer cl.Close()
	var least int64 = -1
	taken := 0
	defer func() {
		if taken == 0 {
			t.Error("no commit was ever taken")
		}
	}()
	for at := int64(0); ctx.Err() == nil; at++ {
		asking, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		if commit(asking, cl, at) {
			least = max(least, at)
			taken++
		}
		if have, ok := committed(asking, cl); ok {
			if have < least {
				t.Errorf("offset %d was committed, then it is %d", least, have)
			}
			least = max(least, have)
		}
		cancel()
		time.Sleep(50 * time.Millisecond)
	}
}

func commit(ctx context.Context, cl *kgo.Client, at int64) bool {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.Generation = "g", -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = "t", topicID(ctx, cl)
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Offset = at
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	m, err := r.RequestWith(ctx, cl)
	return err == nil && len(m.Topics) == 1 && m.Topics[0].Partitions[0].ErrorCode == 0
}

// topicID is that of topic t, which is how the newest versions name it.
func topicID(ctx context.Context, cl *kgo.Client) (id [16]byte) {
	r := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = new("t")
	r.Topics = append(r.Topics, rt)
	m, err := r.RequestWith(ctx, cl)
	if err != nil || len(m.Topics) == 0 {
		return id
	}
	return m.Topics[0].TopicID
}

func committed(ctx context.Context, cl *kgo.Client) (int64, bool) {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Group = "g"
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = "t", []int32{0}
	r.Topics = append(r.Topics, rt)
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = "g"
	rgt := kmsg.NewOffsetFetchRequestGroupTopic()
	rgt.Topic, rgt.TopicID, rgt.Partitions = "t", topicID(ctx, cl), []int32{0}
	rg.Topics = append(rg.Topics, rgt)
	r.Groups = append(r.Groups, rg)
	m, err := r.RequestWith(ctx, cl)
	switch {
	case err != nil:
		return 0, false
	case len(m.Groups) == 1 && m.Groups[0].ErrorCode == 0 && len(m.Groups[0].Topics) == 1:
		p := m.Groups[0].Topics[0].Partitions[0]
		return p.Offset, p.ErrorCode == 0
	case len(m.Topics) == 1 && m.ErrorCode == 0:
		p := m.Topics[0].Partitions[0]
		return p.Offset, p.ErrorCode == 0
	}
	return 0, false
}

// watchLeaders asks all nodes who leads: one broker in an epoch of a partition.
func watchLeaders(ctx context.Context, t *testing.T, c *brokertest.Cluster) {
	type term struct{ partition, epoch int32 }
	leaders := map[term]int32{}
	for ctx.Err() == nil {
		for _, n := range c.Nodes {
			for _, p := range partitionsSeen(t, n) {
				at := term{p.Partition, p.LeaderEpoch}
				if before, ok := leaders[at]; ok && p.LeaderID >= 0 && before >= 0 && before != p.LeaderID {
					t.Errorf("partition %d is led by %d and by %d in epoch %d", p.Partition, before, p.LeaderID, p.LeaderEpoch)
				}
				if p.LeaderID >= 0 {
					leaders[at] = p.LeaderID
				}
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}
