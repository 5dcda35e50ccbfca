package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sawlog/loader"
)

// activeRun is a run this process carries out.
type activeRun struct {
	job, dataset string
	cancel       context.CancelCauseFunc
	by           string // who cancelled it
	done         chan struct{}
}

// errCancelled is the cause of a run that a person stopped.
var errCancelled = errors.New("cancelled")

// errTimeout is the cause of a run that took too long.
var errTimeout = errors.New("timed out")

// dispatch starts queued runs while there is room, oldest first: one at a time
// for each data set, max_active for each job. It tells when the first back-off
// ends. The caller holds act.
func (s *Scheduler) dispatch(now time.Time) (time.Time, error) {
	var wake time.Time
	for _, r := range s.startable(now, &wake) {
		if err := s.start(r, now); err != nil {
			return wake, err
		}
	}
	return wake, nil
}

// startable picks the runs to start now. A run that waits for its back-off
// holds back the later runs of its data set, so that ticks stay in order.
func (s *Scheduler) startable(now time.Time, wake *time.Time) []*Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := map[string]bool{}
	running, perJob := len(s.active), map[string]int{}
	for _, a := range s.active {
		busy[a.dataset] = true
		perJob[a.job]++
	}
	var queued, out []*Run
	for name, j := range s.f.jobs {
		if j.spec != nil {
			queued = append(queued, s.f.open(name)...)
		}
	}
	sortRuns(queued)
	for _, r := range queued {
		if r.Status != Queued || busy[r.Dataset] {
			continue
		}
		busy[r.Dataset] = true
		if r.NotBefore.After(now) {
			if wake.IsZero() || r.NotBefore.Before(*wake) {
				*wake = r.NotBefore
			}
			continue
		}
		if running >= s.c.MaxRunning || perJob[r.Job] >= s.f.jobs[r.Job].spec.Run.MaxActive {
			continue
		}
		running++
		perJob[r.Job]++
		out = append(out, r)
	}
	return out
}

// start records that a run is going on and starts it.
func (s *Scheduler) start(r *Run, now time.Time) error {
	j, err := s.job(r.Job)
	if err != nil {
		return err
	}
	r = r.clone()
	r.Status, r.Started, r.Ended, r.Reason, r.Hint, r.Exit = Running, now, time.Time{}, "", "", 0
	r.Phases = nil
	r.Attempt++
	if err := s.save(s.ctx, r); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	a := &activeRun{job: r.Job, dataset: r.Dataset, cancel: cancel, done: make(chan struct{})}
	s.mu.Lock()
	s.active[r.Run] = a
	s.mu.Unlock()
	s.wg.Go(func() {
		defer cancel(nil)
		timed, stop := context.WithTimeoutCause(ctx, j.spec.Run.Timeout, errTimeout)
		defer stop()
		w := &work{s: s, spec: j.spec, set: Set{Dataset: r.Dataset, Topic: r.Topic}, run: r, a: a}
		out, err := w.carryOut(timed)
		w.finish(timed, out, err)
	})
	return nil
}

// waitRuns is for Close: the runs end by themselves once their context is done.
func (s *Scheduler) waitRuns() {
	s.mu.Lock()
	active := make([]*activeRun, 0, len(s.active))
	for _, a := range s.active {
		active = append(active, a)
	}
	s.mu.Unlock()
	for _, a := range active {
		<-a.done
	}
}

// work is one attempt at a run.
type work struct {
	s     *Scheduler
	spec  *Spec
	set   Set
	run   *Run // own copy
	a     *activeRun
	phase string
	since time.Time
}

// enter ends a phase and begins the next.
func (w *work) enter(phase string) {
	now := w.s.now()
	if w.phase != "" {
		w.run.Phases = append(w.run.Phases, Phase{Name: w.phase, MS: now.Sub(w.since).Milliseconds()})
	}
	w.phase, w.since = phase, now
	if phase != "" {
		w.tell(Progress{Phase: phase})
	}
}

func (w *work) tell(p Progress) {
	w.s.events.send(Event{Kind: "task", At: w.s.now(), Job: w.run.Job, Dataset: w.run.Dataset, Run: w.run.Run, Step: &p})
}

// carryOut plans and executes. A plan named by an earlier attempt is looked up
// first: it may have been committed just before its process died.
func (w *work) carryOut(ctx context.Context) (*loader.Outcome, error) {
	r, runner := w.run, w.s.c.Runner
	if r.Plan != "" {
		w.enter("look up")
		out, err := runner.Committed(ctx, w.spec, w.set, r.Plan)
		if err != nil || out != nil {
			return out, err
		}
	}
	w.enter("plan")
	planned, err := runner.Plan(ctx, w.spec, w.set, Ask{
		Run: r.Run, Kind: kindOf(r), Tick: r.Tick, UpTo: r.UpTo, AcceptGap: r.AcceptGap, By: r.By, Again: againOf(r),
	})
	if err != nil {
		return nil, err
	}
	if planned.Preview != nil && planned.Preview.Status == loader.StatusCovered {
		return &loader.Outcome{Status: Covered, Number: -1}, nil
	}
	if planned.ID != r.Plan {
		r.Plan = planned.ID
		if err := w.record(ctx, r); err != nil {
			return nil, err
		}
	}
	w.enter("load")
	return runner.Run(ctx, w.spec, w.set, planned, Exec{Run: r.Run, AcceptBad: r.AcceptBad, Progress: w.tell})
}

func kindOf(r *Run) loader.Kind {
	if r.Again != nil {
		return loader.Supersede
	}
	if r.Kind == ByBackfill {
		return loader.Backfill
	}
	return loader.Load
}

// record saves the run as it stands.
func (w *work) record(ctx context.Context, r *Run) error {
	w.s.act.Lock()
	defer w.s.act.Unlock()
	return w.s.save(ctx, r.clone())
}

// finish records how the attempt ended, unless this process is stopping.
func (w *work) finish(ctx context.Context, out *loader.Outcome, err error) {
	s, r := w.s, w.run
	defer func() {
		s.mu.Lock()
		delete(s.active, r.Run)
		delete(s.views, r.Dataset)
		s.mu.Unlock()
		close(w.a.done)
		s.kick()
	}()
	w.enter("")
	if out != nil {
		w.keep(out)
	}
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		r.Ended = s.now()
	case s.ctx.Err() != nil:
		return // the journal still says running: the next process takes it up
	case errors.Is(cause, errCancelled):
		w.cancelled()
	case errors.Is(cause, errTimeout):
		err = fmt.Errorf("timed out after %s", FormatDuration(w.spec.Run.Timeout))
		w.failed(err, loader.ExitUnavailable)
	default:
		w.failed(err, loader.ExitCode(err))
	}
	if err := w.record(s.ctx, r); err != nil {
		return
	}
	if !r.Open() {
		s.mu.Lock()
		s.count(r)
		s.mu.Unlock()
	}
	w.announce()
	s.act.Lock()
	defer s.act.Unlock()
	if err := s.trim(r.Job); err != nil {
		s.c.Logger.Warn("history not trimmed", "job", r.Job, "err", err)
	}
}

// keep takes the outcome into the run, whose names stay.
func (w *work) keep(out *loader.Outcome) {
	r := w.run
	id, job, plan := r.Run, r.Job, r.Plan
	r.Outcome = *out
	r.Run, r.Job = id, job
	if r.Plan == "" {
		r.Plan = plan
	}
	if out.Number >= 0 {
		r.Ledger = &out.Number
	}
	r.Seen = out.Notes
}

// abandonPatience bounds how long a plan is tried to be written off: a person
// waits for the answer. A plan that stays open is taken up by the next run.
const abandonPatience = 10 * time.Second

// cancelled ends a run a person stopped and writes its plan off.
func (w *work) cancelled() {
	s, r := w.s, w.run
	r.Status, r.Ended, r.Exit = Cancelled, s.now(), loader.ExitInterrupted
	r.Reason = "cancelled"
	if w.a.by != "" {
		r.Reason += " by " + w.a.by
	}
	if r.Plan == "" {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, abandonPatience)
	defer cancel()
	if err := s.c.Runner.Abandon(ctx, w.spec, w.set, r.Plan, r.Run, w.a.by); err != nil {
		r.Reason += "; its plan stays open: " + err.Error()
	}
}

// failed ends an attempt that went wrong, or queues the next one.
func (w *work) failed(err error, code int) {
	s, r := w.s, w.run
	r.Reason, r.Exit = err.Error(), code
	if e, ok := errors.AsType[*loader.Error](err); ok {
		r.Hint = e.Hint
	}
	if retryable(code) && r.Attempt <= w.spec.Run.Retries {
		r.Status, r.NotBefore = Queued, s.now().Add(backOff(r.Attempt))
		return
	}
	r.Status, r.Ended = Failed, s.now()
	if code == loader.ExitPartial {
		r.Status = Partial
		if r.Hint == "" {
			r.Hint = "sawlog runs retry " + r.Run + " --accept-bad commits what is staged"
		}
	}
}

// retryable tells whether doing the same again may help.
func retryable(code int) bool { return code == loader.ExitFailed || code == loader.ExitUnavailable }

// backOff is the pause after an attempt: 10 s, doubled each time, at most 5 min.
func backOff(attempt int) time.Duration {
	return min(10*time.Second<<min(attempt-1, 10), 5*time.Minute)
}

// announce tells subscribers of changed hours and receivers of an end.
func (w *work) announce() {
	s, r := w.s, w.run
	log := s.c.Logger.With("run", r.Run, "job", r.Job, "status", r.Status)
	switch r.Status {
	case Queued:
		log.Warn("run will be tried again", "attempt", r.Attempt, "not_before", r.NotBefore, "err", r.Reason)
		return
	case Failed, Partial:
		log.Error("run failed", "plan", r.Plan, "exit", r.Exit, "err", r.Reason)
	default:
		log.Info("run ended", "plan", r.Plan, "rows", r.Rows, "quarantined", r.Quarantined, "files", r.Files)
	}
	if len(r.Hours) > 0 {
		hours := make([]string, len(r.Hours))
		for i, h := range r.Hours {
			hours[i] = h.Hour
		}
		s.events.send(Event{Kind: "hour", At: s.now(), Job: r.Job, Dataset: r.Dataset, Run: r.Run, Hours: hours})
	}
	w.notify()
}
