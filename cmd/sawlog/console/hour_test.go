package console

import (
	"strings"
	"testing"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
)

// TestIsTheHourComplete asks of each state an hour and its job can be in: the
// answer is plain, and names the one thing that mends it.
func TestIsTheHourComplete(t *testing.T) {
	hour := noon.Truncate(time.Hour).Add(-2 * time.Hour) // 12:00, ends at 13:00
	active := jobs.Status{Name: "views", State: "active", Next: noon.Add(30 * time.Minute), NextDue: noon.Add(35 * time.Minute)}
	with := func(change func(*jobs.Status)) jobs.Status { st := active; change(&st); return st }
	paused := with(func(st *jobs.Status) { st.State, st.Reason, st.Next = "paused", "disk is full, by ann", time.Time{} })
	run := func(status, reason string) *jobs.Run {
		return &jobs.Run{Outcome: loader.Outcome{Run: "views-1", Status: status}, Reason: reason}
	}
	for name, c := range map[string]struct {
		hour    jobs.Hour
		job     jobs.Status
		run     *jobs.Run
		passed  bool
		verdict string
		says    []string
		do      string // link of the step; empty = none
		line    string
	}{
		"sealed":                       {jobs.Hour{State: jobs.HourSealed, Sealed: 7}, active, nil, true, "Yes", []string{"ledger record 7"}, "", ""},
		"late":                         {jobs.Hour{State: jobs.HourLate, Sealed: 7, Late: 1200}, active, nil, true, "Yes, with late rows", []string{"1,200 rows came after", "record 7"}, "", ""},
		"running":                      {jobs.Hour{State: jobs.HourRunning}, active, run(jobs.Running, ""), false, "Not yet", []string{"views-1 is running"}, "/console/runs/views-1", "sawlog runs watch views-1"},
		"failed":                       {jobs.Hour{State: jobs.HourFailed}, active, run(jobs.Failed, "no space left"), false, "No", []string{"views-1 failed: no space left."}, "/console/runs/views-1/retry", "sawlog runs retry views-1"},
		"partial":                      {jobs.Hour{State: jobs.HourFailed}, active, run(jobs.Partial, "7 bad records"), false, "No", []string{"holds back", "7 bad records"}, "/console/runs/views-1/retry", "sawlog runs retry views-1"},
		"failed, its run is forgotten": {jobs.Hour{State: jobs.HourFailed}, active, nil, false, "No", []string{"failed"}, "/console/jobs/views/run", "sawlog run views"},
		"future":                       {jobs.Hour{State: jobs.HourFuture}, active, nil, false, "Not yet", []string{"It is not over"}, "", ""},
		"before":                       {jobs.Hour{State: jobs.HourBefore}, active, nil, true, "No", []string{"before the first record", "source.start"}, "", ""},
		"filling, lateness not over":   {jobs.Hour{State: jobs.HourFilling, Rows: 1234}, active, nil, false, "Not yet", []string{"1,234 rows are in it", "until 2026-11-29 15:00", "2h for late rows"}, "", ""},
		"missing, next load comes":     {jobs.Hour{State: jobs.HourMissing}, active, nil, false, "No", []string{"Nothing is in it yet", "the next load is due in 35m"}, "/console/jobs/views/run", "sawlog run views"},
		"missing, a run is open": {
			jobs.Hour{State: jobs.HourMissing}, with(func(st *jobs.Status) { st.Open = 2 }), nil, false, "No", []string{"2 runs of the job must end first"}, "", "",
		},
		"missing, later ones are sealed": {
			jobs.Hour{State: jobs.HourMissing},
			active, nil, true, "No",
			[]string{"later hours are complete", "Were the producers down?"},
			"/console/jobs/views/backfill?from=2026-11-29T12%3A00%3A00Z&only=missing&to=2026-11-29T13%3A00%3A00Z", "sawlog backfill views --from 2026-11-29T12:00:00Z --to 2026-11-29T13:00:00Z --only missing",
		},
		"missing, paused": {jobs.Hour{State: jobs.HourMissing}, paused, nil, false, "No", []string{"paused (disk is full, by ann)"}, "/console/jobs/views/resume", "sawlog job resume views"},
		"filling, paused": {jobs.Hour{State: jobs.HourFilling, Rows: 2}, paused, nil, false, "No", []string{"paused"}, "/console/jobs/views/resume", "sawlog job resume views"},
		"missing, no schedule": {
			jobs.Hour{State: jobs.HourMissing}, with(func(st *jobs.Status) { st.State, st.Next = "on request", time.Time{} }), nil, false, "No", []string{"no schedule"}, "/console/jobs/views/run", "sawlog run views",
		},
		"missing, topics not found": {
			jobs.Hour{State: jobs.HourMissing}, with(func(st *jobs.Status) { st.Trouble = "the brokers do not answer" }), nil, false, "No", []string{"the brokers do not answer"}, "/console/jobs/views/run", "sawlog run views",
		},
		"missing, the file no longer reads": {
			jobs.Hour{State: jobs.HourMissing}, with(func(st *jobs.Status) { st.State, st.Reason = "broken", "line 3: unknown key" }), nil, false, "No", []string{"line 3: unknown key"}, "/api/v1/jobs/views", "sawlog job apply FILE",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.hour.Hour = hour
			got := (&hourCase{hour: c.hour, job: c.job, unit: "hour", lateness: 2 * time.Hour, end: hour.Add(time.Hour), passed: c.passed, run: c.run, now: noon}).answer()
			if got.Verdict != c.verdict || got.Do.Href != c.do || got.Do.Line != c.line {
				t.Errorf("%+v, want %s, %s, %s", got, c.verdict, c.do, c.line)
			}
			for _, text := range c.says {
				if !strings.Contains(got.Why, text) {
					t.Errorf("%q does not say %q", got.Why, text)
				}
			}
			if strings.Contains(got.Why, "..") || !strings.HasSuffix(got.Why, ".") && !strings.HasSuffix(got.Why, "?") {
				t.Errorf("%q is no sentence", got.Why)
			}
		})
	}
}

// TestHourPanel opens the panel of an hour by its URL.
func TestHourPanel(t *testing.T) {
	s, web := site(t, runner{hours: facts()})
	apply(t, s, job)
	r := ended(t, s, "pageviews-hourly")
	want(t, get(t, web, "/console/jobs/pageviews-hourly?days=3&hour=2026-11-29T03:00", 200), `id="hour"`, "Sun 29 Nov 2026 03:00", "Yes, with late rows.", "2026-11-29 03:00 to 2026-11-29 04:00 UTC",
		`href="?days=3&amp;hour=2026-11-29T02%3A00#hour"`, `href="?days=3">close`)
	want(t, get(t, web, "/console/jobs/pageviews-hourly?hour=2026-11-29T13:00", 200), "Runs that wrote to it", r.Run)
	for _, odd := range []string{"2026-11-29T03:30", "2020-01-01T00:00", "%3Cscript%3E", ""} {
		if page := get(t, web, "/console/jobs/pageviews-hourly?days=3&hour="+odd, 200); strings.Contains(page, `id="hour"`) || strings.Contains(page, "<script>") {
			t.Errorf("a panel for the hour %q", odd)
		}
	}
}
