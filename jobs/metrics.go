package jobs

import (
	"maps"
	"time"
)

// Stats are a job's numbers; counters begin at the start of the process.
type Stats struct {
	Job         string
	Queued      int
	Running     int
	Paused      bool
	Stale       bool
	Trouble     bool      // its ticks cannot be decided
	NextDue     time.Time // zero = none
	LastSuccess time.Time
	Items       map[string]int // of the open backfill, by state; nil = none is open
	Facts
	Counts
}

// Facts are what the grid of a job says, all its data sets together. It is read
// apart from who asks for it, so it may be a moment old.
type Facts struct {
	Hours       map[string]int // units of the last factSpan, by state
	SealedUntil time.Time      // of the data set that is furthest behind; zero = one has nothing sealed
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
	s.readFacts()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	out := make([]Stats, 0, len(s.f.jobs))
	for _, name := range sortedKeys(s.f.jobs) {
		j := s.f.jobs[name]
		st := Stats{
			Job: name, Paused: j.Paused, Stale: s.stale[name], Trouble: s.trouble[name] != "" || j.spec == nil,
			Counts: Counts{Ended: map[string]int64{}},
		}
		for _, r := range s.f.byJob[name] {
			switch r.Status {
			case Queued:
				st.Queued++
			case Running:
				st.Running++
			}
		}
		if j.spec != nil && j.spec.Schedule != nil && !j.Paused {
			st.NextDue = j.spec.Schedule.Due(j.spec.Schedule.Next(latest(j.cursor(), now.Add(-j.spec.Schedule.Delay))))
		}
		if good := s.f.lastGood(name); good != nil {
			st.LastSuccess = good.Ended
		}
		if b := s.f.backfills[s.f.driven[name]]; b != nil {
			st.Items = s.f.view(b, false).Counts
		}
		if f := s.facts[name]; f != nil {
			st.Facts = f.Facts
		}
		if c := s.counts[name]; c != nil {
			st.Counts = *c
			st.Ended = maps.Clone(c.Ended)
		}
		out = append(out, st)
	}
	return out
}

const (
	// factSpan is what facts are of.
	factSpan = 72 * time.Hour
	// factAge is how long facts are shown although no run of their job ended.
	factAge = 5 * time.Minute
)

// knownFacts are facts, and what they were read after.
type knownFacts struct {
	Facts
	at   time.Time
	last int64 // Seq of the job's last run that had ended then
}

// readFacts has the facts read of those jobs of which they are no longer true,
// one job after another, apart from the caller: a data set may be far away.
func (s *Scheduler) readFacts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading || s.ctx.Err() != nil {
		return
	}
	now := s.now()
	due := map[string]int64{}
	for name, j := range s.f.jobs {
		last := int64(-1)
		for _, r := range s.f.byJob[name] {
			if !r.Open() {
				last = max(last, r.Seq)
			}
		}
		if f := s.facts[name]; j.spec != nil && (f == nil || f.last != last || !recent(f.at, factAge, now)) {
			due[name] = last
		}
	}
	if len(due) == 0 {
		return
	}
	s.reading = true
	s.errands.begin("the count of hours", func() {
		for _, name := range sortedKeys(due) {
			grids, err := s.Hours(s.ctx, name, now.Add(-factSpan), now)
			if s.ctx.Err() != nil {
				break
			}
			f := &knownFacts{at: now, last: due[name]}
			if err == nil {
				f.Facts = factsOf(grids)
			}
			s.mu.Lock()
			s.facts[name] = f
			s.mu.Unlock()
		}
		s.mu.Lock()
		s.reading = false
		s.mu.Unlock()
	})
}

// factsOf counts the cells of grids. What can't be read, or is yet to come,
// counts as nothing.
func factsOf(grids []Grid) Facts {
	f := Facts{Hours: map[string]int{
		HourMissing: 0, HourFilling: 0, HourSealed: 0, HourLate: 0, HourFailed: 0, HourRunning: 0,
	}}
	for i, g := range grids {
		var sealed time.Time
		for _, h := range g.Hours {
			if _, counts := f.Hours[h.State]; counts {
				f.Hours[h.State]++
			}
			if h.Sealed >= 0 {
				sealed = unitEnd(g.Unit, h.Hour)
			}
		}
		if i == 0 || sealed.Before(f.SealedUntil) {
			f.SealedUntil = sealed
		}
	}
	return f
}
