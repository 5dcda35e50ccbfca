package jobs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/loader"
)

// paused is a world whose job was applied and paused at once: none of its ticks
// gets a run by itself.
func paused(t *testing.T, takes time.Duration) *world {
	t.Helper()
	w := newWorld(t, takes)
	w.apply(hourly)
	if err := w.s.Pause(t.Context(), "pageviews-hourly", "ann", ""); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) backfill(ask BackfillAsk) *BackfillView {
	w.t.Helper()
	ask.Job = "pageviews-hourly"
	if ask.From.IsZero() {
		ask.From = time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)
	}
	if ask.To.IsZero() {
		ask.To = time.Date(2000, 1, 1, 7, 0, 0, 0, time.UTC)
	}
	b, err := w.s.Backfill(w.t.Context(), ask)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// states prints the items of a backfill: "01:00=committed".
func (w *world) states(id string) string {
	w.t.Helper()
	b, err := w.s.GetBackfill(id)
	if err != nil {
		w.t.Fatal(err)
	}
	var out strings.Builder
	out.WriteString(b.Status + ":")
	for _, it := range b.Items {
		out.WriteString(" " + it.Tick.Format("15:04") + "=" + it.State)
	}
	return out.String()
}

func (w *world) steer(id, how string) {
	w.t.Helper()
	if _, err := w.s.SteerBackfill(w.t.Context(), id, how, "ann"); err != nil {
		w.t.Fatal(err)
	}
}

func TestBackfillPreview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paused(t, time.Minute)
		defer w.close()
		to(7*time.Hour + 10*time.Minute)
		for order, want := range map[string]string{
			OldestFirst: "00:00-01:00=3600 01:00-02:00=3600 02:00-03:00=3600 03:00-04:00=3600 04:00-05:00=3600 05:00-06:00=3600 ",
			NewestFirst: "05:00-06:00=21600 04:00-05:00=0 03:00-04:00=0 02:00-03:00=0 01:00-02:00=0 00:00-01:00=0 ",
		} {
			b := w.backfill(BackfillAsk{Order: order, DryRun: true})
			var got strings.Builder
			for _, it := range b.Items {
				got.WriteString(fmt.Sprintf("%s-%s=%d ", it.From.Format("15:04"), it.Tick.Format("15:04"), it.Window.Rows))
			}
			if got.String() != want || b.Rows != 21600 || !b.DryRun || b.ID != "" || b.Say != "6 runs, "+order+" first: 6 waiting" {
				t.Errorf("%s: %s, %+v", order, got.String(), b)
			}
		}
		if got := w.s.Backfills(""); len(got) != 0 {
			t.Errorf("a preview made %+v", got)
		}
		none := w.backfill(BackfillAsk{Only: OnlyFailed})
		if none.Total != 0 || none.ID != "" || none.Say != "nothing to do: no tick of the window failed" {
			t.Errorf("nothing to do: %+v", none)
		}
		for _, ask := range []BackfillAsk{
			{Job: "pageviews-hourly", From: at(t, "2000-01-01T00:00:00Z"), To: at(t, "2000-01-02T00:00:00Z"), Only: "some"},
			{Job: "pageviews-hourly", From: at(t, "2000-01-01T00:00:00Z"), To: at(t, "2000-01-02T00:00:00Z"), Order: "random"},
			{Job: "pageviews-hourly", From: at(t, "2000-01-02T00:00:00Z"), To: at(t, "2000-01-01T00:00:00Z")},
			{Job: "pageviews-hourly", From: at(t, "2000-01-03T00:00:00Z"), To: at(t, "2000-01-04T00:00:00Z")},
		} {
			if _, err := w.s.Backfill(t.Context(), ask); !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v: %v", ask, err)
			}
		}
	})
}

// TestBackfillIsSteered: paused, resumed, cancelled, and what failed retried,
// each over a restart.
func TestBackfillIsSteered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paused(t, 10*time.Minute)
		defer func() { w.close() }()
		to(7*time.Hour + 10*time.Minute)
		w.runner.fails(func(run string, _ int) error {
			if strings.HasSuffix(run, "-0001") {
				return &loader.Error{Code: loader.ExitConflict, Msg: "no"}
			}
			return nil
		})
		b := w.backfill(BackfillAsk{By: "ann"})
		if _, err := w.s.Backfill(t.Context(), BackfillAsk{Job: b.Job, From: b.From, To: b.To}); !errors.Is(err, ErrConflict) {
			t.Errorf("a second backfill beside it: %v", err)
		}
		step := func(after time.Duration, want string) {
			t.Helper()
			to(7*time.Hour + 10*time.Minute + after)
			if got := w.states(b.ID); got != want {
				t.Errorf("after %v\ngot  %s\nwant %s", after, got, want)
			}
		}
		step(5*time.Minute, "running: 01:00=running 02:00=waiting 03:00=waiting 04:00=waiting 05:00=waiting 06:00=waiting")
		w.steer(b.ID, SteerPause)
		w.restart()
		step(40*time.Minute, "paused: 01:00=queued 02:00=waiting 03:00=waiting 04:00=waiting 05:00=waiting 06:00=waiting")
		w.steer(b.ID, SteerResume)
		step(65*time.Minute, "running: 01:00=committed 02:00=failed 03:00=running 04:00=waiting 05:00=waiting 06:00=waiting")
		w.steer(b.ID, SteerCancel)
		step(66*time.Minute, "cancelled: 01:00=committed 02:00=failed 03:00=cancelled 04:00=cancelled 05:00=cancelled 06:00=cancelled")
		v, err := w.s.GetBackfill(b.ID)
		if err != nil || v.Open() || v.Reason != "cancelled by ann" || v.Rows != 3600 || v.Items[2].Reason != "cancelled by ann" {
			t.Errorf("got %+v, %v", v, err)
		}
		w.restart()
		w.runner.fails(nil)
		w.steer(b.ID, SteerRetry)
		step(80*time.Minute, "cancelled: 01:00=committed 02:00=committed 03:00=cancelled 04:00=cancelled 05:00=cancelled 06:00=cancelled")
		for _, how := range []string{SteerPause, SteerResume, SteerCancel, SteerRetry} {
			if _, err := w.s.SteerBackfill(t.Context(), b.ID, how, ""); !errors.Is(err, ErrConflict) {
				t.Errorf("%s of one that has ended: %v", how, err)
			}
		}
		if _, err := w.s.SteerBackfill(t.Context(), "none", SteerPause, ""); !errors.Is(err, ErrNotFound) {
			t.Errorf("none: %v", err)
		}
		rest := w.backfill(BackfillAsk{Only: OnlyFailed})
		to(10 * time.Hour)
		if got := w.states(rest.ID); got != "completed: 03:00=committed" {
			t.Errorf("got %s", got)
		}
		rest = w.backfill(BackfillAsk{})
		to(12 * time.Hour)
		if got := w.states(rest.ID); rest.Total != 3 || got != "completed: 04:00=committed 05:00=committed 06:00=committed" {
			t.Errorf("got %s", got)
		}
		if got := w.runner.l.covered["pageviews-hourly"]; !got.Equal(at(t, "2000-01-01T06:00:00Z")) {
			t.Errorf("covered to %v", got)
		}
	})
}

// TestBackfillAndSchedule: what a backfill has carried out is not made again when
// the job is resumed.
func TestBackfillAndSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paused(t, time.Minute)
		defer w.close()
		to(4*time.Hour + 10*time.Minute)
		w.backfill(BackfillAsk{To: at(t, "2000-01-01T03:00:00Z")})
		to(4*time.Hour + 20*time.Minute)
		if _, err := w.s.Resume(t.Context(), "pageviews-hourly", false); err != nil {
			t.Fatal(err)
		}
		to(4*time.Hour + 30*time.Minute)
		if got := w.statuses(); got != "01:00=committed 02:00=committed 03:00=committed 04:00=committed" {
			t.Errorf("got %s", got)
		}
	})
}

// TestNextMove: whatever happens to its runs and however it is steered, a
// backfill has at most one run open in each data set, begins none while it is
// paused or cancelled, and ends, with nothing left to do, exactly when nothing of
// it is open.
func TestNextMove(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		items := make([]itemFact, 1+rnd.IntN(12))
		for i := range items {
			items[i] = itemFact{Dataset: string(rune('a' + rnd.IntN(3))), State: ItemWaiting}
		}
		status, begun := BackfillRunning, map[int]int{}
		for step := 0; ; step++ {
			if step > 500 {
				t.Fatalf("seed %d: no end: %s %v", seed, status, items)
			}
			m := nextMove(status, items)
			if m.End != "" {
				judgeEnd(t, seed, status, m, items)
				break
			}
			for _, i := range m.Queue {
				if status != BackfillRunning || items[i].State != ItemWaiting {
					t.Fatalf("seed %d: a %s backfill begins item %d, which is %s", seed, status, i, items[i].State)
				}
				items[i].State = Queued
				begun[i]++
			}
			open := map[string]int{}
			for _, it := range items {
				if it.open() {
					open[it.Dataset]++
				}
			}
			for set, n := range open {
				if n > 1 {
					t.Fatalf("seed %d: %d runs open in data set %s", seed, n, set)
				}
			}
			for _, i := range m.Cancel {
				items[i].State = []string{Cancelled, Cancelled, Committed}[rnd.IntN(3)] // it may have been at its end
			}
			happen(rnd, items)
			how := []string{"", "", "", SteerPause, SteerResume, SteerResume, SteerCancel}[rnd.IntN(7)]
			if how == SteerCancel && rnd.IntN(4) > 0 {
				continue
			}
			if next, ok := steered(how, status, false, 0); ok {
				status = next
			}
		}
		for i, n := range begun {
			if n > 1 {
				t.Fatalf("seed %d: item %d was begun %d times", seed, i, n)
			}
		}
	}
}

// happen takes one open run on.
func happen(rnd *rand.Rand, items []itemFact) {
	for _, i := range rnd.Perm(len(items)) {
		switch items[i].State {
		case Queued:
			items[i].State = Running
			return
		case Running:
			items[i].State = []string{Committed, Covered, Failed, Partial, Cancelled}[rnd.IntN(5)]
			return
		}
	}
}

func judgeEnd(t *testing.T, seed uint64, status string, m move, items []itemFact) {
	t.Helper()
	if len(m.Queue)+len(m.Cancel) > 0 {
		t.Fatalf("seed %d: it ends and wants more: %+v", seed, m)
	}
	failed := slices.ContainsFunc(items, func(it itemFact) bool { return bad(it.State) })
	cancelled := slices.ContainsFunc(items, func(it itemFact) bool { return it.State == Cancelled })
	for _, it := range items {
		if it.open() || it.State == ItemWaiting && status != BackfillCancelled {
			t.Fatalf("seed %d: a %s backfill ends with an item that is %s", seed, status, it.State)
		}
	}
	want := BackfillCompleted
	switch {
	case status == BackfillCancelled:
		want = BackfillCancelled
	case failed:
		want = BackfillFailed
	case cancelled:
		want = BackfillCancelled
	}
	if m.End != want {
		t.Fatalf("seed %d: it ends as %s, want %s: %v", seed, m.End, want, items)
	}
}

// TestBackfillKilledAtEveryAppend: the server is killed at any append while a
// backfill is made, paused, resumed and carried out, the record safe or not.
// Every item has one run, which commits once.
func TestBackfillKilledAtEveryAppend(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for die := 1; ; die += stride() {
			over := false
			synctest.Test(t, func(t *testing.T) { over = killBackfill(t, keep, die) })
			if over {
				if die < 15 {
					t.Fatalf("only %d appends were tried", die)
				}
				break
			}
		}
	}
}

// killBackfill tells whether the append it was to die at never came.
func killBackfill(t *testing.T, keep bool, die int) (lived bool) {
	where := fmt.Sprintf("append %d safe=%v", die, keep)
	w := paused(t, 3*time.Minute)
	defer func() { w.close() }()
	to(7 * time.Hour)
	w.journal.doom(die, keep)
	ask := BackfillAsk{Job: "pageviews-hourly", From: at(t, "2000-01-01T01:00:00Z"), To: at(t, "2000-01-01T07:00:00Z")}
	b, err := w.s.Backfill(t.Context(), ask)
	if err == nil {
		to(7*time.Hour + 5*time.Minute)
		_, _ = w.s.SteerBackfill(t.Context(), b.ID, SteerPause, "ann") // it may die of this
		to(7*time.Hour + 8*time.Minute)
		_, _ = w.s.SteerBackfill(t.Context(), b.ID, SteerResume, "ann")
		to(7*time.Hour + 50*time.Minute)
	}
	select {
	case <-w.s.Failed():
	default:
		lived = true
	}
	w.restart()
	to(8 * time.Hour)
	list := w.s.Backfills("")
	if len(list) == 0 { // it was not safe: whoever asked was told so
		if err == nil {
			t.Errorf("%s: the backfill is gone", where)
		}
		if _, err := w.s.Backfill(t.Context(), ask); err != nil {
			t.Errorf("%s: again: %v", where, err)
		}
	} else if list[0].Status == BackfillPaused {
		w.steer(list[0].ID, SteerResume)
	}
	to(9 * time.Hour)
	list = w.s.Backfills("")
	if len(list) != 1 || list[0].Status != BackfillCompleted || list[0].Counts[Committed] != 6 {
		t.Fatalf("%s: %+v", where, list)
	}
	for run, n := range w.runner.l.runs {
		if n != 1 {
			t.Errorf("%s: run %s committed %d times", where, run, n)
		}
	}
	if got := w.statuses(); got != "01:00=committed 02:00=committed 03:00=committed 04:00=committed 05:00=committed 06:00=committed" {
		t.Errorf("%s: %s", where, got)
	}
	if got := w.runner.l.covered["pageviews-hourly"]; !got.Equal(at(t, "2000-01-01T06:00:00Z")) {
		t.Errorf("%s: covered to %v", where, got)
	}
	w.journal.compact()
	for _, r := range w.journal.records {
		if key := string(r[0]); strings.HasPrefix(key, "items/") && key != "items/"+list[0].ID {
			t.Errorf("%s: %s belongs to no backfill", where, key)
		}
	}
	return lived
}
