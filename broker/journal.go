package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
}

// replayBytes is how much of a journal is read at a time.
const replayBytes = 1 << 20

// Journal opens an internal topic, made on first use.
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
		return nil, fmt.Errorf("journal %s: %w", name, replica.ErrNotLeader)
	}
	v, err := p.Check(offsets.NoEpoch)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", name, err)
	}
	return &Journal{broker: b, partition: p, epoch: v.Epoch}, nil
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
