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
	Backfill string    // its id
	Tick     time.Time // of this tick only
	Since    time.Time // that ended, or else were queued, at it or later
	After    string    // a run: those that come behind it, older ones
	Limit    int       // 0 = 50
}

func (f *RunFilter) picks(r *Run) bool {
	at := r.Ended
	if at.IsZero() {
		at = r.Queued
	}
	return (f.Status == "" || r.Status == f.Status) && (f.Backfill == "" || r.Backfill == f.Backfill) &&
		(f.Tick.IsZero() || r.Tick.Equal(f.Tick)) && (f.Since.IsZero() || !at.Before(f.Since))
}

// Runs lists runs, newest first. It looks at no more of them than it has to.
func (s *Scheduler) Runs(f RunFilter) []*Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lists [][]*Run // of each job, oldest first, without what was looked at
	for name, runs := range s.f.byJob {
		if f.Job == "" || f.Job == name {
			lists = append(lists, runs)
		}
	}
	if after := s.f.runs[f.After]; f.After != "" && after != nil {
		for i, runs := range lists {
			n, _ := slices.BinarySearchFunc(runs, after, inQueue)
			lists[i] = runs[:n]
		}
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 50
	}
	out := []*Run{}
	for r := newest(lists); r != nil && len(out) < limit; r = newest(lists) {
		if f.picks(r) {
			out = append(out, r.clone())
		}
	}
	return out
}

// newest takes the newest run off the lists; nil when there is none.
func newest(lists [][]*Run) *Run {
	from := -1
	for i, runs := range lists {
		if len(runs) > 0 && (from < 0 || inQueue(runs[len(runs)-1], lists[from][len(lists[from])-1]) > 0) {
			from = i
		}
	}
	if from < 0 {
		return nil
	}
	last := len(lists[from]) - 1
	r := lists[from][last]
	lists[from] = lists[from][:last]
	return r
}
