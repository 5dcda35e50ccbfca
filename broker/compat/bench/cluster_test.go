package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// route is a leader and the partitions of a topic it leads.
type route struct {
	addr       string
	partitions []int32
}

// routes finds the leaders of a topic's partitions, once the broker that is asked
// knows of them all.
func (s *target) routes(t testing.TB, topic string, partitions int32) []route {
	t.Helper()
	r := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	r.Topics = append(r.Topics, rt)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		reply, err := r.RequestWith(ctx, s.admin)
		if err != nil {
			t.Fatalf("%s: metadata of %s: %v", s.Name, topic, err)
		}
		var all []route
		known := int32(0)
		for _, b := range reply.Brokers {
			one := route{addr: fmt.Sprintf("%s:%d", b.Host, b.Port)}
			for _, p := range reply.Topics[0].Partitions {
				if p.Leader == b.NodeID {
					one.partitions = append(one.partitions, p.Partition)
					known++
				}
			}
			slices.Sort(one.partitions)
			if len(one.partitions) > 0 {
				all = append(all, one)
			}
		}
		if known == partitions {
			return all
		}
		time.Sleep(10 * time.Millisecond) // another process acts
	}
}

// leaderConns is how many connections load each leader by replay. Kafka takes the
// next request from a connection once the one before is answered, and that takes
// a round trip of its followers: one connection would measure little else.
const leaderConns = 8

// replicated is one load on a cluster: it is produced with acks=all.
func (s *target) replicated(t testing.TB, l load, topic string, d time.Duration) run {
	t.Helper()
	s.create(t, topic, l.Partitions, l.configs())
	defer s.remove(t, topic)
	leaders := s.routes(t, topic, l.Partitions)
	return s.measure(t, func() int64 {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		if l.Driver == "kgo" {
			return kgoProduce(ctx, t, s.Addr, topic, l.Codec, l.Size) * int64(l.Size)
		}
		var bytes atomic.Int64
		var wg sync.WaitGroup
		for _, to := range leaders {
			p := produceFrame(t, topic, to.partitions, l.Size, l.Codec, time.Now().UnixMilli())
			wg.Go(func() {
				bytes.Add(replayProduce(ctx, t, to.addr, p.frame, leaderConns, int64(*volume/len(leaders)/p.bytes)) * int64(p.bytes))
			})
		}
		wg.Wait()
		return bytes.Load()
	})
}

// ackLoop sends batches at a fixed rate, whether or not the cluster keeps up, each
// to the leader of its partition, and takes the time from when a batch was due
// until it was acknowledged. The first part of the time is not counted.
func (s *target) ackLoop(t testing.TB, l load, topic string, rate float64, warm, d time.Duration) quantiles {
	t.Helper()
	s.create(t, topic, l.Partitions, l.configs())
	defer s.remove(t, topic)
	frames := oneEach(t, l, topic)
	each := time.Duration(float64(frames[0].bytes) / rate * float64(time.Second))
	total := int((warm + d) / each)
	leaders := s.routes(t, topic, l.Partitions)
	lines := make([]chan dueBatch, len(leaders))
	of := make([]chan dueBatch, len(frames)) // by partition
	took := make([][]float64, len(leaders))
	begin := time.Now().Add(50 * time.Millisecond)
	var wg sync.WaitGroup
	for i, to := range leaders {
		lines[i] = make(chan dueBatch, total+1)
		for _, p := range to.partitions {
			of[p] = lines[i]
		}
		wg.Go(func() {
			sendDue(t, to.addr, lines[i], func(due time.Time) {
				if due.Sub(begin) >= warm {
					took[i] = append(took[i], float64(time.Since(due))/float64(time.Millisecond))
				}
			})
		})
	}
	onTime(t, begin, each, total, func(i int) {
		p := i % len(frames)
		of[p] <- dueBatch{frames[p].frame, begin.Add(time.Duration(i) * each)}
	})
	for _, line := range lines {
		close(line)
	}
	wg.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	return quantiles{quantile(all, 0.5), quantile(all, 0.99), quantile(all, 0.999), len(all)}
}

// ackRate is the rate at which the batches of ackLoop go into a cluster in a
// closed loop.
func (s *target) ackRate(t testing.TB, l load, topic string, d time.Duration) float64 {
	t.Helper()
	s.create(t, topic, l.Partitions, l.configs())
	defer s.remove(t, topic)
	frames := oneEach(t, l, topic)
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var acks atomic.Int64
	var wg sync.WaitGroup
	for _, to := range s.routes(t, topic, l.Partitions) {
		var mine []prebuilt
		for _, p := range to.partitions {
			mine = append(mine, frames[p])
		}
		wg.Go(func() { closedLoop(ctx, t, to.addr, mine, func(time.Time) { acks.Add(1) }) })
	}
	from := time.Now()
	wg.Wait()
	return float64(acks.Load()*int64(frames[0].bytes)) / time.Since(from).Seconds()
}
