package group

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// readBytes is how much of a partition is read and applied at a time.
const readBytes = 1 << 20

// retryAfter is the pause before a partition that cannot be ready yet is looked
// at again; after errors it doubles up to retryMost.
const (
	retryAfter = 50 * time.Millisecond
	retryMost  = 5 * time.Second
)

// applier brings what is committed of the hosted partitions into the store, led
// and followed alike; it is the store's only writer.
//
// What was applied must be what the log holds. Both are compared by the epoch of
// the last applied record: at the start, after a change of role, and whenever a
// batch of a new epoch follows, for a log that was cut below the applied offset
// goes on in a new epoch. When they disagree the partition is dropped from the
// store and applied anew from the log start.
type applier struct {
	co *Coordinator

	mu    sync.Mutex
	dirty map[int32]bool
	wake  chan struct{}
	flush chan struct{}
	tails map[int32]*tail // run's own, guarded by mu for suspect
}

// tail is what the applier knows of a partition beyond the stored position.
type tail struct {
	trusted bool          // position and log were compared in this role
	epoch   offsets.Epoch // of the last batch seen since the start
	seen    bool
}

func newApplier(co *Coordinator) applier {
	return applier{
		co: co, dirty: map[int32]bool{}, tails: map[int32]*tail{},
		wake: make(chan struct{}, 1), flush: make(chan struct{}, 1),
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// poke makes the applier look at a partition.
func (a *applier) poke(partition int32) {
	a.mu.Lock()
	a.dirty[partition] = true
	a.mu.Unlock()
	signal(a.wake)
}

// suspect makes the applier compare a partition with its log again.
func (a *applier) suspect(partition int32) {
	a.mu.Lock()
	a.tail(partition).trusted = false
	a.dirty[partition] = true
	a.mu.Unlock()
	signal(a.wake)
}

func (a *applier) tail(partition int32) *tail {
	t := a.tails[partition]
	if t == nil {
		t = &tail{}
		a.tails[partition] = t
	}
	return t
}

func (a *applier) run() {
	retry := time.NewTimer(retryAfter)
	defer retry.Stop()
	retry.Stop()
	pause := retryAfter
	for {
		select {
		case <-a.co.ctx.Done():
			return
		case <-a.wake:
		case <-retry.C:
		}
		a.mu.Lock()
		dirty := a.dirty
		a.dirty = map[int32]bool{}
		a.mu.Unlock()
		again, failed := a.round(dirty)
		if failed {
			pause = min(2*pause, retryMost)
		} else {
			pause = retryAfter
		}
		if again {
			retry.Reset(pause)
		}
	}
}

func (a *applier) round(dirty map[int32]bool) (again, failed bool) {
	for partition := range dirty {
		done, err := a.partition(partition)
		if err != nil {
			failed = true
			a.co.config.Logger.Warn("offsets applier", "partition", partition, "error", err)
		}
		if err != nil || !done {
			a.mu.Lock()
			a.dirty[partition] = true
			a.mu.Unlock()
			again = true
		}
	}
	return again, failed
}

// partition applies all there is of one partition; done is false when it must
// be looked at again although nothing may move.
func (a *applier) partition(partition int32) (done bool, err error) {
	store, s := a.co.config.Store, a.co.shards[partition]
	for a.co.ctx.Err() == nil {
		// Asked before the read: all that counts was below the watermark then.
		settled := s.settled()
		at := store.Applied(partition)
		data, start, high, err := a.co.config.Read(partition, at.Offset, readBytes)
		switch {
		case err != nil && codeOf(err) == kerr.NotCoordinator.Code && !s.wanted():
			return true, nil // not hosted any more
		case err != nil:
			return false, fmt.Errorf("read at %d: %w", at.Offset, err)
		}
		agrees, known, err := a.agrees(partition, at, start, high, data)
		switch {
		case err != nil:
			return false, err
		case !known && !settled:
			return !s.wanted(), nil
		case !agrees: // also a leader's log that ends below: it is the truth
			a.rebuild(partition, at, start, high)
		case at.Offset < start: // nothing was applied, and the log has lost its beginning
			a.apply(partition, offsets.Position{Offset: start, Epoch: offsets.NoEpoch}, nil, nil)
		case at.Offset < high && len(data) == 0:
			return false, fmt.Errorf("nothing to read at %d below the high watermark %d", at.Offset, high)
		case at.Offset < high:
			if err := a.batches(partition, at, data); err != nil {
				return false, err
			}
			if store.Full() {
				if err := store.Flush(); err != nil {
					a.broken(err)
					return false, nil
				}
			}
		default:
			s.passed(at.Offset, nil)
			if !s.wanted() {
				return true, nil
			}
			if !settled {
				return false, nil
			}
			return true, s.load()
		}
	}
	return true, nil
}

// agrees compares the applied position with the log, where data is what follows.
// Known is false when the log does not reach so far.
func (a *applier) agrees(partition int32, at offsets.Position, start, high offsets.Offset, data []byte) (agrees, known bool, err error) {
	a.mu.Lock()
	trusted := a.tail(partition).trusted
	a.mu.Unlock()
	next, _, err := record.Split(data)
	crossing := err == nil && next.Epoch() != at.Epoch
	switch {
	case at.Offset == 0 || at.Epoch == offsets.NoEpoch && at.Offset == start:
		return true, true, nil // nothing was applied
	case at.Offset < start:
		return false, true, nil // what lies between is gone
	case trusted && !crossing:
		return true, true, nil
	case high < at.Offset:
		return false, false, nil
	}
	last, _, _, err := a.co.config.Read(partition, at.Offset-1, 1)
	if err != nil {
		return false, false, fmt.Errorf("compare at %d: %w", at.Offset-1, err)
	}
	b, _, err := record.Split(last)
	if err != nil {
		return false, false, fmt.Errorf("compare at %d: %w", at.Offset-1, err)
	}
	agrees = b.BaseOffset() < at.Offset && b.LastOffset() >= at.Offset-1 && b.Epoch() == at.Epoch
	a.mu.Lock()
	a.tail(partition).trusted = agrees
	a.mu.Unlock()
	return agrees, true, nil
}

func (a *applier) rebuild(partition int32, at offsets.Position, start, high offsets.Offset) {
	a.co.metrics.rebuilds.Add(1)
	a.co.config.Logger.Warn("applied offsets do not agree with the log; applying anew",
		"partition", partition, "applied", at.Offset, "epoch", at.Epoch, "logStart", start, "highWatermark", high)
	a.co.config.Store.Drop(partition)
	a.mu.Lock()
	a.tails[partition] = &tail{trusted: true} // by having applied nothing
	a.mu.Unlock()
	a.co.shards[partition].reload()
}

// batches applies what was read, as far as it is whole.
func (a *applier) batches(partition int32, at offsets.Position, data []byte) error {
	a.mu.Lock()
	t := a.tail(partition)
	a.mu.Unlock()
	var changes []offsets.Change
	var fresh []epochStart
	from := at.Offset
	for len(data) > 0 {
		b, rest, err := record.Split(data)
		if err != nil && at.Offset == from {
			return fmt.Errorf("batch at %d: %w", from, err)
		}
		if err != nil {
			break
		}
		data = rest
		if b.LastOffset() < from {
			continue
		}
		if !t.seen || t.epoch != b.Epoch() {
			fresh = append(fresh, epochStart{b.Epoch(), b.BaseOffset()})
			t.seen, t.epoch = true, b.Epoch()
		}
		changes = a.decode(changes, partition, from, b)
		at = offsets.Position{Offset: b.LastOffset() + 1, Epoch: b.Epoch()}
	}
	a.apply(partition, at, changes, fresh)
	return nil
}

func (a *applier) decode(changes []offsets.Change, partition int32, from offsets.Offset, b record.Batch) []offsets.Change {
	if b.IsControl() || b.IsTransactional() {
		return changes // transactional commits are not served yet, so none is written here
	}
	var it record.Iterator
	err := it.Reset(b)
	for err == nil && it.Next() {
		r := it.Record()
		if r.Offset < from {
			continue
		}
		c, ok, err := decodeRecord(r)
		if err != nil {
			a.skip(partition, r.Offset, err)
		} else if ok {
			changes = append(changes, c)
		}
	}
	if err = errors.Join(err, it.Err()); err != nil {
		a.skip(partition, b.BaseOffset(), err)
	}
	return changes
}

func (a *applier) skip(partition int32, at offsets.Offset, err error) {
	a.co.metrics.skipped.Add(1)
	a.co.config.Logger.Warn("record of the offsets topic passed over", "partition", partition, "offset", at, "error", err)
}

func (a *applier) apply(partition int32, at offsets.Position, changes []offsets.Change, fresh []epochStart) {
	a.co.config.Store.Apply(partition, at, changes)
	a.co.shards[partition].passed(at.Offset, fresh)
	signal(a.flush)
}

// flushes brings the store to disk some time after something was applied, or
// when much was.
func (a *applier) flushes() {
	done := a.co.ctx.Done()
	settings := &a.co.config.Settings
	due := time.NewTimer(settings.FlushEvery)
	due.Stop()
	waiting := false
	for {
		rows := 0
		select {
		case <-done:
			return
		case <-due.C:
			waiting = false
			rows = settings.FlushRows
		case <-a.flush:
			rows, _ = a.co.config.Store.Dirty()
		}
		if rows < settings.FlushRows {
			if !waiting && rows > 0 {
				waiting = true
				due.Reset(settings.FlushEvery)
			}
			continue
		}
		if err := a.co.config.Store.Flush(); err != nil {
			a.broken(err)
			waiting = true
			due.Reset(settings.FlushEvery)
		}
	}
}

// broken ends the process on an error of the disk, but for a full one: the
// overlay holds what was applied, and the log does too.
func (a *applier) broken(err error) {
	if errors.Is(err, syscall.ENOSPC) {
		a.co.config.Logger.Warn("offsets store not flushed", "error", err)
		return
	}
	a.co.config.Fail(err)
}
