package console

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sawlog/jobs"
)

func zoneNamed(t *testing.T, name string) zone {
	t.Helper()
	z, err := zoneOf(httptest.NewRequest("GET", "/console/?zone="+name, nil))
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// hoursOf are the cells of one day of a zone, cut by UTC hours.
func hoursOf(z zone, day time.Time) []jobs.Hour {
	var out []jobs.Hour
	from, to := z.Midnight(day), z.Days(day, 1)
	for t := from.UTC().Truncate(time.Hour); t.Before(to); t = t.Add(time.Hour) {
		if !t.Before(from) {
			out = append(out, jobs.Hour{Hour: t.UTC(), State: jobs.HourSealed, Files: 1, Rows: 10, Sealed: 3})
		}
	}
	return out
}

// TestDaysOfOtherLengths draws days on which clocks are set: each hour that was
// has its own cell, in the column of its time of day; one that was not has none.
func TestDaysOfOtherLengths(t *testing.T) {
	for _, c := range []struct {
		zone, day     string
		cells         int
		double, empty int // the hour of the clock that came twice, or never; -1 = none
	}{
		{"Europe/Berlin", "2026-06-15", 24, -1, -1},
		{"Europe/Berlin", "2026-03-29", 23, -1, 2},
		{"Europe/Berlin", "2026-10-25", 25, 2, -1},
		{"America/New_York", "2026-03-08", 23, -1, 2},
		{"America/New_York", "2026-11-01", 25, 1, -1},
		{"America/Sao_Paulo", "2018-11-04", 23, -1, -1}, // there was no midnight
		{"America/Sao_Paulo", "2018-02-17", 25, 23, -1},
		{"Asia/Kolkata", "2026-03-29", 24, -1, -1},
		{"Australia/Lord_Howe", "2026-10-04", 23, -1, 2}, // half an hour is left out, between two cells
		{"Australia/Lord_Howe", "2026-04-05", 25, 1, -1},
		{"UTC", "2026-03-29", 24, -1, -1},
	} {
		t.Run(c.zone+" "+c.day, func(t *testing.T) {
			z := zoneNamed(t, c.zone)
			noon, err := time.Parse(time.DateTime, c.day+" 12:00:00")
			if err != nil {
				t.Fatal(err)
			}
			hours := hoursOf(z, noon.Add(-time.Duration(offsetOf(z, noon))*time.Second))
			if len(hours) != c.cells {
				t.Fatalf("%d cells, want %d", len(hours), c.cells)
			}
			double, empty := -1, -1
			for _, col := range columns(z, hours) {
				switch len(col.hours) {
				case 0:
					empty = col.at
				case 2:
					double = col.at
				}
			}
			if double != c.double || empty != c.empty {
				t.Errorf("the clock's hour %d came twice and %d never, want %d and %d", double, empty, c.double, c.empty)
			}
			if days := splitDays(z, hours); len(days) != 1 {
				t.Errorf("it is drawn as %d days", len(days))
			}
			drawing := string((&dayMap{grid: &jobs.Grid{Dataset: "d", Hours: hours}, zone: z}).draw())
			if n := strings.Count(drawing, `class="cell"`); n != len(hours) {
				t.Errorf("%d cells are drawn of %d", n, len(hours))
			}
			noOverlap(t, drawing)
		})
	}
}

func offsetOf(z zone, t time.Time) int {
	_, offset := z.In(t).Zone()
	return offset
}

// noOverlap wants that the cells of a row lie side by side.
func noOverlap(t *testing.T, drawing string) {
	t.Helper()
	end := -1.0
	for dec := xml.NewDecoder(strings.NewReader(drawing)); ; {
		tok, err := dec.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := tok.(xml.StartElement)
		if !ok || e.Name.Local != "rect" {
			continue
		}
		var x, w float64
		for _, a := range e.Attr {
			switch a.Name.Local {
			case "x":
				_, err = fmt.Sscan(a.Value, &x)
			case "width":
				_, err = fmt.Sscan(a.Value, &w)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if x < end-2 {
			t.Errorf("a cell begins at %v, the one before ends at %v", x, end)
		}
		end = x + w
	}
}

// TestDaysBegin finds the first moment of days, also of those without a midnight.
func TestDaysBegin(t *testing.T) {
	for _, c := range [][3]string{
		{"Europe/Berlin", "2026-03-29T11:00:00Z", "2026-03-28T23:00:00Z"},
		{"Europe/Berlin", "2026-10-25T23:00:00Z", "2026-10-25T23:00:00Z"},
		{"America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z"}, // 00:00 was 01:00
		{"Asia/Kathmandu", "2026-11-29T12:00:00Z", "2026-11-28T18:15:00Z"},
		{"UTC", "2026-11-29T12:00:00Z", "2026-11-29T00:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339, c[1])
		if err != nil {
			t.Fatal(err)
		}
		if got := zoneNamed(t, c[0]).Midnight(at).UTC().Format(time.RFC3339); got != c[2] {
			t.Errorf("%s: the day of %s begins at %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// TestZoneOfThePage: what a page shows is in the zone its URL names, and its
// links stay in it.
func TestZoneOfThePage(t *testing.T) {
	s, web := site(t, runner{hours: facts()})
	apply(t, s, job+"partition_by: {zone: Asia/Tokyo}\n")
	page := get(t, web, "/console/jobs/pageviews-hourly?days=3&zone=Europe/Berlin", 200)
	want(t, page, "Times are Europe/Berlin", "Sun 29 Nov 04:00 – late", `/console/backfills?zone=Europe%2FBerlin`, ">Asia/Tokyo</a>", ">UTC</a>", `aria-current="true">Europe/Berlin</a>`)
	want(t, get(t, web, "/console/?zone=Mars/Olympus", 400), "unknown time zone", "Europe/Berlin")
	want(t, get(t, web, "/console/?zone=../../etc/passwd", 400), "unknown time zone")
}
