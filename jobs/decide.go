package jobs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// passLimit bounds the ticks decided on and the runs of a job queued at once;
// the rest of a backlog follows as the queue empties.
const passLimit = 100

// Catchup says what a backlog of ticks will make, before it is made.
type Catchup struct {
	Ticks  int       `json:"ticks"`              // missed ticks
	Runs   int       `json:"runs"`               // runs they make, for each data set
	Sets   int       `json:"datasets,omitempty"` // 0 = not known before the cluster is asked
	From   time.Time `json:"from,omitzero"`
	To     time.Time `json:"to,omitzero"`    // the last of them
	More   bool      `json:"more,omitempty"` // there are more than are counted here
	Policy string    `json:"policy,omitempty"`
}

// countLimit bounds how far a backlog is counted: a week of minutes fits.
const countLimit = 20_000

// String says it for people.
func (c Catchup) String() string {
	over := ""
	if c.More {
		over = "more than "
	}
	switch {
	case c.Ticks == 0:
		return "no tick was missed"
	case c.Policy == CatchupNone:
		return fmt.Sprintf("%s%s: the job pauses until it is resumed or backfilled", over, plural(c.Ticks, "missed tick"))
	case c.Ticks == 1:
		return "1 missed tick, " + c.From.Format(time.RFC3339) + ": one run" + c.each()
	case c.Policy == CatchupLatest:
		return fmt.Sprintf("%s%s since %s share one run%s (catchup: latest)", over, plural(c.Ticks, "missed tick"), c.From.Format(time.RFC3339), c.each())
	}
	return fmt.Sprintf("%s%s from %s on: one run each%s (catchup: missing)", over, plural(c.Ticks, "missed tick"), c.From.Format(time.RFC3339), c.each())
}

func (c Catchup) each() string {
	if c.Sets > 1 {
		return fmt.Sprintf(" for each of %d data sets", c.Sets)
	}
	return ""
}

// aheadOf says that the last tick decided on lies ahead of the clock, which was
// set back since; empty when it does not.
func aheadOf(sc *Schedule, cursor, now time.Time) string {
	if !cursor.After(now) {
		return ""
	}
	return fmt.Sprintf("the clock was ahead and was set back: ticks up to %s are decided on, the next one is due at %s; sawlog run loads before that",
		cursor.Format(time.RFC3339), sc.Due(sc.Next(cursor)).Format(time.RFC3339))
}

// announce says what a backlog will make before it is made, once.
func (s *Scheduler) announce(j *jobState, sets int, now time.Time) {
	c := backlog(j.spec.Schedule, j.cursor(), now)
	c.Sets = sets
	s.mu.Lock()
	known := !c.From.After(s.said[j.Name].To)
	if !known {
		s.said[j.Name] = c
	}
	s.mu.Unlock()
	if known {
		return
	}
	s.c.Logger.Info("catching up", "job", j.Name, "ticks", c.Ticks, "runs", c.Runs, "datasets", sets, "from", c.From, "to", c.To, "catchup", c.Policy)
	s.events.send(Event{Kind: "job", At: now, Job: j.Name, Status: "catching up", Reason: c.String()})
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// backlog says what the ticks of a schedule due in (cursor, now] make.
func backlog(sc *Schedule, cursor, now time.Time) Catchup {
	if sc == nil {
		return Catchup{}
	}
	ticks := sc.Ticks(cursor.Add(1), now.Add(1).Add(-sc.Delay), countLimit+1)
	c := Catchup{Policy: sc.Catchup, More: len(ticks) > countLimit}
	ticks = ticks[:min(len(ticks), countLimit)]
	c.Ticks = len(ticks)
	if len(ticks) == 0 {
		return c
	}
	c.From, c.To, c.Runs = ticks[0], ticks[len(ticks)-1], len(ticks)
	switch sc.Catchup {
	case CatchupLatest:
		c.Runs = 1
	case CatchupNone:
		c.Runs = 0
	}
	return c
}

// decide makes the ticks of a job that are due into runs and tells when the
// next one will be. The caller holds act.
func (s *Scheduler) decide(name string, now time.Time) (time.Time, error) {
	j, err := s.job(name)
	if err != nil || j.Paused || j.spec == nil || j.spec.Schedule == nil {
		return time.Time{}, err
	}
	sc := j.spec.Schedule
	if j.Topics == nil && j.spec.byPattern() {
		s.recentSets(j, now) // what there is before the first tick counts as there from the start
	}
	horizon := now.Add(1).Add(-sc.Delay)
	ticks := sc.Ticks(j.cursor().Add(1), horizon, passLimit+1)
	if len(ticks) == 0 {
		return sc.Due(sc.Next(j.cursor())), nil
	}
	sets, known := s.recentSets(j, now)
	if !known {
		return now.Add(idleWake), nil // the answer wakes the loop
	}
	missed := len(ticks) > 1 || sc.Due(ticks[0]).Before(s.watch[name])
	if missed && sc.Catchup != CatchupNone && now.Sub(sc.Due(ticks[0])) > idleWake {
		s.announce(j, len(sets), now)
	}
	switch {
	case sc.Catchup == CatchupNone && missed:
		first := ticks[0]
		return time.Time{}, s.pause(s.ctx, j, "scheduler", fmt.Sprintf("missed the tick of %s (catchup: none); resume, or backfill it", first.Format(time.RFC3339)))
	case sc.Catchup == CatchupLatest:
		last := sc.Latest(now)
		merged := 0
		for t := ticks[0]; t.Before(last) && merged < countLimit; t = sc.Next(t) {
			merged++
		}
		tick := &Tick{Job: name, Tick: last, At: now, Why: sc.Catchup}
		if merged > 0 {
			tick.From, tick.Merged = ticks[0], merged
		}
		if err := s.queueTick(j, sets, tick, false); err != nil {
			return now.Add(idleWake), err
		}
		if err := s.passOver(j, last); err != nil {
			return time.Time{}, err
		}
	default:
		room := passLimit - len(s.openRuns(name))
		for i, t := range ticks[:min(len(ticks), passLimit)] {
			if room <= 0 {
				return now.Add(idleWake), nil // a run's end wakes the loop
			}
			last := i == len(ticks)-1
			if err := s.queueTick(j, sets, &Tick{Job: name, Tick: t, At: now}, !last); err != nil {
				return now.Add(idleWake), err
			}
			room--
		}
		if len(ticks) > passLimit {
			return now, nil
		}
	}
	return sc.Due(sc.Next(ticks[len(ticks)-1])), s.trim(name)
}

func (s *Scheduler) openRuns(name string) []*Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f.open(name)
}

// passOver ends queued runs of earlier ticks: the later tick takes their offsets.
func (s *Scheduler) passOver(j *jobState, tick time.Time) error {
	for _, r := range s.openRuns(j.Name) {
		if r.Status != Queued || r.Kind != ByTick || !r.Tick.Before(tick) || r.Plan != "" {
			continue
		}
		r = r.clone()
		r.Status, r.Ended = Covered, s.now()
		r.Reason = "left to the tick of " + tick.Format(time.RFC3339) + " (catchup: latest)"
		if err := s.save(s.ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// queueTick queues the runs of a tick, one for each data set, and then the
// tick itself. bounded says that a later tick is due already.
func (s *Scheduler) queueTick(j *jobState, sets []Set, tick *Tick, bounded bool) error {
	for _, set := range sets {
		id := tickID(set.Dataset, tick.Tick)
		if made := s.tickMade(j.Name, tick.Tick, set.Dataset); made != "" {
			tick.Runs = append(tick.Runs, made)
			continue // its tick record was cut off by a crash, or a person was ahead of it
		}
		tick.Runs = append(tick.Runs, id)
		r := s.newRun(j, set, id, ByTick, "scheduler")
		r.Tick = tick.Tick
		if bounded {
			r.UpTo = tick.Tick
		}
		if err := s.save(s.ctx, r); err != nil {
			return err
		}
	}
	if tick.Runs == nil {
		tick.Runs = []string{}
	}
	return s.append(s.ctx, tickEntry(tick))
}

// tickMade is the run of a tick that is there already, empty when none is.
func (s *Scheduler) tickMade(job string, tick time.Time, dataset string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.f.byTick[tickOf{job, dataset, tick.Unix()}]; r != nil {
		return r.Run
	}
	return ""
}

func (s *Scheduler) hasRun(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f.runs[id] != nil
}

// newRun makes a queued run.
func (s *Scheduler) newRun(j *jobState, set Set, id, kind, by string) *Run {
	s.mu.Lock()
	seq := s.f.seq + 1
	s.mu.Unlock()
	r := &Run{Dataset: set.Dataset, Topic: set.Topic, Kind: kind, Seq: seq, By: by, Queued: s.now()}
	r.Run, r.Job, r.Status = id, j.Name, Queued
	return r
}

// freshID names a run that has no tick, or another run of the same tick.
func (s *Scheduler) freshID(dataset string) string {
	for {
		id := fmt.Sprintf("%s-%s-%04x", dataset, s.now().Format(tickKey), rand.IntN(1<<16))
		if !s.hasRun(id) {
			return id
		}
	}
}

// save appends a run and tells subscribers.
func (s *Scheduler) save(ctx context.Context, r *Run) error {
	if err := s.append(ctx, runEntry(r)); err != nil {
		return err
	}
	s.events.send(Event{Kind: "run", At: s.now(), Job: r.Job, Dataset: r.Dataset, Run: r.Run, Status: r.Status, Reason: r.Reason})
	return nil
}

// trim takes the oldest history away.
func (s *Scheduler) trim(name string) error {
	s.mu.Lock()
	old := s.f.surplus(name, s.c.Keep)
	s.mu.Unlock()
	for _, e := range old {
		if err := s.append(s.ctx, e); err != nil {
			return err
		}
	}
	return nil
}
