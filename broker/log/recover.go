package log

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
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
		}
	}
	sort.Slice(out.bases, func(i, j int) bool { return out.bases[i] < out.bases[j] })
	return out, nil
}

// load opens a log found at start. Nobody else sees it yet.
func (l *Log) load(at *startState) error {
	f, err := l.list()
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
	l.durable = known
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
		return nil
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
	from := s.base
	if e, ok, err := s.index.last(s); err != nil {
		return false
	} else if ok {
		from += offsets.Offset(e.key)
	}
	if s.index.written == 0 && s.size > int64(4*l.config.Load().IndexInterval)+int64(l.config.Load().MaxBatchBytes) {
		return false // the index is lost
	}
	end := s.base
	if s.size > 0 {
		s.maxTime = unknownTime
		if _, err := s.greatest(); err != nil {
			return false
		}
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

// within cuts a history read from the journal to what the log holds. An epoch
// that begins at the very end stays: it has written nothing yet.
func (e epochs) within(start, end offsets.Offset) epochs {
	return e.cutEnd(end + 1).cutStart(start)
}

// merge joins the history of the journal with that found in the batches, which
// is right where they differ.
func (e epochs) merge(scanned epochs) epochs {
	var out epochs
	i := 0
	for _, s := range scanned {
		for i < len(e) && e[i].Epoch < s.Epoch {
			if e[i].Start <= s.Start {
				out, _ = out.assign(e[i].Epoch, e[i].Start)
			}
			i++
		}
		if i < len(e) && e[i].Epoch == s.Epoch {
			s.Start = min(s.Start, e[i].Start)
			i++
		}
		out, _ = out.assign(s.Epoch, s.Start)
	}
	for ; i < len(e); i++ {
		if len(out) == 0 || e[i].Start >= out[len(out)-1].Start {
			out, _ = out.assign(e[i].Epoch, e[i].Start)
		}
	}
	return out
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
		if !f.indexed(s) {
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
	_, err := l.dropSnapshots(func(o offsets.Offset) bool { return o > v.end })
	return err
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
	r.end = b.LastOffset() + 1
}

func (r *recovery) damage(s *segment, pos, end int64, next offsets.Offset, why error) {
	r.log.disk.config.Logger.Error("damaged batch is kept: valid ones follow", "path", s.name(logSuffix),
		"pos", pos, "end", end, "from", r.end, "next", next, "err", why)
	r.damaged = append(r.damaged, damage{s, pos, end, r.end, next})
	r.end = next
}

// badTail decides what becomes of bytes behind which segment i holds no whole
// batch.
func (r *recovery) badTail(i int, scan *scanner, pos int64, why error) (stop bool, err error) {
	l := r.log
	s := l.view.segments[i]
	ok, err := l.follows(i + 1)
	if err != nil {
		return false, err
	}
	if ok {
		if next := l.view.segments[i+1]; r.end < next.base {
			r.damage(s, pos, scan.limit, next.base, why)
			s.size = scan.limit
		} else if err := s.cut(scan, pos); err != nil { // nothing is missing but rubbish
			return false, err
		}
		s.markTime()
		return false, s.writeIndexes(false)
	}
	l.disk.config.Logger.Warn("log is cut at a bad batch", "path", s.name(logSuffix), "pos", pos,
		"bytes", scan.limit-pos, "end", r.end, "err", why)
	if err := s.cut(scan, pos); err != nil {
		return false, err
	}
	s.size = pos
	return true, l.dropFrom(i + 1)
}

// follows tells whether there is a sound batch in segment i or a later one.
func (l *Log) follows(i int) (bool, error) {
	for ; i < len(l.view.segments); i++ {
		if ok, err := l.view.segments[i].alive(); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// dropFrom puts the segments from i on aside.
func (l *Log) dropFrom(i int) error {
	for j := len(l.view.segments) - 1; j >= i; j-- {
		if err := l.view.segments[j].putAside(); err != nil {
			return err
		}
	}
	l.view.segments = l.view.segments[:i:i]
	return l.disk.fs.SyncDir(l.path)
}

// alive tells whether there is a sound batch anywhere in the segment.
func (s *segment) alive() (bool, error) {
	if s.size == 0 {
		return false, nil
	}
	f, err := s.open(0)
	if err != nil {
		return false, err
	}
	defer s.data.release()
	scan := newScanner(f, s.size, scanChunk)
	defer scan.done()
	b, err := scan.batch(0)
	if err == nil && b.BaseOffset() >= s.base && b.CheckCRC() == nil {
		return true, nil
	}
	if err != nil && !errors.Is(err, record.ErrCorrupt) {
		return false, err
	}
	_, ok, err := scan.resync(0, s.base)
	return ok, err
}

// errMissing stands for batches whose bytes are not there at all.
var errMissing = fmt.Errorf("%w: missing at the end of a segment", record.ErrCorrupt)

// cut saves the bytes from pos on, unless they are all zero, and cuts them off.
func (s *segment) cut(scan *scanner, pos int64) error {
	if err := s.save(scan, pos); err != nil {
		return err
	}
	f, ok := scan.file, pos < scan.limit
	if !ok {
		return nil
	}
	s.size = pos
	return errors.Join(f.Truncate(pos), f.Sync())
}

// save copies the bytes from pos on to a file with the suffix .cut.
func (s *segment) save(scan *scanner, pos int64) (err error) {
	var out vfs.File
	name := s.name(fmt.Sprintf("%s.%d%s", logSuffix, pos, cutSuffix))
	for at := pos; at < scan.limit; {
		n := int(min(recoveryChunk, scan.limit-at))
		b, err := scan.window(at, n)
		if err != nil {
			return err
		}
		if out == nil && !allZero(b) {
			if out, err = s.log.disk.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644); err != nil {
				return err
			}
		}
		if out != nil {
			if _, err := out.WriteAt(b, at-pos); err != nil {
				return errors.Join(err, out.Close())
			}
		}
		at += int64(n)
	}
	if out == nil {
		return nil
	}
	return errors.Join(out.Sync(), out.Close())
}

// putAside keeps a whole segment that cannot be part of the log as a .cut file.
func (s *segment) putAside() error {
	s.doom()
	fs := s.log.disk.fs
	if s.size > 0 {
		if err := fs.Rename(s.name(logSuffix), s.name(logSuffix+".0"+cutSuffix)); err != nil {
			return err
		}
	}
	return s.remove()
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
	s.sinceMark = 0
	return nil
}

func (l *Log) readSnapshot(at offsets.Offset) (producers, error) {
	b, err := vfs.ReadFile(l.disk.fs, l.file(offsetName(at, snapshotSuffix)))
	if err != nil {
		return producers{}, err
	}
	return decodeSnapshot(b, l.disk.config.Now().UnixMilli())
}

// reloadProducers makes the producers' state that of an offset again: from the
// youngest snapshot below it and the batches after that. mu is held.
func (l *Log) reloadProducers(end offsets.Offset) error {
	snapshots, err := l.snapshots()
	if err != nil {
		return err
	}
	seen := l.producers
	l.producers, l.snapped = producers{}, -1
	from := l.view.segments[0].base
	for i := len(snapshots) - 1; i >= 0; i-- {
		if snapshots[i] > end {
			continue
		}
		if ps, err := l.readSnapshot(snapshots[i]); err == nil {
			l.producers, from = ps, max(from, snapshots[i])
			break
		}
	}
	now := l.disk.config.Now().UnixMilli()
	for i := l.view.holder(from); i < len(l.view.segments); i++ {
		err := l.view.segments[i].walk(from, l.view.limit(i), func(b header) error {
			if b.ProducerID() >= 0 && b.BaseOffset() >= from {
				l.producers.apply(b.Batch, now)
			}
			return nil
		})
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return err
		}
	}
	for id, p := range l.producers.byID { // reading again is no sign of life
		if was := seen.byID[id]; was != nil {
			p.seen = was.seen
		}
	}
	return nil
}
