package broker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
)

// reader is a member of a group and what it is told of its partitions.
type reader struct {
	client *kgo.Client

	mu      sync.Mutex
	owned   []int32
	revoked []int32 // ever, in order
	seen    map[string]int
}

// startReader joins a group with cooperative-sticky and reads all it gets.
func startReader(t *testing.T, b *broker.Broker, moved chan<- struct{}) *reader {
	t.Helper()
	r := &reader{seen: map[string]int{}}
	tell := func() {
		select {
		case moved <- struct{}{}:
		default:
		}
	}
	taken := func(ctx context.Context, client *kgo.Client, gone map[string][]int32) {
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			t.Errorf("commit what was read of %v: %v", gone, err)
		}
		r.mu.Lock()
		r.revoked = append(r.revoked, gone["t"]...)
		r.owned = slices.DeleteFunc(r.owned, func(p int32) bool { return slices.Contains(gone["t"], p) })
		r.mu.Unlock()
		tell()
	}
	var err error
	r.client, err = kgo.NewClient(
		kgo.SeedBrokers(b.Addr()), kgo.ConsumerGroup("cooperative"), kgo.ConsumeTopics("t"),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.HeartbeatInterval(50*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			r.mu.Lock()
			r.owned = append(r.owned, got["t"]...)
			slices.Sort(r.owned)
			r.mu.Unlock()
			tell()
		}),
		kgo.OnPartitionsRevoked(taken),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.client.Close)
	go func() {
		for {
			fetches := r.client.PollFetches(t.Context())
			if fetches.IsClientClosed() || t.Context().Err() != nil {
				return
			}
			r.mu.Lock()
			fetches.EachRecord(func(rec *kgo.Record) { r.seen[string(rec.Value)]++ })
			r.mu.Unlock()
			tell()
		}
	}()
	return r
}

func (r *reader) state() (owned, revoked []int32, seen int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.owned), slices.Clone(r.revoked), len(r.seen)
}

// TestCooperativeRebalance: when a second member comes, the first keeps what
// stays with it and loses only what moves; when the second leaves, it gets that
// back. Every record is read exactly once, also those produced meanwhile.
func TestCooperativeRebalance(t *testing.T) {
	t.Parallel() // it waits for heartbeats
	b := brokertest.Start(t, nil)
	c := wireClient(t, b)
	createTopic(t, c, "t", 4)
	moved := make(chan struct{}, 1)
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.After(30 * time.Second); !done(); {
			select {
			case <-moved:
			case <-deadline:
				t.Fatalf("waited in vain until %s", what)
			}
		}
	}
	total := 0
	writer, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(writer.Close)
	produce := func() {
		t.Helper()
		var records []*kgo.Record
		for range 100 {
			total++
			records = append(records, &kgo.Record{Partition: int32(total % 4), Value: fmt.Append(nil, total)})
		}
		if err := writer.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce()
	first := startReader(t, b, moved)
	until("the first has all", func() bool {
		owned, _, seen := first.state()
		return len(owned) == 4 && seen == total
	})
	second := startReader(t, b, moved)
	until("they share", func() bool {
		a, _, _ := first.state()
		z, _, _ := second.state()
		return len(a) == 2 && len(z) == 2
	})
	a, gone, _ := first.state()
	z, _, _ := second.state()
	if len(gone) != 2 || slices.ContainsFunc(gone, func(p int32) bool { return slices.Contains(a, p) }) || !slices.Equal(z, slices.Sorted(slices.Values(gone))) {
		t.Errorf("the first has %v and lost %v, the second has %v", a, gone, z)
	}
	produce()
	until("both have read", func() bool {
		_, _, n := first.state()
		_, _, m := second.state()
		return n+m == total
	})
	if err := second.client.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	second.client.Close()
	until("the first has all again", func() bool {
		owned, _, _ := first.state()
		return len(owned) == 4
	})
	produce()
	until("the first has read the rest", func() bool {
		_, _, n := first.state()
		_, _, m := second.state()
		return n+m == total
	})
	if _, gone, _ := first.state(); len(gone) != 2 {
		t.Errorf("the first lost %v in all", gone)
	}
	for _, r := range []*reader{first, second} {
		for value, times := range r.seen {
			if times != 1 {
				t.Errorf("record %s was read %d times", value, times)
			}
		}
	}
	got := ask[*kmsg.DescribeGroupsResponse](t, c, &kmsg.DescribeGroupsRequest{Groups: []string{"cooperative"}}).Groups[0]
	if got.State != "Stable" || got.Protocol != "cooperative-sticky" || len(got.Members) != 1 {
		t.Errorf("described: %+v", got)
	}
}
