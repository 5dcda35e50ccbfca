package log

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// Append says how batches are appended.
type Append struct {
	// Epoch is stamped on the batches; offsets.NoEpoch where there is none.
	Epoch offsets.Epoch
	// Now is the broker's time in milliseconds.
	Now int64
	// Internal lifts the size limit: the batch is the broker's own.
	Internal bool
	// Into is memory for the results, used when it is large enough.
	Into []Appended
}

// Appended says where one batch went.
type Appended struct {
	First, Last offsets.Offset
	// Timestamp is the broker's time stamped on the records, else -1; of a
	// duplicate it is the greatest one of the first time, as Kafka answers.
	Timestamp int64
	// Duplicate tells that the producer had sent the batch before and that
	// First and Last are those of the first time; nothing was written.
	Duplicate bool
}

// Append writes the batches of a leader, which record.Validate must have
// passed, in one system call. It stamps offsets and epoch in the callers'
// memory. All batches are written or, with an error, none. Where the topic asks
// for it the batches are synced before Append returns.
func (l *Log) Append(batches []record.Batch, a Append) ([]Appended, error) {
	out := a.Into
	if cap(out) < len(batches) {
		out = make([]Appended, len(batches))
	}
	out = out[:len(batches)]
	c := l.config.Load()
	if !a.Internal && !l.disk.Roomy() {
		return nil, l.wrap("append", fmt.Errorf("%w: what is left is kept for the broker", ErrNoSpace))
	}
	end, err := l.append(batches, a, c, out)
	if errors.Is(err, ErrNoSpace) && l.disk.Relieve() && a.Internal {
		end, err = l.append(batches, a, c, out)
	}
	if err != nil {
		return nil, err
	}
	return out, l.flushAfter(end, c)
}

func (l *Log) append(batches []record.Batch, a Append, c *Config, out []Appended) (offsets.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return 0, err
	}
	if a.Epoch != offsets.NoEpoch && a.Epoch < l.epochs.latest() {
		return 0, l.wrap("append", fmt.Errorf("%w: %d, have %d", ErrStaleEpoch, a.Epoch, l.epochs.latest()))
	}
	l.bufs, l.undo = l.bufs[:0], l.undo[:0]
	defer func() { clear(l.bufs) }() // the memory is the caller's
	end := l.view.end
	first, last := end, end // of what the caller waits for, duplicates included
	for i, b := range batches {
		if len(b) > c.MaxBatchBytes && !a.Internal {
			return 0, l.takeBack(fmt.Errorf("%w: %d bytes, limit %d", ErrBatchTooLarge, len(b), c.MaxBatchBytes))
		}
		idempotent := b.ProducerID() >= 0
		if idempotent && !b.IsControl() {
			dup, err := l.producers.check(b, end == 0)
			if err != nil {
				return 0, l.takeBack(err)
			}
			if dup != nil {
				out[i] = Appended{dup.base(), dup.last, dup.time, true}
				last = max(last, dup.last+1)
				continue
			}
		}
		b.Stamp(end, a.Epoch)
		out[i] = Appended{end, b.LastOffset(), record.NoTimestamp, false}
		if c.LogAppendTime {
			b.SetMaxTimestamp(a.Now, true)
			out[i].Timestamp = a.Now
		}
		if idempotent {
			l.undo = append(l.undo, l.producers.apply(b, a.Now))
		}
		end = b.LastOffset() + 1
		l.bufs = append(l.bufs, b)
	}
	if len(l.bufs) == 0 {
		return max(first, last), nil
	}
	if err := l.write(l.bufs, end, c, a.Now); err != nil {
		return 0, l.takeBack(err)
	}
	if a.Epoch > l.epochs.latest() {
		l.begin(a.Epoch, first)
	}
	return end, nil
}

// takeBack undoes what append did to the producers.
func (l *Log) takeBack(err error) error {
	for i := len(l.undo) - 1; i >= 0; i-- {
		l.producers.put(l.undo[i])
	}
	l.undo = l.undo[:0]
	return l.wrap("append", err)
}

// AppendReplica writes batches as they were read from the leader: offsets and
// epochs are theirs. A last batch that is cut short is left out.
func (l *Log) AppendReplica(b []byte) error {
	c := l.config.Load()
	if !l.disk.Roomy() {
		return l.wrap("append", fmt.Errorf("%w: what is left is kept for the broker", ErrNoSpace))
	}
	end, err := l.appendReplica(b, c)
	if errors.Is(err, ErrNoSpace) {
		l.disk.Relieve()
	}
	if err != nil {
		return err
	}
	return l.flushAfter(end, c)
}

func (l *Log) appendReplica(b []byte, c *Config) (offsets.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return 0, err
	}
	l.bufs, l.undo = l.bufs[:0], l.undo[:0]
	defer func() { clear(l.bufs) }() // the memory is the caller's
	now := l.disk.config.Now().UnixMilli()
	end := l.view.end
	for rest := b; ; {
		var batch record.Batch
		var err error
		batch, rest, err = record.Split(rest)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err == nil {
			err = batch.CheckCRC()
		}
		if err == nil && (batch.BaseOffset() < end || batch.LastOffsetDelta() < 0 || batch.LastOffset()-end >= math.MaxInt32) {
			err = fmt.Errorf("%w: batch %d..%d at log end %d", record.ErrInvalid, batch.BaseOffset(), batch.LastOffset(), end)
		}
		if err == nil {
			err = l.continues(batch)
		}
		if err == nil && batch.LastOffset()-l.view.end >= math.MaxInt32 { // too far for one segment
			if err = l.writeReplica(end, c, now); err == nil {
				l.bufs, l.undo = l.bufs[:0], l.undo[:0]
			}
		}
		if err != nil {
			return 0, l.takeBack(err)
		}
		if batch.ProducerID() >= 0 {
			l.undo = append(l.undo, l.producers.apply(batch, now))
		}
		end = batch.LastOffset() + 1
		l.bufs = append(l.bufs, batch)
	}
	if err := l.writeReplica(end, c, now); err != nil {
		return 0, l.takeBack(err)
	}
	return end, nil
}

// writeReplica writes the batches that were taken from the leader.
func (l *Log) writeReplica(end offsets.Offset, c *Config, now int64) error {
	if len(l.bufs) == 0 {
		return nil
	}
	if err := l.write(l.bufs, end, c, now); err != nil {
		return err
	}
	for _, buf := range l.bufs {
		batch := record.Batch(buf)
		if batch.Epoch() < l.epochs.latest() {
			l.silence(batch.BaseOffset())
		}
		if batch.Epoch() > l.epochs.latest() {
			l.begin(batch.Epoch(), batch.BaseOffset())
		}
	}
	return nil
}

// continues tells whether a batch of the leader's may follow what is here and
// what is about to be written: a younger epoch than its own has written nothing.
func (l *Log) continues(b record.Batch) error {
	if n := len(l.bufs); n > 0 && record.Batch(l.bufs[n-1]).Epoch() > b.Epoch() {
		return fmt.Errorf("%w: a batch of epoch %d after one of epoch %d", record.ErrInvalid, b.Epoch(), record.Batch(l.bufs[n-1]).Epoch())
	}
	for i := len(l.epochs) - 1; i >= 0 && l.epochs[i].Epoch > b.Epoch(); i-- {
		if l.epochs[i].Start < l.view.end {
			return fmt.Errorf("%w: a batch of epoch %d after epoch %d", record.ErrInvalid, b.Epoch(), l.epochs[i].Epoch)
		}
	}
	return nil
}

// silence drops the epochs in which this broker led without writing, once
// another's records take their place. The batches tell the same after a restart.
func (l *Log) silence(at offsets.Offset) {
	l.epochs = l.epochs.cutEnd(at)
	err := l.disk.journal.write(false, journalEntry{journalEnd, l.key(), 0, at})
	if err != nil && !errors.Is(err, ErrNoSpace) {
		l.disk.fail(l.wrap("note epochs of", err))
	}
}

// begin notes that an epoch wrote its first batch. It can be found again in the
// batches, so the journal need not be synced, and a full disk does not matter.
func (l *Log) begin(epoch offsets.Epoch, start offsets.Offset) {
	l.epochs, _ = l.epochs.assign(epoch, start)
	err := l.disk.journal.write(false, journalEntry{journalAssign, l.key(), epoch, start})
	if err != nil && !errors.Is(err, ErrNoSpace) {
		l.disk.fail(l.wrap("note epoch of", err))
	}
}

func (l *Log) key() logKey { return logKey{l.id, l.tp.Partition} }

// write puts the batches behind the log and publishes end; mu is held.
func (l *Log) write(bufs [][]byte, end offsets.Offset, c *Config, now int64) error {
	var total int64
	for _, b := range bufs {
		total += int64(len(b))
	}
	if err := l.rollFor(total, end, c, now); err != nil {
		return err
	}
	s := l.view.active()
	f, err := s.open(os.O_CREATE)
	if err != nil {
		return l.full(err)
	}
	defer s.data.release()
	if err := s.reserve(f, total, c); err != nil {
		return l.full(err)
	}
	tail := hint{s, l.view.end, s.size}
	// Writev may eat the slices it is given, and they are looked at below.
	l.writing = append(l.writing[:0], bufs...)
	_, err = f.Writev(l.writing, s.size)
	clear(l.writing)
	if err != nil {
		if terr := f.Truncate(s.size); terr != nil {
			return l.broken("cut back", terr)
		}
		return l.full(err)
	}
	for _, b := range bufs {
		s.mark(record.Batch(b), s.size, c.IndexInterval)
		s.size += int64(len(b))
	}
	if s.created == 0 {
		s.created = now
	}
	if l.dirtied == 0 {
		l.dirtied = max(now, 1)
	}
	l.undo = l.undo[:0]
	l.pub.Lock()
	l.view.end, l.view.size, l.tail = end, s.size, tail
	l.pub.Unlock()
	return l.spill(s)
}

// spill writes index entries once enough of them wait. A full disk leaves them
// in memory until there is room.
func (l *Log) spill(s *segment) error {
	if len(s.index.pending) < indexPending && len(s.times.pending) < indexPending {
		return nil
	}
	if err := s.writeIndexes(false); err != nil && !vfs.Full(err) {
		l.disk.fail(l.wrap("index", err)) // the batches themselves are written
	}
	return nil
}

// full turns a full disk into ErrNoSpace, and all else into the end of writing.
func (l *Log) full(err error) error {
	if err = roomless(err); errors.Is(err, ErrNoSpace) {
		return err
	}
	l.disk.fail(l.wrap("append", err))
	return errors.Join(err, ErrFailed)
}

// Steps of reserving disk space: as much as the segment holds, within these.
const (
	minReserve = 16 << 10
	maxReserve = 16 << 20
)

// reserve makes sure of disk space for n more bytes, in steps that grow with
// the segment: ten thousand idle partitions reserve little.
func (s *segment) reserve(f vfs.File, n int64, c *Config) error {
	if s.size+n <= s.allocated {
		return nil
	}
	from := max(s.size, s.allocated)
	step := min(max(s.size, minReserve), maxReserve)
	to := max(s.size+n, min(s.size+step, c.SegmentBytes))
	if err := f.Allocate(from, to-from); err != nil {
		return err
	}
	s.allocated = to
	return nil
}

// rollFor begins a new segment when the active one is full or old, its index is
// full, or an offset would lie too far from its base.
func (l *Log) rollFor(n int64, end offsets.Offset, c *Config, now int64) error {
	s := l.view.active()
	if s.size == 0 {
		return nil
	}
	old := c.SegmentMs > 0 && now > 0 && now-s.age(now) >= c.rollMs()
	full := c.IndexBytes > 0 && (s.index.full(c.IndexBytes) || s.times.full(c.IndexBytes))
	if !old && !full && s.size+n <= c.SegmentBytes && end-s.base <= math.MaxInt32 {
		return nil
	}
	return l.roll()
}

// age is when the segment was begun, by the broker's clock in ms. After a
// restart the first batch tells, unless it was written with another time.
func (s *segment) age(now int64) int64 {
	if s.created != 0 {
		return s.created
	}
	s.created = now
	scan, err := s.scan(s.size, record.HeaderSize)
	if err != nil {
		return now
	}
	defer scan.done()
	if head, err := scan.header(0); err == nil && head.MaxTimestamp() > 0 {
		s.created = min(now, head.MaxTimestamp())
	}
	return s.created
}

// roll closes the active segment and begins another at the log's end; mu is
// held. The closed one is synced in the background.
func (l *Log) roll() error {
	old := l.view.active()
	old.markTime()
	if err := old.writeIndexes(false); err != nil {
		return l.full(err)
	}
	if err := old.trim(); err != nil {
		return l.full(err)
	}
	if err := l.writeSnapshot(l.view.end); err != nil {
		return l.full(err)
	}
	s := newSegment(l, l.view.end)
	f, err := s.open(os.O_CREATE)
	if err != nil {
		return l.full(err)
	}
	defer s.data.release()
	if err := f.Truncate(0); err != nil { // a file of that name is left over
		return l.full(err)
	}
	segments := append(l.view.segments, s) // nobody has looked beyond the old length
	l.publish(func(v *view) { v.segments, v.size = segments, 0 })
	l.disk.flusher.soon(l)
	return nil
}

// trim gives back what was reserved beyond the segment's end.
func (s *segment) trim() error {
	if s.allocated <= s.size {
		return nil
	}
	f, err := s.open(0)
	if err != nil {
		return err
	}
	defer s.data.release()
	s.allocated = 0
	return f.Truncate(s.size)
}

// writeSnapshot leaves the producers' state as of an offset, the log's end. Of
// batches that are on their way it knows nothing: they may never be written.
func (l *Log) writeSnapshot(at offsets.Offset) error {
	name := l.file(offsetName(at, snapshotSuffix))
	f, err := l.disk.vital.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(encodeSnapshot(l.producers.before(l.undo)))
	return errors.Join(err, f.Close())
}
