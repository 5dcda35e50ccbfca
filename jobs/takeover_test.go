package jobs

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTakeover: the broker that runs the scheduler is deposed at any of its
// appends, the record safe or not, and another takes over, at once or later. The
// work the first one was carrying out goes on all the same, as tasks of a broker
// that was cut off would. No tick is missed, none makes two runs, no work is
// committed twice.
func TestTakeover(t *testing.T) {
	for _, policy := range []string{"missing", "latest"} {
		for _, keep := range []bool{false, true} {
			for _, pause := range []time.Duration{0, time.Minute, 90 * time.Minute} {
				for die := 2; ; die += stride() {
					over := false
					synctest.Test(t, func(t *testing.T) { over = takeover(t, policy, keep, pause, die) })
					if over {
						if die < 15 {
							t.Fatalf("only %d appends were tried", die)
						}
						break
					}
				}
			}
		}
	}
}

// takeover tells whether the first scheduler was never deposed.
func takeover(t *testing.T, policy string, keep bool, pause time.Duration, die int) (over bool) {
	where := fmt.Sprintf("%s, append %d safe=%v, taken over after %v", policy, die, keep, pause)
	ledger := newLedger(time.Now().UTC())
	journal := newJournal()
	journal.dieAt, journal.keep = die, keep
	scheduler := func() *Scheduler {
		s, err := Open(context.Background(), Config{
			Journal: journal.open(), Runner: &fakeRunner{l: ledger, now: time.Now, takes: 3 * time.Minute, deaf: true},
			Notify: func(context.Context, Notify, []byte) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := scheduler()
	time.Sleep(time.Second) // so that there is a record
	_, err := first.Apply(context.Background(), []byte(strings.Replace(hourly, "5m}", "5m, catchup: "+policy+"}", 1)), "job.yaml", "test", false)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-journal.deposed:
	case <-time.After(time.Until(time.Date(2000, 1, 1, 4, 30, 0, 0, time.UTC))):
		over = true
	}
	time.Sleep(pause)
	second := scheduler()
	to(7*time.Hour + 30*time.Minute)
	for _, s := range []*Scheduler{first, second} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	took := 0
	for plan, p := range ledger.plans {
		if p.committed {
			took++
		}
		if p.abandoned {
			t.Errorf("%s: plan %s was abandoned", where, plan)
		}
	}
	if int64(took) != ledger.number+1 {
		t.Errorf("%s: %d plans committed in %d records", where, took, ledger.number+1)
	}
	if got := ledger.covered["pageviews-hourly"]; got.Before(at(t, "2000-01-01T07:05:00Z")) {
		t.Errorf("%s: covered only to %v", where, got)
	}
	ticks := map[string]int{}
	for _, r := range second.Runs(RunFilter{Limit: 100}) {
		if !r.Good() {
			t.Errorf("%s: run %s is %s: %s", where, r.Run, r.Status, r.Reason)
		}
		ticks[r.Tick.Format("15")]++
	}
	for _, tick := range []string{"01", "02", "03", "04", "05", "06", "07"} {
		if ticks[tick] > 1 || ticks[tick] == 0 && policy == "missing" {
			t.Errorf("%s: tick %s has %d runs", where, tick, ticks[tick])
		}
	}
	return over
}
