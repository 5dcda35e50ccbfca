package log

import (
	"container/heap"
	"errors"
	"sync"
	"time"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// Flush makes everything appended so far survive a power cut.
func (l *Log) Flush() error { return l.flush(l.End(), false) }

// flushAfter syncs an append where the topic asks for it: at once, after a
// number of records, or on time in the background.
func (l *Log) flushAfter(end offsets.Offset, c *Config) error {
	if c.flushNow() || int64(end-l.RecoveryPoint()) >= c.FlushMessages {
		return l.flush(end, false)
	}
	if c.FlushMs < maxFlushMs && !l.flushAt.Swap(true) {
		l.disk.flusher.within(l, time.Duration(c.FlushMs)*time.Millisecond)
	}
	return nil
}

// maxFlushMs is where flush.ms means never.
const maxFlushMs = int64(1) << 53

// flush syncs up to an offset. Whoever waits for flushMu meanwhile finds its
// records synced by the holder before it, or syncs those of all who wait. With
// seal the indexes of closed segments are synced as well.
func (l *Log) flush(to offsets.Offset, seal bool) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if l.RecoveryPoint() >= to && !seal {
		return nil
	}
	return l.flushHeld(seal)
}

func (l *Log) flushHeld(seal bool) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	if l.disk.failed.Load() {
		l.mu.Unlock()
		return l.wrap("flush", ErrFailed)
	}
	v := l.view
	l.dirtied = 0
	l.mu.Unlock()
	first := v.holder(l.RecoveryPoint())
	for seal && first > 0 && !v.segments[first-1].indexDone {
		first--
	}
	names := false
	for i := first; i < len(v.segments); i++ {
		s := v.segments[i]
		err := s.sync(v.limit(i) > 0, seal && i < len(v.segments)-1)
		if errors.Is(err, errGone) {
			continue // deleted meanwhile: nothing of it has to survive
		}
		if err != nil {
			return l.broken("flush", err)
		}
		names = names || !s.nameSynced
		s.nameSynced = true
	}
	err := l.syncNames(names)
	if err == nil {
		err = l.disk.journal.sync()
	}
	if err != nil {
		return l.broken("flush", err)
	}
	l.recovery.Store(int64(max(l.RecoveryPoint(), v.end)))
	return nil
}

// sync syncs the batches of a segment and, when it is closed, what belongs to
// it.
func (s *segment) sync(data, seal bool) error {
	if data {
		f, err := s.open(0)
		if err != nil {
			return err
		}
		err = f.Sync()
		s.data.release()
		if err != nil {
			return err
		}
	}
	if !seal || s.indexDone {
		return nil
	}
	if err := s.writeIndexes(true); err != nil {
		return err
	}
	s.indexDone = true
	return nil
}

// syncNames makes the log's folder survive: what it is on the first flush, new
// segments on later ones.
func (l *Log) syncNames(names bool) error {
	fs := l.disk.fs
	if l.durable && !names {
		return nil
	}
	if !l.durable {
		if err := syncFile(fs, l.file(partitionName)); err != nil {
			return err
		}
	}
	if err := fs.SyncDir(l.path); err != nil {
		return err
	}
	if !l.durable {
		if err := fs.SyncDir(l.disk.dir); err != nil {
			return err
		}
	}
	l.durable = true
	return nil
}

func syncFile(fs vfs.FS, name string) error {
	f, err := fs.OpenFile(name, osReadWrite, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// flusher syncs logs whose time has come, many at a time: syncs that meet share
// one commit of the file system's journal, where one after the other the last of
// them would come too late.
type flusher struct {
	mu    sync.Mutex
	due   dueHeap
	took  time.Duration // the slowest of the last flushes, from when it was due to its end
	wake  chan struct{}
	hands chan struct{} // holds one for each flush under way
	stop  chan struct{}
	done  sync.WaitGroup
}

// flushesAtOnce is how many syncs a disk is given at a time.
const flushesAtOnce = 16

type due struct {
	log  *Log
	at   time.Time
	what dueKind
}

// dueKind is what is to be done with a log.
type dueKind uint8

const (
	dueFlush dueKind = iota
	dueSeal          // sync the closed segments' indexes as well
	dueMend          // make damaged indexes anew
)

type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(due)) }
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = due{}
	*h = old[:len(old)-1]
	return last
}

func startFlusher() *flusher {
	f := &flusher{wake: make(chan struct{}, 1), hands: make(chan struct{}, flushesAtOnce), stop: make(chan struct{})}
	f.done.Go(f.run)
	return f
}

// within has a log flushed so early that it is done when the window ends: twice
// what flushes take of late before, a quarter of the window at least, half of it
// at most. A disk that takes longer than that for a sync breaks the window.
func (f *flusher) within(l *Log, window time.Duration) {
	f.mu.Lock()
	lead := min(max(2*f.took, window/4), window/2)
	f.mu.Unlock()
	f.add(due{l, time.Now().Add(window - lead), dueFlush})
}

// ended notes how long a flush took. What was slow once is forgotten by and by.
func (f *flusher) ended(took time.Duration) {
	f.mu.Lock()
	f.took = max(took, f.took-f.took/16)
	f.mu.Unlock()
}

// soon has the closed segments of a log synced.
func (f *flusher) soon(l *Log) { f.add(due{l, time.Now(), dueSeal}) }

// mend has the damaged indexes of a log made anew.
func (f *flusher) mend(l *Log) { f.add(due{l, time.Now(), dueMend}) }

func (f *flusher) add(d due) {
	f.mu.Lock()
	heap.Push(&f.due, d)
	first := f.due[0] == d
	f.mu.Unlock()
	if first {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// do does it. An error has failed the disk; whoever watches it hears there.
func (d due) do() {
	switch d.what {
	case dueFlush:
		d.log.flushAt.Store(false)
		_ = d.log.flush(d.log.End(), false)
		d.log.disk.flusher.ended(time.Since(d.at))
	case dueSeal:
		_ = d.log.flush(d.log.End(), true)
	case dueMend:
		_ = d.log.mend()
	}
}

func (f *flusher) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, wait, any := f.take()
		switch {
		case any && wait <= 0:
			select {
			case f.hands <- struct{}{}:
				f.done.Go(func() {
					next.do()
					<-f.hands
				})
				continue
			case <-f.stop:
				return
			}
		case any:
			timer.Reset(wait)
		default:
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-f.wake:
		case <-f.stop:
			return
		}
	}
}

// take removes the log that is due, or tells how long until one is.
func (f *flusher) take() (next due, wait time.Duration, any bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.due) == 0 {
		return due{}, 0, false
	}
	if wait = time.Until(f.due[0].at); wait > 0 {
		return due{}, wait, true
	}
	return heap.Pop(&f.due).(due), 0, true
}

func (f *flusher) close() {
	close(f.stop)
	f.done.Wait()
}
