package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sawlog/loader"
)

// TestJobDrift follows drift over runs: since when, how much, until when. What has
// not been met since the job was applied is over.
func TestJobDrift(t *testing.T) {
	f := newFold()
	keep := func(e entry) {
		t.Helper()
		key, value, err := e.bytes()
		if err == nil {
			err = f.apply(key, value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	noon := at(t, "2026-11-29T12:00:00Z")
	job := Job{Name: "pageviews-hourly", Text: hourly, Path: "job.yaml", At: noon}
	keep(jobEntry(job))
	run := func(n int, status string, drift ...loader.Drift) {
		t.Helper()
		keep(runEntry(&Run{
			Dataset: "pageviews-hourly", Seq: int64(n), Ended: noon.Add(time.Duration(n) * time.Hour),
			Outcome: loader.Outcome{Run: fmt.Sprintf("run-%d", n), Job: job.Name, Status: status, Drift: drift},
		}))
	}
	text := func(n int64) loader.Drift {
		return loader.Drift{Column: "n", Type: "int64", Seen: "string", Records: n}
	}
	list := loader.Drift{Column: "tags", Type: "string", Seen: "list", Records: 9}
	run(1, Committed, text(2))
	run(2, Covered)
	run(3, Partial, text(3), list)
	run(4, Running, text(100))
	got := f.drift(f.jobs[job.Name])
	if len(got) != 2 || got[0].Column != "tags" || got[0].Since != "run-3" || got[1].Records != 5 || got[1].Since != "run-1" || got[1].Last != "run-3" ||
		!got[1].SinceAt.Equal(noon.Add(time.Hour)) || !got[1].LastAt.Equal(noon.Add(3*time.Hour)) {
		t.Fatalf("%+v", got)
	}
	for _, word := range []string{"declare n as json under schema:", "out rewrite pageviews-hourly", "out requeue run-1"} {
		if !strings.Contains(got[1].Hint, word) {
			t.Errorf("the way out %q does not say %q", got[1].Hint, word)
		}
	}
	job.At = noon.Add(3*time.Hour + time.Minute)
	keep(jobEntry(job))
	if got := f.drift(f.jobs[job.Name]); got != nil {
		t.Errorf("after the job was applied again: %+v", got)
	}
	run(5, Committed, text(1))
	if got := f.drift(f.jobs[job.Name]); len(got) != 1 || got[0].Records != 6 || got[0].Since != "run-1" {
		t.Errorf("met again: %+v", got)
	}
}
