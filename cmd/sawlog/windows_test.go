package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sawlog/jobs"
	"sawlog/offsets"
)

// TestCut: each window begins where the one before it ended, and all of them
// together are what was left.
func TestCut(t *testing.T) {
	a, b := offsets.TopicPartition{Topic: "t", Partition: 0}, offsets.TopicPartition{Topic: "t", Partition: 1}
	left := map[offsets.TopicPartition]offsets.Range{a: {Start: 10, End: 100}, b: {Start: 0, End: 7}}
	var got strings.Builder
	for _, bounds := range []map[offsets.TopicPartition]offsets.Offset{{a: 40, b: 7}, {a: 30}, {a: 100}, nil} {
		w := cut(left, bounds)
		var rows int64
		for _, r := range w.Ranges {
			got.WriteString(fmt.Sprintf("%d=%d..%d ", r.Partition, r.Start, r.End))
			rows += int64(r.End - r.Start)
		}
		if rows != w.Rows {
			t.Errorf("%d rows in ranges of %d offsets", w.Rows, rows)
		}
		got.WriteString("| ")
	}
	if want := "0=10..40 1=0..7 | | 0=40..100 | | "; got.String() != want {
		t.Errorf("got  %s\nwant %s", got.String(), want)
	}
}

func TestUnitsOf(t *testing.T) {
	tick := time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		unit string
		span time.Duration
		want int64
	}{{"hour", time.Hour, 1}, {"hour", 90 * time.Minute, 2}, {"day", time.Hour, 1}, {"hour", 0, 1}} {
		if got := unitsOf(tt.unit, jobs.Ask{From: tick.Add(-tt.span), Tick: tick}); got != tt.want {
			t.Errorf("%s, %v: %d, want %d", tt.unit, tt.span, got, tt.want)
		}
	}
}
