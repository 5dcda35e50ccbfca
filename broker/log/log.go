package log

import (
	"errors"
	"path"
	"sync"
	"sync/atomic"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// Log is the log of one replica.
//
// Locks are taken in this order: flushMu (one sync at a time, and everything
// that makes the recovery point go back), mu (all writing), pub (the few words
// readers look at; never held over I/O). Readers take pub alone.
//
// Invariant: Start ≤ RecoveryPoint ≤ End whenever no lock is held; segments are
// in ascending order of their bases, the last one is active, and the batches of
// segment i lie in [base(i), base(i+1)).
type Log struct {
	disk *Disk
	path string
	tp   offsets.TopicPartition
	id   offsets.TopicID

	config atomic.Pointer[Config]

	flushMu  sync.Mutex
	recovery atomic.Int64 // everything below is synced
	durable  bool         // folder and partition.metadata are synced; under flushMu
	flushAt  atomic.Bool  // a timed flush is scheduled

	mu        sync.Mutex
	closed    bool
	epochs    epochs
	producers producers
	undo      []undo
	bufs      [][]byte       // of the append that runs
	writing   [][]byte       // the same, for Writev to eat
	logged    offsets.Offset // log start as the journal knows it
	snapped   offsets.Offset // a snapshot of this very end exists, or −1
	cut       bool           // the recovery point went back since the last checkpoint
	dirtied   int64          // broker's time in ms of the first unsynced append, 0 = none

	pub  sync.Mutex
	view view
	hint [hints]hint
	next int
	tail hint // where the last append begins, which those who have kept up read next
}

// hints is how many readers' positions are remembered.
const hints = 4

// hint is where a reader stopped.
type hint struct {
	segment *segment
	at      offsets.Offset
	pos     int64
}

// view is what readers see: taken in one piece, it is consistent.
type view struct {
	segments []*segment // appended to, or replaced whole; never changed
	start    offsets.Offset
	end      offsets.Offset
	size     int64 // bytes of the active segment
	damaged  []damage
	gen      uint32 // counts truncations, so that no stale hint is kept
}

// active is the segment that grows.
func (v *view) active() *segment { return v.segments[len(v.segments)-1] }

// limit is how many bytes of segment i may be read.
func (v *view) limit(i int) int64 {
	if i == len(v.segments)-1 {
		return v.size
	}
	return v.segments[i].size
}

// endOf is the offset after segment i.
func (v *view) endOf(i int) offsets.Offset {
	if i == len(v.segments)-1 {
		return v.end
	}
	return v.segments[i+1].base
}

// holder is the index of the segment that offset at lies in.
func (v *view) holder(at offsets.Offset) int {
	low, high := 0, len(v.segments)
	for high-low > 1 {
		if mid := (low + high) / 2; v.segments[mid].base <= at {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// damage is a stretch of a segment that cannot be read.
type damage struct {
	segment    *segment
	pos, end   int64
	from, next offsets.Offset
}

// Damage is a stretch of a log that cannot be read: bytes [Pos, End) of a file,
// where the offsets [From, Next) were.
type Damage struct {
	Path       string
	Pos, End   int64
	From, Next offsets.Offset
}

func newLog(d *Disk, folder string, tp offsets.TopicPartition, id offsets.TopicID, c Config) *Log {
	l := &Log{disk: d, path: path.Join(d.dir, folder), tp: tp, id: id, snapped: -1}
	l.config.Store(&c)
	return l
}

// TopicPartition names the log.
func (l *Log) TopicPartition() offsets.TopicPartition { return l.tp }

// TopicID is the id of the topic.
func (l *Log) TopicID() offsets.TopicID { return l.id }

// Config is the present setting.
func (l *Log) Config() Config { return *l.config.Load() }

// SetConfig changes the setting from the next append on.
func (l *Log) SetConfig(c Config) { l.config.Store(&c) }

// Start is the first offset that may be read.
func (l *Log) Start() offsets.Offset { return l.look().start }

// End is the offset the next record will get.
func (l *Log) End() offsets.Offset { return l.look().end }

// RecoveryPoint is the offset below which everything survives a power cut.
func (l *Log) RecoveryPoint() offsets.Offset { return offsets.Offset(l.recovery.Load()) }

// Size is the number of bytes in all segments.
func (l *Log) Size() int64 {
	v := l.look()
	var n int64
	for i := range v.segments {
		n += v.limit(i)
	}
	return n
}

// Epoch is the youngest leader epoch, offsets.NoEpoch when there is none.
func (l *Log) Epoch() offsets.Epoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.latest()
}

// EndOffsetFor answers which epoch, not above the asked one, the log knows last
// and at which offset it ended; NoEpoch and -1 when it knows none.
func (l *Log) EndOffsetFor(epoch offsets.Epoch) (offsets.Epoch, offsets.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.endFor(epoch, l.view.end)
}

// EpochAt is the leader epoch of an offset.
func (l *Log) EpochAt(at offsets.Offset) offsets.Epoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.at(at)
}

// LastEpoch is the leader epoch of the last record, offsets.NoEpoch without one.
func (l *Log) LastEpoch() offsets.Epoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.view.end == l.view.start {
		return offsets.NoEpoch
	}
	return l.epochs.at(l.view.end - 1)
}

// FirstUnstable is the first offset of the oldest open transaction.
func (l *Log) FirstUnstable() (offsets.Offset, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.firstUnstable()
}

// Damage lists what is known to be unreadable.
func (l *Log) Damage() []Damage {
	var out []Damage
	for _, d := range l.look().damaged {
		out = append(out, Damage{d.segment.name(logSuffix), d.pos, d.end, d.from, d.next})
	}
	return out
}

// Segment describes one segment.
type Segment struct {
	Path         string
	Base         offsets.Offset
	Size         int64
	MaxTimestamp int64
}

// Segments lists the segments, the active one last.
func (l *Log) Segments() ([]Segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Segment
	for i, s := range l.view.segments {
		t, err := s.greatest()
		if err != nil {
			return nil, err
		}
		out = append(out, Segment{s.name(logSuffix), s.base, l.view.limit(i), t})
	}
	return out, nil
}

// look takes the readers' view.
func (l *Log) look() view {
	l.pub.Lock()
	defer l.pub.Unlock()
	return l.view
}

// publish changes the readers' view; mu is held.
func (l *Log) publish(change func(v *view)) {
	l.pub.Lock()
	defer l.pub.Unlock()
	change(&l.view)
}

// rewind forgets the readers' positions after bytes have changed under them.
func (l *Log) rewind() {
	l.pub.Lock()
	defer l.pub.Unlock()
	l.view.gen++
	l.hint, l.tail = [hints]hint{}, hint{}
}

// writable tells whether the log may be written; mu is held.
func (l *Log) writable() error {
	if l.closed {
		return l.wrap("append", ErrClosed)
	}
	if l.disk.failed.Load() {
		return l.wrap("append", ErrFailed)
	}
	return nil
}

// wrap says which log an error belongs to.
func (l *Log) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return &logError{l.tp, what, err}
}

type logError struct {
	tp   offsets.TopicPartition
	what string
	err  error
}

func (e *logError) Error() string { return e.what + " " + e.tp.String() + ": " + e.err.Error() }
func (e *logError) Unwrap() error { return e.err }

// broken reports an I/O error of writing to the disk, unless it is one that
// leaves the log sound.
func (l *Log) broken(what string, err error) error {
	err = l.wrap(what, err)
	if err == nil || errors.Is(err, ErrNoSpace) || errors.Is(err, record.ErrCorrupt) || errors.Is(err, errGone) {
		return err
	}
	l.disk.fail(err)
	return errors.Join(err, ErrFailed)
}
