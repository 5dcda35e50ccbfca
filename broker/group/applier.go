package group

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"syscall"
	"time"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// readBytes is how much of a partition is read and applied in one step.
const readBytes = 1 << 20

// retryAfter is the pause before a partition that cannot go on yet is looked at
// again; after errors it doubles up to retryMost.
const (
	retryAfter = 50 * time.Millisecond
	retryMost  = 5 * time.Second
)

// applier brings what is committed of the hosted partitions into the store, led
// and followed alike; it is the store's only writer.
//
// What was applied must be what the log holds: at every step the epoch of the
// last applied record is compared with the epoch the log knows for its offset.
// Offset and epoch together name one record for ever, and with it all before it.
// When they disagree, the log was cut below the applied offset (an unclean
// election, a log made anew): the partition is dropped from the store and
// applied again from the log start. So nobody has to tell of a cut.
//
// One step at a time: a partition that waits to answer goes first, then those
// that answer already, then those that are only followed.
type applier struct {
	co *Coordinator

	mu    sync.Mutex
	dirty map[int32]bool
	left  map[int32]bool // no more hosted: to be dropped
	wake  chan struct{}
	flush chan struct{}

	turns map[int32]uint64 // run's own: when a partition had its last step
	turn  uint64
	later map[int32]*delay // run's own
}

// delay is when a partition is looked at again.
type delay struct {
	due   time.Time
	pause time.Duration
}

func newApplier(co *Coordinator) applier {
	return applier{
		co: co, dirty: map[int32]bool{}, left: map[int32]bool{},
		turns: map[int32]uint64{}, later: map[int32]*delay{},
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

// leave makes the applier drop a partition, unless it is hosted again by then.
func (a *applier) leave(partition int32) {
	a.mu.Lock()
	a.left[partition] = true
	a.mu.Unlock()
	a.poke(partition)
}

func (a *applier) run() {
	retry := time.NewTimer(retryAfter)
	defer retry.Stop()
	for {
		if partition, ok := a.pick(); ok && a.co.ctx.Err() == nil {
			a.step(partition)
			continue
		}
		retry.Reset(a.nextRetry())
		select {
		case <-a.co.ctx.Done():
			return
		case <-a.wake:
		case <-retry.C:
		}
	}
}

// nextRetry is how long there is nothing to look at again.
func (a *applier) nextRetry() time.Duration {
	wait := time.Hour
	for _, d := range a.later {
		wait = min(wait, time.Until(d.due))
	}
	return wait
}

// pick takes the most urgent of the partitions to look at; among equals the one
// whose last turn is longest ago.
func (a *applier) pick() (best int32, ok bool) {
	now := time.Now()
	a.mu.Lock()
	for partition, d := range a.later {
		if !d.due.After(now) {
			a.dirty[partition] = true
		}
	}
	dirty := maps.Clone(a.dirty)
	a.mu.Unlock()
	bestRank := 0
	for partition := range dirty {
		rank := a.co.shards[partition].rank()
		if !ok || rank > bestRank || rank == bestRank && a.turns[partition] < a.turns[best] {
			best, bestRank, ok = partition, rank, true
		}
	}
	if ok {
		a.turn++
		a.turns[best] = a.turn
		a.mu.Lock()
		delete(a.dirty, best)
		a.mu.Unlock()
	}
	return best, ok
}

// outcome is what is to be done with a partition after a step.
type outcome uint8

const (
	done  outcome = iota // nothing until something moves
	again                // there is more to do
	wait                 // to be looked at again soon, although nothing may move
)

func (a *applier) step(partition int32) {
	what, err := a.advance(partition)
	if err != nil {
		a.co.config.Logger.Warn("offsets applier", "partition", partition, "error", err)
	}
	before := a.later[partition]
	delete(a.later, partition)
	switch {
	case err != nil && before != nil:
		pause := min(2*before.pause, retryMost)
		a.later[partition] = &delay{time.Now().Add(pause), pause}
	case err != nil || what == wait:
		a.later[partition] = &delay{time.Now().Add(retryAfter), retryAfter}
	case what == again:
		a.poke(partition)
	}
}

// advance takes a partition one step on: applies what was read at once, or
// drops it, or opens its shard when all that counts is applied.
func (a *applier) advance(partition int32) (outcome, error) {
	store, s := a.co.config.Store, a.co.shards[partition]
	// Asked before anything is read: when the watermark is known to cover all
	// that was ever acknowledged, so does the view that is taken after it.
	term, epoch, loads := s.opening()
	v, hosted := a.co.config.View(partition)
	a.mu.Lock()
	drop := a.left[partition] && !hosted
	delete(a.left, partition)
	a.mu.Unlock()
	if !hosted {
		if drop && store.Applied(partition).Offset > 0 {
			store.Drop(partition)
		}
		return done, nil
	}
	settled := loads && v.Settled && v.Epoch == epoch
	at := store.Applied(partition)
	var data []byte
	var err error
	if high := v.HighWatermark; v.LogStart <= at.Offset && at.Offset < high {
		if !a.room(v.Leads) {
			return wait, nil
		}
		if data, err = a.co.config.Read(partition, at.Offset, high, readBytes); err != nil {
			return wait, fmt.Errorf("read at %d: %w", at.Offset, err)
		}
	}
	switch agrees, known := a.agrees(partition, at, v); {
	case !known && !settled:
		return idle(loads), nil
	case !agrees: // also a leader's log that ends below: it is the truth
		a.rebuild(partition, at, v)
		return again, nil
	case at.Offset < v.LogStart: // nothing was applied, and the log has lost its beginning
		a.apply(partition, offsets.Position{Offset: v.LogStart, Epoch: offsets.NoEpoch}, nil)
		return again, nil
	case at.Offset < v.HighWatermark && len(data) == 0:
		return wait, fmt.Errorf("nothing to read at %d below the high watermark %d", at.Offset, v.HighWatermark)
	case at.Offset < v.HighWatermark:
		return again, a.batches(partition, at, data)
	}
	s.passed(at.Offset)
	if !settled {
		return idle(loads), nil
	}
	return done, s.load(term)
}

// idle is the outcome of a step that could do nothing: a shard that waits to
// answer looks again by itself.
func idle(loads bool) outcome {
	if loads {
		return wait
	}
	return done
}

// room tells whether more may be applied. Partitions that are only followed
// wait for the store's flush when the overlay is full; commits of those led
// here go on until it holds twice as much.
func (a *applier) room(leads bool) bool {
	store := a.co.config.Store
	if !store.Full() {
		return true
	}
	signal(a.flush)
	if !leads {
		return false
	}
	if store.Overfull() {
		if err := store.Flush(); err != nil {
			a.broken(err)
			return false
		}
	}
	return true
}

// agrees compares the applied position with the log. Known is false while the
// log does not reach so far.
func (a *applier) agrees(partition int32, at offsets.Position, v View) (agrees, known bool) {
	switch {
	case at.Offset == 0 || at.Epoch == offsets.NoEpoch && at.Offset == v.LogStart:
		return true, true // nothing was applied
	case at.Offset < v.LogStart:
		return false, true // what lies between is gone
	case at.Offset > v.LogEnd:
		return false, false
	default:
		return a.co.config.EpochAt(partition, at.Offset-1) == at.Epoch, true
	}
}

func (a *applier) rebuild(partition int32, at offsets.Position, v View) {
	a.co.metrics.rebuilds.Add(1)
	a.co.config.Logger.Warn("applied offsets do not agree with the log; applying anew",
		"partition", partition, "applied", at.Offset, "epoch", at.Epoch, "logStart", v.LogStart, "highWatermark", v.HighWatermark)
	a.co.config.Store.Drop(partition)
	a.co.shards[partition].reload()
}

// batches applies what was read, as far as it is whole.
func (a *applier) batches(partition int32, at offsets.Position, data []byte) error {
	var changes []offsets.Change
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
		changes = a.decode(changes, partition, from, b)
		at = offsets.Position{Offset: b.LastOffset() + 1, Epoch: b.Epoch()}
	}
	a.apply(partition, at, changes)
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

func (a *applier) apply(partition int32, at offsets.Position, changes []offsets.Change) {
	a.co.config.Store.Apply(partition, at, changes)
	a.co.shards[partition].passed(at.Offset)
	signal(a.flush)
}

// flushes brings the store to disk some time after something was applied, or
// when much was.
func (a *applier) flushes() {
	done := a.co.ctx.Done()
	store, settings := a.co.config.Store, &a.co.config.Settings
	due := time.NewTimer(settings.FlushEvery)
	due.Stop()
	waiting := false
	for {
		now := false
		select {
		case <-done:
			return
		case <-due.C:
			waiting, now = false, true
		case <-a.flush:
		}
		rows, _ := store.Dirty()
		if !now && rows < settings.FlushRows && !store.Full() {
			if !waiting && rows > 0 {
				waiting = true
				due.Reset(settings.FlushEvery)
			}
			continue
		}
		if err := store.Flush(); err != nil {
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
