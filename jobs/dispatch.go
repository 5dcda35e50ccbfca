package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sawlog/loader"
)

// activeRun is a run this process carries out.
type activeRun struct {
	job, dataset string
	cancel       context.CancelCauseFunc
	by           string // who cancelled it
	tasks        *tasks // what is heard of it
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
		if r.Status != Queued || busy[r.Dataset] || s.f.held(r) {
			continue
		}
		busy[r.Dataset] = true
		if r.waits(now) {
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

// held tells whether a queued run waits for its backfill to be resumed.
func (f *fold) held(r *Run) bool {
	b := f.backfills[r.Backfill]
	return b != nil && b.Status == BackfillPaused
}

// waits tells whether a run's back-off has not passed. One that seems longer than
// any back-off is the work of a clock that was set back.
func (r *Run) waits(now time.Time) bool {
	left := r.NotBefore.Sub(now)
	return left > 0 && left <= longestBackOff
}

// start records that a run is going on and starts it.
func (s *Scheduler) start(r *Run, now time.Time) error {
	j, err := s.job(r.Job)
	if err != nil {
		return err
	}
	r = r.clone()
	r.Status, r.Started, r.Ended, r.Reason, r.Hint, r.Exit = Running, now, time.Time{}, "", "", 0
	r.Phases, r.Tasks = nil, nil
	r.Attempt++
	r.begin(now)
	if err := s.save(s.ctx, r); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	a := &activeRun{
		job: r.Job, dataset: r.Dataset, cancel: cancel, done: make(chan struct{}),
		tasks: &tasks{began: time.Now(), at: map[string]*heard{}},
	}
	s.mu.Lock()
	s.active[r.Run] = a
	s.mu.Unlock()
	s.errands.begin("run "+r.Run, func() {
		defer cancel(nil)
		timed, stop := context.WithTimeoutCause(ctx, j.spec.Run.Timeout, errTimeout)
		defer stop()
		w := &work{s: s, spec: j.spec, set: j.set(r), run: r, a: a}
		out, err := w.carryOut(timed)
		w.finish(timed, out, err)
	})
	return nil
}

// work is one attempt at a run.
type work struct {
	s    *Scheduler
	spec *Spec
	set  Set
	run  *Run // own copy
	a    *activeRun
}

// enter ends a phase and begins the next.
func (w *work) enter(phase string) {
	w.a.tasks.enter(phase, time.Now())
	w.a.tasks.show(w.run)
	if phase != "" {
		w.tell(Progress{Phase: phase})
	}
}

func (w *work) tell(p Progress) {
	w.a.tasks.hear(p)
	w.s.events.send(Event{Kind: "task", At: w.s.now(), Job: w.run.Job, Dataset: w.run.Dataset, Run: w.run.Run, Step: &p})
}

// carryOut plans and executes. An open plan that another run has left behind is
// finished first, and then what this run is for, so that no tick ends before it
// has loaded what it should.
func (w *work) carryOut(ctx context.Context) (*loader.Outcome, error) {
	r, runner := w.run, w.s.c.Runner
	done, ended, err := w.lookUp(ctx)
	if err != nil || ended {
		return done, err
	}
	for last := ""; ; {
		w.enter("plan")
		planned, err := runner.Plan(ctx, w.spec, w.set, Ask{
			Run: r.Run, Kind: kindOf(r), Tick: r.Tick, UpTo: r.UpTo, AcceptGap: r.AcceptGap, By: r.By, Again: againOf(r),
		})
		if err != nil {
			return done, err
		}
		if planned.covered() {
			return joined(done, &loader.Outcome{Status: Covered, Number: -1}), nil
		}
		another := planned.resumes() && planned.ID != r.Plan && planned.ID != last
		if err := w.take(ctx, planned.ID, another); err != nil {
			return done, err
		}
		last = planned.ID
		w.enter("load")
		out, err := runner.Run(ctx, w.spec, w.set, planned, Exec{Run: r.Run, AcceptBad: r.AcceptBad, Progress: w.tell})
		done = joined(done, out)
		if err != nil || !another {
			return done, err
		}
		if !slices.Contains(r.Resumed, out.Plan) { // it was revised on the way
			r.Resumed = append(slices.Clone(r.Resumed), out.Plan)
		}
	}
}

// lookUp finds what earlier attempts have committed just before their process
// died; ended says that the run's own plan is among it.
func (w *work) lookUp(ctx context.Context) (done *loader.Outcome, ended bool, err error) {
	r := w.run
	plans := r.Resumed
	if r.Plan != "" {
		plans = append(slices.Clone(plans), r.Plan)
	}
	for _, plan := range plans {
		w.enter("look up")
		out, err := w.s.c.Runner.Committed(ctx, w.spec, w.set, plan)
		if err != nil {
			return done, false, err
		}
		if out != nil {
			done, ended = joined(done, out), plan == r.Plan
		}
	}
	return done, ended, nil
}

// take writes down which plan is carried out next: the run's own, or that of
// another run.
func (w *work) take(ctx context.Context, plan string, another bool) error {
	r := w.run
	switch {
	case another && !slices.Contains(r.Resumed, plan):
		r.Resumed = append(slices.Clone(r.Resumed), plan)
	case !another && r.Plan != plan:
		r.Plan = plan
	default:
		return nil
	}
	return w.record(ctx, r)
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
		s.outdate(r.Dataset)
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
		r.Ended, r.Plan = s.now(), cmp.Or(r.Plan, out.Plan)
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
	r.finish(s.now(), w.ended())
	w.notices()
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

// keep takes the outcome into the run, whose names stay. The plan of another run
// does not become its own: it would be taken for all it had to do.
func (w *work) keep(out *loader.Outcome) {
	r := w.run
	id, job, plan := r.Run, r.Job, r.Plan
	r.Outcome = *out
	r.Run, r.Job = id, job
	if r.Plan == "" || slices.Contains(r.Resumed, r.Plan) {
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

// ended is how the attempt ended; a run that is queued again has failed once.
func (w *work) ended() string {
	if w.run.Open() {
		return Failed
	}
	return w.run.Status
}

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
	err := s.c.Runner.Abandon(ctx, w.spec, w.set, r.Plan, r.Run, w.a.by)
	if err == nil {
		return
	}
	if out, lookErr := s.c.Runner.Committed(ctx, w.spec, w.set, r.Plan); lookErr == nil && out != nil {
		w.keep(out)
		r.Exit, r.Reason = 0, r.Reason+", too late: it had committed"
		return
	}
	r.Reason += "; its plan stays open: " + err.Error()
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

// longestBackOff bounds the pause between two attempts.
const longestBackOff = 5 * time.Minute

// backOff is the pause after an attempt: 10 s, doubled each time.
func backOff(attempt int) time.Duration {
	return min(10*time.Second<<min(attempt-1, 10), longestBackOff)
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
	s.post(w.spec, w.set, r)
}
