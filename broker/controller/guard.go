package controller

import (
	"errors"
	"sync"
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
type stallGuard struct {
	*entries
	// stalled is told when the limit is exceeded.
	stalled func()
	// alone tells whether nobody could take over, so that waiting is best.
	alone func() bool

	mu     sync.Mutex
	writer chan struct{} // closed when the write that stalled has ended; nil = none has
	wait   sync.WaitGroup
}

// StoreLog stores one entry.
func (g *stallGuard) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries and syncs them, or fails when that takes too long.
func (g *stallGuard) StoreLogs(logs []*raft.Log) error {
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
