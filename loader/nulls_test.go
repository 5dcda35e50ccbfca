package loader

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sawlog/broker/record"
)

// Records with nulls, one of ten values in each column but the time, cost at most
// a quarter more CPU time than the same without, whole tasks in turn.
func TestNullsCostLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("measures CPU time, which the race detector changes")
	}
	const n = 60_000
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	full := benchLines(n, start, n)
	for i := range full {
		full[i].Value = bytes.Replace(full[i].Value, []byte(`"ref":null`), []byte(`"ref":"https://ref.example/000"`), 1)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	holed := make([]record.Record, n)
	for i, rec := range full {
		members := bytes.Split(bytes.Trim(rec.Value, "{}"), []byte(`,"`))
		for k, member := range members[1:] {
			if key, _, ok := bytes.Cut(member, []byte(`":`)); ok && rnd.IntN(10) == 0 {
				members[k+1] = append(slices.Clip(key), `":null`...)
			}
		}
		rec.Value = append(append([]byte("{"), bytes.Join(members, []byte(`,"`))...), '}')
		holed[i] = rec
	}
	whole, nulls := nullRig(t, full), nullRig(t, holed)
	var ratios []float64
	for range 7 {
		a, b := nulls(), whole()
		c, d := whole(), nulls()
		ratios = append(ratios, float64(a+d)/float64(b+c))
	}
	slices.Sort(ratios)
	t.Logf("CPU time with nulls over that without: %.2f (%.2f..%.2f)", ratios[3], ratios[0], ratios[6])
	if ratios[3] > 1.25 {
		t.Errorf("nulls cost %.2f times as much, want at most 1.25", ratios[3])
	}
}

// nullRig carries out a task of these records and tells its CPU time.
func nullRig(t *testing.T, recs []record.Record) func() time.Duration {
	t.Helper()
	r := newRig(t, 1)
	r.src.log("views", 0).put(t, 600, record.Zstd, recs...)
	r.spec.Schema = benchSchema()
	p, _ := r.plan(PlanAsk{})
	return func() time.Duration {
		began := cpuTime(t)
		if rows := rowsOf(r.attempt(p, 0)); rows != int64(len(recs)) {
			t.Fatalf("%d rows", rows)
		}
		return cpuTime(t) - began
	}
}
