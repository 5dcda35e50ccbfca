package console

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sawlog/jobs"
)

// runsOn lists the runs of a page.
func runsOn(page string) (list []string) {
	for _, m := range regexp.MustCompile(`class="id" href="/console/runs/([^"]*)"`).FindAllStringSubmatch(page, -1) {
		list = append(list, m[1])
	}
	return list
}

// TestRunsPages walks the runs of all jobs to their end and back: each is on one
// page, the newest first.
func TestRunsPages(t *testing.T) {
	s := standOver(t, runner{}, func(*Sources) {})
	s.has(s.page("/console/runs", http.StatusOK), "No run yet", "sawlog job apply")
	apply(t, s.jobs, job)
	s.has(s.page("/console/runs", http.StatusOK), "No run yet", "sawlog run pageviews-hourly --wait")
	apply(t, s.jobs, strings.ReplaceAll(job, "pageviews", "bad"))
	for range 2*runsOnPage/2 + 10 {
		for _, name := range []string{"pageviews-hourly", "bad-hourly"} {
			if _, err := s.jobs.Trigger(t.Context(), jobs.Trigger{Job: name, By: "ann"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var all []string
	for _, run := range s.jobs.Runs(jobs.RunFilter{Limit: 1000}) {
		all = append(all, run.Run)
	}
	const base = "/console/runs"
	walk := func(from, rel string) (seen []string) {
		for next := from; next != ""; {
			page := s.page(next, http.StatusOK)
			on := runsOn(page)
			if rel == "prev" {
				seen = append(on, seen...)
			} else {
				seen = append(seen, on...)
			}
			next = linkOf(base, page, rel)
		}
		return seen
	}
	if seen := walk(base, "next"); !slices.Equal(seen, all) {
		t.Errorf("forward %d runs, want %d", len(seen), len(all))
	}
	last := all[len(all)-1]
	if seen := walk(base+"?before="+last, "prev"); !slices.Equal(append(seen, last), all) {
		t.Errorf("backward %d runs, want %d", len(seen)+1, len(all))
	}
	s.has(s.page(base+"?after=none", http.StatusNotFound), "no longer remembered")
}

// TestRunsAreFiltered by what the form says, and the command line says the same.
func TestRunsAreFiltered(t *testing.T) {
	s := standOver(t, runner{}, func(*Sources) {})
	apply(t, s.jobs, job)
	apply(t, s.jobs, strings.ReplaceAll(job, "pageviews", "bad"))
	good, bad := ended(t, s.jobs, "pageviews-hourly"), ended(t, s.jobs, "bad-hourly")
	_, err := s.jobs.Backfill(t.Context(), jobs.BackfillAsk{Job: "pageviews-hourly", From: noon.Add(-90 * time.Minute), To: noon, By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if len(s.jobs.Runs(jobs.RunFilter{Kind: jobs.ByBackfill})) > 0 {
			break
		}
		time.Sleep(time.Millisecond) // the scheduler acts
	}
	for query, want := range map[string][2]string{ // one that is there, one that is not
		"job=pageviews-hourly": {good.Run, bad.Run}, "status=partial": {bad.Run, good.Run}, "kind=manual&job=bad-hourly": {bad.Run, good.Run},
		"kind=backfill": {"backfill", bad.Run}, "since=-1h": {good.Run, ""}, "until=-1h": {"No run matches", good.Run}, "status=cancelled": {"No run matches", good.Run},
	} {
		page := s.page("/console/runs?"+query, http.StatusOK)
		s.has(page, want[0])
		if on := runsOn(page); want[1] != "" && slices.Contains(on, want[1]) {
			t.Errorf("%s shows %s", query, want[1])
		}
	}
	s.has(s.page("/console/runs?job=bad-hourly&status=partial&kind=manual&since=-24h&until=2026-11-30", http.StatusOK),
		"sawlog runs list --job bad-hourly --status partial --kind manual --since -24h --until 2026-11-30", "<option selected>partial</option>", "7 &lt;bad&gt; records")
	for query, status := range map[string]int{"job=none": 404, "status=fine": 400, "kind=odd": 400, "since=whenever": 400, "until=soon": 400, "before=x": 404} {
		s.page("/console/runs?"+query, status)
	}
	s.has(s.page("/console/", http.StatusOK), "/console/runs")
	s.has(s.page("/console/jobs/bad-hourly", http.StatusOK), "/console/runs?job=bad-hourly")
}
