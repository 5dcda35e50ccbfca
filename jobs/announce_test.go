package jobs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnnouncedIsDone: over a week that holds a day of 23 or 25 hours a job is
// paused, or its server is down, or the clock goes ahead meanwhile; what is said
// of the ticks then is what is made of them: ticks, runs, and what each of a
// backfill loads. The ticks that are said to come next come.
func TestAnnouncedIsDone(t *testing.T) {
	// Each with the Sundays on which its clocks go ahead and back.
	berlin := [2]string{"2026-03-29", "2026-10-25"}
	schedules := []struct {
		text    string
		sundays [2]string
	}{
		{"every: 1h, delay: 5m", berlin},
		{"cron: '15 * * * *', timezone: Europe/Berlin", berlin},
		{"cron: '30 2 * * *', timezone: Europe/Berlin", berlin},
		{"cron: '0 */2 * * *', timezone: Australia/Lord_Howe", [2]string{"2026-10-04", "2026-04-05"}},
		{"cron: '30 1-3 * * *', timezone: America/New_York", [2]string{"2026-03-08", "2026-11-01"}},
	}
	harms := []struct {
		name   string
		befall func(*announced)
	}{{"paused", (*announced).paused}, {"down", (*announced).down}, {"ahead", (*announced).ahead}}
	// Each schedule, Sunday, harm and policy is met; all of them together in a soak.
	// An odd step, since Sundays alternate.
	round, some := 0, 7
	if testing.Short() {
		some = 23
	}
	var met [2]int
	for _, schedule := range schedules {
		for _, harm := range harms {
			for _, policy := range []string{CatchupMissing, CatchupLatest, CatchupNone} {
				for way, sunday := range schedule.sundays {
					if round++; round%some != 0 && os.Getenv("SAWLOG_SOAK_RUNS") == "" {
						continue
					}
					met[way]++
					t.Run(fmt.Sprintf("%s/%s/%s/%s", schedule.text, harm.name, policy, sunday), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							a := &announced{world: newWorld(t, time.Second), policy: policy}
							defer func() { a.close() }()
							a.jump(time.Until(at(t, sunday+"T00:00:00Z").Add(-100*time.Hour + 17*time.Second)))
							a.runner.now = a.now
							a.apply(minimal + "schedule: {" + schedule.text + ", catchup: " + policy + "}\n")
							harm.befall(a)
							a.made()
							a.next()
						})
					})
				}
			}
		}
	}
	if met[0] == 0 || met[1] == 0 {
		t.Errorf("%d weeks with a day of 23 hours, %d with one of 25", met[0], met[1])
	}
}

// announced is a job, and what was said of the ticks it missed.
type announced struct {
	*world
	policy string
	said   Catchup
}

const announcedJob = "pageviews-hourly"

// paused has a person pause the job for a week.
func (a *announced) paused() {
	if err := a.s.Pause(a.t.Context(), announcedJob, "ann", ""); err != nil {
		a.t.Fatal(err)
	}
	time.Sleep(7 * 24 * time.Hour)
	a.resumed()
}

// resumed asks what a resumption makes, and resumes.
func (a *announced) resumed() {
	a.t.Helper()
	dry, err := a.s.Resume(a.t.Context(), announcedJob, true)
	if err != nil {
		a.t.Fatal(err)
	}
	a.said = dry
	if a.policy == CatchupNone {
		a.backfilled()
		if dry, err = a.s.Resume(a.t.Context(), announcedJob, true); err != nil {
			a.t.Fatal(err)
		}
	}
	if got, err := a.s.Resume(a.t.Context(), announcedJob, false); err != nil || got != dry {
		a.t.Errorf("said before: %+v, when resumed: %+v, %v", dry, got, err)
	}
}

// backfilled carries the missed ticks out by a backfill: each loads what the
// preview says.
func (a *announced) backfilled() {
	t := a.t
	t.Helper()
	ask := BackfillAsk{Job: announcedJob, From: a.said.From, To: a.said.To.Add(time.Second), DryRun: true}
	dry, err := a.s.Backfill(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	ask.DryRun = false
	real, err := a.s.Backfill(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(4 * time.Minute)
	synctest.Wait()
	done, err := a.s.GetBackfill(real.ID)
	if err != nil || done.Status != BackfillCompleted || done.Total != a.said.Ticks || len(dry.Items) != done.Total || done.Rows != dry.Rows {
		t.Fatalf("said: %d ticks, previewed: %d of %d rows, done: %+v, %v", a.said.Ticks, len(dry.Items), dry.Rows, done, err)
	}
	for i, it := range done.Items {
		r, err := a.s.Run(it.Run)
		if err != nil || !it.Tick.Equal(dry.Items[i].Tick) || r.Rows != dry.Items[i].Window.Rows {
			t.Errorf("item %d: previewed %v with %d rows, done %v with %d, %v", i, dry.Items[i].Tick, dry.Items[i].Window.Rows, it.Tick, r.Rows, err)
		}
	}
}

// down stops the server for a week.
func (a *announced) down() {
	a.close()
	time.Sleep(7 * 24 * time.Hour)
	a.reopened()
}

// ahead has the clock set a week forward while the server is stopped.
func (a *announced) ahead() {
	a.close()
	a.jump(time.Duration(a.world.ahead.Load()) + 7*24*time.Hour)
	a.reopened()
}

// reopened starts the server again and hears what it says.
func (a *announced) reopened() {
	a.t.Helper()
	a.open()
	synctest.Wait()
	st, err := a.s.Get(announcedJob)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.policy == CatchupNone {
		if st.State != "paused" || !strings.Contains(st.Reason, "catchup: none") {
			a.t.Errorf("the job is %s: %s", st.State, st.Reason)
		}
		a.resumed()
		return
	}
	a.s.mu.Lock()
	a.said = a.s.said[announcedJob]
	a.s.mu.Unlock()
}

// made wants a run for each tick as it was said, and in each what lies between
// its tick and the one before.
func (a *announced) made() {
	t := a.t
	t.Helper()
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	spec, err := a.s.Spec(announcedJob)
	if err != nil {
		t.Fatal(err)
	}
	want := spec.Schedule.Ticks(a.said.From, a.said.To.Add(1), 0)
	if a.said.Ticks != len(want) || a.said.Ticks < 7 {
		t.Fatalf("%d ticks were said, %d lie between %v and %v", a.said.Ticks, len(want), a.said.From, a.said.To)
	}
	switch a.policy {
	case CatchupLatest:
		want = want[len(want)-1:]
	case CatchupNone:
		want = nil
	}
	got := a.ticked(time.Time{}, a.said.To)
	if len(got) != a.said.Runs || len(got) != len(want) {
		t.Fatalf("%d runs, %d were said, of %d ticks", len(got), a.said.Runs, len(want))
	}
	for i, r := range got {
		bounded := i < len(got)-1
		if !r.Tick.Equal(want[i]) || bounded && !r.UpTo.Equal(r.Tick) {
			t.Errorf("run %s is of %v up to %v, want %v", r.Run, r.Tick, r.UpTo, want[i])
		}
		if rows := int64(r.Tick.Sub(want[max(i-1, 0)]) / time.Second); i > 0 && bounded && r.Rows != rows {
			t.Errorf("run %s loaded %d rows, want %d", r.Run, r.Rows, rows)
		}
	}
}

// ticked are the runs that ticks in (after, to] made, oldest first; all must have
// ended well.
func (a *announced) ticked(after, to time.Time) (runs []*Run) {
	a.t.Helper()
	for _, r := range slices.Backward(a.s.Runs(RunFilter{Limit: 10_000})) {
		if r.Kind != ByTick || !r.Tick.After(after) || r.Tick.After(to) {
			continue
		}
		if !r.Good() {
			a.t.Errorf("run %s is %s: %s", r.Run, r.Status, r.Reason)
		}
		runs = append(runs, r)
	}
	return runs
}

// next wants the ticks that are said to come next to come, and no others: also
// after the clock was set back a day, when those up to where it was are over.
func (a *announced) next() {
	t := a.t
	t.Helper()
	for _, back := range []time.Duration{0, 24 * time.Hour} {
		a.jump(time.Duration(a.world.ahead.Load()) - back)
		a.s.kick()
		synctest.Wait()
		said, err := a.s.Next(announcedJob, 3)
		if err != nil || len(said) != 3 {
			t.Fatalf("%v, %v", said, err)
		}
		if st, err := a.s.Get(announcedJob); err != nil || !st.Next.Equal(said[0].Tick) {
			t.Errorf("the job's next tick is %v, the first to come %v, %v", st.Next, said[0].Tick, err)
		}
		known := a.ticked(time.Time{}, a.now().Add(1000*time.Hour))
		time.Sleep(said[2].Due.Add(time.Minute).Sub(a.now()))
		synctest.Wait()
		got := a.ticked(time.Time{}, a.now().Add(1000*time.Hour))
		for _, tick := range said {
			if len(got) <= len(known) || !got[len(known)].Tick.Equal(tick.Tick) {
				t.Fatalf("%v back: %d runs, then %d; %v was said to be next", back, len(known), len(got), tick.Tick)
			}
			known = append(known, got[len(known)])
		}
		if len(got) != len(known) {
			t.Errorf("%v back: %d runs more than were said", back, len(got)-len(known))
		}
	}
}
