package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sawlog/loader"
)

// Applied says what applying a job file did, or would do.
type Applied struct {
	Job     string    `json:"job"`
	Change  string    `json:"change"` // created | changed | unchanged
	DryRun  bool      `json:"dry_run,omitempty"`
	Paused  bool      `json:"paused,omitempty"`
	Catchup Catchup   `json:"catchup"` // runs that will be made at once
	Next    time.Time `json:"next,omitzero"`
	NextDue time.Time `json:"next_due,omitzero"`
	Say     string    `json:"message"`

	letGo int // missed ticks of a schedule that is no more
}

// Apply checks a job file and makes it the job's, new or changed. With dry it
// only says what would happen. A new job's first tick is the next one.
func (s *Scheduler) Apply(ctx context.Context, text []byte, path, by string, dry bool) (*Applied, error) {
	spec, err := Parse(text, path)
	if err != nil {
		return nil, err
	}
	s.act.Lock()
	defer s.act.Unlock()
	if err := s.checkOthers(spec); err != nil {
		return nil, err
	}
	unseen, err := s.keepsBuckets(ctx, spec)
	if err != nil {
		return nil, err
	}
	now := s.now()
	rec := Job{Name: spec.Name, Text: string(text), Path: path, By: by, At: now, Generation: 1, Since: now}
	out := &Applied{Job: spec.Name, Change: "created", DryRun: dry}
	cursor := now
	old, err := s.job(spec.Name)
	if err == nil {
		rec.Generation, rec.Since, rec.Paused, rec.PauseReason = old.Generation, old.Since, old.Paused, old.PauseReason
		rec.Topics, rec.Forgotten = old.Topics, old.Forgotten
		out.Change = "unchanged"
		if old.Text != rec.Text {
			out.Change = "changed"
			rec.Generation++
		}
		cursor = old.cursor()
		if old.spec != nil && old.spec.Source.Pattern != spec.Source.Pattern {
			rec.Topics = nil
		}
		if old.spec != nil && !old.spec.Schedule.sameTicks(spec.Schedule) {
			out.letGo = backlog(old.spec.Schedule, cursor, now).Ticks
			rec.Since, cursor = now, latest(now, cursor) // it had none of these ticks to miss
		}
	}
	out.Paused = rec.Paused
	if spec.Schedule != nil {
		out.Catchup = backlog(spec.Schedule, cursor, now)
		out.Catchup.Sets = len(spec.Sets(nil))
		out.Next = spec.Schedule.Next(latest(cursor, now.Add(-spec.Schedule.Delay)))
		out.NextDue = spec.Schedule.Due(out.Next)
	}
	out.Say = out.describe(spec)
	if len(unseen) > 0 {
		out.Say += "; partition_by changed, and " + orAnd(unseen) + " could not be looked at: what holds hours by another rule refuses its runs"
	}
	if dry || out.Change == "unchanged" {
		return out, nil
	}
	left := s.noLongerHeld(old, spec)
	if err := s.append(ctx, jobEntry(rec)); err != nil {
		return nil, err
	}
	s.release(ctx, old, left)
	s.mu.Lock()
	if _, known := s.watch[spec.Name]; !known {
		s.watch[spec.Name] = now
	}
	delete(s.trouble, spec.Name)
	s.mu.Unlock()
	s.events.send(Event{Kind: "job", At: now, Job: spec.Name, Status: "applied"})
	s.kick()
	return out, nil
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (a *Applied) describe(spec *Spec) string {
	parts := []string{"job " + a.Job + " " + a.Change}
	if spec.set["retention_hold.max_age"] && spec.RetentionHold > 0 && len(spec.Source.Brokers) > 0 {
		parts = append(parts, "brokers other than Sawlog's keep nothing for it (retention_hold)")
	}
	if spec.Schedule == nil {
		return strings.Join(append(parts, "it has no schedule: sawlog run "+a.Job+" starts it"), "; ")
	}
	if a.Paused {
		parts = append(parts, "it is paused")
	}
	if a.letGo > 0 {
		parts = append(parts, "its schedule changed: "+plural(a.letGo, "missed tick")+" of the old one make no runs, the next run takes their offsets")
	}
	if a.Catchup.Ticks > 0 {
		parts = append(parts, a.Catchup.String())
	}
	parts = append(parts, "next tick "+a.Next.Format(time.RFC3339)+", due "+a.NextDue.Format(time.RFC3339))
	return strings.Join(parts, "; ")
}

// Delete forgets a job and its history. Runs must have ended; files and
// ledgers stay.
func (s *Scheduler) Delete(ctx context.Context, name string) error {
	s.act.Lock()
	defer s.act.Unlock()
	j, err := s.job(name)
	if err != nil {
		return err
	}
	var gone []entry
	held := s.heldTopics(j) // while its runs are known
	s.mu.Lock()
	for _, r := range s.f.byJob[name] {
		if r.Status == Running {
			s.mu.Unlock()
			return &Refusal{Kind: ErrConflict, Msg: "run " + r.Run + " is going on", Hint: "sawlog runs cancel " + r.Run}
		}
		gone = append(gone, entry{key: "run/" + r.Run})
	}
	s.mu.Unlock()
	for _, t := range j.ticks {
		gone = append(gone, entry{key: tickEntry(t).key})
	}
	s.mu.Lock()
	for _, b := range s.f.jobBackfills(name) {
		gone = append(gone, entry{key: "backfill/" + b.ID}, entry{key: "items/" + b.ID})
	}
	s.mu.Unlock()
	// The job goes first: what a crash leaves of the rest belongs to no job.
	for _, e := range append([]entry{{key: "job/" + name}}, gone...) {
		if err := s.append(ctx, e); err != nil {
			return err
		}
	}
	s.mu.Lock()
	delete(s.watch, name)
	delete(s.trouble, name)
	delete(s.stale, name)
	delete(s.said, name)
	delete(s.facts, name)
	delete(s.topics, name)
	s.mu.Unlock()
	s.events.send(Event{Kind: "job", At: s.now(), Job: name, Status: "deleted"})
	s.release(ctx, j, held)
	return nil
}

// Pause stops a job's ticks from making runs; runs already queued go on.
func (s *Scheduler) Pause(ctx context.Context, name, by, reason string) error {
	s.act.Lock()
	defer s.act.Unlock()
	j, err := s.job(name)
	if err != nil || j.Paused {
		return err
	}
	return s.pause(ctx, j, by, reason)
}

func (s *Scheduler) pause(ctx context.Context, j *jobState, by, reason string) error {
	rec := j.Job
	rec.Paused, rec.PauseReason = true, reason
	if by != "" {
		rec.PauseReason = strings.TrimPrefix(reason+", by "+by, ", ")
	}
	if err := s.append(ctx, jobEntry(rec)); err != nil {
		return err
	}
	s.events.send(Event{Kind: "job", At: s.now(), Job: j.Name, Status: "paused", Reason: rec.PauseReason})
	return nil
}

// Resume lets ticks make runs again and says how many the missed ones make.
// With catchup: none the missed ticks are let go; the next run takes their offsets.
// With dry it only says.
func (s *Scheduler) Resume(ctx context.Context, name string, dry bool) (Catchup, error) {
	s.act.Lock()
	defer s.act.Unlock()
	j, err := s.job(name)
	if err != nil {
		return Catchup{}, err
	}
	now := s.now()
	var c Catchup
	if j.spec != nil {
		c = backlog(j.spec.Schedule, j.cursor(), now)
		c.Sets = len(j.spec.Sets(nil))
	}
	if !j.Paused || dry {
		return c, nil
	}
	rec := j.Job
	rec.Paused, rec.PauseReason = false, ""
	if c.Policy == CatchupNone {
		rec.Since = latest(rec.Since, j.spec.Schedule.Latest(now))
	}
	if err := s.append(ctx, jobEntry(rec)); err != nil {
		return c, err
	}
	s.mu.Lock()
	s.watch[name] = now
	s.mu.Unlock()
	s.events.send(Event{Kind: "job", At: now, Job: name, Status: "resumed"})
	s.kick()
	return c, nil
}

// Trigger says what run to make now.
type Trigger struct {
	Job       string
	From, To  time.Time // the ticks of [From, To); zero = one run up to the end of the log
	Topic     string    // one data set only; empty = all
	By        string
	AcceptGap string
}

// Trigger queues runs at once: one up to the last stable offsets, or one for
// each tick of a window with the offsets that tick would take.
func (s *Scheduler) Trigger(ctx context.Context, t Trigger) ([]*Run, error) {
	sets, err := s.Sets(ctx, t.Job)
	if err != nil {
		return nil, err
	}
	s.act.Lock()
	defer s.act.Unlock()
	j, err := s.job(t.Job)
	if err != nil {
		return nil, err
	}
	if j.spec == nil {
		return nil, refuse(ErrInvalid, "job %s no longer reads: %v", t.Job, j.broken)
	}
	ticks := []time.Time{{}}
	if !t.From.IsZero() || !t.To.IsZero() {
		if ticks, err = window(j.spec, t.From, t.To, s.now()); err != nil {
			return nil, err
		}
	}
	if t.Topic != "" {
		sets = slices.DeleteFunc(slices.Clone(sets), func(set Set) bool { return set.Topic != t.Topic })
	}
	if len(sets) == 0 {
		return nil, refuse(ErrNotFound, "job %s has no topic to load", t.Job)
	}
	var runs []*Run
	for _, tick := range ticks {
		for _, set := range sets {
			r := s.newRun(j, set, s.freshID(set.Dataset), ByHand, t.By)
			r.Tick, r.UpTo, r.AcceptGap = tick, tick, t.AcceptGap
			if err := s.save(ctx, r); err != nil {
				return runs, err
			}
			runs = append(runs, r)
		}
	}
	s.kick()
	return runs, nil
}

// window lists the ticks of [from, to) that are past.
func window(spec *Spec, from, to, now time.Time) ([]time.Time, error) {
	if spec.Schedule == nil {
		return nil, refuse(ErrInvalid, "job %s has no schedule, so no ticks: run it without a window", spec.Name)
	}
	if err := checkWindow(from, to); err != nil {
		return nil, err
	}
	ticks := spec.Schedule.Ticks(from, to, windowLimit+1)
	ticks = slices.DeleteFunc(ticks, func(t time.Time) bool { return spec.Schedule.Due(t).After(now) })
	if len(ticks) == 0 {
		return nil, &Refusal{
			Kind: ErrInvalid, Msg: fmt.Sprintf("no tick of job %s lies in %s..%s", spec.Name, from.Format(time.RFC3339), to.Format(time.RFC3339)),
			Hint: "the schedule is " + spec.Schedule.Describe() + "; sawlog job next lists ticks to come",
		}
	}
	if len(ticks) > windowLimit {
		return nil, refuse(ErrInvalid, "more than %d ticks lie in %s..%s: take a shorter window", windowLimit, from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	return ticks, nil
}

// windowLimit bounds the runs one request makes.
const windowLimit = 3000

// Cancel ends a queued run, or stops one that goes on; its plan is abandoned.
func (s *Scheduler) Cancel(ctx context.Context, id, by string) (*Run, error) {
	s.act.Lock()
	r, err := s.run(id)
	if err != nil {
		s.act.Unlock()
		return nil, err
	}
	switch r.Status {
	case Queued:
		defer s.act.Unlock()
		return s.cancelQueued(ctx, r, by)
	case Running:
	default:
		s.act.Unlock()
		return nil, r.CannotCancel()
	}
	s.mu.Lock()
	a := s.active[id]
	if a != nil {
		a.by = by
	}
	s.mu.Unlock()
	s.act.Unlock()
	if a == nil {
		return nil, refuse(ErrConflict, "run %s is just ending", id)
	}
	a.cancel(errCancelled)
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("run %s is stopping: %w", id, ctx.Err())
	}
	return s.Run(id)
}

func (s *Scheduler) cancelQueued(ctx context.Context, r *Run, by string) (*Run, error) {
	if r.Plan != "" {
		j, err := s.job(r.Job)
		if err == nil && j.spec == nil {
			err = refuse(ErrInvalid, "job %s no longer reads: %v", r.Job, j.broken)
		}
		if err != nil {
			return nil, err
		}
		if err := s.c.Runner.Abandon(ctx, j.spec, Set{Dataset: r.Dataset, Topic: r.Topic}, r.Plan, r.Run, by); err != nil {
			return nil, fmt.Errorf("run %s: its plan cannot be abandoned: %w", r.Run, err)
		}
	}
	r.Status, r.Ended, r.Exit = Cancelled, s.now(), loader.ExitInterrupted
	r.Reason = "cancelled"
	if by != "" {
		r.Reason += " by " + by
	}
	return r, s.save(ctx, r)
}

// Retry queues an ended run again; its plan and its stages are taken up.
func (s *Scheduler) Retry(ctx context.Context, id, by string, acceptBad bool, acceptGap string) (*Run, error) {
	s.act.Lock()
	defer s.act.Unlock()
	r, err := s.run(id)
	if err != nil {
		return nil, err
	}
	if err := r.CannotRetry(); err != nil {
		return nil, err
	}
	return r, s.again(ctx, r, by, acceptBad, acceptGap)
}

// again queues an ended run once more.
func (s *Scheduler) again(ctx context.Context, r *Run, by string, acceptBad bool, acceptGap string) error {
	s.mu.Lock()
	r.Seq = s.f.seq + 1
	s.mu.Unlock()
	r.Status, r.Attempt, r.Ended, r.NotBefore, r.Queued = Queued, 0, time.Time{}, time.Time{}, s.now()
	r.AcceptBad, r.AcceptGap = r.AcceptBad || acceptBad, cmp.Or(acceptGap, r.AcceptGap)
	r.Reason, r.Hint, r.Exit, r.By = "", "", 0, cmp.Or(by, r.By)
	defer s.kick()
	return s.save(ctx, r)
}

// run gives a copy of a run for a decision.
func (s *Scheduler) run(id string) (*Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.f.runs[id]; r != nil {
		return r.clone(), nil
	}
	return nil, &Refusal{Kind: ErrNotFound, Msg: fmt.Sprintf("no run %q", id), Hint: "sawlog runs list shows the runs the server remembers"}
}
