package log

import (
	"slices"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// cleanJob is what may be compacted of a log now.
type cleanJob struct {
	log      *Log
	segments []*segment     // from the log's first one to the last that may be touched
	end      offsets.Offset // of those
	first    offsets.Offset // dirty from here on
	clean    int64          // bytes of segments without dirty records
	dirty    int64          // bytes of the others
	due      bool           // records wait longer than max.compaction.lag.ms
	gen      uint32         // of the view: when it has changed, so may have the segments
}

// ratio is how dirty the log is.
func (j *cleanJob) ratio() float64 {
	if j.dirty == 0 {
		return 0
	}
	return float64(j.dirty) / float64(j.clean+j.dirty)
}

// look finds what may be compacted of a log.
func (c *cleaner) look(l *Log, config *Config, now int64) (*cleanJob, error) {
	bound := NoHold
	if c.disk.config.Hold != nil {
		bound = c.disk.config.Hold(l)
	}
	if c.disk.config.Committed != nil {
		bound = min(bound, c.disk.config.Committed(l))
	}
	if unstable, open := l.FirstUnstable(); open {
		bound = min(bound, unstable)
	}
	if err := l.rollForLag(config, now); err != nil {
		return nil, err
	}
	v := l.look()
	bound = min(bound, v.active().base)
	for _, d := range v.damaged {
		if d.segment.base < bound {
			bound = d.segment.base
			c.damaged(l, d.segment)
		}
	}
	for _, s := range v.segments {
		if c.bad[s] {
			bound = min(bound, s.base)
		}
	}
	job := &cleanJob{log: l, first: v.start, gen: v.gen}
	if at, ok := c.disk.cleaned.get(l.key()); ok && at > v.start {
		job.first = at
		if at > v.end { // nothing of what was compacted is left
			job.first = v.start
		}
	}
	if err := job.choose(&v, config, bound, now); err != nil {
		return nil, err
	}
	return job, nil
}

// choose takes the segments below a bound, and counts their bytes.
func (j *cleanJob) choose(v *view, config *Config, bound offsets.Offset, now int64) error {
	oldest := int64(record.NoTimestamp) // first time of a dirty segment
	for i, s := range v.segments[:len(v.segments)-1] {
		if v.endOf(i) > bound {
			break
		}
		dirty := v.endOf(i) > j.first
		if dirty && config.MinCompactionLagMs > 0 {
			t, err := j.log.greatestOf(s)
			if err != nil {
				return err
			}
			if t > now-config.MinCompactionLagMs {
				break
			}
		}
		j.segments, j.end = append(j.segments, s), v.endOf(i)
		if !dirty {
			j.clean += s.size
			continue
		}
		j.dirty += s.size
		if !config.lagging() {
			continue
		}
		t, err := s.firstTime()
		if err != nil {
			return err
		}
		if t > 0 && (oldest == record.NoTimestamp || t < oldest) {
			oldest = t
		}
	}
	j.due = oldest != record.NoTimestamp && oldest < now-config.MaxCompactionLagMs
	return nil
}

// greatestOf is the greatest timestamp of a closed segment.
func (l *Log) greatestOf(s *segment) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.view.segments, s) {
		return 0, errGone
	}
	return s.greatest()
}

// firstTime is the greatest timestamp of the segment's first batch.
func (s *segment) firstTime() (int64, error) {
	scan, err := s.scan(s.size, record.HeaderSize)
	if err != nil {
		return 0, err
	}
	defer scan.done()
	head, err := scan.header(0)
	if err != nil {
		return 0, s.corrupt(0, err)
	}
	return head.MaxTimestamp(), nil
}

// rollForLag closes an active segment whose records wait longer than
// max.compaction.lag.ms. An append does so by itself; this is for logs to which
// nobody appends.
func (l *Log) rollForLag(c *Config, now int64) error {
	if !c.lagging() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	s := l.view.active()
	if s.size == 0 || now-s.age(now) < c.MaxCompactionLagMs {
		return nil
	}
	return l.roll()
}
