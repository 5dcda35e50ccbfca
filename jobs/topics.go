package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// topicList is what a job's pattern was found to match.
type topicList struct {
	pattern string
	names   []string
	err     error
	at      time.Time
	asking  bool // a look-up is on its way
}

const (
	// topicsTimeout bounds a look-up of a pattern in its cluster.
	topicsTimeout = 10 * time.Second
	// topicsAge is how long an answer counts for ticks, and how long a cluster
	// that did not answer is left alone.
	topicsAge = 30 * time.Second
)

// recentSets lists the data sets of a job for a tick. A pattern is looked up
// apart from the caller, who holds act and must not wait for a cluster; until
// the answer is there the tick stays due.
func (s *Scheduler) recentSets(j *jobState, now time.Time) (sets []Set, known bool) {
	if !j.spec.byPattern() {
		return j.spec.Sets(nil), true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.topics[j.Name]
	if list != nil && list.pattern == j.spec.Source.Pattern {
		recent := recent(list.at, topicsAge, now)
		if recent && list.err == nil {
			return j.spec.Sets(list.names), true
		}
		if list.asking || recent {
			return nil, false
		}
	}
	s.topics[j.Name] = &topicList{pattern: j.spec.Source.Pattern, asking: true}
	s.errands.begin("the topics of job "+j.Name, func() {
		if _, err := s.lookUp(s.ctx, j.Name, j.spec); err != nil && s.ctx.Err() == nil {
			s.c.Logger.Warn("ticks wait for the job's topics", "job", j.Name, "err", err)
		}
		s.kick()
	})
	return nil, false
}

// byPattern tells whether a job's data sets depend on what its cluster holds.
func (s *Spec) byPattern() bool { return s.Separate() && s.Source.Pattern != "" }

// lookUp asks the cluster and remembers the answer.
func (s *Scheduler) lookUp(ctx context.Context, job string, spec *Spec) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, topicsTimeout)
	defer cancel()
	names, err := s.c.Runner.Topics(ctx, spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topics[job] = &topicList{pattern: spec.Source.Pattern, names: names, err: err, at: s.now()}
	if err != nil {
		s.trouble[job] = "topics: " + err.Error()
		return nil, fmt.Errorf("topics of job %s: %w", job, err)
	}
	delete(s.trouble, job)
	s.mu.Unlock()
	err = s.noteTopics(ctx, job, spec.Source.Pattern, names)
	s.mu.Lock()
	return slices.Clone(names), err
}

// noteTopics writes down what a pattern matched when it was first looked up:
// what comes later is loaded from the start of its log.
func (s *Scheduler) noteTopics(ctx context.Context, job, pattern string, names []string) error {
	s.act.Lock()
	defer s.act.Unlock()
	j, err := s.job(job)
	if err != nil || j.Topics != nil || j.spec == nil || j.spec.Source.Pattern != pattern {
		return nil // the job has changed meanwhile, and is looked up anew
	}
	rec := j.Job
	rec.Topics = append([]string{}, names...)
	return s.append(ctx, jobEntry(rec))
}

// recent tells whether something of a moment still counts. One that lies ahead
// does not: the clock was set back.
func recent(at time.Time, age time.Duration, now time.Time) bool {
	since := now.Sub(at)
	return since >= 0 && since < age
}

// set is the data set of a run.
func (j *jobState) set(r *Run) Set { return j.late(Set{Dataset: r.Dataset, Topic: r.Topic}) }

// late marks a data set whose topic came after the pattern was first looked up.
func (j *jobState) late(set Set) Set {
	set.Late = j.Topics != nil && j.spec.byPattern() && !slices.Contains(j.Topics, set.Topic)
	return set
}

// presentSets lists the data sets of a job that get runs now, as far as is known
// without asking its cluster: not those of topics that are gone. The caller holds
// mu.
func (s *Scheduler) presentSets(j *jobState) []Set {
	if list := s.topics[j.Name]; j.spec.byPattern() && list != nil && list.pattern == j.spec.Source.Pattern && list.names != nil {
		return j.spec.Sets(list.names)
	}
	return s.knownSets(j)
}

// Sets lists the data sets of a job as they stand now; those of a pattern are
// looked up in its cluster.
func (s *Scheduler) Sets(ctx context.Context, name string) ([]Set, error) {
	spec, err := s.Spec(name)
	if err != nil {
		return nil, err
	}
	if !spec.byPattern() {
		return spec.Sets(nil), nil
	}
	names, err := s.lookUp(ctx, name, spec)
	if err != nil {
		return nil, err
	}
	j, err := s.job(name)
	if err != nil {
		return nil, err
	}
	sets := spec.Sets(names)
	for i := range sets {
		sets[i] = j.late(sets[i])
	}
	return sets, nil
}
