package log

import (
	"sawlog/broker/record"
	"sawlog/offsets"
)

// aborted is a transaction that was aborted: the offset of its first record and
// that of its marker.
type aborted struct {
	producer    int64
	first, last offsets.Offset
}

// cleanTxns follows the transactions while compaction walks over a log. It says
// which data was aborted, and which markers end transactions of which nothing
// is left.
type cleanTxns struct {
	aborted []aborted      // not yet come by, by ascending first
	running map[int64]bool // producers within an aborted transaction: data of it was seen
	data    map[int64]bool // producers with other data of a transaction, or a header of it
}

// reach takes in the aborted transactions that begin at or before an offset.
func (t *cleanTxns) reach(at offsets.Offset) {
	for len(t.aborted) > 0 && t.aborted[0].first <= at {
		if t.running == nil {
			t.running = map[int64]bool{}
		}
		t.running[t.aborted[0].producer] = false
		t.aborted = t.aborted[1:]
	}
}

// drop passes a batch of data and tells whether it was aborted.
func (t *cleanTxns) drop(b record.Batch) bool {
	if !b.IsTransactional() {
		return false
	}
	t.reach(b.LastOffset())
	id := b.ProducerID()
	if _, ok := t.running[id]; ok {
		t.running[id] = true
		return true
	}
	if t.data == nil {
		t.data = map[int64]bool{}
	}
	t.data[id] = true
	return false
}

// marker passes the end of a transaction and tells whether nothing of that
// transaction is left before it, not even a header: then the marker may go in
// its time. Sooner, recovery would take the transaction for open.
func (t *cleanTxns) marker(b record.Batch) (empty bool) {
	t.reach(b.LastOffset())
	id := b.ProducerID()
	empty = !t.data[id] && !t.running[id]
	delete(t.data, id)
	delete(t.running, id)
	return empty
}

// lastBatch tells what a producer wrote last: the offset of its last data, or
// none and the epoch of its last marker.
type lastBatch struct {
	offset offsets.Offset // −1: only markers are known
	epoch  int16
}

// cleanRules are what compaction goes by in one pass.
type cleanRules struct {
	now     int64          // ms
	horizon int64          // ms: tombstones met for the first time may go then
	end     offsets.Offset // what is at or behind it is not in the map
	latest  *latestMap
	last    map[int64]lastBatch // of producers that are remembered
}

// outlived tells whether a batch's delete horizon has passed.
func (c *cleanRules) outlived(b record.Batch) bool {
	return b.HasDeleteHorizon() && b.BaseTimestamp() <= c.now
}

// names tells whether a batch is the last its producer wrote, by which the next
// sequence is known after a restart or by a new follower.
func (c *cleanRules) names(b record.Batch) bool {
	if b.ProducerID() < 0 {
		return false
	}
	last, ok := c.last[b.ProducerID()]
	if !ok {
		return false
	}
	if last.offset < 0 {
		return b.IsControl() && last.epoch == b.ProducerEpoch()
	}
	return last.offset == b.LastOffset()
}

// wants tells whether a record of a batch that is not dropped stays: it does
// unless a younger one of its key is known, it is a tombstone that has had its
// time, or it has no key at all.
func (c *cleanRules) wants(key []byte, at offsets.Offset, tombstone, outlived bool) bool {
	if at >= c.end {
		return true
	}
	if key == nil {
		return false
	}
	if latest, ok := c.latest.get(key); ok && at < latest {
		return false
	}
	return !tombstone || !outlived
}

// lastBatches notes what producers wrote last.
func (ps *producers) lastBatches() map[int64]lastBatch {
	out := make(map[int64]lastBatch, len(ps.byID))
	for id, p := range ps.byID {
		last := lastBatch{offset: -1, epoch: p.epoch}
		if p.n > 0 {
			last.offset = p.batches[p.n-1].last
		}
		out[id] = last
	}
	return out
}
