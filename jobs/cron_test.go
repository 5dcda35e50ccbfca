package jobs

import (
	"fmt"
	"testing"
	"time"

	"github.com/adhocore/gronx"
)

// TestCronMinuteByMinute holds cron in zones against a clock that is looked at
// every minute, around each change of it: an expression for every hour has a
// tick whenever the clock shows one of its times; one that names its hours has
// it the first time the clock shows it, or right after the times were skipped.
func TestCronMinuteByMinute(t *testing.T) {
	expressions := []string{"5 * * * *", "*/20 * * * *", "30 2 * * *", "0 0 * * *", "15,45 1-3 * * *", "0 */2 * * *", "30 1 25 * *", "59 23 * * 6", "0 12 * * *"}
	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca", "Pacific/Apia", "Asia/Kathmandu"}
	enough, changes := 10, 0
	if testing.Short() {
		zones, enough = []string{"Australia/Lord_Howe"}, 2
	}
	for _, zone := range zones {
		year := 2026
		if zone == "Pacific/Apia" {
			year = 2011 // it skipped a whole day
		}
		from := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, change := range clockChanges(loadZone(zone), from, from.AddDate(1, 0, 0)) {
			changes++
			for _, expr := range expressions {
				sc := schedule(t, fmt.Sprintf("{cron: '%s', timezone: %s}", expr, zone))
				a, b := change.Add(-14*time.Hour), change.Add(14*time.Hour)
				want, got := watched(sc, a, b), sc.Ticks(a, b, 0)
				if fmt.Sprint(utc(got)) != fmt.Sprint(utc(want)) {
					t.Errorf("%s in %s around %s\ngot  %v\nwant %v", expr, zone, change.UTC().Format(time.RFC3339), utc(got), utc(want))
				}
			}
		}
	}
	if changes < enough {
		t.Errorf("only %d changes of the clock", changes)
	}
}

func utc(ticks []time.Time) []string {
	var out []string
	for _, at := range ticks {
		out = append(out, at.UTC().Format("02T15:04"))
	}
	return out
}

// clockChanges lists the moments at which the zone's offset changes.
func clockChanges(where *time.Location, from, to time.Time) []time.Time {
	var out []time.Time
	_, before := from.In(where).Zone()
	for at := from; at.Before(to); at = at.Add(30 * time.Minute) {
		if _, offset := at.In(where).Zone(); offset != before {
			out, before = append(out, at), offset
		}
	}
	return out
}

// watched are the ticks of [from, to), found by looking at the clock.
func watched(sc *Schedule, from, to time.Time) []time.Time {
	clock := gronx.New()
	shows := func(wall time.Time) bool {
		due, err := clock.IsDue(sc.Cron, wall)
		return due && err == nil
	}
	var out []time.Time
	seen := map[time.Time]bool{}
	before := asWall(from.Add(-4 * time.Hour).In(sc.where))
	for at := from.Add(-3 * time.Hour); at.Before(to); at = at.Add(time.Minute) {
		wall := asWall(at.In(sc.where))
		tick := shows(wall) && (sc.everyHour() || !seen[wall])
		if !sc.everyHour() {
			for skipped := before.Add(time.Minute); skipped.Before(wall) && len(seen) > 0; skipped = skipped.Add(time.Minute) {
				tick = tick || shows(skipped)
			}
		}
		seen[wall], before = true, wall
		if tick && !at.Before(from) {
			out = append(out, at)
		}
	}
	return out
}
