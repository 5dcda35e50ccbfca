package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sharedJournal is a replicated journal as two brokers see it: whoever opened it
// last may append, in the epoch of its opening.
type sharedJournal struct {
	mu      sync.Mutex
	records [][2][]byte
	epoch   int
	appends int
	// At append number die, of the first epoch, the leader is deposed; that
	// record is kept, or not.
	die     int
	keep    bool
	deposed chan struct{}
}

// epochJournal is the journal in one epoch.
type epochJournal struct {
	*sharedJournal
	epoch int
}

func (j *sharedJournal) open() *epochJournal {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.epoch++
	return &epochJournal{j, j.epoch}
}

func (j *epochJournal) Append(_ context.Context, key, value []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.appends++
	fenced := j.epoch != j.sharedJournal.epoch
	dies := !fenced && j.epoch == 1 && j.appends == j.die
	if !fenced && (!dies || j.keep) {
		j.records = append(j.records, [2][]byte{slices.Clone(key), slices.Clone(value)})
		if value == nil {
			j.records[len(j.records)-1][1] = nil
		}
	}
	if dies {
		close(j.deposed)
		j.sharedJournal.epoch++
	}
	if dies || fenced {
		return errors.New("fenced")
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

// TestTakeover: the broker that runs the scheduler is deposed at any of its
// appends, the record safe or not, and another takes over, at once or later. The
// work the first one was carrying out goes on all the same, as tasks of a broker
// that was cut off would. No tick is missed, none makes two runs, no work is
// committed twice.
func TestTakeover(t *testing.T) {
	for _, policy := range []string{"missing", "latest"} {
		for _, keep := range []bool{false, true} {
			for _, pause := range []time.Duration{0, time.Minute, 90 * time.Minute} {
				for die := 2; ; die++ {
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
	journal := &sharedJournal{die: die, keep: keep, deposed: make(chan struct{})}
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
