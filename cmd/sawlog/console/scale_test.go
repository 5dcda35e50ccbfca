package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
)

// past is a journal with the history of many jobs.
type past struct {
	journal
	jobs, sets, runs int // data sets of a job, runs of a data set
}

func (p *past) Replay(_ context.Context, fn func(key, value []byte) error) error {
	put := func(key string, value any) error {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return fn([]byte(key), text)
	}
	seq := int64(0)
	for j := range p.jobs {
		name, topics := fmt.Sprintf("job-%03d", j), ""
		for s := range p.sets {
			topics += fmt.Sprintf("%s-%d,", name, s)
		}
		text := fmt.Sprintf("name: %s\nsource: {topics: [%s]}\noutput: {root: 'file:///w/%s/{topic}'}\nschedule: {every: 1h, delay: 5m}\n", name, topics, name)
		if err := put("job/"+name, &jobs.Job{V: 1, Name: name, Text: text, Path: "job.yaml", At: noon.AddDate(0, -6, 0), Since: noon, Generation: 1}); err != nil {
			return err
		}
		for r := range p.runs {
			for s := range p.sets {
				seq++
				if err := put(fmt.Sprintf("run/%s-%d-%s", name, s, noon.Add(time.Duration(r-p.runs)*time.Hour).Truncate(time.Hour).Format("20060102T150405Z")), pastRun(name, s, seq, noon.Add(time.Duration(r-p.runs)*time.Hour))); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// pastRun wrote to three hours, as most do.
func pastRun(job string, set int, seq int64, tick time.Time) *jobs.Run {
	tick = tick.Truncate(time.Hour)
	run := &jobs.Run{
		V: 1, Dataset: fmt.Sprintf("%s-%d", job, set), Topic: fmt.Sprintf("%s-%d", job, set), Tick: tick, UpTo: tick, Kind: jobs.ByTick, Seq: seq,
		Queued: tick, Started: tick, Ended: tick.Add(time.Minute), Attempt: 1,
		Outcome: loader.Outcome{Run: fmt.Sprintf("%s-%d-%s", job, set, tick.Format("20060102T150405Z")), Job: job, Status: jobs.Committed, Rows: 30, Files: 3},
	}
	if seq%17 == 0 {
		run.Status, run.Reason, run.Rows = jobs.Failed, "the brokers do not answer", 0
		return run
	}
	for h := range 3 {
		run.Hours = append(run.Hours, loader.OutcomeHour{Hour: tick.Add(-time.Duration(h) * time.Hour).UTC().Format(time.RFC3339), Rows: 10})
	}
	return run
}

// ninetyDays are the hours of a data set.
func ninetyDays() map[int64]jobs.HourFacts {
	hours := map[int64]jobs.HourFacts{}
	for i := range 90 * 24 {
		hours[noon.Truncate(time.Hour).Add(-time.Duration(i)*time.Hour).Unix()] = jobs.HourFacts{Rows: 10, Files: 1, Sealed: i > 2, Late: int64(i % 50 / 49)}
	}
	return hours
}

// bigSite is a console over 500 data sets of 100 jobs with 90 days of hours.
func bigSite(tb testing.TB, runs int) *jobs.Scheduler {
	tb.Helper()
	s, err := jobs.Open(context.Background(), jobs.Config{Journal: &past{jobs: 100, sets: 5, runs: runs}, Runner: runner{hours: ninetyDays()}, Now: func() time.Time { return noon }})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// cpu is the processor time of this process so far.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it can't fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bigPages are the pages whose cost might grow with what there is.
func bigPages(s *jobs.Scheduler) map[string]string {
	runs := s.Runs(jobs.RunFilter{Job: "job-050", Limit: 1})
	return map[string]string{
		"overview": "/console/", "jobs": "/console/jobs", "jobs, a week": "/console/jobs?span=7d&page=2", "jobs found": "/console/jobs?q=job-05",
		"job, 90 days": "/console/jobs/job-050?days=90", "job, its last set, a hour": "/console/jobs/job-050?days=90&set=job-050-4&zone=Europe/Berlin&hour=2026-11-29T03:00",
		"run": "/console/runs/" + runs[0].Run, "backfills": "/console/backfills",
		"runs": "/console/runs", "runs behind": "/console/runs?after=" + runs[0].Run, "runs in front": "/console/runs?before=" + runs[0].Run, "few of all runs": "/console/runs?status=failed&job=job-099&since=-1h",
		"none of all runs": "/console/runs?status=cancelled",
	}
}

// pageLimit is what a page may take of a processor.
const pageLimit = 200 * time.Millisecond

// TestPagesAreFast takes the processor time of each page over 500 data sets of
// 100 jobs with 90 days of hours. SAWLOG_TEST_RUNS is how many runs each data
// set remembers; a scheduler keeps 300.
func TestPagesAreFast(t *testing.T) {
	runs := 20
	if n, err := strconv.Atoi(os.Getenv("SAWLOG_TEST_RUNS")); err == nil {
		runs = n
	}
	s := bigSite(t, runs)
	h := New(Config{Jobs: s, Now: func() time.Time { return noon }})
	for name, path := range bigPages(s) {
		best := time.Hour
		for range 5 {
			before := cpu()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			if w.Code != 200 {
				t.Fatalf("%s: %d", path, w.Code)
			}
			if took := cpu() - before; took < best {
				best = took
			}
			if n := w.Body.Len(); n > 1<<20 {
				t.Errorf("%s: %d bytes", name, n)
			}
		}
		t.Logf("%s: %v", name, best)
		if best > pageLimit {
			t.Errorf("%s takes %v of a processor, at most %v are allowed", name, best, pageLimit)
		}
	}
}
