package log

import (
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"sawlog/offsets"
)

// Compaction of the logs with cleanup.policy=compact, one at a time in one
// goroutine, which Tick wakes. The rules are those of Kafka's cleaner:
//
//  1. Of all logs the one with the greatest share of bytes not compacted yet is
//     taken, when that is above min.cleanable.dirty.ratio, or when records wait
//     longer than max.compaction.lag.ms (KIP-354). Never touched are: the active
//     segment, what is not committed or belongs to an open transaction, what is
//     younger than min.compaction.lag.ms, what a load job has yet to read
//     (DiskConfig.Hold), and everything from a damaged segment on.
//  2. The dirty part is read, and for each key the offset of its youngest record
//     noted in a map. When that is full, the rest waits for the next run.
//  3. All segments up to there are written anew, without the records for which
//     the map knows a younger one; neighbours that have become small together
//     into one. Every record keeps its offset: compaction leaves holes.
//  4. Each new segment takes the place of the old ones, see cleanswap.go; then
//     the point up to which the log is compacted is written down.
//
// What stays although no record of it does, as a header without records: the
// last batch of each producer that is remembered, since it tells the next
// sequence, and the last batch of each segment, so that the bytes of a log tell
// where its segments end. A tombstone stays until delete.retention.ms after the
// run that met it first; that run leaves the time in its batch (KIP-534). Data
// of aborted transactions goes, and a transaction's marker after delete.
// retention.ms once nothing of the transaction is left. Records without a key,
// which produce refuses, go.
//
// Reading and writing go by DiskConfig.CleanBytesPerSecond, the map by
// DiskConfig.CleanMemory; between runs nothing is held.

// cleaner compacts the logs of a disk.
type cleaner struct {
	disk   *Disk
	counts cleanCounts

	wake chan int64 // broker's time in ms
	stop chan struct{}
	done sync.WaitGroup

	latest *latestMap        // of the run
	bad    map[*segment]bool // with a batch that cannot be compacted, or damage that was spoken of
	paced  time.Time         // when what was read and written so far is due by the rate
}

// errStopped ends a run because the disk closes or has failed.
var errStopped = errors.New("compaction is stopped")

func startCleaner(d *Disk) *cleaner {
	c := &cleaner{disk: d, wake: make(chan int64, 1), stop: make(chan struct{}), bad: map[*segment]bool{}}
	c.done.Go(c.run)
	return c
}

// at has the cleaner look around; while it is busy that does nothing.
func (c *cleaner) at(now int64) {
	select {
	case c.wake <- now:
	default:
	}
}

func (c *cleaner) close() {
	close(c.stop)
	c.done.Wait()
}

func (c *cleaner) run() {
	for {
		select {
		case now := <-c.wake:
			c.round(now)
		case <-c.stop:
			return
		}
	}
}

// round compacts one log after the other, the dirtiest first, until none is
// dirty enough. A log whose run failed is left for the next round.
func (c *cleaner) round(now int64) {
	failed := map[*Log]bool{}
	for !c.stopped() {
		job := c.pick(now, failed)
		if job == nil {
			break
		}
		began := time.Now()
		err := c.clean(job, now)
		c.counts.nanos.Add(int64(time.Since(began)))
		c.latest = nil
		switch {
		case err == nil:
			c.counts.runs.Add(1)
			continue
		case errors.Is(err, errStopped):
			return
		}
		failed[job.log] = true
		c.counts.failures.Add(1)
		if errors.Is(err, errGone) || errors.Is(err, ErrClosed) {
			continue // deleted or truncated meanwhile
		}
		c.disk.config.Logger.Warn("a log was not compacted", "log", job.log.tp, "err", err)
	}
}

// pick finds the log to compact next.
func (c *cleaner) pick(now int64, failed map[*Log]bool) *cleanJob {
	var best *cleanJob
	dirtiest := 0.0
	for _, l := range c.disk.Logs() {
		config := l.config.Load()
		if !config.Compact || failed[l] || c.stopped() {
			continue
		}
		job, err := c.look(l, config, now)
		if err != nil {
			failed[l] = true
			if !errors.Is(err, ErrClosed) && !errors.Is(err, errGone) {
				c.disk.config.Logger.Warn("a log was not compacted", "log", l.tp, "err", err)
			}
			continue
		}
		dirtiest = max(dirtiest, job.ratio())
		if job.dirty == 0 || job.ratio() <= config.MinCleanableRatio && !job.due {
			continue
		}
		if best == nil || job.ratio() > best.ratio() {
			best = job
		}
	}
	c.counts.dirtiest.Store(math.Float64bits(dirtiest))
	return best
}

// clean is one run over one log.
func (c *cleaner) clean(job *cleanJob, now int64) error {
	l := job.log
	if err := c.secure(job); err != nil {
		return l.wrap("compact", err)
	}
	c.latest = newLatestMap(c.disk.config.CleanMemory)
	p := &pass{cleaner: c, job: job, log: l}
	err := p.run(now)
	if errors.Is(err, errUnreadable) {
		c.bad[p.reading] = true
	}
	if err == nil {
		err = c.reached(job, p.rules.end)
	}
	if err != nil {
		return l.wrap("compact", err)
	}
	c.disk.config.Logger.Info("a log is compacted", "log", l.tp, "from", job.first, "to", p.rules.end,
		"keys", c.latest.entries, "kept", p.kept, "removed", p.removed, "read", p.read, "written", p.written)
	return nil
}

// reached notes how far a log is compacted, unless it was truncated meanwhile.
func (c *cleaner) reached(job *cleanJob, to offsets.Offset) error {
	logs := c.disk.Logs()
	job.log.flushMu.Lock()
	defer job.log.flushMu.Unlock()
	if job.log.look().gen != job.gen {
		return errGone
	}
	if err := c.disk.cleaned.set(job.log.key(), to, logs); err != nil {
		return job.log.full(err)
	}
	return nil
}

// secure makes what is about to be replaced survive first: the records
// themselves, what is known of the producers at their end, and the checkpoint
// that has recovery begin there.
func (c *cleaner) secure(job *cleanJob) error {
	l := job.log
	l.flushMu.Lock()
	err := l.secureHeld(job)
	l.flushMu.Unlock()
	if err != nil {
		return err
	}
	if err := c.disk.checkpoint(); err != nil {
		return l.full(err)
	}
	return nil
}

func (l *Log) secureHeld(job *cleanJob) error {
	sealed := !slices.ContainsFunc(job.segments, func(s *segment) bool { return !s.indexDone })
	if l.RecoveryPoint() < job.end || !sealed {
		if err := l.flushHeld(true); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	return l.broken("keep the producers of", l.keepProducers(job.end))
}

func (c *cleaner) stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return c.disk.failed.Load()
	}
}

// paceStep is how long the cleaner may run ahead of its rate before it waits.
const paceStep = 50 * time.Millisecond

// pace is called with each stretch of bytes read or written: it waits so that
// the rate is kept, and tells when to stop.
func (c *cleaner) pace(bytes int) error {
	if c.stopped() {
		return errStopped
	}
	rate := c.disk.config.CleanBytesPerSecond
	if rate <= 0 {
		return nil
	}
	now := time.Now()
	if c.paced.Before(now.Add(-paceStep)) {
		c.paced = now
	}
	c.paced = c.paced.Add(time.Duration(float64(bytes) / float64(rate) * float64(time.Second)))
	ahead := c.paced.Sub(now)
	if ahead < paceStep {
		return nil
	}
	timer := time.NewTimer(ahead)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.stop:
		return errStopped
	}
}

// damaged speaks of a damaged segment once.
func (c *cleaner) damaged(l *Log, s *segment) {
	if c.bad[s] {
		return
	}
	c.bad[s] = true
	c.disk.config.Logger.Warn("a log is compacted only up to a damaged segment", "log", l.tp, "path", s.name(logSuffix))
}

// errNoRoom tells that the map cannot take a single key.
var errNoRoom = errors.New("no memory for a single key")
