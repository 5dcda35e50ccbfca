package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sawlog/formats"
	"sawlog/loader"
)

// Config is what a Scheduler works with.
type Config struct {
	Journal    Journal
	Runner     Runner
	Now        func() time.Time // nil = time.Now
	Logger     *slog.Logger     // nil = silent
	Notify     Sender           // nil = HTTP and programs, see notify.go
	MaxRunning int              // runs at a time over all jobs; 0 = 4
	Keep       int              // ended runs and ticks kept for each job; 0 = 300
}

// Scheduler decides on ticks, queues runs and carries them out, and answers
// what happened. Everything it decides is in the journal before it is done.
type Scheduler struct {
	c      Config
	events events

	// act serialises decisions: who holds it may append. mu guards what
	// readers see; it is never held during an append.
	act sync.Mutex
	mu  sync.Mutex

	f       *fold
	watch   map[string]time.Time // when watching a job began, in this process
	active  map[string]*activeRun
	trouble map[string]string // what keeps a job's ticks from being decided
	stale   map[string]bool
	said    map[string]Catchup // the last catch-up of a job that was announced
	views   map[string]*cachedView
	reads   map[string]*viewRead // of ledgers, going on
	counts  map[string]*Counts
	facts   map[string]*knownFacts
	reading bool // facts are being read
	topics  map[string]*topicList
	telling chan struct{} // holds a token for each notice on its way

	ctx     context.Context
	stop    context.CancelCauseFunc
	wake    chan struct{}
	errands errands
	failed  chan error
	once    sync.Once
}

// Errors callers branch on.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("conflict")
	ErrInvalid  = errors.New("invalid")
	ErrClosed   = errors.New("the scheduler is closed")
	// ErrUndecided: whether what was asked for counts, the next scheduler will tell.
	ErrUndecided = errors.New("this node can no longer write the job history")
)

// refuse makes an error that callers can branch on and people can read.
func refuse(kind error, format string, args ...any) error {
	return &Refusal{Kind: kind, Msg: fmt.Sprintf(format, args...)}
}

// Refusal says why something asked for was not done.
type Refusal struct {
	Kind error // ErrNotFound, ErrConflict, ErrInvalid
	Msg  string
	Hint string
}

func (r *Refusal) Error() string { return r.Msg }

func (r *Refusal) Unwrap() error { return r.Kind }

// Open replays the journal and starts. Runs the last process left open are
// taken up again; ticks that came due meanwhile are decided on.
func Open(ctx context.Context, c Config) (*Scheduler, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxRunning == 0 {
		c.MaxRunning = 4
	}
	if c.Keep == 0 {
		c.Keep = 300
	}
	s := &Scheduler{
		c: c, f: newFold(),
		watch: map[string]time.Time{}, active: map[string]*activeRun{}, trouble: map[string]string{},
		stale: map[string]bool{}, said: map[string]Catchup{}, views: map[string]*cachedView{}, reads: map[string]*viewRead{}, counts: map[string]*Counts{}, facts: map[string]*knownFacts{}, topics: map[string]*topicList{},
		wake: make(chan struct{}, 1), telling: make(chan struct{}, toldAtOnce), failed: make(chan error, 1),
	}
	if err := c.Journal.Replay(ctx, s.f.apply); err != nil {
		return nil, fmt.Errorf("job history: %w", err)
	}
	s.ctx, s.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := s.takeUp(ctx); err != nil {
		s.stop(ErrClosed)
		return nil, err
	}
	s.postAll()
	s.errands.begin("the decision on ticks", s.loop)
	return s, nil
}

// takeUp queues again what the last process was carrying out.
func (s *Scheduler) takeUp(ctx context.Context) error {
	for _, e := range s.f.orphans() {
		if err := s.append(ctx, e); err != nil {
			return err
		}
	}
	now := s.now()
	for name := range s.f.jobs {
		s.watch[name] = now
	}
	for _, id := range sortedKeys(s.f.runs) {
		if r := s.f.runs[id]; r.Status == Running {
			again := r.clone()
			again.Status, again.Reason, again.NotBefore = Queued, "taken up after a restart", time.Time{}
			again.Attempt = max(0, again.Attempt-1) // it is no fault of the run's
			again.finish(time.Time{}, Interrupted)
			if err := s.append(ctx, runEntry(again)); err != nil {
				return err
			}
			s.c.Logger.Info("run taken up after a restart", "run", id, "job", r.Job, "plan", r.Plan)
		}
	}
	return nil
}

func (s *Scheduler) now() time.Time { return s.c.Now().UTC().Truncate(time.Millisecond) }

// Close stops. Runs that are going on are interrupted and stay open in the
// journal: the next Open takes them up. It is over in closeTime; what has not
// stopped by then is a *LeftError.
func (s *Scheduler) Close() error {
	s.mu.Lock() // whoever starts something under it has looked whether this goes on
	s.stop(ErrClosed)
	s.mu.Unlock()
	left := s.errands.wait()
	s.events.close()
	if len(left) > 0 {
		return &LeftError{left}
	}
	return nil
}

// Failed tells, once, that the journal refused a record: this process may no
// longer decide. Close and open again when it leads once more.
func (s *Scheduler) Failed() <-chan error { return s.failed }

// Subscribe hands out events as they happen, until cancel is called or the
// subscriber falls too far behind; then the channel is closed.
func (s *Scheduler) Subscribe() (feed <-chan *Event, cancel func()) {
	feed, _, _, cancel = s.events.subscribe("")
	return feed, cancel
}

// Follow is Subscribe by somebody who has seen events up to the one that mark
// names: missed are those that came since. known is false where that is no longer
// remembered, and what they said has to be read from the state itself.
func (s *Scheduler) Follow(mark string) (feed <-chan *Event, missed []*Event, known bool, cancel func()) {
	return s.events.subscribe(mark)
}

// append writes one record and, once it is safe, takes it in. The caller holds
// act (or nobody else runs yet).
func (s *Scheduler) append(ctx context.Context, e entry) error {
	if err := context.Cause(s.ctx); err != nil {
		return err
	}
	key, value, err := e.bytes()
	if err != nil {
		return fmt.Errorf("journal record %s: %w", e.key, err)
	}
	// The record must not be half wanted: a caller who goes away does not stop it.
	if err := s.c.Journal.Append(context.WithoutCancel(ctx), key, value); err != nil {
		err = fmt.Errorf("%w: record %s: %w", ErrUndecided, e.key, err)
		s.fail(err)
		return err
	}
	s.mu.Lock()
	err = s.f.apply(key, value)
	s.mu.Unlock()
	return err
}

// fail stops everything after the journal refused a record.
func (s *Scheduler) fail(err error) {
	s.once.Do(func() {
		s.c.Logger.Error("job history cannot be written, scheduling stops", "err", err)
		s.failed <- err
		s.stop(err)
	})
}

func (s *Scheduler) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// idleWake bounds how long the loop sleeps, so that a stepped clock is seen.
const idleWake = 30 * time.Second

// loop decides on ticks as they come due and starts runs as there is room.
func (s *Scheduler) loop() {
	for {
		next := s.step()
		timer := time.NewTimer(min(max(next, time.Millisecond), idleWake))
		select {
		case <-s.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-s.wake:
			timer.Stop()
		}
	}
}

// step does what is due and tells how long there is nothing to do.
func (s *Scheduler) step() time.Duration {
	s.act.Lock()
	defer s.act.Unlock()
	now := s.now()
	wait := idleWake
	s.rewatch(now)
	for _, name := range s.names() {
		at, err := s.decide(name, now)
		if err != nil && s.ctx.Err() == nil {
			s.c.Logger.Warn("ticks not decided", "job", name, "err", err)
		}
		if err := s.drive(name, now); err != nil && s.ctx.Err() == nil {
			s.c.Logger.Warn("backfill not taken on", "job", name, "err", err)
		}
		if !at.IsZero() {
			wait = min(wait, at.Sub(now))
		}
		s.checkFresh(name, now)
	}
	if at, err := s.dispatch(now); err != nil && s.ctx.Err() == nil {
		s.c.Logger.Warn("runs not started", "err", err)
	} else if !at.IsZero() {
		wait = min(wait, at.Sub(now))
	}
	return wait
}

// rewatch takes note of a clock that was set back to before the moment it began
// to watch a job: it has watched it all the time.
func (s *Scheduler) rewatch(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, at := range s.watch {
		if at.After(now) {
			s.watch[name] = time.Time{}
		}
	}
}

func (s *Scheduler) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sortedKeys(s.f.jobs)
}

// job gives a job's state for a decision; the caller holds act, so it stays.
func (s *Scheduler) job(name string) (*jobState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.f.jobs[name]; j != nil {
		c := *j
		return &c, nil
	}
	refusal := &Refusal{Kind: ErrNotFound, Msg: fmt.Sprintf("no job %q", name)}
	if near := formats.Nearest(name, sortedKeys(s.f.jobs)); near != "" {
		refusal.Hint = "did you mean " + near + "?"
	} else {
		refusal.Hint = "sawlog job list shows the jobs"
	}
	return nil, refusal
}

// ExitCode is the exit code a command ends with for this refusal.
func (r *Refusal) ExitCode() int {
	switch r.Kind {
	case ErrNotFound:
		return loader.ExitNotFound
	case ErrConflict:
		return loader.ExitConflict
	}
	return loader.ExitUsage
}

// Advice is what the person who meets the refusal can do, or "".
func (r *Refusal) Advice() string { return r.Hint }
