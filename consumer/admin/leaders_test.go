package admin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/consumer"
)

// TestWatchersAreNotHeldUp: a broker that never answers holds up nobody for longer
// than a second, and costs the numbers of its own partitions only; those who plan
// get an error.
func TestWatchersAreNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := threeBrokers()
		c.silent[2] = true
		topics, err := Topics(t.Context(), c, "views")
		if err != nil {
			t.Fatal(err)
		}
		ps := PartitionsOf(topics)
		began := time.Now()
		err = Together(
			func() error { return AtLeaders(t.Context(), c, ps, Positions) },
			func() error { return AtLeaders(t.Context(), c, ps, Sizes) },
		)
		if took := time.Since(began); took != patience {
			t.Errorf("it took %v", took)
		}
		if err == nil || !strings.Contains(err.Error(), "broker 2: no answer within 1s") || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "broker 1") || strings.Count(err.Error(), "\n") > 1 {
			t.Errorf("who failed is not told: %v", err)
		}
		if p := ps[0]; p.Start != 10 || p.LastStable != 90 || p.End != 100 || p.Size != 1000 {
			t.Errorf("what broker 1 told: %+v", p)
		}
		if p := ps[1]; p.Start != Untold || p.LastStable != Untold || p.End != Untold || p.Size != Untold {
			t.Errorf("what broker 2 never told: %+v", p)
		}
		if p := ps[2]; p.Offline() || p.Records() != 90 {
			t.Errorf("what broker 3 told: %+v", p)
		}
		c.silent[2], c.down[2] = false, true
		err = AtLeaders(t.Context(), c, ps, Ends)
		if !errors.Is(err, consumer.ErrUnavailable) || !strings.HasPrefix(err.Error(), "broker 2: ") {
			t.Errorf("a broker that is down: %v", err)
		}
	})
}

// TestWhoeverPlansWaitsForAll: one partition that is refused fails the answer,
// which names it; what was told of the others stands.
func TestWhoeverPlansWaitsForAll(t *testing.T) {
	c := threeBrokers()
	topics, err := Topics(t.Context(), c, "views")
	if err != nil {
		t.Fatal(err)
	}
	ps := PartitionsOf(topics)
	if err := Bounds(t.Context(), c, ps); err != nil || topics[0].Records() != 270 {
		t.Fatalf("%v, %d records", err, topics[0].Records())
	}
	if err := OffsetsAt(t.Context(), c, ps, 5); err != nil || ps[0].Found != 50 || ps[1].Found != Untold {
		t.Errorf("%v: found %d and %d", err, ps[0].Found, ps[1].Found)
	}
	c.leaderless[1] = true
	ps[1].End = Untold
	err = Ends(t.Context(), c, ps)
	if !errors.Is(err, consumer.ErrUnavailable) || !strings.Contains(err.Error(), "views/1") || ps[1].End != Untold || ps[2].End != 100 {
		t.Errorf("%v: %+v", err, ps[1])
	}
	if known := Leaders(ps); known == nil {
		t.Error("no leaders")
	}
}
