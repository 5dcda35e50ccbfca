package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/loader"
)

const hourly = minimal + "schedule: {every: 1h, delay: 5m}\n"

// to sleeps until the bubble's clock shows a moment after its start, which is
// midnight UTC, 2000-01-01.
func to(d time.Duration) {
	time.Sleep(d - time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
	synctest.Wait()
}

func TestTicksMakeRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Minute)
		defer w.close()
		a := w.apply(hourly)
		if a.Change != "created" || a.Catchup.Runs != 0 || !a.NextDue.Equal(at(t, "2000-01-01T01:05:00Z")) {
			t.Errorf("applied: %+v", a)
		}
		to(65*time.Minute + time.Second)
		if got := w.statuses(); got != "01:00=running" {
			t.Errorf("at 01:05 got %s", got)
		}
		to(3*time.Hour + 7*time.Minute)
		if got := w.statuses(); got != "01:00=committed 02:00=committed 03:00=committed" {
			t.Errorf("got %s", got)
		}
		r, err := w.s.Run("pageviews-hourly-20000101T030000Z")
		if err != nil || r.Rows != 3600 || r.Ledger == nil || *r.Ledger != 2 || r.Kind != ByTick || len(r.Phases) != 2 || r.Phases[1].MS != 60000 {
			t.Errorf("got %+v, %v", r, err)
		}
		if b := w.apply(hourly); b.Change != "unchanged" {
			t.Errorf("applying the same file: %+v", b)
		}
	})
}

func TestCatchup(t *testing.T) {
	tests := []struct {
		policy, promised, want string
		runs                   int
	}{
		{"missing", "active", "01:00=committed 02:00=committed 03:00=committed 04:00=committed", 4},
		{"latest", "active", "04:00=committed", 1},
		{"none", "paused", "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, time.Minute)
				defer func() { w.close() }()
				w.apply(strings.Replace(hourly, "5m}", "5m, catchup: "+tt.policy+"}", 1))
				w.close()
				to(4*time.Hour + 30*time.Minute)
				// Said before it is made.
				w.open()
				to(4*time.Hour + 40*time.Minute)
				if got := w.statuses(); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
				st, err := w.s.Get("pageviews-hourly")
				if err != nil || st.State != tt.promised {
					t.Errorf("state %q (%s), %v", st.State, st.Reason, err)
				}
				if tt.policy != "none" {
					return
				}
				c, err := w.s.Resume(t.Context(), "pageviews-hourly", false)
				if err != nil || c.Runs != 0 || c.Ticks != 4 {
					t.Errorf("resume: %+v, %v", c, err)
				}
				to(5*time.Hour + 10*time.Minute)
				if got := w.statuses(); got != "05:00=committed" {
					t.Errorf("after resume got %s", got)
				}
				if got := w.runner.l.covered["pageviews-hourly"]; got.Before(at(t, "2000-01-01T05:05:00Z")) {
					t.Errorf("the missed ticks' offsets were skipped: covered to %v", got)
				}
			})
		})
	}
}

func TestMissedTicksAreBoundedButTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Minute)
		defer func() { w.close() }()
		w.apply(hourly)
		if err := w.s.Pause(t.Context(), "pageviews-hourly", "ann", "maintenance"); err != nil {
			t.Fatal(err)
		}
		to(3*time.Hour + 30*time.Minute)
		c, err := w.s.Resume(t.Context(), "pageviews-hourly", false)
		if err != nil || c.Runs != 3 {
			t.Fatalf("resume says %+v, %v", c, err)
		}
		to(3*time.Hour + 40*time.Minute)
		runs := w.s.Runs(RunFilter{})
		if len(runs) != 3 || !runs[2].UpTo.Equal(at(t, "2000-01-01T01:00:00Z")) || !runs[0].UpTo.IsZero() {
			t.Errorf("got %+v", w.statuses())
		}
		if runs[2].Rows != 3600 || runs[1].Rows != 3600 {
			t.Errorf("rows %d, %d", runs[2].Rows, runs[1].Rows)
		}
	})
}

func TestRetriesBackOffThenFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer w.close()
		w.runner.fails(func(run string, try int) error {
			if strings.HasSuffix(run, "T010000Z") {
				return &loader.Error{Code: loader.ExitUnavailable, Msg: "no brokers", Hint: "start one"}
			}
			return nil
		})
		w.apply(hourly)
		to(65*time.Minute + 5*time.Second)
		r := w.s.Runs(RunFilter{})[0]
		if r.Status != Queued || r.Attempt != 1 || r.Reason != "no brokers" || r.NotBefore.Sub(r.Started) != 11*time.Second {
			t.Errorf("after one attempt: %+v", r)
		}
		to(90 * time.Minute)
		r = w.s.Runs(RunFilter{})[0]
		if r.Status != Failed || r.Attempt != 4 || r.Exit != 6 || r.Hint != "start one" {
			t.Errorf("after all: %+v", r)
		}
		to(2*time.Hour + 10*time.Minute)
		if got := w.statuses(); got != "01:00=failed 02:00=committed" {
			t.Errorf("the next tick goes on: %s", got)
		}
		w.runner.fails(nil)
		if _, err := w.s.Retry(t.Context(), r.Run, "ann", false, ""); err != nil {
			t.Fatal(err)
		}
		to(2*time.Hour + 20*time.Minute)
		if got, _ := w.s.Run(r.Run); !got.Good() {
			t.Errorf("after retry: %+v", got)
		}
	})
}

func TestTooManyBadRecordsThenAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer w.close()
		w.runner.fails(func(string, int) error { return &loader.Error{Code: loader.ExitPartial, Msg: "7 bad records"} })
		w.apply(minimal)
		runs, err := w.s.Trigger(t.Context(), Trigger{Job: "pageviews-hourly", By: "ann"})
		if err != nil || len(runs) != 1 {
			t.Fatal(runs, err)
		}
		to(time.Minute)
		r, _ := w.s.Run(runs[0].Run)
		if r.Status != Partial || r.Exit != 7 || r.Attempt != 1 || !strings.Contains(r.Hint, "--accept-bad") {
			t.Fatalf("got %+v", r)
		}
		if _, err := w.s.Retry(t.Context(), r.Run, "ann", true, ""); err != nil {
			t.Fatal(err)
		}
		to(2 * time.Minute)
		if r, _ = w.s.Run(r.Run); r.Status != Committed || !r.AcceptBad {
			t.Errorf("got %+v", r)
		}
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Hour)
		defer w.close()
		w.apply(minimal + "run: {timeout: 10m, retries: 0}\n")
		if _, err := w.s.Trigger(t.Context(), Trigger{Job: "pageviews-hourly"}); err != nil {
			t.Fatal(err)
		}
		to(11 * time.Minute)
		r := w.s.Runs(RunFilter{})[0]
		if r.Status != Failed || r.Reason != "timed out after 10m" || r.Exit != 6 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Hour)
		defer w.close()
		w.apply(minimal)
		first, err := w.s.Trigger(t.Context(), Trigger{Job: "pageviews-hourly"})
		if err != nil {
			t.Fatal(err)
		}
		second, err := w.s.Trigger(t.Context(), Trigger{Job: "pageviews-hourly"})
		if err != nil {
			t.Fatal(err)
		}
		to(time.Minute)
		if r, err := w.s.Cancel(t.Context(), second[0].Run, "ann"); err != nil || r.Status != Cancelled || r.Reason != "cancelled by ann" {
			t.Errorf("queued: %+v, %v", r, err)
		}
		r, err := w.s.Cancel(t.Context(), first[0].Run, "ann")
		if err != nil || r.Status != Cancelled || r.Exit != 130 {
			t.Errorf("running: %+v, %v", r, err)
		}
		if p := w.runner.l.plans[r.Plan]; p == nil || !p.abandoned {
			t.Errorf("the plan is not abandoned: %+v", p)
		}
		_, err = w.s.Cancel(t.Context(), r.Run, "ann")
		if !errors.Is(err, ErrConflict) {
			t.Errorf("twice: %v", err)
		}
	})
}

func TestTriggerWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer w.close()
		w.apply(strings.Replace(hourly, "5m}", "5m, catchup: none}", 1))
		if err := w.s.Pause(t.Context(), "pageviews-hourly", "", "x"); err != nil {
			t.Fatal(err)
		}
		to(5 * time.Hour)
		runs, err := w.s.Trigger(t.Context(), Trigger{Job: "pageviews-hourly", From: at(t, "2000-01-01T02:00:00Z"), To: at(t, "2000-01-01T04:00:00Z")})
		if err != nil || len(runs) != 2 {
			t.Fatal(runs, err)
		}
		to(5*time.Hour + time.Minute)
		if got := w.statuses(); got != "02:00=committed 03:00=committed" {
			t.Errorf("got %s", got)
		}
		if got := w.runner.l.covered["pageviews-hourly"]; !got.Equal(at(t, "2000-01-01T03:00:00Z")) {
			t.Errorf("covered to %v", got)
		}
		w.apply(strings.NewReplacer("pageviews-hourly", "plain", "/pageviews}", "/plain}").Replace(minimal))
		if _, err := w.s.Trigger(t.Context(), Trigger{Job: "plain", From: at(t, "2000-01-01T02:00:00Z"), To: at(t, "2000-01-01T04:00:00Z")}); !errors.Is(err, ErrInvalid) {
			t.Errorf("a window without a schedule: %v", err)
		}
	})
}

// TestLoadsAgain replaces commits: those of a window, and that of one run.
func TestLoadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer w.close()
		w.apply(hourly)
		to(2*time.Hour + 10*time.Minute)
		ask := BackfillAsk{Job: "pageviews-hourly", From: at(t, "2000-01-01T00:00:00Z"), To: at(t, "2000-01-01T03:00:00Z"), Only: OnlyAll, DryRun: true}
		b, err := w.s.Backfill(t.Context(), ask)
		if err != nil || b.Total != 2 || *b.Items[0].Record != 0 || b.Items[0].Run != "" || b.Items[1].Action != "supersede" {
			t.Fatalf("all, dry: %+v, %v", b, err)
		}
		ask.DryRun = false
		if b, err = w.s.Backfill(t.Context(), ask); err != nil || b.Total != 2 {
			t.Fatalf("all: %+v, %v", b, err)
		}
		to(2*time.Hour + 20*time.Minute)
		for i, item := range b.Items {
			r, err := w.s.Run(item.Run)
			if err != nil || r.Status != Committed || r.Again == nil || *r.Again != int64(i) || !strings.HasPrefix(r.Plan, fmt.Sprintf("again-%d-", i)) {
				t.Errorf("run %+v, %v", r, err)
			}
		}
		first, err := w.s.Run(b.Items[0].Run)
		if err != nil {
			t.Fatal(err)
		}
		planned, root, err := w.s.PlanAgain(t.Context(), first.Run, true)
		if err != nil || planned.Plan.Kind != loader.Supersede || root == "" {
			t.Errorf("plan %+v, root %s, %v", planned, root, err)
		}
		r, err := w.s.Again(t.Context(), first.Run, "ann", true)
		if err != nil || !r.AgainBad || *r.Again != *first.Ledger || r.By != "ann" || r.Kind != ByBackfill {
			t.Errorf("run %+v, %v", r, err)
		}
		if _, err := w.s.Again(t.Context(), r.Run, "ann", true); !errors.Is(err, ErrConflict) {
			t.Errorf("a run that has committed nothing: %v", err)
		}
		ask.To = ask.From
		if _, err := w.s.Backfill(t.Context(), ask); !errors.Is(err, ErrInvalid) {
			t.Errorf("an empty window: %v", err)
		}
	})
}

func TestApplyRefusesTwoWritersOfOneRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer w.close()
		w.apply(minimal)
		_, err := w.s.Apply(t.Context(), []byte(strings.Replace(minimal, "hourly", "daily", 1)), "j.yaml", "", false)
		if !errors.Is(err, ErrConflict) {
			t.Errorf("got %v", err)
		}
	})
}

func TestDeleteForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Minute)
		defer func() { w.close() }()
		w.apply(hourly)
		to(65*time.Minute + 10*time.Second)
		if err := w.s.Delete(t.Context(), "pageviews-hourly"); !errors.Is(err, ErrConflict) {
			t.Errorf("while a run goes on: %v", err)
		}
		to(70 * time.Minute)
		if err := w.s.Delete(t.Context(), "pageviews-hourly"); err != nil {
			t.Fatal(err)
		}
		if got := w.runner.l.released; !slices.Equal(got, []string{"pageviews"}) {
			t.Errorf("released: %v", got)
		}
		w.restart()
		if jobs, runs := w.s.List(), w.s.Runs(RunFilter{}); len(jobs) != 0 || len(runs) != 0 {
			t.Errorf("after a restart: %v, %v", jobs, runs)
		}
		if _, err := w.s.Get("pageviews-hourly"); !errors.Is(err, ErrNotFound) {
			t.Errorf("get: %v", err)
		}
	})
}

func TestSeparateTopicsRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Minute)
		defer w.close()
		w.runner.answers([]string{"v.a", "v.b", "v.c"}, nil)
		w.apply("name: views\nsource: {pattern: '^v'}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h}\nrun: {max_active: 2}\n")
		to(time.Hour + 10*time.Second)
		running := w.s.Runs(RunFilter{Status: Running})
		queued := w.s.Runs(RunFilter{Status: Queued})
		if len(running) != 2 || len(queued) != 1 {
			t.Errorf("%d running, %d queued: want max_active 2 of 3", len(running), len(queued))
		}
		to(time.Hour + 3*time.Minute)
		if got := w.runner.l.covered["views.v.c"]; got.IsZero() {
			t.Errorf("views.v.c was not loaded: %s", w.statuses())
		}
	})
}

// A cluster that does not answer keeps ticks due and nothing else waiting.
func TestSilentClusterHoldsUpOnlyItsJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer w.close()
		w.runner.answers(nil, errors.New("no broker answers"))
		w.apply("name: views\nsource: {pattern: '^v'}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h}\n")
		w.apply(hourly)
		to(time.Hour + 6*time.Minute)
		if st, _ := w.s.Get("views"); st.Trouble != "topics: no broker answers" {
			t.Errorf("trouble: %q", st.Trouble)
		}
		if got := w.statuses(); got != "01:00=committed" {
			t.Errorf("got %s", got)
		}
		if _, err := w.s.Trigger(t.Context(), Trigger{Job: "views"}); err == nil || !strings.Contains(err.Error(), "no broker answers") {
			t.Errorf("trigger: %v", err)
		}
		w.runner.answers([]string{"v.a"}, nil)
		to(time.Hour + 8*time.Minute)
		if got := w.statuses(); got != "01:00=committed 01:00=committed" {
			t.Errorf("got %s", got)
		}
		if st, _ := w.s.Get("views"); st.Trouble != "" {
			t.Errorf("trouble: %q", st.Trouble)
		}
	})
}

func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer func() { w.close() }()
		w.close()
		s, err := Open(context.Background(), Config{Journal: w.journal.open(), Runner: w.runner, Keep: 5})
		if err != nil {
			t.Fatal(err)
		}
		w.s = s
		w.apply(hourly)
		to(20*time.Hour + 30*time.Minute)
		if runs := w.s.Runs(RunFilter{}); len(runs) != 5 {
			t.Errorf("%d runs kept", len(runs))
		}
		live := map[string]bool{}
		for _, r := range w.journal.records {
			live[string(r[0])] = r[1] != nil
		}
		n := 0
		for _, alive := range live {
			if alive {
				n++
			}
		}
		if n > 1+5+6 {
			t.Errorf("%d live records in the journal", n)
		}
		w.restart()
		to(21*time.Hour + 30*time.Minute)
		if got := w.runner.l.runs; len(got) != 21 {
			t.Errorf("%d ticks ran, want 21", len(got))
		}
	})
}

func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer w.close()
		feed, cancel := w.s.Subscribe()
		defer cancel()
		w.runner.fails(func(string, int) error { return &loader.Error{Code: loader.ExitConflict, Msg: "no"} })
		w.apply(hourly + "freshness: 90m\n")
		to(2 * time.Hour)
		st, _ := w.s.Get("pageviews-hourly")
		if !st.Stale {
			t.Errorf("not stale: %+v", st)
		}
		w.runner.fails(nil)
		to(2*time.Hour + 10*time.Minute)
		if st, _ = w.s.Get("pageviews-hourly"); st.Stale {
			t.Errorf("still stale: %+v", st)
		}
		seen := map[string]bool{}
		for len(feed) > 0 {
			ev := <-feed
			seen[ev.Kind+" "+ev.Status] = true
		}
		for _, want := range []string{"job applied", "job stale", "job fresh", "run queued", "run running", "run failed", "run committed", "hour ", "task "} {
			if !seen[want] {
				t.Errorf("no event %q in %v", want, seen)
			}
		}
	})
}

func TestSlowSubscriberIsCutOff(t *testing.T) {
	var e events
	feed, _, _, cancel := e.subscribe("")
	defer cancel()
	for range eventBuffer + 1 {
		e.send(Event{Kind: "run"})
	}
	n := 0
	for range feed {
		n++
	}
	if n != eventBuffer {
		t.Errorf("%d events before the cut", n)
	}
}

// TestFollowFromAnEvent: who names an event gets those after it, as long as they
// are remembered; another scheduler's events are not known.
func TestFollowFromAnEvent(t *testing.T) {
	var e, other events
	feed, _, known, cancel := e.subscribe("")
	defer cancel()
	if !known {
		t.Error("who has seen nothing misses something")
	}
	for range 3 {
		e.send(Event{Kind: "run"})
		other.send(Event{Kind: "run"})
	}
	first := <-feed
	_, missed, known, stop := e.subscribe(first.Mark)
	stop()
	if !known || len(missed) != 2 || missed[0].ID != 2 || missed[1].ID != 3 {
		t.Errorf("after the first: %d events, known %v", len(missed), known)
	}
	if _, missed, known, stop = other.subscribe(first.Mark); known || len(missed) != 0 {
		t.Error("an event of another scheduler is known")
	}
	stop()
	for range 2 * eventsKept {
		e.send(Event{Kind: "task"})
		if n := len(e.kept); n > eventsKept {
			t.Fatalf("%d events are kept", n)
		}
	}
	if _, _, known, stop = e.subscribe(first.Mark); known {
		t.Error("an event of long ago is known")
	}
	stop()
	last := e.kept[len(e.kept)-1].Mark
	if _, missed, known, stop = e.subscribe(last); !known || len(missed) != 0 {
		t.Errorf("after the last: %d events, known %v", len(missed), known)
	}
	stop()
}

// Every append of a busy day is a place to die, with the record safe or not.
// After the restart every tick has exactly one commit and no second is loaded
// twice or left out.
func TestKilledAtEveryAppend(t *testing.T) {
	for _, policy := range []string{"missing", "latest"} {
		for _, keep := range []bool{false, true} {
			for die := 2; ; die += stride() {
				done := false
				synctest.Test(t, func(t *testing.T) { done = dieOnce(t, policy, keep, die) })
				if done {
					if die < 15 {
						t.Fatalf("only %d appends were tried", die)
					}
					break
				}
			}
		}
	}
}

// dieOnce tells whether the life ended before the append it was to die at.
func dieOnce(t *testing.T, policy string, keep bool, die int) (lived bool) {
	where := fmt.Sprintf("%s, append %d safe=%v", policy, die, keep)
	w := newWorld(t, 3*time.Minute)
	defer func() { w.close() }()
	w.journal.dieAt, w.journal.keep = die, keep
	w.runner.fails(func(run string, try int) error {
		if strings.HasSuffix(run, "T020000Z") && try == 1 {
			return &loader.Error{Code: loader.ExitUnavailable, Msg: "once"}
		}
		return nil
	})
	w.apply(strings.Replace(hourly, "5m}", "5m, catchup: "+policy+"}", 1))
	to(3*time.Hour + 30*time.Minute)
	select {
	case err := <-w.s.Failed():
		if !errors.Is(err, errFenced) || !errors.Is(err, ErrUndecided) {
			t.Errorf("%s: failed with %v", where, err)
		}
	default:
		lived = true
	}
	w.restart()
	to(5*time.Hour + 30*time.Minute)
	l := w.runner.l
	for run, n := range l.runs {
		if n != 1 {
			t.Errorf("%s: run %s committed %d times", where, run, n)
		}
	}
	if got := l.covered["pageviews-hourly"]; got.Before(at(t, "2000-01-01T05:05:00Z")) {
		t.Errorf("%s: covered only to %v", where, got)
	}
	ticks := map[string]int{}
	for _, r := range w.s.Runs(RunFilter{Limit: 100}) {
		if !r.Good() {
			t.Errorf("%s: run %s is %s: %s", where, r.Run, r.Status, r.Reason)
		}
		ticks[r.Tick.Format("15")]++
	}
	for _, tick := range []string{"01", "02", "03", "04", "05"} {
		if ticks[tick] > 1 || ticks[tick] == 0 && policy == "missing" {
			t.Errorf("%s: tick %s has %d runs (%s)", where, tick, ticks[tick], w.statuses())
		}
	}
	return lived
}

// TestApplyRefusesRootsThatMeet: whatever way it is written, a root that is another
// job's, or lies in one or around one, is refused; its neighbours are not.
func TestApplyRefusesRootsThatMeet(t *testing.T) {
	disk := t.TempDir()
	if err := os.Mkdir(filepath.Join(disk, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(disk, "real"), filepath.Join(disk, "link")); err != nil {
		t.Fatal(err)
	}
	job := func(name, topics, root string) string {
		return "name: " + name + "\nsource: {" + topics + "}\noutput: {root: '" + root + "'}\n"
	}
	const one, two, views = "topics: [a]", "topics: [a, b]", "pattern: '^v'"
	for _, c := range []struct {
		topics, root   string
		topics2, root2 string
		word           string // "" = both may be
	}{
		{one, "file:///w/a", one, "file:///w/a", "is"},
		{one, "file:///w/a", one, "file:///w/a/", "is"},
		{one, "file:///w/a", one, "file://localhost/w//x/../a", "is"},
		{one, "file:///w/a", one, "file:///w/b", ""},
		{one, "file:///w/a", one, "file:///w/ab", ""},
		{one, "file:///w/a", one, "file:///w/a/sub/sub", "lies in"},
		{one, "file:///w/a/sub/sub", one, "file:///w/a", "holds"},
		{one, "file://" + disk + "/real/a", one, "file://" + disk + "/link/a", "is"},
		{one, "file://" + disk + "/link", one, "file://" + disk + "/real/new/a", "lies in"},
		{one, "hdfs://NN1/w/a", one, "hdfs://nn1:8020/w/a", "is"},
		{one, "hdfs://nn1/w/a", one, "hdfs://nn1:9000/w/a", ""},
		{one, "hdfs://nn1/w/a", one, "hdfs://nn2/w/a", ""},
		{one, "hdfs://nn1/w/a", one, "file:///w/a", ""},
		{one, "hdfs://nn1/w", one, "hdfs://nn1/w/a", "lies in"},
		{two, "file:///w/{topic}", one, "file:///w/a", "is"},
		{two, "file:///w/{topic}", one, "file:///w/{topic}", "is"},
		{two, "file:///w/{topic}", one, "file:///w/c", ""},
		{two, "file:///w/{topic}", one, "file:///w/b/c", "lies in"},
		{two, "file:///w/{topic}", one, "file:///w", "holds"},
		{two, "file:///w/{topic}-x", two, "file:///w/{topic}-y", ""},
		{views, "file:///w/{topic}", one, "file:///w/v2", "is"},
		{views, "file:///w/{topic}", one, "file:///w/a", ""},
		{views, "file:///w/{topic}", one, "file:///w", "holds"},
		{views, "file:///w/{topic}", views, "file:///w/{topic}", "is"},
		{views, "file:///w/{topic}/a", views, "file:///w/{topic}/b", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, time.Second)
			defer w.close()
			w.runner.answers([]string{"v1", "v2"}, nil)
			w.apply(job("first", c.topics, c.root))
			if _, err := w.s.Sets(t.Context(), "first"); err != nil {
				t.Fatal(err)
			}
			_, err := w.s.Apply(t.Context(), []byte(job("second", c.topics2, c.root2)), "j.yaml", "", true)
			refusal, refused := errors.AsType[*Refusal](err)
			switch {
			case c.word == "" && err != nil:
				t.Errorf("%s beside %s: %v", c.root2, c.root, err)
			case c.word != "" && (!refused || refusal.Kind != ErrConflict || refusal.Hint == "" || !strings.Contains(refusal.Msg, " "+c.word+" "+c.root+", the root of job first")):
				t.Errorf("%s beside %s: %v, want %q", c.root2, c.root, err, c.word)
			}
			if _, err := w.s.Apply(t.Context(), []byte(job("first", c.topics, c.root)), "j.yaml", "", true); err != nil {
				t.Errorf("%s meets itself: %v", c.root, err)
			}
		})
	}
}

// TestApplyKeepsBuckets: a rule that the data set's folders don't go by is refused
// when the job is applied, as its runs would be; the one they do go by is not.
func TestApplyKeepsBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer w.close()
		const india = minimal + "partition_by: {zone: Asia/Kolkata}\n"
		apply := func(text string) (*Applied, error) {
			return w.s.Apply(t.Context(), []byte(text), "j.yaml", "", false)
		}
		w.apply(minimal)
		w.apply(india) // nothing is loaded
		w.apply(minimal)
		w.runner.l.mu.Lock()
		w.runner.l.bucket = &loader.Bucket{Unit: "hour", Zone: "UTC", Path: "dt=%Y-%m-%d/hr=%H"}
		w.runner.l.mu.Unlock()
		to(time.Minute) // what was read is old
		for _, rule := range []string{"zone: Asia/Kolkata", "unit: day", "path: '%Y/%m/%d/%H'", "fields: [a]"} {
			_, err := apply(minimal + "partition_by: {" + rule + "}\n")
			if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Kind != ErrConflict || !strings.Contains(refusal.Msg, "begun with") || !strings.Contains(refusal.Hint, "output.root") {
				t.Errorf("%s: %v", rule, err)
			}
		}
		w.apply(minimal + "partition_by: {lateness: 3h}\n")
		w.apply(strings.Replace(india, "file:///", "file:///elsewhere/", 1))
		w.apply(strings.Replace(minimal, "file:///", "file:///elsewhere/", 1))
		// One that was let in while nobody could ask can be taken back.
		w.runner.blind(errors.New("the store is away"))
		w.apply(minimal)
		to(2 * time.Minute)
		w.s.mu.Lock()
		clear(w.s.views)
		w.s.mu.Unlock()
		if a := w.apply(india); !strings.Contains(a.Say, "could not be looked at") {
			t.Errorf("unseen: %s", a.Say)
		}
		w.runner.blind(nil)
		to(3 * time.Minute)
		w.apply(minimal)
	})
}
