package consumer

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/offsets"
)

// ride is a cluster of three brokers in a bubble that comes to harm, one
// partition that is written and read meanwhile, and what everyone saw.
type ride struct {
	t *testing.T
	c *brokertest.Cluster

	mu    sync.Mutex
	acked map[offsets.Offset]acked
	reads []ranged
}

// acked is a record that all replicas in sync have.
type acked struct {
	value string
	at    time.Time
}

// ranged is a range that was planned and read to its end.
type ranged struct {
	offsets.Range
	who    string
	values []string
	end    offsets.Offset // of the log, as planned
	at     time.Time      // when
}

// TestReadsThroughHarm: while brokers are killed, lose power, are stopped, cut
// off and slowed, while leaders are elected and replicas moved and wiped, and
// logs are cut behind producers that don't wait for replicas, every range that
// was planned is read exactly as it is committed in the end.
func TestReadsThroughHarm(t *testing.T) {
	seeds := 10
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rideThrough(t, uint64(seed), 15) })
		})
	}
}

func rideThrough(t *testing.T, seed uint64, harms int) {
	rnd := rand.New(rand.NewPCG(seed, 6))
	r := &ride{t: t, c: brokertest.NewCluster(t, 3), acked: map[offsets.Offset]acked{}}
	r.c.Change = func(c *broker.Config) { c.Rack = fmt.Sprint("r", c.NodeID) }
	r.c.StartAll()
	r.create()
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	sure := r.c.Producer("sure", kgo.DefaultProduceTopic(views.Topic), kgo.RequiredAcks(kgo.AllISRAcks()))
	rash := r.c.Client("rash", kgo.DefaultProduceTopic(views.Topic), kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	clients.Go(func() { r.write(ctx, "sure", sure) })
	clients.Go(func() { r.write(ctx, "rash", rash) })
	for i, rack := range []string{"", "r2", "r3"} {
		clients.Go(func() { r.read(ctx, rack, rand.New(rand.NewPCG(seed, uint64(100+i)))) })
	}
	for range harms {
		r.harm(rnd)
	}
	r.c.Fabric.Heal()
	r.c.StartAll()
	time.Sleep(10 * time.Second)
	stop()
	clients.Wait()
	r.judge()
}

func (r *ride) create() {
	cl := r.c.Client("creator")
	defer cl.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = views.Topic, 1, 3
	rt.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "min.insync.replicas", Value: new("2")}}
	req.Topics = append(req.Topics, rt)
	m, err := req.RequestWith(r.t.Context(), cl)
	if err == nil {
		err = kerr.ErrorForCode(m.Topics[0].ErrorCode)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// write sends records until ctx ends; what only a leader has acknowledged may
// be gone again.
func (r *ride) write(ctx context.Context, who string, cl *kgo.Client) {
	defer cl.Close()
	for n := 0; ctx.Err() == nil; n++ {
		cl.Produce(context.Background(), kgo.StringRecord(fmt.Sprint(who, n)), func(rec *kgo.Record, err error) {
			if err == nil && who == "sure" {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.acked[offsets.Offset(rec.Offset)] = acked{string(rec.Value), time.Now()}
			}
		})
		time.Sleep(20 * time.Millisecond)
	}
	flushing, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cl.Flush(flushing); err != nil {
		r.t.Errorf("%s: %v", who, err)
	}
}

// reach connects to the cluster as loads do, from a host of its own.
func (r *ride) reach(host, rack string) *KafkaCluster {
	dialer := r.c.Fabric.Dialer(host)
	var brokers []string
	for _, n := range r.c.Nodes {
		brokers = append(brokers, n.Host+":9092")
	}
	k, err := dial(context.Background(), Config{Brokers: brokers, Rack: rack},
		kgo.Dialer(func(ctx context.Context, _, addr string) (net.Conn, error) { return dialer(ctx, addr) }))
	if err != nil {
		r.t.Errorf("reader %s: %v", host, err)
	}
	return k
}

// read plans ranges and reads them, slowly, until ctx ends.
func (r *ride) read(ctx context.Context, rack string, rnd *rand.Rand) {
	who := "reader" + rack
	k := r.reach(who, rack)
	if k == nil {
		return
	}
	defer k.Close()
	for ctx.Err() == nil {
		got := ranged{who: who, at: time.Now()}
		topics, _, err := Describe(context.Background(), k, []string{views.Topic}, "")
		if err != nil {
			r.t.Errorf("%s: describe: %v", who, err)
			continue
		}
		if got.end = topics[0].Partitions[0].LastStable; got.end == 0 {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		got.Start = offsets.Offset(rnd.Int64N(int64(got.end)))
		got.End = min(got.end, got.Start+offsets.Offset(1+rnd.IntN(400)))
		if got.values, err = r.readRange(k, topics[0].ID, got.Range, 100+rnd.IntN(2000)); err != nil {
			r.t.Errorf("%s: %s: %v", who, got.Range, err)
		}
		r.mu.Lock()
		r.reads = append(r.reads, got)
		r.mu.Unlock()
	}
}

func (r *ride) readRange(k *KafkaCluster, id offsets.TopicID, of offsets.Range, bytes int) ([]string, error) {
	rd := NewReader(k, views, id, of, Options{FetchBytes: bytes})
	defer rd.Close()
	var values []string
	for {
		rec, err := rd.Next(context.Background())
		if err == io.EOF {
			return values, nil
		}
		if err != nil {
			return values, err
		}
		values = append(values, string(rec.Value))
		time.Sleep(5 * time.Millisecond) // so that a range takes as long as a fault
	}
}

// harm does something to the cluster, lets time pass, and undoes it.
func (r *ride) harm(rnd *rand.Rand) {
	c := r.c
	n, other := c.Nodes[rnd.IntN(3)], c.Nodes[rnd.IntN(3)]
	everyone := []string{"sure", "rash", "reader", "readerr2", "readerr3"}
	kind := rnd.IntN(9)
	r.t.Logf("harm %d at node %d (%d)", kind, n.ID, other.ID)
	switch kind {
	case 0:
		n.Kill()
	case 1:
		n.PowerOff(rnd)
	case 2:
		n.Stop()
	case 3: // clients go on talking to it
		c.Isolate(n)
	case 4:
		c.Isolate(n, everyone...)
	case 5:
		c.Fabric.Cut(n.Host, other.Host)
	case 6:
		c.Fabric.Delay(n.Host, other.Host, time.Duration(rnd.IntN(200))*time.Millisecond)
	case 7:
		n.Kill()
		n.Wipe()
	case 8:
		r.move(rnd)
	}
	time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
	c.Fabric.Heal()
	if n.Broker == nil {
		n.Start()
	}
	if rnd.IntN(2) == 0 || kind == 7 {
		c.Settle()
		r.whole()
	}
	time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
}

// whole waits until all replicas are in sync.
func (r *ride) whole() {
	r.t.Helper()
	cl := r.c.Client("whole")
	defer cl.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: new(views.Topic)}}
	for range 300 {
		m, err := req.RequestWith(r.t.Context(), cl)
		if err == nil && len(m.Topics[0].Partitions) == 1 && len(m.Topics[0].Partitions[0].ISR) == 3 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.t.Error("not all replicas are in sync after 30 s")
}

// move gives the replicas another order or takes one away, and has the first of
// them elected.
func (r *ride) move(rnd *rand.Rand) {
	cl := r.c.Client("mover")
	defer cl.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	ids := []int32{1, 2, 3}
	rnd.Shuffle(3, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, to := range [][]int32{ids[:2], ids} {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.AllowReplicationFactorChange = true
		rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		rt.Topic = views.Topic
		rt.Partitions = []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: to}}
		req.Topics = append(req.Topics, rt)
		if _, err := req.RequestWith(ctx, cl); err != nil {
			r.t.Logf("move to %v: %v", to, err)
		}
		time.Sleep(300 * time.Millisecond)
	}
	elect := kmsg.NewPtrElectLeadersRequest()
	et := kmsg.NewElectLeadersRequestTopic()
	et.Topic, et.Partitions = views.Topic, []int32{0}
	elect.Topics = append(elect.Topics, et)
	if _, err := elect.RequestWith(ctx, cl); err != nil {
		r.t.Logf("elect: %v", err)
	}
}

// judge compares what was read with what is committed now.
func (r *ride) judge() {
	r.t.Helper()
	truth := r.truth()
	for at, rec := range r.acked {
		if truth[at] != rec.value {
			r.t.Errorf("offset %d was acknowledged for %s and is %s", at, rec.value, truth[at])
		}
	}
	records := 0
	for _, got := range r.reads {
		if want := truth[got.Start:min(got.End, offsets.Offset(len(truth)))]; !slices.Equal(got.values, want) {
			r.t.Errorf("%s read %s as %s, want %s", got.who, got.Range, strings.Join(got.values, " "), strings.Join(want, " "))
		}
		for at, rec := range r.acked {
			if at >= got.end && got.at.Sub(rec.at) > staleFor {
				r.t.Errorf("%s was told that the log ends at %d, %v after %d was acknowledged", got.who, got.end, got.at.Sub(rec.at), at)
				break
			}
		}
		records += len(got.values)
	}
	if len(r.reads) < 20 || len(truth) < 200 {
		r.t.Errorf("only %d ranges were read of a log of %d records", len(r.reads), len(truth))
	}
	r.t.Logf("%d ranges of %d records read, of a log of %d", len(r.reads), records, len(truth))
}

// staleFor is more than the time for which a leader that was cut off may still
// tell where the log ended: a session.
const staleFor = time.Second

// truth is all that is committed in the end.
func (r *ride) truth() []string {
	r.t.Helper()
	cl := r.c.Client("judge", kgo.ConsumeTopics(views.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	var top offsets.Offset
	for at := range r.acked {
		top = max(top, at)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	var truth []string
	for offsets.Offset(len(truth)) <= top && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
			if rec.Offset != int64(len(truth)) {
				r.t.Fatalf("offset %d follows %d", rec.Offset, len(truth)-1)
			}
			truth = append(truth, string(rec.Value))
		})
	}
	if ctx.Err() != nil {
		r.t.Fatalf("%d records, %d was acknowledged", len(truth), top)
	}
	return truth
}
