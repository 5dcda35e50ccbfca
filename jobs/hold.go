package jobs

import (
	"context"
	"regexp"
	"slices"
	"time"
)

// readHold reads for how long the source keeps what the job has yet to load. A
// job without a schedule may not come back, so it has to say so.
func (s *Spec) readHold(root *section) {
	sec := s.open(root, "retention_hold")
	defer s.close(sec)
	var fallback time.Duration
	if s.Schedule != nil {
		fallback = 14 * 24 * time.Hour
	}
	s.RetentionHold = sec.duration("max_age", fallback, 0)
}

// holds tells whether the job's source keeps records of a topic for it.
func (s *Spec) holds(topic string) bool {
	if s.RetentionHold == 0 {
		return false
	}
	if s.Source.Pattern == "" {
		return slices.Contains(s.Source.Topics, topic)
	}
	matched, err := regexp.MatchString(s.Source.Pattern, topic)
	return matched && err == nil // it was compiled before
}

// heldTopics are the topics of which the source may keep records for a job;
// those of a pattern are the ones it has loaded from.
func (s *Scheduler) heldTopics(j *jobState) []string {
	if j.spec == nil || j.spec.RetentionHold == 0 {
		return nil
	}
	if j.spec.Source.Pattern == "" {
		return j.spec.Source.Topics
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	topics := map[string]bool{}
	for _, r := range s.f.byJob[j.Name] {
		if r.Topic != "" {
			topics[r.Topic] = true
		}
		for i := range r.Ranges {
			topics[r.Ranges[i].Topic] = true
		}
	}
	return sortedKeys(topics)
}

// noLongerHeld are the topics held for a job that it leaves as it is applied
// anew; old is nil for a new job.
func (s *Scheduler) noLongerHeld(old *jobState, spec *Spec) []string {
	if old == nil {
		return nil
	}
	topics := slices.Clone(s.heldTopics(old))
	if len(topics) > 0 && slices.Equal(old.spec.Source.Brokers, spec.Source.Brokers) {
		topics = slices.DeleteFunc(topics, spec.holds)
	}
	return topics
}

// release has the source keep nothing more of topics for a job. Where that
// fails, what is kept goes at its age.
func (s *Scheduler) release(ctx context.Context, j *jobState, topics []string) {
	if len(topics) == 0 {
		return
	}
	if err := s.c.Runner.Release(ctx, j.spec, topics); err != nil {
		s.c.Logger.Warn("the source may keep records that the job no longer loads", "job", j.Name, "topics", topics, "max_age", j.spec.RetentionHold, "err", err)
	}
}
