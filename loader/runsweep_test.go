package loader

import (
	"fmt"
	"testing"

	"sawlog/broker/record"
)

// TestRunsSweepNowAndThen has runs leave stages behind, and every 24th record
// take all of them away.
func TestRunsSweepNowAndThen(t *testing.T) {
	r := newRig(t, 1)
	for n := range sweepEvery + 1 {
		value := fmt.Sprintf(`{"ts":"2026-11-29T14:%02d:00Z","n":%d}`, n, n)
		r.src.log("views", 0).put(t, 1, record.None, record.Record{Timestamp: -1, Value: []byte(value)})
		if out := r.load(PlanAsk{}); out.Rows != 1 {
			t.Fatalf("run %d: %d rows", n, out.Rows)
		}
		stages, err := r.d.Sink.List(StagesDir)
		if err != nil {
			t.Fatal(err)
		}
		if want := n % sweepEvery; len(stages) != want {
			t.Fatalf("after record %d %d stages are left, want %d", n, len(stages), want)
		}
	}
}
