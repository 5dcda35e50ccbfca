package jobs

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/loader"
)

// TestRunsArePicked: each filter picks what it says, pages follow one another, and
// the newest come first whatever their jobs.
func TestRunsArePicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, time.Second)
		defer w.close()
		w.runner.fails(func(run string, _ int) error {
			if time.Since(w.runner.l.began) > 8*time.Hour {
				return &loader.Error{Code: loader.ExitConflict, Msg: "no"}
			}
			return nil
		})
		w.apply(hourly)
		w.apply("name: views\nsource: {topics: [a, b]}\noutput: {root: 'file:///w/{topic}'}\nschedule: {every: 2h}\n")
		to(10*time.Hour + 30*time.Minute)
		all := w.s.Runs(RunFilter{Limit: 1000})
		if len(all) != 10+2*5 || !slices.IsSortedFunc(all, func(a, b *Run) int { return inQueue(b, a) }) {
			t.Fatalf("%d runs, or out of order", len(all))
		}
		var paged []*Run
		for after := ""; ; {
			part := w.s.Runs(RunFilter{Limit: 3, After: after})
			if len(part) == 0 {
				break
			}
			paged = append(paged, part...)
			after = part[len(part)-1].Run
		}
		if len(paged) != len(all) {
			t.Errorf("%d runs in pages, %d in one", len(paged), len(all))
		}
		for i := range paged {
			if paged[i].Run != all[i].Run {
				t.Errorf("run %d of the pages is %s, want %s", i, paged[i].Run, all[i].Run)
			}
		}
		paged = nil
		for before := all[len(all)-1].Run; ; before = paged[0].Run {
			part := w.s.Runs(RunFilter{Limit: 3, Before: before})
			if len(part) == 0 {
				break
			}
			paged = append(part, paged...)
		}
		if !slices.EqualFunc(append(paged, all[len(all)-1]), all, func(a, b *Run) bool { return a.Run == b.Run }) {
			t.Errorf("%d runs in pages from the oldest, %d in one", len(paged)+1, len(all))
		}
		for _, c := range []struct {
			f    RunFilter
			want int
		}{
			{RunFilter{Job: "views"}, 10},
			{RunFilter{Status: Failed}, 7},
			{RunFilter{Job: "pageviews-hourly", Status: Failed}, 3},
			{RunFilter{Tick: at(t, "2000-01-01T08:00:00Z")}, 3},
			{RunFilter{Since: at(t, "2000-01-01T08:00:05Z")}, 5},
			{RunFilter{Backfill: "none"}, 0},
			{RunFilter{Kind: ByTick}, 20},
			{RunFilter{Kind: ByHand}, 0},
			{RunFilter{Until: at(t, "2000-01-01T08:00:05Z")}, 15},
			{RunFilter{Since: at(t, "2000-01-01T08:00:05Z"), Until: at(t, "2000-01-01T10:00:00Z")}, 2},
			{RunFilter{Before: all[len(all)-1].Run}, 19},
			{RunFilter{Before: all[0].Run}, 0},
			{RunFilter{Before: all[9].Run, Limit: 3}, 3},
			{RunFilter{Limit: 1}, 1},
			{RunFilter{After: "none"}, 20},
		} {
			if got := w.s.Runs(c.f); len(got) != c.want {
				t.Errorf("%+v: %d runs, want %d", c.f, len(got), c.want)
			}
		}
	})
}

// TestWhatCanBeDoneToRuns: each state allows one of cancel, retry and load again, or
// none, and what is refused names the way out.
func TestWhatCanBeDoneToRuns(t *testing.T) {
	for status, can := range map[string]string{
		Queued: "cancel", Running: "cancel", Committed: "again", Covered: "", Failed: "retry", Partial: "retry", Cancelled: "retry",
	} {
		r := &Run{Outcome: loader.Outcome{Run: "r", Status: status}}
		if status == Committed {
			r.Ledger = new(int64(3))
		}
		for what, err := range map[string]error{"cancel": r.CannotCancel(), "retry": r.CannotRetry(), "again": r.CannotLoadAgain()} {
			refusal, refused := errors.AsType[*Refusal](err)
			if refused == (what == can) || refused && (refusal.Kind != ErrConflict || refusal.Hint == "") {
				t.Errorf("a run that is %s, %s: %v", status, what, err)
			}
		}
	}
	if (&Run{Outcome: loader.Outcome{Run: "r", Status: Committed}}).CannotLoadAgain() == nil {
		t.Error("a run without a ledger record can be loaded again")
	}
}
