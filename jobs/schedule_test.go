package jobs

import (
	"strings"
	"testing"
	"time"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v.UTC()
}

func schedule(t *testing.T, text string) *Schedule {
	t.Helper()
	return mustParse(t, minimal+"schedule: "+text+"\n").Schedule
}

func TestTicks(t *testing.T) {
	const berlin = "{cron: '%', timezone: Europe/Berlin}"
	cron := func(expr string) string { return strings.Replace(berlin, "%", expr, 1) }
	tests := []struct {
		name, schedule, from, to string
		want                     string // times of day or whole times, blank separated
	}{
		{"every hour", "{every: 1h}", "2026-11-29T00:00:00Z", "2026-11-29T03:00:00Z", "29T00:00 29T01:00 29T02:00"},
		{"half open", "{every: 1h}", "2026-11-29T00:00:01Z", "2026-11-29T02:00:01Z", "29T01:00 29T02:00"},
		{"none between", "{every: 1h}", "2026-11-29T00:10:00Z", "2026-11-29T00:50:00Z", ""},
		{"every week is Monday", "{every: 7d}", "2026-11-24T00:00:00Z", "2026-12-08T00:00:00Z", "30T00:00 07T00:00"},
		{"every 90m", "{every: 90m}", "2026-11-30T00:00:00Z", "2026-11-30T04:00:00Z", "30T00:00 30T01:30 30T03:00"},
		{"before the first Monday", "{every: 1d}", "1969-12-30T12:00:00Z", "1970-01-02T00:00:00Z", "31T00:00 01T00:00"},
		{"cron in winter", cron("30 2 * * *"), "2026-01-10T00:00:00Z", "2026-01-12T00:00:00Z", "10T01:30 11T01:30"},
		{"cron in summer", cron("30 2 * * *"), "2026-07-10T00:00:00Z", "2026-07-12T00:00:00Z", "10T00:30 11T00:30"},
		{"skipped time runs after the gap", cron("30 2 * * *"), "2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z", "28T01:30 29T01:00 30T00:30"},
		{"doubled time runs once", cron("30 2 * * *"), "2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z", "24T00:30 25T00:30 26T01:30"},
		{"hourly through the gap", cron("5 * * * *"), "2026-03-28T23:30:00Z", "2026-03-29T03:00:00Z", "29T00:05 29T01:05 29T02:05"},
		{"hourly through the doubled hour", cron("5 * * * *"), "2026-10-24T23:30:00Z", "2026-10-25T03:00:00Z", "25T00:05 25T01:05 25T02:05"},
		{"midnight", cron("0 0 * * *"), "2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z", "24T22:00 25T23:00 26T23:00"},
		{"daily tag", cron("@daily"), "2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z", "01T22:00"},
		{"month's end", cron("0 12 31 * *"), "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z", "31T11:00 31T10:00 31T10:00"},
		{"half-hour zone", "{cron: '0 2 * * *', timezone: Australia/Lord_Howe}", "2026-10-03T00:00:00Z", "2026-10-05T00:00:00Z", "03T15:30 04T15:00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := schedule(t, tt.schedule)
			var got []string
			for _, tick := range sc.Ticks(at(t, tt.from), at(t, tt.to), 0) {
				got = append(got, tick.UTC().Format("02T15:04"))
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("got  %s\nwant %s", s, tt.want)
			}
		})
	}
}

// Ticks must be the same however the time is cut, none lost or doubled at a cut.
func TestTicksDoNotDependOnTheCut(t *testing.T) {
	for _, text := range []string{"{every: 1h}", "{cron: '*/20 * * * *', timezone: Europe/Berlin}", "{cron: '30 1-3 * * *', timezone: America/New_York}"} {
		sc := schedule(t, text)
		for _, day := range []string{"2026-03-07T12:00:00Z", "2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z", "2026-10-31T12:00:00Z"} {
			from := at(t, day)
			to := from.Add(36 * time.Hour)
			whole := sc.Ticks(from, to, 0)
			var cut []time.Time
			for a := from; a.Before(to); a = a.Add(7 * time.Minute) {
				b := a.Add(7 * time.Minute)
				if b.After(to) {
					b = to
				}
				cut = append(cut, sc.Ticks(a, b, 0)...)
			}
			if len(whole) == 0 || len(cut) != len(whole) {
				t.Fatalf("%s from %s: %d ticks whole, %d cut", text, day, len(whole), len(cut))
			}
			for i := range whole {
				if !whole[i].Equal(cut[i]) {
					t.Errorf("%s: tick %d is %v whole and %v cut", text, i, whole[i], cut[i])
				}
			}
		}
	}
}

func TestLatest(t *testing.T) {
	now := at(t, "2026-11-29T14:03:00Z")
	for text, want := range map[string]string{
		"{every: 1h}":            "2026-11-29T14:00:00Z",
		"{every: 1h, delay: 5m}": "2026-11-29T13:00:00Z",
		"{cron: '0 3 1 1 *'}":    "2026-01-01T03:00:00Z",
		"{cron: '2 * * * *'}":    "2026-11-29T14:02:00Z",
	} {
		if got := schedule(t, text).Latest(now); !got.Equal(at(t, want)) {
			t.Errorf("%s: got %v, want %s", text, got, want)
		}
	}
}

func TestBacklog(t *testing.T) {
	cursor, now := at(t, "2026-11-29T10:00:00Z"), at(t, "2026-11-29T14:03:00Z")
	for text, want := range map[string][2]int{
		"{every: 1h}":                             {4, 4},
		"{every: 1h, delay: 5m}":                  {3, 3},
		"{every: 1h, catchup: latest}":            {4, 1},
		"{every: 1h, catchup: none}":              {4, 0},
		"{cron: '30 9 * * *', catchup: missing}":  {0, 0},
		"{cron: '0 11-13 * * *', delay: 1h}":      {3, 3},
		"{cron: '0 11-13 * * *', delay: 1h3m1s}":  {2, 2},
		"{every: 4h, delay: 3m, catchup: latest}": {1, 1},
	} {
		c := backlog(schedule(t, text), cursor, now)
		if c.Ticks != want[0] || c.Runs != want[1] {
			t.Errorf("%s: got %d ticks, %d runs; want %v", text, c.Ticks, c.Runs, want)
		}
	}
}

func TestBacklogInWords(t *testing.T) {
	cursor := at(t, "2026-11-29T10:00:00Z")
	for text, want := range map[string]string{
		"{every: 1h}":                  "2 missed ticks from 2026-11-29T11:00:00Z on: one run each (catchup: missing)",
		"{every: 2h, catchup: latest}": "1 missed tick, 2026-11-29T12:00:00Z: one run",
		"{every: 1h, catchup: none}":   "2 missed ticks: the job pauses until it is resumed or backfilled",
		"{every: 3h}":                  "1 missed tick, 2026-11-29T12:00:00Z: one run",
		"{every: 1h, catchup: latest}": "2 missed ticks since 2026-11-29T11:00:00Z share one run (catchup: latest)",
		"{every: 4h, delay: 1h}":       "no tick was missed",
	} {
		if got := backlog(schedule(t, text), cursor, at(t, "2026-11-29T12:30:00Z")).String(); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	if c := backlog(schedule(t, "{every: 1s}"), cursor, cursor.AddDate(1, 0, 0)); !c.More || c.Ticks != countLimit {
		t.Errorf("a year of seconds: %+v", c)
	}
}

func TestNextTicks(t *testing.T) {
	sc := schedule(t, "{every: 1h, delay: 5m}")
	got := sc.NextTicks(at(t, "2026-11-29T14:03:00Z"), 2)
	if len(got) != 2 || !got[0].Tick.Equal(at(t, "2026-11-29T14:00:00Z")) || !got[0].Due.Equal(at(t, "2026-11-29T14:05:00Z")) {
		t.Errorf("a tick that waits for its delay comes first: %+v", got)
	}
}
