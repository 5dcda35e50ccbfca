package jobs

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/loader"
)

// line prints a grid: a letter for each hour.
func line(hours []Hour) string {
	letters := map[string]string{
		HourMissing: "m", HourFilling: "f", HourSealed: "s", HourLate: "l", HourFailed: "x", HourRunning: "r", HourFuture: ".", HourBefore: "-",
	}
	var out strings.Builder
	for _, h := range hours {
		l := letters[h.State]
		if h.Active && h.State != HourRunning {
			l = strings.ToUpper(l)
		}
		out.WriteString(l)
	}
	return out.String()
}

func TestCells(t *testing.T) {
	day := at(t, "2026-11-29T00:00:00Z")
	hour := func(h int) time.Time { return day.Add(time.Duration(h) * time.Hour) }
	run := func(status string, tick int, wrote ...int) *Run {
		r := &Run{Tick: hour(tick), Queued: hour(tick)}
		r.Status, r.Run = status, fmt.Sprintf("%s@%d", status, tick)
		for _, h := range wrote {
			r.Hours = append(r.Hours, loader.OutcomeHour{Hour: hour(h).Format(time.RFC3339)})
		}
		return r
	}
	// Hours 0–2 sealed, 1 with late rows, 3 has rows; it is 06:30.
	view := &View{Head: 9, Hours: map[int64]HourFacts{
		hour(0).Unix(): {Rows: 5, Files: 1, Sealed: true},
		hour(1).Unix(): {Rows: 5, Files: 2, Sealed: true, Late: 2},
		hour(2).Unix(): {Rows: 5, Files: 1, Sealed: true, SealedIn: 8},
		hour(3).Unix(): {Rows: 5, Files: 1},
	}}
	tests := []struct {
		name string
		runs []*Run
		want string
	}{
		{"the ledger alone", nil, "slsfmm.."},
		{"a tick in work", []*Run{run(Committed, 4), run(Running, 5)}, "slsfrm.."},
		{"a queued one too", []*Run{run(Running, 5), run(Queued, 6)}, "slsrrr.."},
		{"a failed tick", []*Run{run(Committed, 4), run(Failed, 5)}, "slsfxm.."},
		{"failed, then the next one made it good", []*Run{run(Committed, 4), run(Failed, 5), run(Committed, 6)}, "slsfmm.."},
		{"failed, then tried again", []*Run{run(Committed, 4), run(Failed, 5), run(Running, 6)}, "slsfrr.."},
		{"a failure does not reach behind what is sealed", []*Run{run(Failed, 5)}, "slsxxm.."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := mustParse(t, minimal)
			starts, err := units(spec.PartitionBy, day, hour(8))
			if err != nil {
				t.Fatal(err)
			}
			if got := line(cells(spec, view, tt.runs, starts, day, hour(6).Add(30*time.Minute))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	spec := mustParse(t, minimal)
	starts, _ := units(spec.PartitionBy, day, hour(4))
	hours := cells(spec, view, []*Run{run(Committed, 3, 2), run(Committed, 4, 2, 3)}, starts, day, hour(9))
	if got := line(cells(spec, &View{}, []*Run{run(Running, 4)}, starts, hour(2), hour(5))); got != "--rr" {
		t.Errorf("before the job: %s", got)
	}
	if hours[2].Run != "committed@4" || hours[2].Sealed != 8 || hours[3].Sealed != -1 {
		t.Errorf("got %+v", hours[2:])
	}
}

func TestUnits(t *testing.T) {
	tests := []struct {
		unit, zone, from, to string
		want                 int
		first                string
	}{
		{"hour", "UTC", "2026-11-29T00:30:00Z", "2026-11-29T03:00:00Z", 2, "2026-11-29T01:00:00Z"},
		{"hour", "Asia/Kolkata", "2026-11-29T00:00:00Z", "2026-11-29T03:00:00Z", 3, "2026-11-29T00:30:00Z"},
		{"day", "Europe/Berlin", "2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z", 3, "2026-10-24T22:00:00Z"},
		{"hour", "Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", 25, "2026-10-24T22:00:00Z"},
	}
	for _, tt := range tests {
		got, err := units(PartitionBy{Unit: tt.unit, where: loadZone(tt.zone)}, at(t, tt.from), at(t, tt.to))
		if err != nil || len(got) != tt.want || !got[0].Equal(at(t, tt.first)) {
			t.Errorf("%s %s from %s: %v, %v", tt.unit, tt.zone, tt.from, got, err)
		}
	}
	if _, err := units(PartitionBy{Unit: "hour", where: time.UTC}, at(t, "2020-01-01T00:00:00Z"), at(t, "2026-01-01T00:00:00Z")); err == nil {
		t.Error("six years of hours are not refused")
	}
}

// TestGridOfOne gives the cells of one data set of several, and the runs that
// wrote to an hour, the newest first.
func TestGridOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		defer w.close()
		w.apply("name: views\nsource: {topics: [a, b]}\noutput: {root: 'file:///w/{topic}'}\n")
		now := w.now().UTC().Truncate(time.Hour)
		all, err := w.s.Hours(t.Context(), "views", now.Add(-3*time.Hour), now)
		if err != nil || len(all) != 2 {
			t.Fatalf("%+v, %v", all, err)
		}
		for _, want := range all {
			if got, err := w.s.Grid(t.Context(), "views", want.Dataset, now.Add(-3*time.Hour), now); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v, %v", got, want, err)
			}
		}
		for _, c := range [][2]string{{"views", "c"}, {"none", "a"}} {
			if _, err := w.s.Grid(t.Context(), c[0], c[1], now.Add(-time.Hour), now); !errors.Is(err, ErrNotFound) {
				t.Errorf("%q: %v", c, err)
			}
		}
		hour := now.Format(time.RFC3339)
		for i := range 5 {
			r := &Run{Dataset: all[0].Dataset, Seq: int64(i)}
			r.Run, r.Job, r.Status = fmt.Sprintf("r%d", i), "views", Committed
			if i != 2 {
				r.Hours = []loader.OutcomeHour{{Hour: hour}}
			}
			w.s.act.Lock()
			if err := w.s.save(t.Context(), r); err != nil {
				t.Error(err)
			}
			w.s.act.Unlock()
		}
		var names []string
		for _, r := range w.s.HourRuns("views", all[0].Dataset, now, 3) {
			names = append(names, r.Run)
		}
		if !slices.Equal(names, []string{"r4", "r3", "r1"}) || w.s.HourRuns("views", all[1].Dataset, now, 3) != nil {
			t.Errorf("the runs of the hour are %q", names)
		}
	})
}
