//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The topics of a run.
const (
	events = "events" // keeps everything
	state  = "state"  // compacted
)

// How many partitions they have.
const (
	eventsPartitions = 6
	statePartitions  = 2
)

// workload is the clients of a run. begin starts them, end waits for them.
type workload struct {
	h        *history
	seeds    []string
	parts    map[string]int // partitions of each topic
	producer []*kgo.Client

	stop    context.CancelFunc // of those who only look
	sending context.CancelFunc
	lookers sync.WaitGroup
	senders sync.WaitGroup
	pending sync.WaitGroup // records without an answer yet
}

// brief are the settings of clients that have to find out soon that a broker is
// gone.
func brief(seeds []string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.DialTimeout(time.Second),
		kgo.RequestTimeoutOverhead(3 * time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RetryBackoffFn(func(tries int) time.Duration {
			return min(time.Duration(tries)*20*time.Millisecond, 250*time.Millisecond)
		}),
		kgo.RetryTimeout(30 * time.Second),
	}
}

// pace is how often each idempotent producer sends a record.
const pace = 8 * time.Millisecond

// begin starts the clients: idempotent producers, one probe a partition, raw
// readers, and a group of two.
func begin(h *history, seeds []string, parts map[string]int, producers int) (*workload, error) {
	w := &workload{h: h, seeds: seeds, parts: parts}
	looking, stop := context.WithCancel(context.Background())
	sending, stopSending := context.WithCancel(context.Background())
	w.stop, w.sending = stop, stopSending
	for i := range producers {
		cl, err := kgo.NewClient(append(brief(seeds),
			kgo.RequiredAcks(kgo.AllISRAcks()),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerLinger(2*time.Millisecond),
			kgo.ProduceRequestTimeout(3*time.Second),
			kgo.MaxBufferedRecords(2000),
			kgo.StopProducerOnDataLossDetected(),
		)...)
		if err != nil {
			w.close()
			return nil, err
		}
		w.producer = append(w.producer, cl)
		w.senders.Go(func() { w.produce(sending, cl, fmt.Sprintf("i%d", i)) })
	}
	for p := range parts[events] {
		w.senders.Go(func() { probe(sending, h, seeds, place{events, int32(p)}) })
	}
	for i := range 2 {
		if err := w.read(looking, fmt.Sprintf("reader%d", i), i == 1); err != nil {
			w.close()
			return nil, err
		}
		if err := w.join(looking); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

func (w *workload) close() {
	w.sending()
	w.stop()
	w.senders.Wait()
	for _, cl := range w.producer {
		cl.Close()
	}
	w.lookers.Wait()
}

// end lets every record get its answer, then the readers come to the end.
func (w *workload) end(limit time.Duration) error {
	w.sending()
	w.senders.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var errs []error
	for i, cl := range w.producer {
		if err := cl.Flush(ctx); err != nil {
			errs = append(errs, fmt.Errorf("producer i%d has %d records without an answer: %w", i, cl.BufferedProduceRecords(), err))
		}
		cl.Close()
	}
	w.pending.Wait() // closed clients have answered every record
	select {
	case <-time.After(time.Second): // what the readers are still to get
	case <-ctx.Done():
	}
	w.stop()
	w.lookers.Wait()
	return errors.Join(errs...)
}

// keysOf is how many keys a producer has.
const keysOf = 12

// produce sends records until told to stop. A key stays with its partition;
// every fourth record is for the compacted topic.
func (w *workload) produce(ctx context.Context, cl *kgo.Client, name string) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := int64(0); ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		topic := events
		if n%4 == 3 {
			topic = state
		}
		key := n % keysOf
		p := place{topic, int32(key % int64(w.parts[topic]))}
		s := sent{
			place: p, Node: -1, From: w.h.now(),
			value: value{name, fmt.Sprintf("k%d", key), n, time.Now().UTC().Format(time.RFC3339Nano)},
		}
		r := &kgo.Record{Topic: topic, Partition: p.Partition, Key: []byte(name + s.Key), Value: s.value.bytes()}
		w.pending.Add(1)
		// Sending goes on by the client's own clock: a record given to it is
		// answered before it is closed.
		cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
			defer w.pending.Done()
			s.To = w.h.now()
			if err == nil {
				s.Verdict, s.Offset = acked, r.Offset
			} else {
				s.Err = err.Error()
				if loss := new(kgo.ErrDataLoss); errors.As(err, &loss) || errors.Is(err, kerr.OutOfOrderSequenceNumber) || errors.Is(err, kerr.InvalidProducerEpoch) {
					w.h.complain("producer %s, %s: %v", name, p, err)
				}
			}
			w.h.send(s)
		})
	}
}

// read follows all partitions from their start, with fetch sessions or without.
func (w *workload) read(ctx context.Context, name string, sessions bool) error {
	from := map[string]map[int32]kgo.Offset{}
	for topic, count := range w.parts {
		from[topic] = map[int32]kgo.Offset{}
		for p := range count {
			from[topic][int32(p)] = kgo.NewOffset().At(0)
		}
	}
	opts := append(brief(w.seeds), kgo.ConsumePartitions(from), kgo.FetchMaxWait(300*time.Millisecond), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if !sessions {
		opts = append(opts, kgo.DisableFetchSessions())
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	w.lookers.Go(func() {
		defer cl.Close()
		for ctx.Err() == nil {
			w.note(name, cl.PollFetches(ctx))
		}
	})
	return nil
}

// note keeps what was fetched.
func (w *workload) note(name string, fetches kgo.Fetches) {
	fetches.EachError(func(topic string, p int32, err error) {
		if loss := new(kgo.ErrDataLoss); errors.As(err, &loss) || errors.Is(err, kerr.OffsetOutOfRange) || errors.Is(err, kerr.CorruptMessage) {
			w.h.complain("%s, %s/%d: %v", name, topic, p, err)
		}
	})
	fetches.EachRecord(func(r *kgo.Record) {
		v, err := valueOf(r)
		if err != nil {
			w.h.complain("%s, %s/%d@%d: a value nobody sent: %v", name, r.Topic, r.Partition, r.Offset, err)
			return
		}
		w.h.see(seen{name, place{r.Topic, r.Partition}, found{v, r.Offset, r.LeaderEpoch}})
	})
}
