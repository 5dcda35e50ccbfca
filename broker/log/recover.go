package log

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// Recovery of one log.
//
// After a clean stop the checkpoint names the log's end; the tail of the last
// segment is walked from its last index entry to see that this is true, and
// nothing else is read. Otherwise:
//
//  1. The recovery point is the lower of the checkpoint's and any end the
//     journal says the log was cut to. Below it every byte was synced.
//  2. Segments are walked from the one that holds the recovery point, or the
//     youngest sound producer snapshot below it, whichever is older: headers
//     below the recovery point, whole batches with CRC above. Indexes, epochs,
//     producers and timestamps are made anew on the way.
//  3. At a bad batch the walk looks for the next whole batch whose offsets go
//     on. When there is one, in this segment or as the first of the next, the
//     bytes between are kept as damage: reads answer CorruptError there, and
//     whoever has another copy may Truncate. When there is none, the log ends
//     here: the bytes from here on, unless all zero, are saved with the suffix
//     .cut and cut off, and so are later segments.
//
// Nothing found above the recovery point counts as synced: the recovery point
// moves with the next flush.

// found is what a log's folder holds.
type found struct {
	bases     []offsets.Offset
	sizes     map[offsets.Offset]int64
	indexes   map[offsets.Offset]int64 // size of .index
	times     map[offsets.Offset]int64 // size of .timeindex
	snapshots []offsets.Offset         // ascending
	staged    []string                 // files of compaction
}

// indexed tells whether a closed segment has indexes that may be right. The
// time index of a segment with batches has an entry, unless they have no time.
func (f *found) indexed(s *segment) bool {
	offsets, ok := f.indexes[s.base]
	times := f.times[s.base]
	return s.size == 0 || ok && offsets%8 == 0 && times > 0 && times%12 == 0
}

func (l *Log) list() (found, error) {
	out := found{
		sizes: map[offsets.Offset]int64{}, indexes: map[offsets.Offset]int64{}, times: map[offsets.Offset]int64{},
	}
	entries, err := l.disk.fs.ReadDir(l.path)
	if err != nil {
		return out, err
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil {
			return out, err
		}
		if base, ok := parseOffsetName(e.Name(), logSuffix); ok {
			out.bases = append(out.bases, base)
			out.sizes[base] = st.Size()
		} else if base, ok := parseOffsetName(e.Name(), indexSuffix); ok {
			out.indexes[base] = st.Size()
		} else if base, ok := parseOffsetName(e.Name(), timeSuffix); ok {
			out.times[base] = st.Size()
		} else if o, ok := parseOffsetName(e.Name(), snapshotSuffix); ok {
			out.snapshots = append(out.snapshots, o)
		} else if isStaged(e.Name()) {
			out.staged = append(out.staged, e.Name())
		}
	}
	slices.Sort(out.bases)
	slices.Sort(out.snapshots)
	return out, nil
}

// load opens a log found at start. Nobody else sees it yet.
func (l *Log) load(at *startState) error {
	f, err := l.list()
	if err == nil && len(f.staged) > 0 {
		if err = l.finishSwaps(&f); err == nil {
			f, err = l.list()
		}
	}
	if err != nil {
		return err
	}
	p, known := at.points[l.key()]
	memory := at.journal[l.key()]
	if memory == nil {
		memory = &remembered{cut: -1}
	}
	start := memory.start
	if known && !memory.seen { // the journal is lost
		start = p.start
	}
	l.logged, l.epochs = memory.start, memory.epochs
	for len(f.bases) > 1 && f.bases[1] <= start {
		if err := newSegment(l, f.bases[0]).remove(); err != nil {
			return err
		}
		f.bases = f.bases[1:]
	}
	if len(f.bases) == 0 {
		f.bases = append(f.bases, start)
	}
	v := view{start: start}
	for _, base := range f.bases {
		s := newSegment(l, base)
		s.size, s.maxTime, s.indexDone, s.nameSynced = f.sizes[base], unknownTime, true, true
		v.segments = append(v.segments, s)
	}
	v.size = v.active().size
	l.view = v
	l.durable = known && memory.cut < 0
	if first := f.bases[0]; first > start {
		if mayStart := memory.seen || known; mayStart {
			// What was there was never synced, or was taken away by hand.
			v.damaged = []damage{{v.segments[0], 0, 0, start, first}}
			l.view.damaged = v.damaged
			l.disk.config.Logger.Error("the log's first segments are missing", "log", l.tp, "from", start, "next", first)
		} else {
			l.view.start = first // the journal is lost
		}
	}
	if at.clean && known && l.loadClean(&f, p) {
		return l.tidySnapshots(f.snapshots)
	}
	recovery := v.segments[0].base
	if known {
		recovery = max(recovery, p.recovery)
	}
	if memory.cut >= 0 {
		recovery = min(recovery, max(memory.cut, v.segments[0].base))
	}
	if err := l.recover(f, recovery, at.walkAll); err != nil {
		return err
	}
	if known && memory.cut < 0 && l.view.end < p.recovery || len(l.view.damaged) > 0 {
		l.disk.lacks(l, p.recovery, l.view.end)
	}
	if l.view.end < start || len(l.view.damaged) > 0 && l.view.damaged[0].next == l.view.end {
		return l.restart(start, memory.epochs)
	}
	return nil
}

// restart empties a log whose start the journal knows beyond its end: a reset
// was not finished, or what was deleted had not been synced. Epochs that began
// at the start, or were in force there, stay.
func (l *Log) restart(start offsets.Offset, known epochs) error {
	if err := l.reset(start); err != nil {
		return err
	}
	l.epochs = known.within(start, start)
	var entries []journalEntry
	for _, e := range l.epochs {
		entries = append(entries, journalEntry{journalAssign, l.key(), e.Epoch, e.Start})
	}
	if len(entries) == 0 {
		return nil
	}
	return l.disk.journal.write(true, entries...)
}

// loadClean takes the checkpoint at its word, once the tail agrees with it.
func (l *Log) loadClean(f *found, p point) bool {
	for i, s := range l.view.segments[:len(l.view.segments)-1] {
		if !f.indexed(s) && !l.reindex(i) {
			return false
		}
	}
	s := l.view.active()
	e, from, err := s.lastMark()
	if err != nil || e.value < 0 || e.value > s.size {
		return false
	}
	if s.index.written == 0 && s.size > int64(4*l.config.Load().IndexInterval)+int64(l.config.Load().MaxBatchBytes) {
		return false // the index is lost
	}
	end := s.base
	if s.size > 0 {
		if s.agrees(false) != nil || s.lastTime() != nil {
			return false
		}
		s.sinceMark = int(s.size - e.value)
		err := s.walk(from, s.size, func(b header) error {
			end = b.LastOffset() + 1
			if t := b.MaxTimestamp(); t > s.maxTime {
				s.maxTime, s.maxTimeAt = t, b.LastOffset()
			}
			return nil
		})
		if err != nil {
			return false
		}
	} else {
		s.maxTime = record.NoTimestamp
	}
	if end != p.recovery {
		l.disk.config.Logger.Warn("log end differs from the checkpoint", "log", l.tp, "end", end, "checkpoint", p.recovery)
		return false
	}
	if !p.idle {
		ps, err := l.readSnapshot(end)
		if err != nil {
			return false
		}
		l.producers, l.snapped = ps, end
	}
	l.view.end = end
	l.recovery.Store(int64(end))
	l.epochs = l.epochs.within(l.view.start, end)
	return true
}

// reindex makes the indexes of a closed segment anew; false when it is not
// whole.
func (l *Log) reindex(i int) bool {
	s := l.view.segments[i]
	l.disk.config.Logger.Warn("indexes are made anew", "path", s.name(logSuffix))
	r := &recovery{log: l, point: math.MaxInt64, replay: math.MaxInt64, end: s.base}
	size := s.size
	stop, err := r.segment(i)
	return err == nil && !stop && s.size == size && len(r.damaged) == 0
}

// recovery is the state of one walk.
type recovery struct {
	log     *Log
	point   offsets.Offset
	replay  offsets.Offset // producers are applied from here on
	now     int64
	end     offsets.Offset
	limit   offsets.Offset // base of the next segment
	epochs  epochs
	damaged []damage
}

func (l *Log) recover(f found, point offsets.Offset, all bool) error {
	r := &recovery{log: l, point: point, now: l.disk.config.Now().UnixMilli()}
	r.replay = l.view.segments[0].base
	for i := len(f.snapshots) - 1; i >= 0; i-- {
		if f.snapshots[i] > point {
			continue
		}
		ps, err := l.readSnapshot(f.snapshots[i])
		if err == nil {
			l.producers, r.replay = ps, f.snapshots[i]
			break
		}
		l.disk.config.Logger.Warn("producer snapshot is not readable", "log", l.tp, "at", f.snapshots[i], "err", err)
	}
	first := l.view.holder(min(point, max(r.replay, l.view.segments[0].base)))
	if all {
		first = 0
	}
	for i := range first { // the walk trusts what is older, but not a lost index
		s := l.view.segments[i]
		if !f.indexed(s) && !l.reindex(i) {
			first = i
			break
		}
	}
	for i := first; i < len(l.view.segments); i++ {
		if s := l.view.segments[i]; i == first {
			r.end = s.base
		} else if r.end < s.base {
			before := l.view.segments[i-1]
			ok, err := l.follows(i)
			if err != nil {
				return err
			}
			if !ok {
				if err := l.dropFrom(i); err != nil {
					return err
				}
				break
			}
			r.damage(before, before.size, before.size, s.base, errMissing)
		}
		stop, err := r.segment(i)
		if err != nil {
			return err
		}
		if stop {
			break
		}
	}
	v := &l.view
	v.end, v.size, v.damaged = r.end, v.active().size, append(v.damaged, r.damaged...)
	v.start = min(v.start, v.end)
	l.recovery.Store(int64(min(point, v.end)))
	if v.end > point {
		l.dirtied = max(r.now, 1)
	}
	l.epochs = l.epochs.merge(r.epochs).within(v.start, v.end)
	if _, err := l.dropSnapshots(func(o offsets.Offset) bool { return o > v.end }); err != nil {
		return err
	}
	return l.tidySnapshots(slices.DeleteFunc(f.snapshots, func(o offsets.Offset) bool { return o > v.end }))
}

// segment walks segment i; stop tells that the log ends in it.
func (r *recovery) segment(i int) (stop bool, err error) {
	l := r.log
	s := l.view.segments[i]
	if err := s.clearIndexes(); err != nil {
		return false, err
	}
	f, err := s.open(os.O_CREATE)
	if err != nil {
		return false, err
	}
	defer s.data.release()
	last := i == len(l.view.segments)-1
	if r.limit = math.MaxInt64; !last {
		r.limit = l.view.segments[i+1].base
	}
	size := s.size
	s.size, s.maxTime, s.indexDone = 0, record.NoTimestamp, false
	scan := newScanner(f, size, scanChunk)
	defer scan.done()
	interval := l.config.Load().IndexInterval
	for pos := int64(0); ; {
		b, err := r.next(scan, s, pos)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return false, fmt.Errorf("%s at byte %d: %w", s.name(logSuffix), pos, err)
		}
		if err != nil {
			next, ok, rerr := scan.resync(pos, r.end)
			if rerr != nil {
				return false, rerr
			}
			if !ok {
				return r.badTail(i, scan, pos, err)
			}
			head, rerr := scan.header(next)
			if rerr != nil {
				return false, rerr
			}
			r.damage(s, pos, next, head.BaseOffset(), err)
			pos = next
			s.size = pos
			continue
		}
		r.take(b)
		size := int64(b.Size())
		s.mark(b, pos, interval)
		pos += size
		s.size = pos
		if err := l.spill(s); err != nil {
			return false, err
		}
	}
	if !last {
		s.markTime()
		if err := s.writeIndexes(false); err != nil {
			return false, err
		}
	}
	return false, nil
}

// next reads the batch at pos: its header below the recovery point, all of it
// above.
func (r *recovery) next(scan *scanner, s *segment, pos int64) (record.Batch, error) {
	b, err := scan.header(pos)
	if err != nil {
		return nil, err
	}
	if b.BaseOffset() < r.end || b.LastOffset()-s.base > math.MaxInt32 {
		return nil, errBackward
	}
	if b.BaseOffset() > r.end { // a gap, or an offset gone wrong: no CRC is over it
		last := b.LastOffset()
		follow, err := scan.header(pos + int64(b.Size()))
		if err == nil && follow.BaseOffset() <= last || last >= r.limit {
			return nil, errBackward
		}
		if b, err = scan.header(pos); err != nil {
			return nil, err
		}
	}
	if b.LastOffset() < r.point && !b.IsControl() {
		return b, nil
	}
	scan.chunk = recoveryChunk
	if b, err = scan.batch(pos); err != nil {
		return nil, err
	}
	return b, b.CheckCRC()
}

// recoveryChunk is how much is read at a time where whole batches are needed.
const recoveryChunk = 256 << 10

// take applies a good batch.
func (r *recovery) take(b record.Batch) {
	if b.ProducerID() >= 0 && b.BaseOffset() >= r.replay {
		r.log.producers.apply(b, r.now)
	}
	r.epochs, _ = r.epochs.assign(b.Epoch(), b.BaseOffset())
	r.log.silent(b)
	r.end = b.LastOffset() + 1
}

// silent drops the epochs of the journal that a batch proves to have written
// nothing: it is older than they are, and ends behind where they began. That the
// batch took their place may not have reached the journal.
func (l *Log) silent(b record.Batch) {
	wrong := func(e epochStart) bool { return e.Epoch > b.Epoch() && e.Start <= b.LastOffset() }
	if slices.ContainsFunc(l.epochs, wrong) {
		l.epochs = slices.DeleteFunc(slices.Clone(l.epochs), wrong)
	}
}
