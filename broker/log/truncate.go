package log

import (
	"errors"
	"os"

	"sawlog/offsets"
)

// Truncate removes the batches that hold offsets from to on, so that End is at
// most to, and Start at most End. Below the start it is Reset. It survives a power cut when it
// returns: what was cut off does not come back behind what is written next.
func (l *Log) Truncate(to offsets.Offset) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	if to >= l.view.end {
		return nil
	}
	if to < 0 {
		return l.wrap("truncate", &ErrOffsetOutOfRange{to, l.view.start, l.view.end})
	}
	if to < l.view.start {
		return l.broken("truncate", l.reset(to))
	}
	return l.broken("truncate", l.truncate(to))
}

func (l *Log) truncate(to offsets.Offset) error {
	i := l.view.holder(to)
	s := l.view.segments[i]
	pos, end, err := l.boundary(i, to)
	if err != nil {
		return err
	}
	if end < s.base { // into damage before the first segment
		return l.restart(end, l.epochs)
	}
	if err := l.lower(end); err != nil {
		return err
	}
	gone := l.view.segments[i+1:]
	kept := l.view.segments[: i+1 : i+1]
	l.publish(func(v *view) {
		v.segments, v.start, v.end, v.size = kept, min(v.start, end), end, pos
		v.damaged = keepDamage(v.damaged, func(d damage) bool { return d.segment.base < end && d.from < end })
	})
	l.logged = min(l.logged, end)
	l.rewind()
	for j := len(gone) - 1; j >= 0; j-- {
		if err := gone[j].remove(); err != nil {
			return err
		}
	}
	if err := s.truncate(pos, end); err != nil {
		return err
	}
	dropped, err := l.dropSnapshots(func(o offsets.Offset) bool { return o > end })
	if err != nil {
		return err
	}
	if len(gone)+dropped > 0 { // what is gone must not come back behind what is written next
		if err := l.disk.fs.SyncDir(l.path); err != nil {
			return err
		}
	}
	l.epochs = l.epochs.cutEnd(end)
	if len(l.producers.byID) == 0 {
		return nil
	}
	return l.reloadProducers(end)
}

// boundary is where segment i must be cut so that nothing from to on remains,
// and the log end that makes.
func (l *Log) boundary(i int, to offsets.Offset) (pos int64, end offsets.Offset, err error) {
	s := l.view.segments[i]
	for _, d := range l.view.damaged {
		if d.segment == s && d.from <= to && to < d.next {
			return d.pos, d.from, nil
		}
	}
	pos, base, found, err := s.position(to, l.view.limit(i))
	var corrupt *CorruptError
	if errors.As(err, &corrupt) { // unknown damage before the cut: cut there
		d, err := s.explore(corrupt.Pos, l.view.limit(i), l.view.endOf(i))
		return d.pos, d.from, err
	}
	if err != nil {
		return 0, 0, err
	}
	if !found {
		return pos, to, nil
	}
	return pos, min(to, base), nil
}

// lower takes the recovery point back before bytes below it change.
func (l *Log) lower(end offsets.Offset) error {
	below := l.RecoveryPoint() > end
	if err := l.disk.cleaned.lower(l.key(), end); err != nil {
		return err
	}
	if err := l.disk.journal.write(below || end < l.logged, journalEntry{journalEnd, l.key(), 0, end}); err != nil {
		return err
	}
	if below {
		l.recovery.Store(int64(end))
		l.cut = true
	}
	return nil
}

// truncate cuts the segment's files; from here on it is the active one.
func (s *segment) truncate(pos int64, end offsets.Offset) error {
	f, err := s.open(os.O_CREATE)
	if err != nil {
		return err
	}
	defer s.data.release()
	if err := f.Truncate(pos); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	s.size, s.allocated, s.indexDone = pos, 0, false
	if err := s.index.cut(s, func(e entry) bool { return e.value < pos }); err != nil {
		return err
	}
	rel := int64(end - s.base)
	if err := s.times.cut(s, func(e entry) bool { return e.value < rel }); err != nil {
		return err
	}
	return s.recount()
}

// recount finds the greatest timestamp again after the end was cut off: from
// the last time index entry, and the batches after it.
func (s *segment) recount() error {
	if err := s.lastTime(); err != nil {
		return err
	}
	e, from, err := s.lastMark()
	if err != nil {
		return err
	}
	s.sinceMark = int(s.size - e.value)
	return s.walk(from, s.size, func(b header) error {
		if t := b.MaxTimestamp(); t > s.maxTime {
			s.maxTime, s.maxTimeAt = t, b.LastOffset()
		}
		return nil
	})
}

// lastMark is the last index entry and the offset it stands for; without one,
// the begin of the segment.
func (s *segment) lastMark() (e entry, from offsets.Offset, err error) {
	e, ok, err := s.index.last(s)
	if err != nil || !ok {
		return entry{}, s.base, err
	}
	return e, s.base + offsets.Offset(e.key), nil
}

// Reset removes all records and starts the log anew at an offset, as a follower
// must whose leader no longer has what would come next.
func (l *Log) Reset(to offsets.Offset) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	if to < 0 {
		return l.wrap("reset", &ErrOffsetOutOfRange{to, l.view.start, l.view.end})
	}
	return l.broken("reset", l.reset(to))
}

func (l *Log) reset(to offsets.Offset) error {
	if err := l.disk.cleaned.lower(l.key(), to); err != nil {
		return err
	}
	// The journal comes first: a start beyond the end means "begin there".
	err := l.disk.journal.write(true,
		journalEntry{journalEnd, l.key(), 0, min(to, l.view.start)},
		journalEntry{journalStart, l.key(), 0, to})
	if err != nil {
		return err
	}
	l.recovery.Store(int64(min(to, l.RecoveryPoint())))
	l.cut, l.logged = true, to
	old := l.view.segments
	l.epochs, l.producers, l.dirtied = nil, producers{}, 0
	fresh := newSegment(l, to)
	l.publish(func(v *view) {
		*v = view{segments: []*segment{fresh}, start: to, end: to, gen: v.gen}
	})
	l.rewind()
	for j := len(old) - 1; j >= 0; j-- {
		if err := old[j].remove(); err != nil {
			return err
		}
	}
	if _, err := l.dropSnapshots(func(offsets.Offset) bool { return true }); err != nil {
		return err
	}
	if err := l.disk.fs.SyncDir(l.path); err != nil {
		return err
	}
	f, err := fresh.open(os.O_CREATE)
	if err != nil {
		return err
	}
	defer fresh.data.release()
	if err := f.Truncate(0); err != nil {
		return err
	}
	l.recovery.Store(int64(to))
	return nil
}

// DeleteBefore makes to the log's start, for good when it returns, and deletes
// the closed segments below it. A start at or below the present one changes
// nothing. What is not yet synced below to is synced first, so that the log
// never ends before its start.
func (l *Log) DeleteBefore(to offsets.Offset) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if to > l.RecoveryPoint() && to <= l.End() {
		if err := l.flushHeld(false); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.wrap("delete records", ErrClosed)
	}
	if to <= l.view.start {
		return nil
	}
	if to > l.view.end {
		return l.wrap("delete records", &ErrOffsetOutOfRange{to, l.view.start, l.view.end})
	}
	return l.broken("delete records", l.deleteBefore(to))
}

func (l *Log) deleteBefore(to offsets.Offset) error {
	// The journal comes first: should a deletion be undone by a power cut, the
	// segments are deleted again at start.
	if err := l.disk.journal.write(true, journalEntry{journalStart, l.key(), 0, to}); err != nil {
		return err
	}
	l.logged = to
	n := 0
	for n < len(l.view.segments)-1 && l.view.segments[n+1].base <= to {
		n++
	}
	if n > 0 {
		if err := l.keepProducers(l.view.segments[n].base); err != nil {
			return err
		}
	}
	gone := l.view.segments[:n]
	l.publish(func(v *view) {
		v.segments, v.start = v.segments[n:], to
		v.damaged = keepDamage(v.damaged, func(d damage) bool { return d.next > to && d.segment.base >= v.segments[0].base })
	})
	l.epochs = l.epochs.cutStart(to)
	for _, s := range gone {
		if err := s.remove(); err != nil {
			return err
		}
	}
	if n == 0 {
		return nil
	}
	first := l.view.segments[0].base
	_, err := l.dropSnapshots(func(o offsets.Offset) bool { return o < first })
	return err
}

func keepDamage(in []damage, keep func(damage) bool) []damage {
	var out []damage
	for _, d := range in {
		if keep(d) {
			out = append(out, d)
		}
	}
	return out
}

// dropSnapshots removes the producer snapshots of which drop is true.
func (l *Log) dropSnapshots(drop func(offsets.Offset) bool) (n int, err error) {
	names, err := l.snapshots()
	if err != nil {
		return 0, err
	}
	for _, o := range names {
		if !drop(o) {
			continue
		}
		err := l.disk.fs.Remove(l.file(offsetName(o, snapshotSuffix)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return n, err
		}
		n++
	}
	return n, nil
}

// snapshots are the offsets of the snapshots there are, ascending.
func (l *Log) snapshots() ([]offsets.Offset, error) {
	entries, err := l.disk.fs.ReadDir(l.path)
	if err != nil {
		return nil, err
	}
	var out []offsets.Offset
	for _, e := range entries {
		if o, ok := parseOffsetName(e.Name(), snapshotSuffix); ok {
			out = append(out, o)
		}
	}
	return out, nil
}
