package jobs

import "maps"

import "time"

// Stats are a job's numbers; counters begin at the start of the process.
type Stats struct {
	Job         string
	Queued      int
	Running     int
	Paused      bool
	Stale       bool
	LastSuccess time.Time
	Counts
}

// Counts are what the runs of a job that ended in this process did.
type Counts struct {
	Ended       map[string]int64 // runs, by status
	Rows        int64
	Quarantined int64
	Bytes       int64
	Files       int64
	Seconds     float64 // that the last attempts took
}

// count adds an ended run. The caller holds mu.
func (s *Scheduler) count(r *Run) {
	c := s.counts[r.Job]
	if c == nil {
		c = &Counts{Ended: map[string]int64{}}
		s.counts[r.Job] = c
	}
	c.Ended[r.Status]++
	c.Rows += r.Rows
	c.Quarantined += r.Quarantined
	c.Bytes += r.Bytes
	c.Files += r.Files
	for _, p := range r.Phases { // not from start to end: the clock may have been set
		c.Seconds += time.Duration(p.MS * int64(time.Millisecond)).Seconds()
	}
}

// Stats reads the numbers of every job.
func (s *Scheduler) Stats() []Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Stats, 0, len(s.f.jobs))
	for _, name := range sortedKeys(s.f.jobs) {
		st := Stats{Job: name, Paused: s.f.jobs[name].Paused, Stale: s.stale[name], Counts: Counts{Ended: map[string]int64{}}}
		for _, r := range s.f.byJob[name] {
			switch r.Status {
			case Queued:
				st.Queued++
			case Running:
				st.Running++
			}
		}
		if good := s.f.lastGood(name); good != nil {
			st.LastSuccess = good.Ended
		}
		if c := s.counts[name]; c != nil {
			st.Counts = *c
			st.Ended = make(map[string]int64, len(c.Ended))
			maps.Copy(st.Ended, c.Ended)
		}
		out = append(out, st)
	}
	return out
}
