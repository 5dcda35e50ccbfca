package log

import (
	"errors"
	"io"
	"slices"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// span is a segment as a time lookup sees it.
type span struct {
	segment *segment
	limit   int64
	end     offsets.Offset
	maxTime int64
}

// spans takes the segments and their greatest timestamps.
func (l *Log) spans() (start, end offsets.Offset, out []span, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view
	out = make([]span, len(v.segments))
	for i, s := range slices.Backward(v.segments) { // the active one first, while it is as in view
		t, err := s.greatest()
		if err != nil {
			return 0, 0, nil, err
		}
		out[i] = span{s, v.limit(i), v.endOf(i), t}
		if i%64 == 0 { // appends need not wait until all are looked at
			l.mu.Unlock()
			l.mu.Lock()
		}
	}
	return v.start, v.end, out, nil
}

// OffsetForTime finds the first record below end whose timestamp is at least
// ts, looking inside of batches, with its timestamp and leader epoch. Damaged
// batches are passed over.
func (l *Log) OffsetForTime(ts int64, end offsets.Offset) (at offsets.Offset, t int64, epoch offsets.Epoch, found bool, err error) {
	for range maxLooks {
		at, t, epoch, found, err = l.offsetForTime(ts, end)
		if !errors.Is(err, errGone) {
			break
		}
	}
	return at, t, epoch, found, l.wrap("look up time", err)
}

func (l *Log) offsetForTime(ts int64, end offsets.Offset) (at offsets.Offset, t int64, epoch offsets.Epoch, found bool, err error) {
	start, _, spans, err := l.spans()
	if err != nil {
		return 0, 0, 0, false, err
	}
	for _, sp := range spans {
		if sp.maxTime < ts || sp.end <= start {
			continue
		}
		if sp.segment.base >= end {
			break
		}
		at, t, epoch, found, err = sp.first(ts, start, end)
		if err != nil {
			return 0, 0, 0, false, l.discover(err, sp.segment, sp.limit, noOffset, sp.end)
		}
		if found {
			return at, t, epoch, true, nil
		}
	}
	return 0, 0, 0, false, nil
}

// noOffset is below every damage: who looks things up wants to pass it.
const noOffset = offsets.Offset(-1)

// MaxTimestampOffset finds the first record below end that has the greatest
// timestamp.
func (l *Log) MaxTimestampOffset(end offsets.Offset) (at offsets.Offset, t int64, epoch offsets.Epoch, found bool, err error) {
	for _, exact := range []bool{false, true} {
		greatest := int64(record.NoTimestamp)
		for range maxLooks {
			greatest, err = l.greatestBelow(end, exact)
			if !errors.Is(err, errGone) {
				break
			}
		}
		if err != nil || greatest == record.NoTimestamp {
			return 0, 0, 0, false, l.wrap("look up greatest time", err)
		}
		if at, t, epoch, found, err = l.OffsetForTime(greatest, end); err != nil || found {
			break
		}
	}
	return at, t, epoch, found, err
}

// greatestBelow is the greatest timestamp below an offset. That of a segment
// may be of records that compaction removed, all of a batch but its header:
// with exact the batches are looked at instead.
func (l *Log) greatestBelow(end offsets.Offset, exact bool) (int64, error) {
	start, logEnd, spans, err := l.spans()
	if err != nil {
		return 0, err
	}
	greatest := int64(record.NoTimestamp)
	for _, sp := range spans {
		switch {
		case sp.end <= start || sp.segment.base >= end || sp.maxTime <= greatest:
		case !exact && sp.segment.base >= start && (sp.end <= end || end >= logEnd):
			greatest = sp.maxTime
		default:
			// Cut by start or end: the greatest may lie outside, so look.
			err := sp.segment.walk(max(sp.segment.base, start), sp.limit, func(b header) error {
				if b.BaseOffset() >= end {
					return io.EOF
				}
				if b.Count() == 0 {
					return nil
				}
				if b.LastOffset() < end && b.BaseOffset() >= start {
					greatest = max(greatest, b.MaxTimestamp())
					return nil
				}
				return sp.segment.records(b.pos, sp.limit, func(r *record.Record) bool {
					if start <= r.Offset && r.Offset < end {
						greatest = max(greatest, r.Timestamp)
					}
					return true
				})
			})
			if err != nil && !errors.Is(err, io.EOF) {
				return 0, l.discover(err, sp.segment, sp.limit, noOffset, sp.end)
			}
		}
	}
	return greatest, nil
}

// first finds the first record of the segment at or after a time.
func (sp *span) first(ts int64, start, end offsets.Offset) (at offsets.Offset, t int64, epoch offsets.Epoch, found bool, err error) {
	s := sp.segment
	from := max(start, s.base)
	if e, ok, err := s.times.floor(s, ts, false); err != nil {
		return 0, 0, 0, false, err
	} else if ok {
		switch _, err := s.agreesTime(e, sp.limit); {
		case err == nil:
			from = max(from, s.base+offsets.Offset(e.value))
		case errors.Is(err, errIndex), errors.Is(err, record.ErrCorrupt):
			s.suspect(err.Error())
		default:
			return 0, 0, 0, false, err
		}
	}
	err = s.walk(from, sp.limit, func(b header) error {
		if b.BaseOffset() >= end {
			return io.EOF
		}
		if b.MaxTimestamp() < ts {
			return nil
		}
		epoch = b.Epoch()
		err := s.records(b.pos, sp.limit, func(r *record.Record) bool {
			if r.Timestamp >= ts && r.Offset >= start && r.Offset < end {
				at, t, found = r.Offset, r.Timestamp, true
			}
			return !found
		})
		if err == nil && found {
			return io.EOF
		}
		return err
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return at, t, epoch, found, err
}

// header is the header of a batch and its position in the segment.
type header struct {
	record.Batch
	pos int64
}

// walk calls fn for the headers of the batches from the one that holds an
// offset on; damage the log knows of is stepped over.
func (s *segment) walk(from offsets.Offset, limit int64, fn func(b header) error) error {
	pos, _, found, err := s.position(from, limit)
	if err != nil || !found {
		return err
	}
	return s.headers(pos, limit, fn)
}

// headers calls fn for the headers of the batches from a byte on until it
// returns an error.
func (s *segment) headers(pos, limit int64, fn func(b header) error) error {
	scan, err := s.scan(limit, scanChunk)
	if err != nil {
		return err
	}
	defer scan.done()
	damaged := s.log.look().damaged
	for {
		pos = s.skipDamage(damaged, pos)
		head, err := scan.header(pos)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return s.corrupt(pos, err)
		}
		size := int64(head.Size()) // fn may read on and invalidate head
		if err := fn(header{head, pos}); err != nil {
			return err
		}
		pos += size
	}
}

// records calls fn for the records of one batch until it returns false.
func (s *segment) records(pos, limit int64, fn func(r *record.Record) bool) error {
	scan, err := s.scan(limit, scanChunk)
	if err != nil {
		return err
	}
	defer scan.done()
	b, err := scan.batch(pos)
	if err != nil {
		return s.corrupt(pos, err)
	}
	if err := b.CheckCRC(); err != nil {
		return s.corrupt(pos, err)
	}
	var it record.Iterator
	if err := it.Reset(b); err != nil {
		return s.corrupt(pos, err)
	}
	for it.Next() {
		if !fn(it.Record()) {
			return nil
		}
	}
	return s.corrupt(pos, it.Err())
}
