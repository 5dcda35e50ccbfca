package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"

	"sawlog/broker/controller"
	"sawlog/broker/record"
	"sawlog/broker/replica"
	"sawlog/offsets"
)

// Journal is a compacted internal topic of one partition, as a list of keyed
// entries. It is bound to the leader epoch it was opened in: after a change of
// the leader every Append fails, and the owner must open and replay anew.
type Journal struct {
	broker    *Broker
	partition *replica.Partition
	epoch     offsets.Epoch
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
}

// replayBytes is how much of a journal is read at a time.
const replayBytes = 1 << 20

// ErrElsewhere tells that this broker does not lead a journal's partition.
var ErrElsewhere = errors.New("another broker leads it, or none does")

// Journal opens an internal topic, made on first use. It returns when all that
// is in the log by then is committed: what an earlier leader acknowledged, and
// what an earlier Append left undecided, is in the replay, or never will be.
func (b *Broker) Journal(ctx context.Context, name string) (*Journal, error) {
	if !isInternal(name) {
		return nil, fmt.Errorf("journal %s: not a topic of the broker's own", name)
	}
	t, err := b.ensureTopic(ctx, internalTopic(name))
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", name, err)
	}
	p := t.partition(0)
	if p == nil {
		return nil, fmt.Errorf("journal %s: %w", name, ErrElsewhere)
	}
	v, err := p.Check(offsets.NoEpoch)
	if err == nil {
		err = b.awaitCommit(ctx, p, replica.Ticket{Epoch: v.Epoch, End: p.Log().End()})
	}
	switch {
	case errors.Is(err, replica.ErrNotLeader), errors.Is(err, replica.ErrGone):
		return nil, fmt.Errorf("journal %s: %w", name, ErrElsewhere)
	case err != nil:
		return nil, fmt.Errorf("journal %s: %w", name, err)
	}
	j := &Journal{broker: b, partition: p, epoch: v.Epoch}
	j.ctx, j.cancel = context.WithCancel(b.ctx)
	return j, nil
}

// Close makes appends that wait for their commit give up: whether their entries
// are in the journal then, its next opening will tell.
func (j *Journal) Close() { j.cancel() }

// Epoch is the leader epoch the journal was opened in.
func (j *Journal) Epoch() offsets.Epoch { return j.epoch }

// JournalLeader is who leads a journal now, as this broker knows.
type JournalLeader struct {
	Node  offsets.BrokerID // NoBroker when nobody does
	Epoch offsets.Epoch
	Here  bool   // this broker
	HTTP  string // HOST:PORT it serves HTTP on; empty when it told none
}

// JournalLeader tells who leads a journal.
func (b *Broker) JournalLeader(name string) JournalLeader {
	none := JournalLeader{Node: offsets.NoBroker, Epoch: offsets.NoEpoch}
	t := b.topics.name([]byte(name))
	if t == nil || len(t.meta.Partitions) == 0 {
		return none
	}
	p := &t.meta.Partitions[0]
	l := JournalLeader{Node: p.Leader, Epoch: p.Epoch, Here: p.Leader == b.nodeID}
	if known, ok := b.controller.Image().Broker(p.Leader); ok {
		l.HTTP = endpoint(known, httpListener)
	}
	return l
}

// WatchJournals gives a channel that gets a token whenever the leader of a
// journal may have changed, until cancel is called.
func (b *Broker) WatchJournals() (moved <-chan struct{}, cancel func()) {
	return b.advances.journals.add()
}

// httpListener is the name under which a broker tells the address of its API.
const httpListener = "HTTP"

// endpoint is the address of a broker's listener; empty when it has none.
func endpoint(b *controller.Broker, listener string) string {
	for _, e := range b.Endpoints {
		if e.Listener == listener {
			return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
		}
	}
	return ""
}

// Seeds are addresses clients can start from: this broker's own first, for it is
// near, then those of all others that serve.
func (b *Broker) Seeds() []string {
	seeds := []string{b.Addr()}
	for _, other := range b.controller.Image().Brokers {
		if addr := endpoint(&other, clientListener); other.ID != b.nodeID && !other.Fenced && addr != "" {
			seeds = append(seeds, addr)
		}
	}
	return seeds
}

// Alone tells whether the cluster has no other broker, neither up nor down.
func (b *Broker) Alone() bool { return len(b.controller.Image().Brokers) <= 1 }

// watchers are channels that get a token when something may have changed.
type watchers struct {
	mu   sync.Mutex
	list map[chan struct{}]bool
}

func (w *watchers) add() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.list == nil {
		w.list = map[chan struct{}]bool{}
	}
	w.list[ch] = true
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.list, ch)
	}
}

func (w *watchers) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.list {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Append writes one entry and returns when it is committed. A nil value deletes
// the key.
func (j *Journal) Append(ctx context.Context, key, value []byte) error {
	w := record.NewBuilder(record.None, 0)
	w.Append(record.Record{Timestamp: nowMilli(), Key: key, Value: value})
	batch, err := w.Batch()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(j.ctx, cancel)()
	if j.ctx.Err() != nil {
		return errors.New("journal: closed")
	}
	_, _, err = j.broker.appendInternal(ctx, j.partition, batch, j.epoch)
	return err
}

// Replay calls fn for every committed entry in order, deletions included. The
// slices are fn's to keep.
func (j *Journal) Replay(ctx context.Context, fn func(key, value []byte) error) error {
	v, err := j.partition.Check(j.epoch)
	if err != nil {
		return err
	}
	for at := v.LogStart; at < v.HighWatermark; {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := j.partition.Log().ReadBytes(at, replayBytes, v.HighWatermark)
		if err != nil {
			return err
		}
		if len(data) == 0 {
			return nil
		}
		if at, err = replayBatches(data, at, fn); err != nil {
			return err
		}
	}
	return nil
}

// replayBatches hands out the entries from an offset on, and returns the offset
// after the last batch.
func replayBatches(data []byte, from offsets.Offset, fn func(key, value []byte) error) (offsets.Offset, error) {
	var it record.Iterator
	at := from
	for len(data) > 0 {
		batch, rest, err := record.Split(data)
		if err != nil {
			return at, err
		}
		data = rest
		if err := it.Reset(batch); err != nil {
			return at, err
		}
		for it.Next() {
			r := it.Record()
			if r.Offset < from {
				continue
			}
			if err := fn(slices.Clone(r.Key), slices.Clone(r.Value)); err != nil {
				return at, err
			}
		}
		if err := it.Err(); err != nil {
			return at, err
		}
		at = batch.LastOffset() + 1
	}
	if at <= from {
		return at, errors.New("journal: a read made no progress")
	}
	return at, nil
}
