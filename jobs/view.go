package jobs

import (
	"context"
	"time"
)

// cachedView is a ledger's view and when its reading began; with an error, what was
// known before, or nil.
type cachedView struct {
	view  *View
	err   error
	at    time.Time
	known time.Time // when the reading began that gave view; with an error before at
	late  bool      // it is being read anew: who asked no longer waits for that
}

// viewRead is a ledger that is being read.
type viewRead struct {
	cachedView
	spec *Spec         // it is read as this says
	done chan struct{} // closed once the view is there
}

const (
	// viewAge is how long a view is shown before the ledger is read again; a run's
	// end outdates it at once, this is for runs of other processes.
	viewAge = 30 * time.Second
	// viewTime is how long it may take to read a ledger.
	viewTime = time.Minute
)

// view reads a ledger, or gives what was read a moment ago. All who ask at a time
// wait for one reading. It goes on when they no longer wait, so that who asks next
// has it; they get what was known before.
func (s *Scheduler) view(ctx context.Context, j *jobState, set Set) cachedView {
	s.mu.Lock()
	last := s.views[set.Dataset]
	if last != nil && recent(last.at, viewAge, s.now()) {
		s.mu.Unlock()
		return *last
	}
	r := s.reads[set.Dataset]
	if r == nil || r.spec != j.spec {
		if err := context.Cause(s.ctx); err != nil || ctx.Err() != nil {
			s.mu.Unlock()
			return late(last, err)
		}
		r = s.read(j.spec, set)
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		return r.cachedView
	case <-ctx.Done():
	}
	select {
	case <-r.done: // both in the same moment
		return r.cachedView
	default:
		return late(last, nil)
	}
}

// late is what is shown of a ledger that was not waited for.
func late(last *cachedView, err error) cachedView {
	if last == nil {
		return cachedView{err: err, late: true}
	}
	v := *last
	v.late = true
	return v
}

// read begins to read a ledger. The caller holds mu.
func (s *Scheduler) read(spec *Spec, set Set) *viewRead {
	r := &viewRead{cachedView: cachedView{at: s.now()}, spec: spec, done: make(chan struct{})}
	s.reads[set.Dataset] = r
	s.errands.begin("the reading of the ledger of "+set.Dataset, func() {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(s.ctx, viewTime)
		defer cancel()
		r.view, r.err = s.c.Runner.View(ctx, spec, set)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.reads[set.Dataset] != r {
			return // it may be of before a run's end
		}
		delete(s.reads, set.Dataset)
		r.known = r.at
		if r.err != nil {
			r.view, r.known = nil, time.Time{}
			if last := s.views[set.Dataset]; last != nil {
				r.view, r.known = last.view, last.known // beside the error
			}
		}
		s.views[set.Dataset] = &r.cachedView
	})
	return r
}

// outdate has a ledger read again, since a run of it ended. The caller holds mu.
func (s *Scheduler) outdate(dataset string) {
	delete(s.reads, dataset)
	if v := s.views[dataset]; v != nil {
		old := *v
		old.at = time.Time{}
		s.views[dataset] = &old
	}
}
