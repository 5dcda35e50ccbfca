package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sawlog/loader"
)

// fakeJournal is a replicated journal in memory as brokers see it: whoever opened
// it last may append. It deposes that one at a chosen append.
type fakeJournal struct {
	mu      sync.Mutex
	records [][2][]byte
	epoch   int
	appends int
	// At append number dieAt (0 = none), of the epoch mortal, who appends is
	// deposed; that record is kept, or not.
	dieAt   int
	mortal  int
	keep    bool
	deposed chan struct{}
	// written is told of each record that is kept; nil = nobody is.
	written func(key string, value []byte)
}

func newJournal() *fakeJournal { return &fakeJournal{mortal: 1, deposed: make(chan struct{})} }

// doom has who may append now deposed at the nth append from now.
func (j *fakeJournal) doom(n int, keep bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dieAt, j.mortal, j.keep, j.deposed = j.appends+n, j.epoch, keep, make(chan struct{})
}

// epochJournal is the journal in one epoch.
type epochJournal struct {
	*fakeJournal
	epoch int
}

func (j *fakeJournal) open() *epochJournal {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.epoch++
	return &epochJournal{j, j.epoch}
}

var errFenced = errors.New("fenced")

func (j *epochJournal) Append(_ context.Context, key, value []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.epoch != j.fakeJournal.epoch {
		return errFenced
	}
	j.appends++
	dies := j.epoch == j.mortal && j.appends == j.dieAt
	if !dies || j.keep {
		j.records = append(j.records, [2][]byte{slices.Clone(key), slices.Clone(value)})
		if j.written != nil {
			j.written(string(key), value)
		}
	}
	if dies {
		close(j.deposed)
		j.fakeJournal.epoch++
		return errFenced
	}
	return nil
}

func (j *epochJournal) Replay(_ context.Context, fn func(key, value []byte) error) error {
	j.mu.Lock()
	records := slices.Clone(j.records)
	j.mu.Unlock()
	for _, r := range records {
		if err := fn(r[0], r[1]); err != nil {
			return err
		}
	}
	return nil
}

// compact keeps the last record of each key, in order, as the broker does.
func (j *fakeJournal) compact() {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := map[string]int{}
	for i, r := range j.records {
		last[string(r[0])] = i
	}
	var kept [][2][]byte
	for i, r := range j.records {
		if last[string(r[0])] == i && r[1] != nil {
			kept = append(kept, r)
		}
	}
	j.records = kept
}

// fakeLedger is a data set in which every second of time is one record: a load
// covers the seconds up to its bound. It outlives schedulers.
type fakeLedger struct {
	mu       sync.Mutex
	covered  map[string]time.Time // by data set
	released []string             // topics whose holds were taken back
	plans    map[string]*fakePlan // all ever run
	open     map[string]*fakePlan // by data set
	runs     map[string]int       // commits by run id
	number   int64
	began    time.Time
	bucket   *loader.Bucket
}

type fakePlan struct {
	id        string
	from, to  time.Time
	committed bool
	number    int64
	abandoned bool
	again     bool // of loads that were committed before
}

// fakeRunner runs jobs on a fakeLedger.
type fakeRunner struct {
	l     *fakeLedger
	now   func() time.Time
	takes time.Duration
	deaf  bool // what runs goes on though it is told to stop
	// fail is asked before a run commits; nil = no failure.
	fail   func(run string, attempt int) error
	topics []string
	silent error // of Topics
	unread error // of View
	tries  map[string]int
	mu     sync.Mutex
	ran    []string
	late   []string // data sets that were planned from the start of their topic's log
}

// fails sets what is asked before a run commits.
func (f *fakeRunner) fails(fail func(run string, attempt int) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func newLedger(began time.Time) *fakeLedger {
	return &fakeLedger{covered: map[string]time.Time{}, plans: map[string]*fakePlan{}, open: map[string]*fakePlan{}, runs: map[string]int{}, number: -1, began: began}
}

func (f *fakeRunner) Topics(context.Context, *Spec) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.topics, f.silent
}

// answers sets what the cluster says to a pattern.
func (f *fakeRunner) answers(topics []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.topics, f.silent = topics, err
}

// blind sets why ledgers can't be read; nil = they can.
func (f *fakeRunner) blind(err error) {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	f.unread = err
}

func (f *fakeRunner) Plan(ctx context.Context, _ *Spec, set Set, ask Ask) (*Planned, error) {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if set.Late && !slices.Contains(f.late, set.Dataset) {
		f.late = append(f.late, set.Dataset)
	}
	if ask.Again != nil {
		p := &fakePlan{id: fmt.Sprintf("again-%s-%d", strings.Join(ask.Again.Of, ","), len(f.l.plans)), again: true}
		f.l.plans[p.id] = p
		return &Planned{ID: p.id, Plan: &loader.Plan{Kind: ask.Kind}, Preview: &loader.Preview{Status: "ready"}}, nil
	}
	if p := f.l.open[set.Dataset]; p != nil {
		return &Planned{ID: p.id, Preview: &loader.Preview{Status: "resume"}}, nil
	}
	p := &fakePlan{from: f.l.began, to: f.now()}
	if c, ok := f.l.covered[set.Dataset]; ok {
		p.from = c
	}
	if !ask.UpTo.IsZero() && ask.UpTo.Before(p.to) {
		p.to = ask.UpTo
	}
	if !p.from.Before(p.to) {
		return &Planned{Preview: &loader.Preview{Status: loader.StatusCovered}}, nil
	}
	p.id = fmt.Sprintf("%s:%d-%d", set.Dataset, p.from.UnixMilli(), p.to.UnixMilli())
	f.l.plans[p.id] = p
	return &Planned{ID: p.id, Preview: &loader.Preview{Status: "ready"}}, nil
}

func (f *fakeRunner) Run(ctx context.Context, s *Spec, set Set, p *Planned, e Exec) (*loader.Outcome, error) {
	f.mu.Lock()
	if f.tries == nil {
		f.tries = map[string]int{}
	}
	f.tries[e.Run]++
	try := f.tries[e.Run]
	f.ran = append(f.ran, e.Run)
	f.mu.Unlock()
	f.l.mu.Lock()
	f.l.open[set.Dataset] = f.l.plans[p.ID]
	f.l.mu.Unlock()
	if e.Progress != nil {
		e.Progress(Progress{Task: &loader.TaskProgress{Split: 0, Phase: "read"}})
	}
	if f.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(f.takes):
	}
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail != nil {
		if err := fail(e.Run, try); err != nil && (!e.AcceptBad || loader.ExitCode(err) != loader.ExitPartial) {
			return nil, err
		}
	}
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	plan := f.l.plans[p.ID]
	switch {
	case plan.committed: // by another driver
		out := f.outcome(plan, e.Run)
		out.Status = Covered
		return out, nil
	case plan.abandoned:
		return nil, &loader.Error{Code: loader.ExitConflict, Msg: "plan is done"}
	}
	if plan.again {
		f.l.number++
		plan.committed, plan.number = true, f.l.number
		delete(f.l.open, set.Dataset)
		return f.outcome(plan, e.Run), nil
	}
	from := f.l.began
	if c, ok := f.l.covered[set.Dataset]; ok {
		from = c
	}
	if !plan.from.Equal(from) {
		return nil, &loader.Error{Code: loader.ExitConflict, Msg: "overlap"}
	}
	f.l.number++
	plan.committed, plan.number = true, f.l.number
	f.l.covered[set.Dataset] = plan.to
	f.l.runs[e.Run]++
	delete(f.l.open, set.Dataset)
	return f.outcome(plan, e.Run), nil
}

func (f *fakeRunner) outcome(p *fakePlan, run string) *loader.Outcome {
	return &loader.Outcome{
		Run: run, Status: Committed, Plan: p.id, Number: p.number, Files: 1, Rows: int64(p.to.Sub(p.from) / time.Second),
		Hours: []loader.OutcomeHour{{Hour: p.from.Truncate(time.Hour).UTC().Format(time.RFC3339), Rows: 1}},
	}
}

func (f *fakeRunner) Committed(_ context.Context, _ *Spec, _ Set, plan string) (*loader.Outcome, error) {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	if p := f.l.plans[plan]; p != nil && p.committed {
		return f.outcome(p, ""), nil
	}
	return nil, nil
}

func (f *fakeRunner) Abandon(_ context.Context, _ *Spec, set Set, plan, _, _ string) error {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	p := f.l.plans[plan]
	if p != nil && p.committed {
		return &loader.Error{Code: loader.ExitConflict, Msg: "plan " + plan + " was committed"}
	}
	if p != nil {
		p.abandoned = true
	}
	if f.l.open[set.Dataset] == p {
		delete(f.l.open, set.Dataset)
	}
	return nil
}

func (f *fakeRunner) Release(_ context.Context, _ *Spec, topics []string) error {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	f.l.released = append(f.l.released, topics...)
	return nil
}

// Loads answers by the runs that committed: one record an hour.
func (f *fakeRunner) Loads(_ context.Context, _ *Spec, _ Set, from, to time.Time) ([]int64, error) {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	var loads []int64
	for _, p := range f.l.plans {
		if p.committed && p.from.Before(to) && from.Before(p.to) {
			loads = append(loads, p.number)
		}
	}
	slices.Sort(loads)
	return loads, nil
}

// Windows answers in seconds, from where the data set ends.
func (f *fakeRunner) Windows(_ context.Context, _ *Spec, set Set, asks []Ask) ([]Window, error) {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	at := f.l.began
	if c, ok := f.l.covered[set.Dataset]; ok {
		at = c
	}
	var out []Window
	for _, ask := range asks {
		w := Window{Ranges: []loader.PreviewRange{}}
		upTo := ask.UpTo
		if upTo.IsZero() {
			upTo = f.now()
		}
		if ask.Again == nil && at.Before(upTo) {
			w.Rows, w.Files, at = int64(upTo.Sub(at)/time.Second), 1, upTo
		}
		out = append(out, w)
	}
	return out, nil
}

func (f *fakeRunner) View(_ context.Context, _ *Spec, set Set) (*View, error) {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	if f.unread != nil {
		return nil, f.unread
	}
	v := &View{Head: f.l.number, Hours: map[int64]HourFacts{}, Bucket: f.l.bucket}
	upTo := f.l.covered[set.Dataset]
	for h := f.l.began.Truncate(time.Hour); h.Before(upTo); h = h.Add(time.Hour) {
		v.Hours[h.Unix()] = HourFacts{Rows: 3600, Files: 1, Sealed: !h.Add(time.Hour).After(upTo), SealedIn: f.l.number}
	}
	return v, nil
}

// world is a scheduler with what it needs; it can be killed and opened again.
type world struct {
	t       *testing.T
	journal *fakeJournal
	runner  *fakeRunner
	s       *Scheduler
	ahead   atomic.Int64 // how far the scheduler's clock is ahead of the true time
	log     *slog.Logger
	keep    int
	sent    func(to Notify, body []byte) error // nil = receivers take everything
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// jump sets the scheduler's clock to be ahead of the true time, or behind it.
func (w *world) jump(ahead time.Duration) { w.ahead.Store(int64(ahead)) }

func newWorld(t *testing.T, takes time.Duration) *world {
	t.Helper()
	l := newLedger(time.Now().UTC())
	w := &world{t: t, journal: newJournal(), runner: &fakeRunner{l: l, now: time.Now, takes: takes}}
	w.open()
	time.Sleep(time.Second) // so that there is a record
	return w
}

func (w *world) open() {
	w.t.Helper()
	notify := func(_ context.Context, to Notify, body []byte) error {
		if w.sent == nil {
			return nil
		}
		return w.sent(to, body)
	}
	s, err := Open(context.Background(), Config{Journal: w.journal.open(), Runner: w.runner, Now: w.now, Notify: notify, Logger: w.log, Keep: w.keep})
	if err != nil {
		w.t.Fatal(err)
	}
	w.s = s
}

// restart is a new process on the same journal and ledger.
func (w *world) restart() {
	w.t.Helper()
	w.close()
	w.open()
}

func (w *world) close() {
	if err := w.s.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *world) apply(text string) *Applied {
	w.t.Helper()
	a, err := w.s.Apply(context.Background(), []byte(text), "job.yaml", "test", false)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// statuses prints the runs of the job, oldest first: "tick=status".
func (w *world) statuses() string {
	w.t.Helper()
	runs := w.s.Runs(RunFilter{Limit: 1000})
	slices.Reverse(runs)
	var out strings.Builder
	for _, r := range runs {
		name := "-"
		if !r.Tick.IsZero() {
			name = r.Tick.Format("15:04")
		}
		out.WriteString(" " + name + "=" + r.Status)
	}
	if out.String() == "" {
		return ""
	}
	return out.String()[1:]
}

// stride is from one append that a test dies at to the next. Where tests are to be
// short, as they are under the race detector, some of them show what it can find.
func stride() int {
	if testing.Short() {
		return 6
	}
	return 1
}
