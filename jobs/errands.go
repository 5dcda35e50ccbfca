package jobs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// errands are the goroutines of a scheduler, by what they are for. Nothing can end
// one that a file system keeps waiting, so that who closes must be able to leave it.
type errands struct {
	mu   sync.Mutex
	open map[string]int
	none chan struct{} // closed once there is none; nil = nobody waits for that
}

// begin carries out one, that what names.
func (e *errands) begin(what string, do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		e.open = map[string]int{}
	}
	e.open[what]++
	go func() {
		defer e.end(what)
		do()
	}()
}

func (e *errands) end(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open[what]--; e.open[what] == 0 {
		delete(e.open, what)
	}
	if len(e.open) == 0 && e.none != nil {
		close(e.none)
		e.none = nil
	}
}

// closeTime is how long Close waits for what was told to stop.
const closeTime = 10 * time.Second

// wait waits until all have ended, and closeTime at most; left are the others. Who
// calls it has seen to it that only one which is still open begins another.
func (e *errands) wait() (left []string) {
	e.mu.Lock()
	if len(e.open) == 0 {
		e.mu.Unlock()
		return nil
	}
	if e.none == nil {
		e.none = make(chan struct{})
	}
	none := e.none // of all who wait
	e.mu.Unlock()
	late := time.NewTimer(closeTime)
	defer late.Stop()
	select {
	case <-none:
		return nil
	case <-late.C:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.open))
}

// LeftError is what a scheduler that closed leaves behind: it was told to stop and
// did not within closeTime. The journal takes nothing more from it.
type LeftError struct{ What []string }

// leftNamed is how many are named.
const leftNamed = 10

func (e *LeftError) Error() string {
	named, more := e.What, ""
	if n := len(named) - leftNamed; n > 0 {
		named, more = named[:leftNamed], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s%s did not stop within %v: a file system that hangs, such as an NFS mount without its server, is waited for by them, and they go on until it answers, or end with this process; "+
		"runs are taken up at the next start, which finds in the ledger whether they committed", strings.Join(named, ", "), more, closeTime)
}
