package log

import (
	"errors"
	"path"
	"slices"
	"time"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// flushDirtyAfter is how long appends of a topic without flush settings wait
// before they are synced, so that recovery after a power cut stays short.
const flushDirtyAfter = time.Minute

// Tick does what is due: retention, forgetting silent producers, syncing what
// has waited long, deleting folders put aside, and the checkpoint; compaction
// of what is dirty begins in the background. The broker calls it every half
// minute.
func (d *Disk) Tick(now time.Time) error {
	d.reballast(now)
	var errs []error
	for _, l := range d.Logs() {
		errs = append(errs, l.tick(now.UnixMilli()))
	}
	errs = append(errs, d.dropNameless(), d.dropStrays(now), d.checkpoint())
	d.cleaner.at(now.UnixMilli())
	return errors.Join(errs...)
}

func (l *Log) tick(now int64) error {
	l.mu.Lock()
	if l.closed || l.disk.failed.Load() {
		l.mu.Unlock()
		return nil
	}
	l.producers.expire(now - l.disk.config.ProducerExpiry.Milliseconds())
	stale := l.dirtied != 0 && now-l.dirtied >= flushDirtyAfter.Milliseconds()
	l.mu.Unlock()
	if stale {
		if err := l.flush(l.End(), true); err != nil {
			return err
		}
	}
	return l.retain(now)
}

// retain deletes the oldest segments that are past retention. A log all of
// whose records are past it ends up empty: its active segment is closed first.
func (l *Log) retain(now int64) error {
	c := l.config.Load()
	if !c.Delete {
		return nil
	}
	hold := NoHold
	if l.disk.config.Hold != nil {
		hold = l.disk.config.Hold(l)
	}
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	to, err := l.expired(c, now, hold)
	if err == nil && to > l.RecoveryPoint() {
		if err = l.flushHeld(true); err == nil {
			to, err = l.expired(c, now, hold)
		}
	}
	if err != nil {
		return l.wrap("retain", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || to <= l.view.start || to > l.RecoveryPoint() {
		return nil
	}
	if to == l.view.end && l.view.size > 0 {
		if err := l.roll(); err != nil {
			return l.wrap("retain", err)
		}
	}
	l.disk.config.Logger.Info("segments are past retention", "log", l.tp, "start", to)
	return l.broken("retain", l.deleteBefore(to))
}

// expired is the offset up to which all segments are past retention: the active
// one too, unless it is empty, as in Kafka.
func (l *Log) expired(c *Config, now int64, hold offsets.Offset) (offsets.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &l.view
	var total int64
	for i := range v.segments {
		total += v.limit(i)
	}
	to := v.start
	for i, s := range v.segments {
		size := v.limit(i)
		if size == 0 {
			break
		}
		t, err := s.greatest()
		if err != nil {
			return 0, err
		}
		if t < 0 && c.RetentionMs >= 0 { // no record has a time: that of the file counts
			if t, err = s.modified(); err != nil {
				return 0, err
			}
		}
		old := c.RetentionMs >= 0 && now-t > c.RetentionMs
		large := c.RetentionBytes >= 0 && total-size >= c.RetentionBytes
		if !old && !large || v.endOf(i) > hold {
			break
		}
		total -= size
		to = v.endOf(i)
	}
	return to, nil
}

// checkpoint writes recovery-points when something has changed, and the journal
// anew when most of it is dead. The journal's cuts are dropped only for logs
// whose point in the file is not above them.
func (d *Disk) checkpoint() error {
	d.checkpointMu.Lock()
	defer d.checkpointMu.Unlock()
	mark := d.journal.end() // before the points: a cut from here on is younger than them
	logs := d.Logs()
	points := make(map[logKey]point, len(logs))
	keys := make([]logKey, 0, len(logs))
	changed := len(logs) != len(d.points)
	for _, l := range logs {
		p, ok := l.point()
		if !ok {
			continue
		}
		points[l.key()] = p
		keys = append(keys, l.key())
		changed = changed || d.points[l.key()] != p
	}
	if changed {
		err := vfs.Replace(d.vital, path.Join(d.dir, checkpointName), encodePoints(mark, keys, points))
		if err != nil {
			return err
		}
		d.points = points
	}
	live := 0
	for _, l := range logs {
		live += l.checkpointed(points[l.key()].recovery)
	}
	if !d.journal.heavy(live) {
		return nil
	}
	return d.journal.rewriteFor(logs)
}

// point is the log's line in the checkpoint; false while its folder may not
// survive a power cut.
func (l *Log) point() (point, bool) {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	recovery := max(l.RecoveryPoint(), l.view.start)
	for i, s := range l.view.segments[:len(l.view.segments)-1] {
		if !s.indexDone { // its indexes may not survive a power cut
			recovery = min(recovery, max(l.view.start, l.view.segments[i].base))
			break
		}
	}
	return point{l.view.start, recovery, len(l.producers.byID) == 0}, l.durable
}

// checkpointed notes that the checkpoint holds a recovery point, and returns
// how many records of the journal the log needs.
func (l *Log) checkpointed(recovery offsets.Offset) int {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut && recovery <= l.RecoveryPoint() {
		l.cut = false
	}
	return len(l.epochs) + 2
}

// rewriteFor writes the journal anew with what the logs need. Every log is
// locked until that is done, so that no record is lost between.
func (j *journal) rewriteFor(logs []*Log) error {
	var entries []journalEntry
	for _, l := range logs {
		l.flushMu.Lock()
		defer l.flushMu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		key := l.key()
		if l.cut {
			entries = append(entries, journalEntry{journalEnd, key, 0, l.RecoveryPoint()})
		}
		entries = append(entries, journalEntry{journalStart, key, 0, l.logged})
		for _, e := range l.epochs {
			entries = append(entries, journalEntry{journalAssign, key, e.Epoch, e.Start})
		}
	}
	return j.rewrite(entries)
}

// Assignment is a leader epoch that begins at a log's end.
type Assignment struct {
	Log   *Log
	Epoch offsets.Epoch
}

// Assign notes for many logs at once, with one sync, that new leader epochs
// begin at their ends. Epochs not above the latest change nothing.
func (d *Disk) Assign(as []Assignment) error {
	var entries []journalEntry
	before := make(map[*Log]epochs, len(as))
	for _, a := range as {
		a.Log.mu.Lock()
		if changed := false; !a.Log.closed {
			was := slices.Clone(a.Log.epochs)
			a.Log.epochs, changed = a.Log.epochs.assign(a.Epoch, a.Log.view.end)
			if changed {
				before[a.Log] = was
				entries = append(entries, journalEntry{journalAssign, a.Log.key(), a.Epoch, a.Log.view.end})
			}
		}
		a.Log.mu.Unlock()
	}
	if len(entries) == 0 {
		return nil
	}
	err := d.journal.write(true, entries...)
	if errors.Is(err, ErrNoSpace) { // nothing was noted: nobody leads
		for l, was := range before {
			l.mu.Lock()
			l.epochs = was
			l.mu.Unlock()
		}
		return err
	}
	if err != nil {
		d.fail(err)
		return errors.Join(err, ErrFailed)
	}
	return nil
}

// close writes all that the next start needs of a log.
func (l *Log) close() error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if l.disk.failed.Load() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.closed = true
		return nil
	}
	if err := l.flushLast(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.view.active()
	err := s.trim()
	if err == nil && s.size > 0 && (!s.indexDone || s.index.waits() || s.times.waits()) {
		err = s.writeIndexes(true)
	}
	if err == nil && len(l.producers.byID) > 0 && l.snapped != l.view.end {
		err = l.writeSnapshot(l.view.end)
		if err == nil {
			err = syncFile(l.disk.fs, l.file(offsetName(l.view.end, snapshotSuffix)))
		}
		if err == nil {
			err = l.disk.fs.SyncDir(l.path)
		}
	}
	l.closed = true
	return l.broken("close", err)
}

// flushLast flushes unless the log is as it was loaded.
func (l *Log) flushLast() error {
	v := l.look()
	if v.end == 0 {
		return nil // nothing was ever written: the metadata can make it again
	}
	sealed := len(v.segments) < 2 || v.segments[len(v.segments)-2].indexDone
	if l.RecoveryPoint() >= v.end && sealed && l.durable {
		return nil
	}
	return l.flushHeld(true)
}
