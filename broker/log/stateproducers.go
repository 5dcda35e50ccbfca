package log

import (
	"fmt"
	"maps"
	"slices"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// keptBatches is how many batches of a producer are remembered: as many as a
// client may have in flight.
const keptBatches = 5

// produced is one remembered batch.
type produced struct {
	last    offsets.Offset // last offset
	delta   int32          // last offset less base offset
	lastSeq int32
	time    int64 // greatest timestamp, ms
}

func (p produced) base() offsets.Offset { return p.last - offsets.Offset(p.delta) }
func (p produced) firstSeq() int32 {
	return int32((int64(p.lastSeq) - int64(p.delta)) & 0x7fffffff)
}

// noTxn stands where no transaction is open, noCoordinator where none has ended.
const (
	noTxn         = offsets.Offset(-1)
	noCoordinator = int32(-1)
)

// producer is what a log knows of one producer id. batches[:n] are its last
// batches of this epoch, oldest first.
type producer struct {
	epoch            int16
	n                int8
	coordinatorEpoch int32
	batches          [keptBatches]produced
	txnFirst         offsets.Offset // first offset of the open transaction, or noTxn
	lastTime         int64          // ms, of the last batch or marker
	seen             int64          // broker's time of the last batch in ms: what expires
}

// producers is the idempotence state of one log. Its zero value is empty.
type producers struct {
	byID map[int64]*producer
	open int // transactions
}

// undo is what put back brings back.
type undo struct {
	id    int64
	known bool
	was   producer
}

// check compares a batch of a client with what its producer wrote before. A
// duplicate answers the batch it repeats. empty tells that the partition never
// held a record: there, an unknown producer must begin with sequence 0, for
// otherwise what it wrote before has been lost.
func (ps *producers) check(b record.Batch, empty bool) (dup *produced, err error) {
	id, epoch, first := b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	p := ps.byID[id]
	if p == nil {
		if empty && first != 0 {
			return nil, fmt.Errorf("%w: producer %d begins at %d in an empty partition", ErrOutOfOrderSequence, id, first)
		}
		return nil, nil
	}
	if epoch == p.epoch {
		for i := range p.batches[:p.n] {
			if k := &p.batches[i]; k.firstSeq() == first && k.lastSeq == b.LastSequence() {
				return k, nil
			}
		}
	}
	if epoch < p.epoch {
		return nil, fmt.Errorf("%w: producer %d epoch %d, have %d", ErrInvalidProducerEpoch, id, epoch, p.epoch)
	}
	want := int32(0) // also after a marker alone: it began the epoch
	if epoch == p.epoch && p.n > 0 {
		want = int32((int64(p.batches[p.n-1].lastSeq) + 1) & 0x7fffffff)
	}
	if first != want {
		return nil, fmt.Errorf("%w: producer %d epoch %d sent %d, want %d", ErrOutOfOrderSequence, id, epoch, first, want)
	}
	return nil, nil
}

// apply takes note of a batch that is in the log with its final offsets. It
// returns what put needs to take that back.
func (ps *producers) apply(b record.Batch, now int64) undo {
	id := b.ProducerID()
	p := ps.byID[id]
	back := undo{id: id, known: p != nil}
	if p == nil {
		p = &producer{epoch: b.ProducerEpoch(), coordinatorEpoch: noCoordinator, txnFirst: noTxn}
		if ps.byID == nil {
			ps.byID = map[int64]*producer{}
		}
		ps.byID[id] = p
	} else {
		back.was = *p
	}
	if p.epoch != b.ProducerEpoch() {
		p.epoch, p.n = b.ProducerEpoch(), 0
	}
	p.lastTime, p.seen = b.MaxTimestamp(), now
	if b.IsControl() {
		ps.end(p)
		return back
	}
	if p.n == keptBatches {
		copy(p.batches[:], p.batches[1:])
		p.n--
	}
	p.batches[p.n] = produced{b.LastOffset(), b.LastOffsetDelta(), b.LastSequence(), b.MaxTimestamp()}
	p.n++
	if b.IsTransactional() && p.txnFirst == noTxn {
		p.txnFirst = b.BaseOffset()
		ps.open++
	}
	return back
}

// end closes a producer's transaction.
func (ps *producers) end(p *producer) {
	if p.txnFirst != noTxn {
		p.txnFirst = noTxn
		ps.open--
	}
}

// put undoes an apply; several are undone youngest first.
func (ps *producers) put(back undo) {
	p := ps.byID[back.id]
	if p.txnFirst != noTxn {
		ps.open--
	}
	if !back.known {
		delete(ps.byID, back.id)
		return
	}
	*p = back.was
	if p.txnFirst != noTxn {
		ps.open++
	}
}

// before is the state without what may yet be taken back.
func (ps *producers) before(backs []undo) *producers {
	if len(backs) == 0 {
		return ps
	}
	out := producers{byID: maps.Clone(ps.byID), open: ps.open}
	for _, back := range backs {
		p := *ps.byID[back.id]
		out.byID[back.id] = &p
	}
	for _, back := range slices.Backward(backs) {
		out.put(back)
	}
	return &out
}

// firstUnstable is the first offset of the oldest open transaction.
func (ps *producers) firstUnstable() (offsets.Offset, bool) {
	if ps.open == 0 {
		return 0, false
	}
	first, found := offsets.Offset(0), false
	for _, p := range ps.byID {
		if p.txnFirst != noTxn && (!found || p.txnFirst < first) {
			first, found = p.txnFirst, true
		}
	}
	return first, found
}

// expire forgets producers without open transaction not seen since a time.
func (ps *producers) expire(before int64) int {
	n := 0
	for id, p := range ps.byID {
		if p.txnFirst == noTxn && p.seen < before {
			delete(ps.byID, id)
			n++
		}
	}
	if len(ps.byID) == 0 {
		ps.byID = nil
	}
	return n
}

// ids are the producer ids in ascending order.
func (ps *producers) ids() []int64 {
	ids := make([]int64, 0, len(ps.byID))
	for id := range ps.byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
