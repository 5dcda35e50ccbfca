package broker_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/compat/peer"
)

// numbered produces records n..m−1 to a topic, all over its partitions.
func numbered(t *testing.T, c *kgo.Client, topic string, n, m int) {
	t.Helper()
	var records []*kgo.Record
	for i := n; i < m; i++ {
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "%d", i), Value: fmt.Appendf(nil, "%d", i)})
	}
	if err := c.ProduceSync(within(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// reads polls until all of n..m−1 came, each once.
func reads(t *testing.T, c *kgo.Client, what string, n, m int) {
	t.Helper()
	seen := map[string]bool{}
	ctx := within(t)
	for len(seen) < m-n {
		f := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s: %d records of %d", what, len(seen), m-n)
		}
		for _, r := range f.Records() {
			if seen[string(r.Value)] {
				t.Errorf("%s: %s came twice", what, r.Value)
			}
			seen[string(r.Value)] = true
		}
	}
	for i := n; i < m; i++ {
		if !seen[fmt.Sprint(i)] {
			t.Errorf("%s: %d didn't come", what, i)
		}
	}
}

// kgo fetches inside of sessions. The topic here is paused, deleted, made again,
// and the broker is another one in between.
func TestKgoReadsThroughSessions(t *testing.T) {
	t.Parallel() // it waits for kgo's timers
	dir := t.TempDir()
	addr := peer.Address(t)
	b := brokertest.Start(t, func(c *broker.Config) { c.Dir, c.Listen = dir, addr })
	createTopic(t, wireClient(t, b), "t", 12)
	producer := client(t, b)
	consumer := client(t, b, kgo.ConsumeTopics("t"), kgo.FetchMaxWait(100*time.Millisecond), kgo.FetchMaxPartitionBytes(200), kgo.FetchMaxBytes(1000),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	numbered(t, producer, "t", 0, 500)
	reads(t, consumer, "at first", 0, 500)
	if got := b.Metrics(); got.FetchSessions != 1 || got.SessionParts != 12 {
		t.Errorf("%d sessions of %d partitions", got.FetchSessions, got.SessionParts)
	}
	consumer.PauseFetchPartitions(map[string][]int32{"t": {0, 1, 2, 3, 4, 5}})
	numbered(t, producer, "t", 500, 700)
	consumer.ResumeFetchPartitions(map[string][]int32{"t": {0, 1, 2, 3, 4, 5}})
	reads(t, consumer, "paused and resumed", 500, 700)

	brokertest.Stop(t, b)
	b = brokertest.Start(t, func(c *broker.Config) { c.Dir, c.Listen = dir, addr })
	numbered(t, producer, "t", 700, 900)
	reads(t, consumer, "after a restart", 700, 900)

	admin := wireClient(t, b)
	producer.PurgeTopicsFromClient("t") // or they make it themselves
	consumer.PurgeTopicsFromClient("t")
	deleteTopic(t, admin, "t")
	createTopic(t, admin, "t", 3)
	numbered(t, producer, "t", 900, 1000)
	consumer.AddConsumeTopics("t")
	reads(t, consumer, "made again", 900, 1000)
}

// When all slots are taken, consumers read without sessions.
func TestKgoReadsWithoutASlot(t *testing.T) {
	t.Parallel() // it waits for kgo's timers
	b := brokertest.Start(t, nil)
	c := wireClient(t, b)
	createTopic(t, c, "t", 6)
	for range 1000 {
		fetchReply(t, c, fetchIn(0, 0, want{topic: "t"}, want{topic: "t", partition: 1}), nil)
	}
	producer := client(t, b)
	var consumers []*kgo.Client
	for range 8 {
		consumers = append(consumers, client(t, b, kgo.ConsumeTopics("t"), kgo.FetchMaxWait(100*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))
	}
	for round := range 3 {
		numbered(t, producer, "t", 100*round, 100*(round+1))
		for i, consumer := range consumers {
			reads(t, consumer, fmt.Sprintf("consumer %d round %d", i, round), 100*round, 100*(round+1))
		}
	}
	if got := b.Metrics().FetchSessions; got != 1000 {
		t.Errorf("%d sessions", got)
	}
}

// TestSessionsUnderPressure lets many connections work on few sessions, wrongly
// too, while their topics are written, deleted and made again: nobody is kept
// waiting, and nothing is left behind.
func TestSessionsUnderPressure(t *testing.T) {
	b := brokertest.Start(t, nil)
	admin := wireClient(t, b)
	createTopic(t, admin, "busy", 4)
	parts := []want{{topic: "busy"}, {topic: "busy", partition: 1}, {topic: "busy", partition: 3}, {topic: "comes"}}
	var mu sync.Mutex
	var ids []int32 // of sessions that may be there
	stop := make(chan struct{})
	var workers, writers sync.WaitGroup
	for range 6 {
		c := wireClient(t, b)
		workers.Go(func() {
			for i := range int32(300) {
				mu.Lock()
				id, epoch := int32(0), int32(0)
				if n := len(ids); n > 0 && i%9 != 0 {
					id, epoch = ids[int(i)%n], i/7%20
				}
				mu.Unlock()
				r := fetchIn(id, epoch, parts[int(i)%len(parts)])
				r.MinBytes, r.MaxWaitMillis = 1, i%3
				if i%5 == 0 {
					forget(r, parts[int(i+1)%len(parts)])
				}
				if i%31 == 0 {
					r.SessionEpoch = -1
				}
				r.SetVersion(12)
				m, err := c.Exchange(within(t), r)
				if err != nil {
					t.Error(err)
					return
				}
				if f := m.(*kmsg.FetchResponse); f.SessionID != 0 && epoch == 0 {
					mu.Lock()
					if ids = append(ids, f.SessionID); len(ids) > 4 {
						ids = slices.Delete(ids, 0, 1)
					}
					mu.Unlock()
				}
			}
		})
	}
	writers.Go(func() {
		p := client(t, b)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := p.ProduceSync(within(t), &kgo.Record{Topic: "busy", Value: []byte("x")}).FirstErr(); err != nil {
				t.Error(err)
				return
			}
			if i%20 == 0 {
				createTopic(t, admin, "comes", 1)
				deleteTopic(t, admin, "comes")
			}
		}
	})
	workers.Wait()
	close(stop)
	writers.Wait()
	for _, id := range ids {
		fetchReply(t, admin, fetchIn(id, -1), nil)
	}
	if got := b.Metrics(); got.Panics != 0 {
		t.Errorf("%d panics", got.Panics)
	}
}
