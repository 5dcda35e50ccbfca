package jobs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/loader"
)

// TestTicksAnyhow: while the clock is set ahead and back, the job is paused and
// resumed, runs fail, people run and backfill it, the server is restarted and the
// journal cut off at any append or compacted, no second is loaded twice or left
// out, and every tick is decided on exactly once.
func TestTicksAnyhow(t *testing.T) {
	seeds := uint64(15)
	if testing.Short() {
		seeds = 2
	}
	if n, err := strconv.ParseUint(os.Getenv("SAWLOG_LIVES"), 10, 64); err == nil {
		seeds = n
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			l := &life{world: newWorld(t, time.Second), rnd: rand.New(rand.NewPCG(seed, 11)), decided: map[int64]int{}, made: map[string]int{}}
			l.where = fmt.Sprintf("seed %d", seed)
			l.live()
			l.close()
		})
	}
}

// life is a world to which things happen, and what its journal said in all.
type life struct {
	*world
	rnd   *rand.Rand
	where string
	true0 time.Duration // the true time less that of the test

	schedule *Schedule
	decided  map[int64]int // ticks, by second: how often decided on, alone or merged
	first    time.Time     // first tick decided on
	last     time.Time
	made     map[string]int // runs by ticks: how often they were made
}

var lives = []string{
	"{every: 1h, delay: 5m, catchup: missing}", "{every: 1h, delay: 5m, catchup: latest}", "{every: 20m, catchup: missing}",
	"{cron: '30 * * * *', timezone: Europe/Berlin, catchup: missing}", "{cron: '30 1-3,14 * * *', timezone: Europe/Berlin, catchup: missing}",
	"{cron: '0 */2 * * *', timezone: America/New_York, catchup: latest}",
}

func (l *life) live() {
	day := []string{"2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z", "2026-10-31T22:00:00Z"}[l.rnd.IntN(3)]
	begin := at(l.t, day)
	l.true0 = time.Until(begin)
	l.set(0)
	l.runner.now = func() time.Time { return time.Now().Add(l.true0) }
	l.runner.l.began = begin.Add(-time.Hour)
	l.runner.takes = time.Duration(1+l.rnd.IntN(200)) * time.Second
	l.journal.written = l.see
	l.restart() // with that clock
	text := minimal + "schedule: " + lives[l.rnd.IntN(len(lives))] + "\n"
	l.schedule = mustParse(l.t, text).Schedule
	l.apply(text)
	promised := l.schedule.Next(l.now())
	for range 40 {
		l.happen()
		l.sleep(time.Duration(l.rnd.IntN(5400)) * time.Second)
	}
	l.calm()
	if !l.first.Equal(promised) {
		l.t.Errorf("%s: the first tick was %v, want %v", l.where, l.first, promised)
	}
	l.judge()
}

// set sets the scheduler's clock to be ahead of the true time.
func (l *life) set(ahead time.Duration) { l.jump(l.true0 + ahead) }

func (l *life) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// happen does one thing to the world.
func (l *life) happen() {
	ctx, rnd := l.t.Context(), l.rnd
	const job = "pageviews-hourly"
	switch rnd.IntN(12) {
	case 0:
		l.set(time.Duration(rnd.IntN(20)-10) * time.Hour)
	case 1:
		l.set(0)
	case 2:
		_ = l.s.Pause(ctx, job, "ann", "") // where the journal is cut off it is refused; so below
	case 3, 4:
		_, _ = l.s.Resume(ctx, job, false)
	case 5:
		l.restart()
	case 6:
		l.journal.compact()
		l.restart()
	case 7:
		l.journal.doom(1+rnd.IntN(12), rnd.IntN(2) == 0)
		l.sleep(time.Duration(rnd.IntN(7200)) * time.Second)
		l.restart()
	case 8:
		_, _ = l.s.Trigger(ctx, Trigger{Job: job, By: "ann"})
	case 9:
		to := l.now()
		_, _ = l.s.Backfill(ctx, BackfillAsk{Job: job, From: to.Add(-time.Duration(1+rnd.IntN(30)) * time.Hour), To: to, Only: []string{OnlyMissing, OnlyFailed}[rnd.IntN(2)], Order: []string{OldestFirst, NewestFirst}[rnd.IntN(2)]})
	case 10:
		for _, b := range l.s.Backfills(job) {
			_, _ = l.s.SteerBackfill(ctx, b.ID, []string{SteerPause, SteerResume, SteerCancel, SteerRetry}[rnd.IntN(4)], "ann")
		}
	case 11:
		rate := rnd.IntN(3)
		chance := rand.New(rand.NewPCG(rnd.Uint64(), 1))
		l.runner.fails(func(string, int) error {
			switch {
			case chance.IntN(4) >= rate:
				return nil
			case chance.IntN(2) == 0:
				return &loader.Error{Code: loader.ExitConflict, Msg: "no"}
			}
			return &loader.Error{Code: loader.ExitUnavailable, Msg: "once"}
		})
	}
}

// calm heals everything and waits until the true time has passed the last tick.
func (l *life) calm() {
	l.set(0)
	l.runner.fails(nil)
	l.restart()
	for _, b := range l.s.Backfills("") {
		if b.Open() {
			_, _ = l.s.SteerBackfill(l.t.Context(), b.ID, SteerResume, "ann") // it may not be paused
		}
	}
	if _, err := l.s.Resume(l.t.Context(), "pageviews-hourly", false); err != nil {
		l.t.Fatalf("%s: %v", l.where, err)
	}
	l.sleep(12 * time.Hour)
	if ahead := l.last.Sub(l.now()); ahead > 0 {
		l.sleep(ahead)
	}
	next := l.schedule.Due(l.schedule.Next(l.now()))
	l.sleep(next.Sub(l.now()) + 50*time.Minute)
}

// see takes note of a record of the journal.
func (l *life) see(key string, value []byte) {
	kind, _, _ := strings.Cut(key, "/")
	switch {
	case value == nil:
	case kind == "tick":
		var tick Tick
		if err := json.Unmarshal(value, &tick); err != nil {
			l.t.Error(err)
			return
		}
		l.decide(tick.Tick)
		for n, at := tick.Merged, tick.From; n > 0; n, at = n-1, l.schedule.Next(at) {
			l.decide(at)
		}
	case kind == "run":
		var r Run
		if err := json.Unmarshal(value, &r); err != nil {
			l.t.Error(err)
			return
		}
		if r.Kind == ByTick && r.Status == Queued && r.Attempt == 0 && len(r.Attempts) == 0 {
			l.made[r.Run]++
		}
	}
}

func (l *life) decide(tick time.Time) {
	l.decided[tick.Unix()]++
	if l.first.IsZero() || tick.Before(l.first) {
		l.first = tick
	}
	l.last = latest(l.last, tick)
}

func (l *life) judge() {
	t := l.t
	for tick := l.first; !tick.After(l.last); tick = l.schedule.Next(tick) {
		if n := l.decided[tick.Unix()]; n != 1 {
			t.Errorf("%s: tick %s was decided on %d times", l.where, tick.Format(time.RFC3339), n)
		}
		delete(l.decided, tick.Unix())
	}
	if len(l.decided) > 0 {
		t.Errorf("%s: %d ticks that the schedule does not have", l.where, len(l.decided))
	}
	for run, n := range l.made {
		if n > 1 {
			t.Errorf("%s: run %s was made %d times", l.where, run, n)
		}
	}
	led := l.runner.l
	var loaded time.Duration
	for id, p := range led.plans {
		if p.committed && p.abandoned {
			t.Errorf("%s: plan %s was committed and abandoned", l.where, id)
		}
		if p.committed {
			loaded += p.to.Sub(p.from)
		}
	}
	covered := led.covered["pageviews-hourly"]
	if whole := covered.Sub(led.began); loaded != whole {
		t.Errorf("%s: %v loaded of %v", l.where, loaded, whole)
	}
	if late := l.runner.now().Sub(covered); late > l.schedule.Next(covered).Sub(covered)+3*time.Hour {
		t.Errorf("%s: %v are not loaded (%s)", l.where, late, l.statuses())
	}
	for _, r := range l.s.Runs(RunFilter{Limit: 10_000}) {
		if r.Open() {
			t.Errorf("%s: run %s is still %s", l.where, r.Run, r.Status)
		}
	}
	for _, b := range l.s.Backfills("") {
		if b.Open() {
			t.Errorf("%s: backfill %s is still %s: %s", l.where, b.ID, b.Status, b.Say)
		}
	}
}
