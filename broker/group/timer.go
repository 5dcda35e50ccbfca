package group

import "time"

// alarm is one armed timer. It may be set again while its last run waits for
// the lock, so a run looks at the deadline first.
type alarm struct {
	timer    *time.Timer
	deadline time.Time
}

// arm (re)starts a timer of a group. The caller holds the shard's lock.
func (s *shard) arm(e *entry, key TimerKey, after time.Duration) {
	deadline := time.Now().Add(after)
	if a := e.timers[key]; a != nil {
		a.deadline = deadline
		if !a.timer.Reset(after) {
			s.co.wg.Add(1)
		}
		return
	}
	a := &alarm{deadline: deadline}
	e.timers[key] = a
	s.co.wg.Add(1)
	a.timer = time.AfterFunc(after, func() {
		defer s.co.wg.Done()
		s.mu.Lock()
		defer s.unlock()
		if s.groups[e.state.Name] != e || e.timers[key] != a || time.Now().Before(a.deadline) {
			return
		}
		delete(e.timers, key)
		e.state.Expired(nowMilli(), key)
		s.run(e)
	})
}

func (s *shard) stop(e *entry, key TimerKey) {
	a := e.timers[key]
	if a == nil {
		return
	}
	delete(e.timers, key)
	if a.timer.Stop() {
		s.co.wg.Done()
	}
}

func (s *shard) disarm(e *entry) {
	for key := range e.timers {
		s.stop(e, key)
	}
}
