package controller

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// stallLimit is how long the Raft log may take to store entries (guard G1).
// Raft's leader writes on the goroutine that would notice that it must not lead
// any more, while its heartbeats go on from another: a leader whose disk hangs
// would hold the cluster up for as long as it hangs.
const stallLimit = time.Second

// stallRest is how long a node whose disk hung doesn't stand for leader.
const stallRest = 30 * time.Second

var errStalled = errors.New("the disk takes too long to store the raft log")

// stallGuard is a log store that fails instead of hanging, so that Raft steps
// down. What was being written may be in the log all the same; Raft takes that
// for the tail of a leader that was replaced.
//
// A follower cuts what another leader overwrites, then stores that leader's
// entries. When storing fails, as on a full disk, or takes too long, Raft goes on
// believing in what was cut, and would ask for it in vain, or find there what was
// written but not synced, and tell the leader that it has it (guard G8). So from
// the cut to the end that Raft believes in, entries are answered as ones of term
// 0, which no leader has, until some are stored and synced: Raft finds that they
// differ, cuts again, and stores what it is sent. A node that comes to lead
// meanwhile would go on behind a gap; it ends, and knows its log after a new start.
type stallGuard struct {
	*entries
	// stalled is told when the limit is exceeded.
	stalled func()
	// alone tells whether nobody could take over, so that waiting is best.
	alone func() bool
	// covered is the last entry of the newest snapshot; index 0 = there is none.
	covered func() (index, term uint64)
	// fail ends the process.
	fail func(error)

	cut      atomic.Uint64 // the first index that Raft believes in since a cut and that may be gone; 0 = none
	believed atomic.Uint64 // the last one

	mu     sync.Mutex
	writer chan struct{} // closed when the write that stalled has ended; nil = none has
	wait   sync.WaitGroup
}

var errMisled = errors.New("the end of the raft log was cut for another leader's entries, which were not stored, and this node was to lead; it has to be started again")

// StoreLog stores one entry.
func (g *stallGuard) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

// GetLog reads one entry, also one that was cut and not replaced yet.
func (g *stallGuard) GetLog(index uint64, into *raft.Log) error {
	cut := g.cut.Load()
	if cut == 0 || index > g.believed.Load() {
		return g.entries.GetLog(index, into)
	}
	switch covered, term := g.covered(); {
	case index == covered: // what comes behind a snapshot names its last entry
		*into = raft.Log{Index: index, Term: term}
		return nil
	case index < cut, index < covered:
		return g.entries.GetLog(index, into)
	}
	*into = raft.Log{Index: index}
	return nil
}

// DeleteRange deletes entries, of which the last ones may have been cut before.
func (g *stallGuard) DeleteRange(first, last uint64) error {
	if !g.alone() {
		limit := time.NewTimer(stallLimit)
		defer limit.Stop()
		if err := g.free(limit.C); err != nil {
			return err
		}
	}
	if g.lacks(first) {
		return nil
	}
	if g.lacks(last + 1) {
		g.believed.Store(max(last, g.believed.Load()))
		if cut := g.cut.Load(); cut == 0 || first < cut {
			g.cut.Store(first)
		}
	}
	return g.entries.DeleteRange(first, last)
}

// StoreLogs appends entries and syncs them, or fails when that takes too long.
func (g *stallGuard) StoreLogs(logs []*raft.Log) error {
	if cut := g.cut.Load(); cut != 0 && len(logs) > 0 && logs[0].Index > cut {
		if covered, _ := g.covered(); logs[0].Index > covered+1 {
			g.fail(errMisled)
			return errMisled
		}
	}
	err := g.store(logs)
	if err == nil {
		g.cut.Store(0)
		g.believed.Store(0)
	}
	return err
}

func (g *stallGuard) store(logs []*raft.Log) error {
	if g.alone() {
		return g.entries.StoreLogs(logs)
	}
	limit := time.NewTimer(stallLimit)
	defer limit.Stop()
	if err := g.free(limit.C); err != nil {
		return err
	}
	stored := make(chan error, 1)
	ended := make(chan struct{})
	g.wait.Go(func() {
		defer close(ended)
		stored <- g.entries.StoreLogs(logs)
	})
	select {
	case err := <-stored:
		return err
	case <-limit.C:
		g.mu.Lock()
		g.writer = ended
		g.mu.Unlock()
		g.stalled()
		return errStalled
	}
}

// free waits for the write that stalled before, if there is one.
func (g *stallGuard) free(limit <-chan time.Time) error {
	g.mu.Lock()
	writer := g.writer
	g.mu.Unlock()
	if writer == nil {
		return nil
	}
	select {
	case <-writer:
	case <-limit:
		g.stalled()
		return errStalled
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writer = nil
	return nil
}

// close waits for the last write.
func (g *stallGuard) close() { g.wait.Wait() }
