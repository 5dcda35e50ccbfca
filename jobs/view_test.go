package jobs

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slowViews are ledgers that take a second to read.
type slowViews struct {
	Runner
	read  *atomic.Int64
	fails *atomic.Bool
}

func (r slowViews) View(ctx context.Context, s *Spec, set Set) (*View, error) {
	n := r.read.Add(1)
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.fails.Load() {
		return &View{Head: -1}, errors.New("the store is away")
	}
	return &View{Head: n, Hours: map[int64]HourFacts{0: {}}}, nil
}

// TestLedgersAreNotWaitedFor: who doesn't wait for a ledger is told so, with what
// was known before; it is read once for all, and is there for who comes next.
func TestLedgersAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		defer w.close()
		w.apply("name: views\nsource: {topics: [a]}\noutput: {root: 'file:///w/views'}\n")
		read, fails := &atomic.Int64{}, &atomic.Bool{}
		w.s.c.Runner = slowViews{w.s.c.Runner, read, fails}
		set := w.s.List()[0].Datasets[0].Dataset
		ask := func(patience time.Duration) Grid {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			now := w.now()
			g, err := w.s.Grid(ctx, "views", set, now.Add(-3*time.Hour), now)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		want := func(when string, g Grid, reading bool, head, reads int64) {
			t.Helper()
			if g.Reading != reading || g.Head != head || (len(g.Hours) > 0) != (head > 0) || g.Error != "" || read.Load() != reads {
				t.Errorf("%s: reading %v, head %d, %d hours, %q, read %d times; want reading %v, head %d, %d times", when, g.Reading, g.Head, len(g.Hours), g.Error, read.Load(), reading, head, reads)
			}
		}
		want("nothing is known yet", ask(time.Millisecond), true, -1, 1)
		want("it is read still", ask(time.Millisecond), true, -1, 1)
		want("waited for", ask(time.Minute), false, 1, 1)
		want("a moment ago", ask(time.Millisecond), false, 1, 1)
		time.Sleep(viewAge)
		want("too old, and read again", ask(time.Millisecond), true, 1, 2)
		time.Sleep(2 * time.Second)
		want("it is there", ask(time.Millisecond), false, 2, 2)

		time.Sleep(viewAge)
		ask(time.Millisecond)
		w.s.mu.Lock()
		w.s.outdate(set)
		w.s.mu.Unlock()
		time.Sleep(2 * time.Second) // what was read since before the run's end is not believed
		want("a run has ended", ask(time.Millisecond), true, 2, 4)
		want("waited for after it", ask(time.Minute), false, 4, 4)

		known := ask(time.Minute).Known
		for range 2 {
			time.Sleep(viewAge)
			fails.Store(true)
			if g := ask(time.Minute); g.Error != "the store is away" || g.Head != 4 || len(g.Hours) == 0 || !g.Known.Equal(known) {
				t.Errorf("a reading that failed: %q, head %d, %d hours, known at %v; want the error beside what was known at %v", g.Error, g.Head, len(g.Hours), g.Known, known)
			}
		}
		fails.Store(false)
		time.Sleep(viewAge)
		want("the store is back", ask(time.Minute), false, 7, 7)
		if g := ask(time.Minute); !g.Known.After(known) {
			t.Errorf("the store is back, and known since %v as when it was away", g.Known)
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(viewAge)
		if g, err := w.s.Grid(ctx, "views", set, w.now().Add(-time.Hour), w.now()); err != nil || !g.Reading || read.Load() != 7 {
			t.Errorf("who has gone away had it read: %+v, %d readings, %v", g, read.Load(), err)
		}
	})
}

// TestNothingKnownIsNoHours: of a ledger that was never read, no hour is said to be
// missing.
func TestNothingKnownIsNoHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		defer w.close()
		w.apply("name: views\nsource: {topics: [a]}\noutput: {root: 'file:///w/views'}\n")
		fails := &atomic.Bool{}
		fails.Store(true)
		w.s.c.Runner = slowViews{w.s.c.Runner, &atomic.Int64{}, fails}
		now := w.now()
		grids, err := w.s.Hours(t.Context(), "views", now.Add(-3*time.Hour), now)
		if err != nil || len(grids) != 1 {
			t.Fatalf("%+v, %v", grids, err)
		}
		if g := grids[0]; g.Error == "" || g.Hours == nil || len(g.Hours) > 0 || g.Head != -1 || !g.Known.IsZero() {
			t.Errorf("%+v; want the error, and no hours", g)
		}
	})
}
