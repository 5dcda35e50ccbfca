package record

import "sawlog/offsets"

// Iterator walks the records of a batch. It may be Reset to one batch after
// the other and then allocates nothing, once its buffers have grown.
type Iterator struct {
	// MaxDecompressed caps the decompressed size of a batch in bytes; 0 is
	// DefaultMaxDecompressed.
	MaxDecompressed int

	unpacker
	batch      Batch
	body       []byte
	pos        int
	i          int
	count      int
	appendTime bool // all records have the batch's time
	frame      frame
	rec        Record
	err        error
}

// Reset begins with a batch. The error, which Err returns as well, tells that
// the batch cannot be decompressed; Next then is false. The CRC is not checked.
func (it *Iterator) Reset(b Batch) error {
	it.batch, it.pos, it.i, it.count = b, 0, 0, 0
	it.appendTime = b.LogAppendTime()
	if it.body, it.err = it.unpack(b, it.MaxDecompressed); it.err == nil {
		it.count = int(b.Count())
	}
	return it.err
}

// Next goes to the next record.
func (it *Iterator) Next() bool {
	if it.err != nil {
		return false
	}
	if it.i >= it.count {
		if it.pos != len(it.body) {
			it.err = at(ErrCorrupt, it.batch, it.i, errTrailing)
		}
		return false
	}
	f := &it.frame
	var err error
	if !f.quick(it.body, it.pos) {
		err = f.next(it.body, it.pos)
	}
	if err == nil && (f.offsetDelta < 0 || f.offsetDelta > int(it.batch.LastOffsetDelta())) {
		err = errDeltaRange
	}
	if err != nil {
		it.err = at(ErrCorrupt, it.batch, it.i, err)
		return false
	}
	it.rec.Offset = it.batch.BaseOffset() + offsets.Offset(f.offsetDelta)
	it.rec.Timestamp = it.batch.BaseTimestamp() + f.timestampDelta
	if it.appendTime {
		it.rec.Timestamp = it.batch.MaxTimestamp()
	}
	it.rec.Key = part(it.body, f.key, f.keyLen)
	it.rec.Value = part(it.body, f.value, f.valLen)
	it.rec.Headers = it.rec.Headers[:0]
	pos := f.headers
	for range f.headerCount {
		var h Header
		size, n := varint32(it.body[pos:])
		h.Key = part(it.body, pos+n, size)
		pos += n + size
		size, n = varint32(it.body[pos:])
		h.Value = part(it.body, pos+n, size)
		pos += n + max(size, 0)
		it.rec.Headers = append(it.rec.Headers, h)
	}
	it.pos = f.end
	it.i++
	return true
}

// Record is the present record; it and its slices are valid until Next or
// Reset.
func (it *Iterator) Record() *Record { return &it.rec }

// Err tells why Next was false before the end of the batch.
func (it *Iterator) Err() error { return it.err }

func part(b []byte, pos, n int) []byte {
	if n < 0 {
		return nil
	}
	return b[pos : pos+n : pos+n]
}
