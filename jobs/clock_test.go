package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/loader"
)

// TestCompactedHistory: the broker keeps the last record of a key, so a job that
// was written again comes after its ticks. They count all the same.
func TestCompactedHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		w.keep = 5
		w.close()
		w.open()
		defer func() { w.close() }()
		w.apply(hourly)
		to(12*time.Hour + 10*time.Minute)
		if err := w.s.Pause(t.Context(), "pageviews-hourly", "ann", ""); err != nil {
			t.Fatal(err)
		}
		if c, err := w.s.Resume(t.Context(), "pageviews-hourly", false); err != nil || c.Ticks != 0 {
			t.Fatalf("resume: %+v, %v", c, err)
		}
		w.journal.compact()
		w.restart()
		to(12*time.Hour + 20*time.Minute)
		if got := w.runner.ran; len(got) != 12 {
			t.Errorf("%d runs, want one for each of 12 ticks: %v", len(got), got)
		}
		if dry, err := w.s.Apply(t.Context(), []byte(hourly), "job.yaml", "", true); err != nil || dry.Catchup.Ticks != 0 {
			t.Errorf("ticks that are due again: %+v, %v", dry, err)
		}
	})
}

// TestLeftovers: what a deletion that was cut off has left is taken away when
// the history is opened, and never comes back with a job of the same name.
func TestLeftovers(t *testing.T) {
	for cut := 1; ; cut++ {
		over := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, time.Second)
			defer func() { w.close() }()
			w.apply(hourly)
			to(3*time.Hour + 10*time.Minute)
			w.journal.doom(cut, true)
			if err := w.s.Delete(t.Context(), "pageviews-hourly"); err == nil {
				over = true
				return
			}
			w.restart()
			w.journal.compact()
			if n := len(w.journal.records); n != 0 {
				t.Errorf("cut at append %d: %d records are left, the first %s", cut, n, w.journal.records[0][0])
			}
		})
		if over {
			if cut < 6 {
				t.Fatalf("only %d appends were cut", cut)
			}
			return
		}
	}
}

// TestClockSetBack: what waits, was looked up or was watched before the clock was
// set back does not wait for the clock to come there again.
func TestClockSetBack(t *testing.T) {
	week := 7 * 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer func() { w.close() }()
		w.jump(week)
		w.apply("name: views\nsource: {pattern: '^v'}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h, catchup: none}\n")
		w.runner.answers([]string{"v.a"}, nil)
		w.runner.fails(func(run string, try int) error {
			if try == 1 {
				return &loader.Error{Code: loader.ExitUnavailable, Msg: "once"}
			}
			return nil
		})
		if _, err := w.s.Trigger(t.Context(), Trigger{Job: "views"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		w.jump(0)
		to(2 * time.Minute)
		r := w.s.Runs(RunFilter{})[0]
		if r.Status != Committed {
			t.Errorf("a back-off of seconds lasts a week: %s", w.statuses())
		}
		for _, p := range r.Phases {
			if p.MS < 0 || p.MS > 60_000 {
				t.Errorf("phase %s took %d ms", p.Name, p.MS)
			}
		}
		w.runner.answers([]string{"v.a", "v.b"}, nil)
		if sets, err := w.s.Sets(t.Context(), "views"); err != nil || len(sets) != 2 {
			t.Fatal(sets, err)
		}
		st, err := w.s.Get("views")
		if err != nil || !strings.Contains(st.Trouble, "the clock was ahead") {
			t.Errorf("trouble: %q, %v", st.Trouble, err)
		}
		for _, s := range w.s.Stats() {
			if s.Seconds < 0 || s.Seconds > 60 {
				t.Errorf("%f seconds of work", s.Seconds)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer func() { w.close() }()
		w.jump(6 * time.Hour)
		w.apply(minimal) // it is watched from 06:00 on, by a clock that is wrong
		w.jump(0)
		to(time.Minute)
		w.apply(strings.Replace(hourly, "5m}", "5m, catchup: none}", 1))
		to(2*time.Hour + 10*time.Minute)
		if st, _ := w.s.Get("pageviews-hourly"); st.State != "active" {
			t.Errorf("a job that was watched all the time is %s: %s", st.State, st.Reason)
		}
	})
}

// TestWeekOfDowntime: what is announced is what is made, for each policy, on a
// week with a day of 23 or 25 hours.
func TestWeekOfDowntime(t *testing.T) {
	const local = "schedule: {cron: '15 * * * *', timezone: Europe/Berlin, catchup: %s}\n"
	sundays := []string{"2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z"}
	if testing.Short() {
		sundays = sundays[:1]
	}
	for _, sunday := range sundays {
		for policy, runs := range map[string]int{CatchupMissing: 168, CatchupLatest: 1} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, time.Second)
				defer func() { w.close() }()
				ahead := time.Until(at(t, sunday).Add(-100 * time.Hour))
				w.jump(ahead)
				w.runner.now = w.now
				w.apply(minimal + fmt.Sprintf(local, policy))
				w.close()
				time.Sleep(7 * 24 * time.Hour)
				var said []string
				w.log = announcements(&said)
				w.open()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if len(said) != 1 || !strings.Contains(said[0], "ticks=168 ") || !strings.Contains(said[0], fmt.Sprintf("runs=%d ", runs)) {
					t.Errorf("%s: announced %q", policy, said)
				}
				ticks := 0
				made := w.s.Runs(RunFilter{Limit: 1000})
				for _, tick := range w.s.f.jobs["pageviews-hourly"].ticks {
					ticks += 1 + tick.Merged
				}
				if len(made) != runs || ticks != 168 {
					t.Errorf("%s: %d runs for %d ticks", policy, len(made), ticks)
				}
				for _, r := range made {
					if !r.Good() {
						t.Errorf("%s: %s is %s", policy, r.Run, r.Status)
					}
				}
				if st, err := w.s.Get("pageviews-hourly"); err != nil || st.CatchingUp != nil {
					t.Errorf("%s: still catching up: %+v, %v", policy, st.CatchingUp, err)
				}
			})
		}
	}
}

// TestNewScheduleBeginsNow: ticks of a schedule that was not there were not missed.
func TestNewScheduleBeginsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer w.close()
		w.apply(strings.Replace(hourly, "1h", "1d", 1))
		to(30*time.Hour + 30*time.Second)
		a := w.apply(strings.Replace(hourly, "1h, delay: 5m", "1m", 1))
		if a.Catchup.Ticks != 0 || a.Next.Sub(at(t, "2000-01-02T06:00:00Z")) != time.Minute {
			t.Errorf("applied: %+v", a)
		}
		to(30*time.Hour + 5*time.Minute + 30*time.Second)
		if n := len(w.s.Runs(RunFilter{})); n != 1+5 {
			t.Errorf("%d runs, want that of the day and 5 of minutes", n)
		}
	})
}

// TestRunFinishesWhatAnotherLeft: the plan of a run that failed for good is
// finished by the next one, which then loads what it is for.
func TestRunFinishesWhatAnotherLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer w.close()
		w.runner.fails(func(run string, _ int) error {
			if strings.HasSuffix(run, "T010000Z") {
				return &loader.Error{Code: loader.ExitConflict, Msg: "no"}
			}
			return nil
		})
		w.apply(hourly)
		to(2*time.Hour + 6*time.Minute)
		if got := w.runner.l.covered["pageviews-hourly"]; got.Before(at(t, "2000-01-01T02:05:00Z")) {
			t.Errorf("the run of 02:00 ended, and loaded only up to %v", got)
		}
		r, err := w.s.Run("pageviews-hourly-20000101T020000Z")
		if err != nil || r.Status != Committed || r.Rows < 7500 || len(r.Resumed) != 1 || *r.Ledger != 1 || len(r.Hours) != 2 {
			t.Errorf("got %+v, %v", r, err)
		}
	})
}

// TestRestartIsNoTry: an attempt that its server's end cut off is in the history
// and does not count as a try.
func TestRestartIsNoTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 20*time.Minute)
		defer func() { w.close() }()
		w.runner.fails(func(_ string, try int) error {
			if try == 6 {
				return &loader.Error{Code: loader.ExitUnavailable, Msg: "once"}
			}
			return nil
		})
		w.apply(hourly)
		for i := range 5 {
			to(time.Hour + time.Duration(6+i)*time.Minute)
			w.restart()
		}
		to(3 * time.Hour)
		r, err := w.s.Run("pageviews-hourly-20000101T010000Z")
		if err != nil || !r.Good() || r.Attempt != 2 || len(r.Attempts) != 7 {
			t.Fatalf("got %+v, %v", r, err)
		}
		var how []string
		for i, a := range r.Attempts {
			if a.Number != i+1 || a.Started.IsZero() {
				t.Errorf("attempt %d: %+v", i, a)
			}
			how = append(how, a.Status)
		}
		if want := []string{Interrupted, Interrupted, Interrupted, Interrupted, Interrupted, Failed, Committed}; !slices.Equal(how, want) {
			t.Errorf("attempts ended as %v", how)
		}
		if a := r.Attempts[5]; a.Exit != 6 || a.Reason != "once" || len(a.Phases) == 0 || a.Ended.Sub(a.Started) != 20*time.Minute {
			t.Errorf("the attempt that failed: %+v", a)
		}
	})
}

// TestHistoryKeepsWhatCounts: each data set has its own share, its last good run
// stays, and ticks whose runs are forgotten are not missing.
func TestHistoryKeepsWhatCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		w.keep = 5
		w.close()
		w.open()
		defer func() { w.close() }()
		w.runner.answers([]string{"v.a", "v.b"}, nil)
		w.runner.fails(func(run string, _ int) error {
			if strings.HasPrefix(run, "views.v.b") && time.Since(w.runner.l.began) > 90*time.Minute {
				return &loader.Error{Code: loader.ExitConflict, Msg: "no"}
			}
			return nil
		})
		w.apply("name: views\nsource: {pattern: '^v'}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 1h}\nfreshness: 3h\n")
		to(20*time.Hour + 10*time.Minute)
		count := map[string]int{}
		for _, r := range w.s.Runs(RunFilter{Limit: 100}) {
			count[r.Dataset+" "+r.Status]++
		}
		if count["views.v.a committed"] != 5 || count["views.v.b failed"] != 4 || count["views.v.b committed"] != 1 {
			t.Errorf("kept: %v", count)
		}
		if st, err := w.s.Get("views"); err != nil || !st.Stale {
			t.Errorf("a data set without a good run for 19 hours, and the job is not stale: %+v, %v", st, err)
		}
		b, err := w.s.Backfill(t.Context(), BackfillAsk{Job: "views", From: at(t, "2000-01-01T01:00:00Z"), To: at(t, "2000-01-01T20:00:00Z"), DryRun: true})
		if err != nil || b.Total != 0 {
			t.Errorf("missing: %+v, %v", b, err)
		}
	})
}
