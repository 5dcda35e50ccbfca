package demo_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"sawlog/cmd/sawlog/demo"
)

var hour = time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)

func TestHourIsTheSameEveryTime(t *testing.T) {
	a, b := demo.Hour(hour, 500), demo.Hour(hour, 500)
	for i := range a {
		if !bytes.Equal(a[i].Value, b[i].Value) || !a[i].At.Equal(b[i].At) {
			t.Fatalf("view %d differs: %s and %s", i, a[i].Value, b[i].Value)
		}
	}
	if next := demo.Hour(hour.Add(time.Hour), 500); bytes.Equal(next[0].Value, a[0].Value) {
		t.Error("two hours hold the same views")
	}
}

func TestHourHoldsItsHourAndNulls(t *testing.T) {
	nulls, backwards := 0, 0
	views := demo.Hour(hour, 2000)
	for i, v := range views {
		var page struct {
			Time     time.Time `json:"time"`
			Referrer *string   `json:"referrer"`
		}
		if err := json.Unmarshal(v.Value, &page); err != nil {
			t.Fatalf("view %d: %v: %s", i, err, v.Value)
		}
		if !page.Time.Equal(v.At) || v.At.Before(hour) || !v.At.Before(hour.Add(time.Hour)) {
			t.Fatalf("view %d: time %s, timestamp %s, outside the hour or unequal", i, page.Time, v.At)
		}
		if page.Referrer == nil {
			nulls++
		}
		if i > 0 && v.At.Before(views[i-1].At) {
			backwards++
		}
	}
	if len(views) != 2000 || nulls == 0 || nulls == 2000 || backwards == 0 {
		t.Errorf("%d views, %d nulls, %d out of order", len(views), nulls, backwards)
	}
}

func TestMalformedIsMalformed(t *testing.T) {
	for i, v := range demo.Malformed(hour, 8) {
		var page struct {
			Time   *time.Time `json:"time"`
			Status int        `json:"status"`
		}
		if err := json.Unmarshal(v.Value, &page); err == nil && page.Time != nil {
			t.Errorf("record %d can be read: %s", i, v.Value)
		}
	}
}

// TestStreamIsCutAnywhere sends a span in pieces of any length: every view of
// it comes exactly once.
func TestStreamIsCutAnywhere(t *testing.T) {
	const rate = 900
	want := map[string]int{}
	for h := hour; h.Before(hour.Add(3 * time.Hour)); h = h.Add(time.Hour) {
		for _, v := range demo.Hour(h, demo.Traffic(h, rate)) {
			want[string(v.Value)]++
		}
	}
	got := map[string]int{}
	s := demo.Stream{Rate: rate}
	end := hour.Add(3 * time.Hour)
	for at, step := hour, time.Millisecond; at.Before(end); step = step*3 + 7*time.Millisecond {
		next := at.Add(min(step, end.Sub(at)))
		for _, v := range s.Between(at, next) {
			got[string(v.Value)]++
		}
		at = next
	}
	if !maps.Equal(got, want) {
		t.Fatalf("%d views in pieces, %d of whole hours", len(got), len(want))
	}
	if left := s.Between(end, end); len(left) != 0 {
		t.Errorf("an empty span holds %d views", len(left))
	}
}

func TestLateRoundsDiffer(t *testing.T) {
	a, b := demo.Late(hour, 5, 1), demo.Late(hour, 5, 2)
	for i := range a {
		if bytes.Equal(a[i].Value, b[i].Value) {
			t.Fatalf("both rounds hold %s", a[i].Value)
		}
	}
}
