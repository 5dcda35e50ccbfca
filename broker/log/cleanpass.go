package log

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// cleanChunk is how much of a segment compaction reads, and writes, at a time.
const cleanChunk = 1 << 20

// pass is one run over one log.
type pass struct {
	cleaner *cleaner
	job     *cleanJob
	log     *Log
	rules   cleanRules
	txns    cleanTxns
	aborted []aborted
	known   bool // aborted was looked up
	filter  record.Filter

	reading *segment // what is read now

	kept, removed int64  // records
	read, written int64  // bytes
	out           []byte // what waits to be written
}

// run reads the dirty part and writes all segments up to its end anew.
func (p *pass) run(now int64) error {
	config := p.log.config.Load()
	p.rules = cleanRules{now: now, horizon: now + config.DeleteRetentionMs, end: p.job.first, latest: p.cleaner.latest}
	if p.rules.horizon < now { // a retention of all time
		p.rules.horizon = math.MaxInt64
	}
	if err := p.learn(); err != nil {
		return err
	}
	if p.rules.end == p.job.first {
		return errNoRoom
	}
	p.log.mu.Lock()
	p.rules.last = p.log.producers.lastBatches()
	p.log.mu.Unlock()
	p.txns = cleanTxns{aborted: p.aborted}
	for _, group := range p.groups(config) {
		if err := p.replace(group); err != nil {
			return err
		}
	}
	return nil
}

// errFull ends learning when the map takes no more keys.
var errFull = errors.New("map of keys is full")

// learn notes the youngest record of each key of the dirty part, as much of it
// as the map holds. Data of aborted transactions does not count.
func (p *pass) learn() error {
	var txns cleanTxns
	first := p.job.first
	for i, s := range p.job.segments {
		if p.endOf(i) <= first {
			continue
		}
		err := p.batches(i, first, func(b record.Batch, _ int64) error {
			if b.LastOffset() < first {
				return nil
			}
			if b.IsTransactional() && !p.known {
				var err error
				v := p.log.look()
				if p.aborted, err = p.log.abortedFrom(&v, slices.Index(v.segments, s), p.job.end); err != nil {
					return err
				}
				p.known, txns.aborted = true, p.aborted
			}
			drop, _, err := p.fate(&txns, b)
			if err == nil && !drop && !b.IsControl() {
				err = p.note(b)
			}
			if err != nil {
				return err
			}
			p.rules.end = b.LastOffset() + 1
			return nil
		})
		if errors.Is(err, errFull) {
			return nil
		}
		if err != nil {
			return err
		}
		p.rules.end = p.endOf(i)
	}
	return nil
}

// note puts the records of a batch in the map.
func (p *pass) note(b record.Batch) error {
	if err := p.filter.Reset(b); err != nil {
		return unreadable(b, err)
	}
	for p.filter.Next() {
		at := p.filter.Offset()
		if key := p.filter.Key(); key != nil && at >= p.job.first && !p.rules.latest.put(key, at) {
			p.rules.end = max(p.rules.end, at)
			return errFull
		}
	}
	return unreadable(b, p.filter.Err())
}

// endOf is the offset after a segment of the job.
func (p *pass) endOf(i int) offsets.Offset {
	if i == len(p.job.segments)-1 {
		return p.job.end
	}
	return p.job.segments[i+1].base
}

// batches calls fn for the batches of a segment from the one that holds an
// offset on, each found to be whole, with the position after it.
func (p *pass) batches(i int, from offsets.Offset, fn func(b record.Batch, after int64) error) error {
	s, end := p.job.segments[i], p.endOf(i)
	p.reading = s
	pos := int64(0)
	if from > s.base {
		var err error
		if pos, _, _, err = s.position(from, s.size); err != nil {
			return err
		}
	}
	scan, err := s.scan(s.size, cleanChunk)
	if err != nil {
		return err
	}
	defer scan.done()
	next := s.base
	for {
		b, err := scan.batch(pos)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = b.CheckCRC()
		}
		if err == nil && (b.BaseOffset() < next || b.LastOffset() >= end) {
			err = errBackward
		}
		if err != nil { // known as damage from here on
			return p.log.discover(s.corrupt(pos, err), s, s.size, noOffset, end)
		}
		next = b.LastOffset() + 1
		p.read += int64(b.Size())
		p.cleaner.counts.read.Add(int64(b.Size()))
		if err := p.cleaner.pace(b.Size()); err != nil {
			return err
		}
		pos += int64(b.Size())
		if err := fn(b, pos); err != nil {
			return err
		}
	}
}

// errUnreadable tells that the records of a whole batch cannot be walked.
var errUnreadable = errors.New("a batch cannot be compacted")

func unreadable(b record.Batch, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: offset %d: %w", errUnreadable, b.BaseOffset(), err)
}

// groups are the segments to be written anew, those in one that are not larger
// together than a segment and its indexes may be, and whose offsets fit an index.
func (p *pass) groups(c *Config) [][2]int {
	most := c.SegmentBytes
	if c.IndexBytes > 0 { // an entry of the wider index at each interval
		most = min(most, c.IndexBytes/12*int64(max(c.IndexInterval, 1)))
	}
	var out [][2]int
	size := int64(0)
	for i, s := range p.job.segments {
		if s.base >= p.rules.end {
			break
		}
		n := len(out) - 1
		if n >= 0 && size+s.size <= most && p.endOf(i)-p.job.segments[out[n][0]].base <= math.MaxInt32 {
			out[n][1] = i + 1
			size += s.size
			continue
		}
		out = append(out, [2]int{i, i + 1})
		size = s.size
	}
	return out
}

// replace writes a group of segments anew, and puts the new one in their place
// when anything has changed.
func (p *pass) replace(group [2]int) error {
	old := p.job.segments[group[0]:group[1]]
	end := p.endOf(group[1] - 1)
	w, err := p.begin(old)
	defer w.close()
	for i := group[0]; i < group[1] && err == nil; i++ {
		err = p.batches(i, 0, w.take)
	}
	if err == nil && (w.changed || len(old) > 1) {
		taken := false
		if err = w.finish(); err == nil {
			taken, err = p.log.swap(old, w.fresh, end, &p.job.gen)
		}
		if taken {
			w.fresh.settled()
			return err
		}
	}
	return errors.Join(err, p.stageError(w.fresh.unstage()))
}

// rewrite is a segment that is made of others.
type rewrite struct {
	pass    *pass
	fresh   *segment
	file    vfs.File // its batches: on a full disk no room is made for them
	rest    int64    // bytes of the old segments not yet taken
	last    *segment
	changed bool
	flushed int64 // bytes written to the file
	step    int   // of the index, in bytes
}

func (p *pass) begin(old []*segment) (*rewrite, error) {
	w := &rewrite{
		pass: p, last: old[len(old)-1], fresh: newSegment(p.log, old[0].base),
		step: p.log.config.Load().IndexInterval,
	}
	p.out = p.out[:0]
	for _, s := range old {
		w.rest += s.size
	}
	var err error
	w.file, err = p.log.disk.fs.OpenFile(w.fresh.name(logSuffix+stagedSuffix), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err == nil {
		err = w.fresh.stage()
	}
	return w, p.stageError(err)
}

// close lets go of the file written to; what counts was synced.
func (w *rewrite) close() {
	if w.file != nil {
		_ = w.file.Close()
	}
}

// take puts what stays of a batch in the new segment.
func (w *rewrite) take(b record.Batch, after int64) error {
	p := w.pass
	size := b.Size()
	w.rest -= int64(size)
	stay, err := p.retain(b, p.reading == w.last && after == w.last.size)
	if err != nil || stay == nil {
		w.changed = true
		return err
	}
	// What grows, by times counted from a far horizon, must not push positions
	// beyond an index.
	if len(stay) > size && w.fresh.size+int64(len(stay))+w.rest > math.MaxInt32 {
		stay = b
	}
	w.changed = w.changed || len(stay) != size || &stay[0] != &b[0]
	if len(p.out)+len(stay) > cleanChunk {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.fresh.mark(stay, w.fresh.size, w.step)
	w.fresh.size += int64(len(stay))
	p.out = append(p.out, stay...)
	return nil
}

// flush writes what waits.
func (w *rewrite) flush() error {
	n := len(w.pass.out)
	if n == 0 {
		return nil
	}
	if _, err := w.file.WriteAt(w.pass.out, w.flushed); err != nil {
		return w.pass.stageError(err)
	}
	w.pass.out = w.pass.out[:0]
	w.flushed += int64(n)
	w.pass.written += int64(n)
	w.pass.cleaner.counts.written.Add(int64(n))
	if len(w.fresh.index.pending) >= 32*indexPending {
		if err := w.fresh.writeIndexes(false); err != nil {
			return w.pass.stageError(err)
		}
	}
	return w.pass.cleaner.pace(n)
}

// finish writes and syncs all three files.
func (w *rewrite) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	w.fresh.markTime()
	err := w.file.Sync()
	if err == nil {
		err = w.fresh.writeIndexes(true)
	}
	return w.pass.stageError(err)
}

// retain makes what stays of a batch: the batch itself, one with fewer records,
// a header alone, or nil. closing tells that it is the last of its new segment.
func (p *pass) retain(b record.Batch, closing bool) (record.Batch, error) {
	count := int64(b.Count())
	drop, spent, err := p.fate(&p.txns, b)
	if err != nil {
		return nil, err
	}
	hold := closing || p.rules.names(b)
	if count == 0 {
		if hold {
			return b, nil
		}
		return nil, nil
	}
	if b.BaseOffset() >= p.rules.end && !drop && !b.IsControl() {
		p.count(count, 0)
		return b, nil
	}
	tombstones := 0
	if err := p.filter.Reset(b); err != nil {
		return nil, unreadable(b, err)
	}
	for outlived := p.rules.outlived(b); !drop && p.filter.Next(); {
		at, tombstone := p.filter.Offset(), p.filter.Tombstone()
		if !b.IsControl() && !p.rules.wants(p.filter.Key(), at, tombstone, outlived) {
			continue
		}
		p.filter.Keep()
		if tombstone && at < p.rules.end && !b.IsControl() {
			tombstones++
		}
	}
	if err := p.filter.Err(); err != nil {
		return nil, unreadable(b, err)
	}
	kept := int64(p.filter.Kept())
	p.count(kept, count-kept)
	if kept == 0 {
		if hold {
			return p.filter.Empty(), nil
		}
		return nil, nil
	}
	horizon := int64(record.NoTimestamp)
	if (tombstones > 0 || spent) && !b.HasDeleteHorizon() {
		horizon = p.rules.horizon
	}
	out, err := p.filter.Batch(horizon)
	return out, unreadable(b, err)
}

// fate tells what becomes of a batch by its transaction: its records are
// dropped, or it is a marker that may go in its time.
func (p *pass) fate(txns *cleanTxns, b record.Batch) (drop, spent bool, err error) {
	if !b.IsControl() {
		return txns.drop(b), false, nil
	}
	if b.Count() == 0 {
		return false, false, nil
	}
	if err := p.filter.Reset(b); err != nil {
		return false, false, unreadable(b, err)
	}
	if !p.filter.Next() {
		return false, false, unreadable(b, p.filter.Err())
	}
	if _, err := record.ParseControl(p.filter.Key()); err != nil { // of another kind than a transaction's end
		return false, false, nil
	}
	spent = txns.marker(b)
	return spent && p.rules.outlived(b), spent, nil
}

func (p *pass) count(kept, removed int64) {
	p.kept += kept
	p.removed += removed
	p.cleaner.counts.kept.Add(kept)
	p.cleaner.counts.removed.Add(removed)
}

// stageError tells what an error of writing the new files means: a full disk
// leaves the old ones as they are, any other ends all writing. Of a log that is
// deleted meanwhile the folder is gone.
func (p *pass) stageError(err error) error {
	if err == nil {
		return nil
	}
	p.log.mu.Lock()
	closed := p.log.closed
	p.log.mu.Unlock()
	if closed {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return p.log.full(err)
}
