package log

import (
	"errors"
	"fmt"
	"io"
	"os"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// The indexes are not needed to be right, only to be fast: Kafka's layouts have
// no checksum, so nothing in them is believed before the batches agree. An entry
// that is used is compared with the batch it points at; a closed segment's ends
// are compared once, before its greatest timestamp is. What does not fit is made
// anew out of the batches, and comes out byte for byte as it was first written.

// errIndex tells that an index is not that of its batches.
var errIndex = errors.New("index does not belong to the batches")

// suspect has the indexes of a segment made anew soon.
func (s *segment) suspect(why string) {
	if f := s.log.disk.flusher; f != nil && !s.suspected.Swap(true) { // recovery looks for itself
		s.log.disk.config.Logger.Warn("index is damaged; it is made anew", "path", s.name(indexSuffix), "why", why)
		f.mend(s.log)
	}
}

// mend makes the indexes anew that readers have found damaged.
func (l *Log) mend() error {
	l.flushMu.Lock() // a flush writes indexes
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.disk.failed.Load() {
		return nil
	}
	for i, s := range l.view.segments {
		if !s.suspected.Load() {
			continue
		}
		s.suspected.Store(false)
		if err := s.rebuild(l.view.limit(i), i < len(l.view.segments)-1); err != nil {
			return l.broken("make index anew", roomless(err))
		}
	}
	return nil
}

// check compares both ends of a closed segment's indexes with the batches, and
// makes the indexes anew where they differ. The log's mu is held, or nobody else
// knows the log.
func (s *segment) check() error {
	if s.size == 0 {
		return nil
	}
	err := s.agrees(true)
	if errors.Is(err, errIndex) || errors.Is(err, record.ErrCorrupt) {
		s.log.disk.config.Logger.Warn("index is damaged; it is made anew", "path", s.name(indexSuffix), "why", err)
		err = s.rebuild(s.size, true)
	}
	return err
}

// believed is how many bytes of batches are looked at for a time that is greater
// than the last one of the time index.
const believed = 4 << 20

// agrees tells whether the last entries are right and none after them is
// missing. A time index that lost its end shows only in the batches after the
// one it then ends with; when those are many, it is believed.
func (s *segment) agrees(closed bool) error {
	for _, x := range []*index{&s.index, &s.times} {
		if odd, err := x.odd(s); err != nil || odd {
			return errors.Join(err, fmt.Errorf("%w: it ends in a part of an entry", errIndex))
		}
	}
	last, _, err := s.index.last(s) // the first batch, when there is none
	if err != nil {
		return err
	}
	if err := s.agreesEntry(last); err != nil {
		return err
	}
	t, timed, err := s.times.last(s)
	if err != nil {
		return err
	}
	from := int64(0)
	if !timed {
		t.key = record.NoTimestamp
	} else if from, err = s.agreesTime(t, s.size); err != nil {
		return err
	}
	if last.value-from > believed {
		from = last.value
	}
	marked := marks{interval: s.log.config.Load().IndexInterval}
	return s.headers(min(from, last.value), s.size, func(b header) error {
		if b.pos >= last.value && marked.missing(b.Batch) {
			return fmt.Errorf("%w: no entry for byte %d", errIndex, b.pos)
		}
		if b.MaxTimestamp() > t.key && (closed || b.pos <= last.value && last.value > 0) {
			return fmt.Errorf("%w: time %d is not the greatest", errIndex, t.key)
		}
		return nil
	})
}

// agreesEntry tells whether an index entry points at the batch it names.
func (s *segment) agreesEntry(e entry) error {
	if e == (entry{}) {
		return nil
	}
	err := errIndex
	if 0 <= e.value && e.value < s.size {
		err = s.headers(e.value, s.size, func(b header) error {
			if b.pos == e.value && b.LastOffset() == s.base+offsets.Offset(e.key) {
				return io.EOF
			}
			return errIndex
		})
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("%w: no batch of offset %d at byte %d", errIndex, s.base+offsets.Offset(e.key), e.value))
}

// agreesTime tells whether a time index entry is that of the batch it names, and
// where that is.
func (s *segment) agreesTime(t entry, limit int64) (pos int64, err error) {
	at := s.base + offsets.Offset(t.value)
	fits := false
	err = s.walk(at, limit, func(b header) error {
		pos, fits = b.pos, b.LastOffset() == at && b.MaxTimestamp() == t.key
		return io.EOF
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if !fits {
		return 0, fmt.Errorf("%w: time %d is not that of offset %d", errIndex, t.key, at)
	}
	return pos, nil
}

// marks counts as segment.mark does, to tell where an entry should stand.
type marks struct{ interval, since int }

// missing takes note of a batch and tells whether there should have been an
// entry for it. It is not asked about the batch an entry points at.
func (m *marks) missing(b record.Batch) bool {
	lacks := m.since >= max(m.interval, 1)
	m.since += b.Size()
	return lacks
}

// rebuild makes both indexes of a segment anew out of its batches. Damage is
// stepped over. The log's mu is held, or nobody else knows the log.
func (s *segment) rebuild(limit int64, closed bool) error {
	scan, err := s.scan(limit, scanChunk)
	if err != nil {
		return err
	}
	defer scan.done()
	fresh := newSegment(s.log, s.base)
	interval := s.log.config.Load().IndexInterval
	damaged := s.log.look().damaged
	next := s.base
	for pos := int64(0); ; {
		pos = s.skipDamage(damaged, pos)
		head, err := scan.header(pos)
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, record.ErrCorrupt) {
			at, ok, rerr := scan.resync(pos, next)
			if rerr != nil {
				return rerr
			}
			if !ok {
				break
			}
			pos = at
			continue
		}
		if err != nil {
			return err
		}
		fresh.mark(head, pos, interval)
		pos += int64(head.Size())
		next = head.LastOffset() + 1
	}
	if closed {
		fresh.markTime()
	}
	if err := s.index.replace(s, fresh.index.pending); err != nil {
		return err
	}
	if err := s.times.replace(s, fresh.times.pending); err != nil {
		return err
	}
	s.maxTime, s.maxTimeAt, s.sinceMark, s.marked = fresh.maxTime, fresh.maxTimeAt, fresh.sinceMark, fresh.marked
	return nil
}

// odd tells whether the file ends in a part of an entry.
func (x *index) odd(s *segment) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f, err := x.open(s, 0)
	if err != nil || f == nil {
		return false, err
	}
	defer x.slot.release()
	st, err := x.slot.file.Stat()
	if err != nil {
		return false, err
	}
	return st.Size() != int64(x.written)*int64(x.width()), nil
}

// replace puts other entries in the place of all there are, and syncs them.
func (x *index) replace(s *segment, entries []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, err := x.open(s, os.O_CREATE); err != nil {
		return err
	}
	defer x.slot.release()
	f := x.slot.file
	if _, err := f.WriteAt(entries, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(entries))); err != nil {
		return err
	}
	x.written, x.pending = int32(len(entries)/x.width()), nil
	return f.Sync()
}
