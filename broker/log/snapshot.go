package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// snapshotVersion is Kafka's version of producer snapshots.
const snapshotVersion = 1

// Sizes of a snapshot's parts.
const (
	snapshotHead  = 2 + 4 + 4
	snapshotEntry = 8 + 2 + 4 + 8 + 4 + 8 + 4 + 8
	seenEntry     = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errSnapshot = errors.New("producer snapshot is damaged")

// encodeSnapshot writes the producers in Kafka's format. Kafka keeps the last
// batch of a producer only; here an entry for each remembered batch follows,
// oldest first, so that a reader of the same id ends with the youngest. Behind
// the entries, where Kafka reads no further, stands when each was last seen.
func encodeSnapshot(ps *producers) []byte {
	b := make([]byte, snapshotHead, snapshotHead+len(ps.byID)*snapshotEntry)
	count := 0
	for _, id := range ps.ids() {
		p := ps.byID[id]
		one := func(k produced, time int64) {
			b = binary.BigEndian.AppendUint64(b, uint64(id))
			b = binary.BigEndian.AppendUint16(b, uint16(p.epoch))
			b = binary.BigEndian.AppendUint32(b, uint32(k.lastSeq))
			b = binary.BigEndian.AppendUint64(b, uint64(k.last))
			b = binary.BigEndian.AppendUint32(b, uint32(k.delta))
			b = binary.BigEndian.AppendUint64(b, uint64(time))
			b = binary.BigEndian.AppendUint32(b, uint32(p.coordinatorEpoch))
			b = binary.BigEndian.AppendUint64(b, uint64(p.txnFirst))
			count++
		}
		for _, k := range p.batches[:p.n] {
			one(k, k.time)
		}
		if p.n == 0 {
			one(produced{last: -1, lastSeq: record.NoSequence}, p.lastTime)
		}
	}
	for _, id := range ps.ids() {
		b = binary.BigEndian.AppendUint64(b, uint64(ps.byID[id].seen))
	}
	binary.BigEndian.PutUint16(b, snapshotVersion)
	binary.BigEndian.PutUint32(b[6:], uint32(count))
	binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
	return b
}

// decodeSnapshot reads a snapshot at a time. Of one that does not say when its
// producers were last seen, that time is taken.
func decodeSnapshot(b []byte, now int64) (producers, error) {
	var ps producers
	rest, err := walkSnapshot(b, func(id int64, epoch int16, coordinatorEpoch int32, k produced, txnFirst offsets.Offset) {
		p := ps.byID[id]
		if p == nil {
			if ps.byID == nil {
				ps.byID = map[int64]*producer{}
			}
			p = &producer{epoch: epoch, txnFirst: noTxn}
			ps.byID[id] = p
		}
		if p.epoch != epoch {
			p.epoch, p.n = epoch, 0
		}
		if p.txnFirst == noTxn && txnFirst != noTxn {
			ps.open++
		}
		p.coordinatorEpoch, p.txnFirst, p.lastTime, p.seen = coordinatorEpoch, txnFirst, k.time, now
		if k.lastSeq == record.NoSequence {
			return
		}
		if p.n == keptBatches {
			copy(p.batches[:], p.batches[1:])
			p.n--
		}
		p.batches[p.n] = k
		p.n++
	})
	if err != nil {
		return producers{}, err
	}
	switch ids := ps.ids(); len(rest) {
	case 0:
	case len(ids) * seenEntry:
		for i, id := range ids {
			ps.byID[id].seen = min(now, int64(binary.BigEndian.Uint64(rest[i*seenEntry:])))
		}
	default:
		return producers{}, fmt.Errorf("%w: %d bytes behind the entries of %d producers", errSnapshot, len(rest), len(ids))
	}
	return ps, nil
}

// walkSnapshot calls fn for each entry of a sound snapshot, and returns what
// follows the entries.
func walkSnapshot(b []byte, fn func(id int64, epoch int16, coordinatorEpoch int32, k produced, txnFirst offsets.Offset)) (rest []byte, err error) {
	if len(b) < snapshotHead {
		return nil, fmt.Errorf("%w: %d bytes", errSnapshot, len(b))
	}
	if v := binary.BigEndian.Uint16(b); v != snapshotVersion {
		return nil, fmt.Errorf("%w: version %d", errSnapshot, v)
	}
	if want, got := binary.BigEndian.Uint32(b[2:]), crc32.Checksum(b[6:], castagnoli); want != got {
		return nil, fmt.Errorf("%w: crc %08x, computed %08x", errSnapshot, want, got)
	}
	count := int64(binary.BigEndian.Uint32(b[6:]))
	b = b[snapshotHead:]
	if int64(len(b)) < count*snapshotEntry {
		return nil, fmt.Errorf("%w: %d bytes for %d entries", errSnapshot, len(b), count)
	}
	for range count {
		be := binary.BigEndian
		k := produced{
			lastSeq: int32(be.Uint32(b[10:])), last: offsets.Offset(be.Uint64(b[14:])),
			delta: int32(be.Uint32(b[22:])), time: int64(be.Uint64(b[26:])),
		}
		fn(int64(be.Uint64(b)), int16(be.Uint16(b[8:])), int32(be.Uint32(b[34:])), k, offsets.Offset(be.Uint64(b[38:])))
		b = b[snapshotEntry:]
	}
	return b, nil
}
