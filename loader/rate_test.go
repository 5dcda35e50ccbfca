package loader

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/consumer"
)

// A task with a rate fetches no faster, over all of its ranges, tells how long it
// was held, and makes the same files.
func TestTaskHoldsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		recs := benchLines(4000, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), 1000)
		r.src.log("views", 0).put(t, 50, record.None, recs[:3000]...)
		r.src.log("views", 1).put(t, 50, record.None, recs[3000:]...)
		r.spec.Schema, r.spec.Merge, r.spec.TargetBytes = benchSchema(), mergeAlways, 1<<40
		p, _ := r.plan(PlanAsk{})
		free := r.attempt(p, 0)
		const rate = 64 << 10
		var last TaskProgress
		began := time.Now()
		held := r.attempt(p, 0, func(c *taskConfig) {
			c.rate = rate
			c.progress = func(p TaskProgress) { last = p }
		})
		took := time.Since(began)
		if last.Fetched < 4000*200 {
			t.Fatalf("%d bytes fetched", last.Fetched)
		}
		// The first second's worth is free, and so is the last fetch.
		least := time.Duration(float64(last.Fetched-3*rate) / rate * float64(time.Second))
		if took < least || took > least+4*time.Second {
			t.Errorf("%d bytes at %d a second took %v, want about %v", last.Fetched, rate, took, least)
		}
		if last.Held < least.Milliseconds() || last.Held > took.Milliseconds() {
			t.Errorf("told that it was held %d ms of %v", last.Held, took)
		}
		if !maps.Equal(hashes(held), hashes(free)) {
			t.Error("a rate changes the files")
		}
	})
}

// slowly answers each fetch only after a while.
type slowly struct{ consumer.Cluster }

func (s slowly) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if req.Key() == int16(kmsg.Fetch) {
		time.Sleep(400 * time.Millisecond)
	}
	return s.Cluster.Request(ctx, req)
}

func (s slowly) Broker(int32) consumer.Requestor { return s }

// A task of few records that come slowly tells each second how far it is, as one
// of many does.
func TestTaskTellsEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		for i := range 30 {
			r.src.log("views", 0).put(t, 1, record.None, lines(view(9, i, "/"+strings.Repeat("x", 70_000)))...)
		}
		p, _ := r.plan(PlanAsk{})
		p.Schema = benchSchema()
		var told []int64
		last, gap := time.Now(), time.Duration(0)
		r.attempt(p, 0, func(c *taskConfig) {
			c.cluster, c.fetch = slowly{r.src}, 64<<10
			c.progress = func(p TaskProgress) {
				now := time.Now()
				last, gap = now, max(gap, now.Sub(last))
				told = append(told, p.Offsets)
			}
		})
		if took := 30 * 400 * time.Millisecond; gap > 1500*time.Millisecond || len(told) < int(took/time.Second)-1 || !slices.IsSorted(told) {
			t.Errorf("told %v, at most %v apart", told, gap)
		}
	})
}
