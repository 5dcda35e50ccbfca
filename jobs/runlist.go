package jobs

import (
	"slices"
	"time"
)

// RunStates are the states of runs, in the order in which they come.
var RunStates = []string{Queued, Running, Committed, Covered, Failed, Partial, Cancelled}

// RunFilter picks runs.
type RunFilter struct {
	Job      string
	Status   string
	Kind     string    // why it was made
	Backfill string    // its id
	Tick     time.Time // of this tick only
	Since    time.Time // that ended, or else were queued, at it or later
	Until    time.Time // and before it
	After    string    // a run: those that come behind it, older ones
	Before   string    // a run: those that come next before it, newer ones
	Limit    int       // 0 = 50
}

func (f *RunFilter) picks(r *Run) bool {
	at := r.Ended
	if at.IsZero() {
		at = r.Queued
	}
	return (f.Status == "" || r.Status == f.Status) && (f.Kind == "" || r.Kind == f.Kind) && (f.Backfill == "" || r.Backfill == f.Backfill) &&
		(f.Tick.IsZero() || r.Tick.Equal(f.Tick)) && (f.Since.IsZero() || !at.Before(f.Since)) && (f.Until.IsZero() || at.Before(f.Until))
}

// Runs lists runs, newest first. Of each job it looks at no more of them than it
// has to.
func (s *Scheduler) Runs(f RunFilter) []*Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := f.Limit
	if limit <= 0 {
		limit = 50
	}
	newer := s.f.runs[f.Before] != nil
	found := []*Run{}
	for name, runs := range s.f.byJob {
		if f.Job != "" && f.Job != name {
			continue
		}
		found = append(found, f.nearest(s.f, runs, limit)...)
	}
	slices.SortFunc(found, func(a, b *Run) int {
		if newer {
			return inQueue(a, b)
		}
		return inQueue(b, a)
	})
	found = found[:min(len(found), limit)]
	if newer {
		slices.Reverse(found)
	}
	for i, r := range found {
		found[i] = r.clone()
	}
	return found
}

// nearest picks runs of one job, which are in order of the queue: so many at most,
// those next to where the list begins.
func (f *RunFilter) nearest(all *fold, runs []*Run, limit int) (out []*Run) {
	from, by := len(runs)-1, -1
	if r := all.runs[f.After]; r != nil {
		n, _ := slices.BinarySearchFunc(runs, r, inQueue)
		from = n - 1
	}
	if r := all.runs[f.Before]; r != nil {
		n, there := slices.BinarySearchFunc(runs, r, inQueue)
		if from, by = n, 1; there {
			from++
		}
	}
	for i := from; i >= 0 && i < len(runs) && len(out) < limit; i += by {
		if f.picks(runs[i]) {
			out = append(out, runs[i])
		}
	}
	return out
}
