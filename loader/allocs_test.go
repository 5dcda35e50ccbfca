package loader

import (
	"runtime"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/formats"
)

// Decoding a record and putting its row into its bucket, or on its way to disk,
// allocates nothing once columns have grown, also where hours alternate.
func TestBucketsAllocateNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("counts allocations, which the race detector adds to")
	}
	r := newRig(t, 1)
	recs := benchLines(20_000, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), 10_000)
	r.src.log("views", 0).put(t, 500, record.None, recs[:1]...)
	r.spec.Schema = benchSchema()
	p, _ := r.plan(PlanAsk{})
	for name, spilling := range map[string]bool{"side by side": false, "spilled": true} {
		t.Run(name, func(t *testing.T) {
			tk, err := newTask(taskConfig{
				cluster: r.src, sink: r.d.Sink, logger: r.d.Logger, plan: p, planID: PlanID(p), attempt: NewAttempt(),
				memory: 512 << 20, spool: t.TempDir(),
			})
			if err != nil {
				t.Fatal(err)
			}
			d := newDirect(tk)
			defer d.drop()
			if spilling {
				if err := d.makeRoom(); err != nil {
					t.Fatal(err)
				}
				d.spill.refs = make([]spillRef, 0, 100_000)
			}
			var m formats.Message
			next := 0
			take := func() {
				// One of each hour in turn, never a whole batch of either.
				m.Offset, m.Value = int64(next), recs[next%2*10_000+next/2%3000].Value
				next++
				if err := d.take(0, &m); err != nil {
					t.Fatal(err)
				}
			}
			for range 6000 {
				take()
			}
			if !spilling { // an emptied batch has its room
				for _, f := range d.files {
					f.cols.Reset()
				}
			}
			if perRecord := testing.AllocsPerRun(4000, take); perRecord != 0 {
				t.Errorf("%v allocations a record", perRecord)
			}
		})
	}
}

// A whole task of two hours makes fewer than one allocation for twenty records,
// whether its files fit or not.
func TestTaskAllocatesLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("counts allocations, which the race detector adds to")
	}
	const n = 200_000
	r := newRig(t, 1)
	r.src.log("views", 0).put(t, 600, record.Zstd, benchLines(n, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), n/2)...)
	r.spec.Schema = benchSchema()
	p, _ := r.plan(PlanAsk{})
	for name, memory := range map[string]int64{"side by side": 1 << 30, "sorted": leastMemory(p.Schema, &p.Writer)} {
		t.Run(name, func(t *testing.T) {
			sorted := false
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			res := r.attempt(p, 0, func(c *taskConfig) {
				c.memory = memory
				c.progress = func(p TaskProgress) { sorted = sorted || p.Phase == "write" }
			})
			runtime.ReadMemStats(&after)
			if rows := rowsOf(res); rows != n || sorted != (name == "sorted") {
				t.Fatalf("%d rows, sorted %t", rows, sorted)
			}
			if perRecord := float64(after.Mallocs-before.Mallocs) / n; perRecord >= 0.05 {
				t.Errorf("%.3f allocations a record, want less than 0.05", perRecord)
			}
		})
	}
}
