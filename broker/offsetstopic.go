package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/broker/controller"
	"sawlog/broker/group"
	"sawlog/broker/log"
	"sawlog/broker/record"
	"sawlog/broker/replica"
	"sawlog/offsets"
)

const (
	offsetsTopic      = "__consumer_offsets"
	offsetsPartitions = 50
	offsetsSegment    = "104857600" // bytes
	jobsTopic         = "__sawlog_jobs"
)

// internalTopic is how a topic of the broker's own is made, on first use.
func internalTopic(name string) controller.NewTopic {
	t := controller.NewTopic{
		Name:              name,
		Partitions:        1,
		ReplicationFactor: -1,
		Internal:          true,
		Configs: map[string]string{
			"cleanup.policy":   "compact",
			"compression.type": "producer",
			"segment.bytes":    offsetsSegment,
		},
	}
	if name == offsetsTopic {
		t.Partitions = offsetsPartitions
	}
	return t
}

func isInternal(name string) bool { return name == offsetsTopic || name == jobsTopic }

// groupConfig joins the group coordinator to the partitions of its topic.
func (b *Broker) groupConfig() group.Config {
	part := func(partition int32) *replica.Partition {
		if t := b.topics.name([]byte(offsetsTopic)); t != nil {
			return t.partition(partition)
		}
		return nil
	}
	return group.Config{
		Partitions: offsetsPartitions,
		Append: func(ctx context.Context, partition int32, epoch offsets.Epoch, batch record.Batch) (offsets.Offset, error) {
			p := part(partition)
			if p == nil {
				return 0, replicaError(replica.ErrNotLeader)
			}
			first, _, err := b.appendInternal(ctx, p, batch, epoch)
			return first, replicaError(err)
		},
		View: func(partition int32) (group.View, bool) {
			if p := part(partition); p != nil {
				return groupView(p), true
			}
			return group.View{}, false
		},
		Read: func(partition int32, from, below offsets.Offset, maxBytes int) ([]byte, error) {
			p := part(partition)
			if p == nil {
				return nil, replica.ErrNotLeader
			}
			return p.Log().ReadBytes(from, maxBytes, below)
		},
		EpochAt: func(partition int32, at offsets.Offset) offsets.Epoch {
			if p := part(partition); p != nil {
				return epochAt(p.Log(), at)
			}
			return offsets.NoEpoch
		},
		Leased: func() bool { return b.controller.Leased() },
		TopicExists: func(tp offsets.TopicPartition) bool {
			t := b.topics.name([]byte(tp.Topic))
			return t != nil && tp.Partition >= 0 && int(tp.Partition) < len(t.meta.Partitions)
		},
		TopicID: func(name string) (offsets.TopicID, bool) {
			if t := b.topics.name([]byte(name)); t != nil {
				return t.meta.ID, true
			}
			return offsets.TopicID{}, false
		},
		TopicName: func(id offsets.TopicID) (string, bool) {
			if t := b.topics.id(id); t != nil {
				return t.meta.Name, true
			}
			return "", false
		},
		Store:    b.store,
		Logger:   b.config.Logger,
		Fail:     b.fail,
		Settings: b.config.groupSettings(),
	}
}

// groupView is a replica of the offsets topic as the coordinator sees it.
func groupView(p *replica.Partition) group.View {
	// Asked first: the watermark of the view is then one that has got there.
	_, epoch, err := p.Latest(offsets.NoEpoch, false)
	v := p.View()
	return group.View{
		Leads: v.Leads, Epoch: v.Epoch, Settled: err == nil && v.Leads && v.Epoch == epoch,
		LogStart: v.LogStart, HighWatermark: v.HighWatermark, LogEnd: p.Log().End(),
	}
}

// epochAt is the leader epoch of a record. A log whose epochs were lost with a
// damaged file knows them from its batches alone.
func epochAt(l *log.Log, at offsets.Offset) offsets.Epoch {
	if epoch := l.EpochAt(at); epoch != offsets.NoEpoch {
		return epoch
	}
	data, err := l.ReadBytes(at, 1, l.End())
	if err != nil {
		return offsets.NoEpoch
	}
	b, _, err := record.Split(data)
	if err != nil {
		return offsets.NoEpoch
	}
	return b.Epoch()
}

// replicaError gives an error the Kafka code that the coordinator translates.
func replicaError(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", kerr.ErrorForCode(appendCode(err)), err)
}

// appendInternal writes a batch of the broker's own with acks=all, and returns
// when it is committed.
func (b *Broker) appendInternal(ctx context.Context, p *replica.Partition, batch record.Batch, epoch offsets.Epoch) (offsets.Offset, replica.Ticket, error) {
	results, ticket, err := p.Append([]record.Batch{batch}, replica.Append{All: true, Epoch: epoch, Now: nowMilli(), Internal: true})
	if err != nil {
		return 0, ticket, err
	}
	return results[0].First, ticket, b.awaitCommit(ctx, p, ticket)
}

// awaitCommit waits until an append is committed.
func (b *Broker) awaitCommit(ctx context.Context, p *replica.Partition, t replica.Ticket) error {
	w := make(wakeChan, 1)
	p.Await(w, t)
	defer p.Unawait(w, t)
	for {
		if done, err := p.Committed(t); done || err != nil {
			return err
		}
		select {
		case <-w:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wakeChan is a replica.Waiter of capacity 1.
type wakeChan chan struct{}

func (w wakeChan) Wake(int64) {
	select {
	case w <- struct{}{}:
	default:
	}
}

// advanced is told each new high watermark of a partition; only the offsets
// topic's are of interest.
func (b *Broker) advanced(meta *controller.Topic, partition int32) func(offsets.Offset) {
	if meta.Name != offsetsTopic {
		return nil
	}
	return func(high offsets.Offset) { b.advances.note(partition, high) }
}

// resign ends the terms of the group coordinator that a change of its topic
// ends. It comes before the replicas learn of the change: who waits for a commit
// of an old epoch must have heard that it is over before a high watermark of the
// next one is told.
func (b *Broker) resign(t *topic) {
	if t.meta.Name != offsetsTopic {
		return
	}
	for i := range t.meta.Partitions {
		m := &t.meta.Partitions[i]
		p := t.partition(m.Index)
		if p == nil || m.Leader != b.nodeID || p.View().Epoch < m.Epoch {
			b.groups.Resigned(m.Index)
		}
	}
}

// elect tells the group coordinator which partitions of its topic this broker
// leads now, and which it has no replica of any more.
func (b *Broker) elect(t *topic) {
	if t.meta.Name == jobsTopic {
		b.advances.journals.tell()
	}
	if t.meta.Name != offsetsTopic {
		return
	}
	for i, p := range t.partitions {
		if p == nil {
			continue
		}
		v := p.View()
		if v.Leads {
			b.groups.Elected(int32(i), v.Epoch)
		} else {
			b.groups.Resigned(int32(i))
		}
		b.advances.note(int32(i), v.HighWatermark)
	}
	if b.advances.judged.Load() {
		b.leaveBuckets(t.meta)
	}
}

// judgeBuckets drops what is stored of partitions of the offsets topic that this
// broker hosts no more. As with logs, an image that may be an old one is no
// judge: it is called once the present one is known, and from then on each
// change is judged by itself.
func (b *Broker) judgeBuckets() {
	b.topics.changing.Lock()
	defer b.topics.changing.Unlock()
	b.advances.judged.Store(true)
	if t := b.topics.name([]byte(offsetsTopic)); t != nil {
		b.leaveBuckets(t.meta)
	} else {
		b.unhost(offsetsTopic)
	}
}

// leaveBuckets drops the stored offsets of the partitions that an image places
// elsewhere.
func (b *Broker) leaveBuckets(meta *controller.Topic) {
	for i := range meta.Partitions {
		if p := &meta.Partitions[i]; !slices.Contains(p.Replicas, b.nodeID) {
			b.groups.Left(p.Index)
		}
	}
}

// unhost tells the group coordinator that a topic is gone.
func (b *Broker) unhost(name string) {
	if name != offsetsTopic {
		return
	}
	for partition := range int32(offsetsPartitions) {
		b.groups.Left(partition)
	}
}

// topicDeleted makes the coordinator forget a topic's offsets, off the
// controller's goroutine: the tombstones are appends.
func (b *Broker) topicDeleted(name string) {
	b.wg.Go(func() {
		b.groups.TopicDeleted(name)
	})
}

// advances carries high watermarks to the group coordinator. They move inside
// the coordinator's own appends too, where it can't be called back: so they are
// noted, and told by a goroutine of their own.
type advances struct {
	tell func(int32, offsets.Offset)
	wake chan struct{}
	done chan struct{}
	stop chan struct{}

	judged   atomic.Bool // the image is known to be the present one
	journals watchers    // of leaders of journals

	mu    sync.Mutex
	moved map[int32]offsets.Offset
}

func newAdvances(tell func(int32, offsets.Offset)) *advances {
	a := &advances{
		tell:  tell,
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
		stop:  make(chan struct{}),
		moved: map[int32]offsets.Offset{},
	}
	go a.run()
	return a
}

func (a *advances) note(partition int32, high offsets.Offset) {
	a.mu.Lock()
	a.moved[partition] = max(a.moved[partition], high)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *advances) run() {
	defer close(a.done)
	for {
		select {
		case <-a.wake:
		case <-a.stop:
			return
		}
		a.mu.Lock()
		moved := a.moved
		a.moved = map[int32]offsets.Offset{}
		a.mu.Unlock()
		for partition, high := range moved {
			a.tell(partition, high)
		}
	}
}

func (a *advances) close() {
	close(a.stop)
	<-a.done
}
