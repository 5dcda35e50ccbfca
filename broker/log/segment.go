package log

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// segment is one file of batches and its two indexes. The last segment of a
// log is the active one: only it grows, under the log's mu. How far a segment
// may be read comes from a view, never from here.
type segment struct {
	log  *Log
	base offsets.Offset
	size int64 // bytes written; of the active one only under the log's mu

	data  slot
	index index
	times index

	// made under the log's mu by appends and recovery; fixed in closed segments
	maxTime   int64          // greatest timestamp, unknownTime until asked for
	maxTimeAt offsets.Offset // last offset of the first batch that has it
	created   int64          // broker's time of the first append in ms, 0 = unknown
	allocated int64          // bytes reserved on disk
	sinceMark int            // bytes since the last index entry
	marked    int64          // timestamp of the last time index entry, unknownTime until there is one

	nameSynced bool // the folder was synced with this segment's name in it
	indexDone  bool // closed, indexes written and synced

	suspected atomic.Bool // a reader has found the indexes to be wrong
}

// unknownTime stands for a greatest timestamp that was not looked up yet.
const unknownTime = int64(-1) << 63

func newSegment(l *Log, base offsets.Offset) *segment {
	s := &segment{log: l, base: base, maxTime: record.NoTimestamp, marked: unknownTime}
	s.times.time = true
	return s
}

// name is the path of one of its files.
func (s *segment) name(suffix string) string { return s.log.file(offsetName(s.base, suffix)) }

// open opens the batches' file; the caller gives s.data back.
func (s *segment) open(flag int) (vfs.File, error) {
	return s.log.disk.files.take(&s.data, func() string { return s.name(logSuffix) }, flag)
}

// mark takes note of a batch that was written at pos: index entries and the
// greatest timestamp.
func (s *segment) mark(b record.Batch, pos int64, interval int) {
	if t := b.MaxTimestamp(); t > s.maxTime {
		s.maxTime, s.maxTimeAt = t, b.LastOffset()
	}
	if s.sinceMark >= interval {
		s.index.mu.Lock()
		s.index.add(entry{int64(b.LastOffset() - s.base), pos})
		s.index.mu.Unlock()
		s.markTime()
		s.sinceMark = 0
	}
	s.sinceMark += b.Size()
}

// markTime adds the greatest timestamp so far when it is news.
func (s *segment) markTime() {
	if s.maxTime == record.NoTimestamp || s.maxTime <= s.marked {
		return
	}
	s.times.mu.Lock()
	defer s.times.mu.Unlock()
	s.times.add(entry{s.maxTime, int64(s.maxTimeAt - s.base)})
	s.marked = s.maxTime
}

// writeIndexes writes the waiting entries of both indexes.
func (s *segment) writeIndexes(sync bool) error {
	if s.size == 0 {
		return nil
	}
	if err := s.index.write(s, sync); err != nil {
		return err
	}
	return s.times.write(s, sync)
}

// position finds the batch that holds offset at, or the first one after it:
// its position and base offset. At the end of the segment it returns limit and
// found false. Damage the log knows of is stepped over. A batch in whose middle
// the offset lies must be whole: else its last offset may be wrong, and whoever
// steps over its records one by one would be led astray.
func (s *segment) position(at offsets.Offset, limit int64) (pos int64, base offsets.Offset, found bool, err error) {
	var e entry
	indexed := false
	if at <= s.base {
		at = s.base
	} else if e, indexed, err = s.index.floor(s, int64(at-s.base), false); err != nil {
		return 0, 0, false, err
	}
	scan, err := s.scan(limit, scanChunk)
	if err != nil {
		return 0, 0, false, err
	}
	defer scan.done()
	if indexed && 0 <= e.value && e.value < limit {
		head, err := scan.header(e.value)
		switch {
		case err == nil && head.LastOffset() == s.base+offsets.Offset(e.key):
			pos = e.value
		case err == nil || errors.Is(err, record.ErrCorrupt):
			s.suspect("an entry points at no batch")
		}
	} else if indexed && e.value < 0 {
		s.suspect("an entry points nowhere")
	}
	damaged := s.log.look().damaged
	passed := marks{interval: s.log.config.Load().IndexInterval}
	for {
		pos = s.skipDamage(damaged, pos)
		head, err := scan.header(pos)
		if errors.Is(err, io.EOF) {
			return limit, 0, false, nil
		}
		if err != nil {
			return 0, 0, false, s.corrupt(pos, err)
		}
		if passed.missing(head) && head.LastOffset() <= at {
			s.suspect("an entry is missing")
		}
		if head.LastOffset() >= at {
			base := head.BaseOffset()
			switch {
			case at > base:
				err = scan.whole(pos)
			case at < base && at > s.base:
				err = s.jumps(scan, pos, head)
			}
			return pos, base, true, s.corrupt(pos, err)
		}
		pos += int64(head.Size())
	}
}

// jumps tells whether the offsets of a batch behind a gap fit what follows it:
// no CRC is over the offset of a batch.
func (s *segment) jumps(scan *scanner, pos int64, head record.Batch) error {
	last := head.LastOffset()
	follow, err := scan.header(pos + int64(head.Size()))
	switch {
	case err == nil && follow.BaseOffset() <= last:
		return errBackward
	case errors.Is(err, io.EOF):
		v := s.log.look()
		if i := slices.Index(v.segments, s); i >= 0 && last >= v.endOf(i) {
			return errBackward
		}
	}
	return nil // what follows is judged when it is read
}

// cutAt finds the end of the last whole batch that ends at or before target,
// starting at the batch boundary from, and the base offset of what follows.
// first is the end of the first batch.
func (s *segment) cutAt(from, target, limit int64) (cut, first int64, next offsets.Offset, err error) {
	scan, err := s.scan(limit, scanChunk)
	if err != nil {
		return 0, 0, 0, err
	}
	defer scan.done()
	head, err := scan.header(from)
	if err != nil {
		return 0, 0, 0, s.corrupt(from, err)
	}
	pos := from + int64(head.Size())
	first, next = pos, head.LastOffset()+1
	if pos >= target {
		return pos, first, next, nil
	}
	if e, ok, err := s.index.floor(s, target, true); err != nil {
		return 0, 0, 0, err
	} else if ok && e.value > pos && e.value < limit {
		if head, err := scan.header(e.value); err == nil && head.LastOffset() == s.base+offsets.Offset(e.key) {
			pos, next = e.value, head.BaseOffset()
		}
	}
	for pos < target {
		head, err := scan.header(pos)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, 0, 0, s.corrupt(pos, err)
		}
		if pos+int64(head.Size()) > target {
			break
		}
		pos += int64(head.Size())
		next = head.LastOffset() + 1
	}
	return pos, first, next, nil
}

// corrupt says where damage is; errors of the disk stay what they are.
func (s *segment) corrupt(pos int64, err error) error {
	if errors.Is(err, record.ErrCorrupt) {
		return &CorruptError{Path: s.name(logSuffix), Pos: pos, Err: err}
	}
	return err
}

// greatest is the greatest timestamp of a segment; the log's mu is held, or
// the segment closed and its time known.
func (s *segment) greatest() (int64, error) {
	if s.maxTime == unknownTime {
		if err := s.check(); err != nil {
			return 0, err
		}
	}
	if s.maxTime == unknownTime {
		if err := s.lastTime(); err != nil {
			return 0, err
		}
	}
	return s.maxTime, nil
}

// modified is when the batches' file was last written, in ms.
func (s *segment) modified() (int64, error) {
	st, err := s.log.disk.fs.Stat(s.name(logSuffix))
	if err != nil {
		return 0, err
	}
	return st.ModTime().UnixMilli(), nil
}

// lastTime takes the greatest timestamp from the last time index entry.
func (s *segment) lastTime() error {
	e, ok, err := s.times.last(s)
	if err != nil {
		return err
	}
	s.maxTime, s.marked = record.NoTimestamp, unknownTime
	if ok {
		s.maxTime, s.marked, s.maxTimeAt = e.key, e.key, s.base+offsets.Offset(e.value)
	}
	return nil
}

// doom lets go of the open files; the names are gone or about to go.
func (s *segment) doom() {
	for _, slot := range []*slot{&s.data, &s.index.slot, &s.times.slot} {
		s.log.disk.files.doom(slot)
	}
}

// remove deletes the files; what is open stays readable until it is released.
func (s *segment) remove() error {
	s.doom()
	for _, suffix := range []string{timeSuffix, indexSuffix, logSuffix} {
		if err := s.log.disk.fs.Remove(s.name(suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// clearIndexes begins both indexes anew.
func (s *segment) clearIndexes() error {
	for _, x := range []*index{&s.index, &s.times} {
		s.log.disk.files.doom(&x.slot)
		x.slot.doomed.Store(false)
		x.known, x.made, x.written, x.pending = true, false, 0, nil
		if err := s.log.disk.fs.Remove(s.name(x.suffix())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	s.sinceMark, s.marked = 0, unknownTime
	return nil
}
