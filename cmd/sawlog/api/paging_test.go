package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
)

// TestStretches: pages of several lists follow one another, without a gap or an
// entry twice, whatever their size.
func TestStretches(t *testing.T) {
	lists := [][]int{{}, {1, 2, 3}, {}, {4}, {5, 6, 7, 8}, {}}
	for _, limit := range []int{1, 2, 3, 5, 8, 9} {
		var all []int
		after, answers := "", 0
		for {
			p, err := partOf(url.Values{"limit": {fmt.Sprint(limit)}, "after": {after}})
			if err != nil {
				t.Fatal(err)
			}
			held := 0
			for _, list := range lists {
				some := stretch(&p, list)
				held += len(some)
				all = append(all, some...)
			}
			answers++
			if held > limit || held < limit && p.next() != "" {
				t.Errorf("limit %d: an answer of %d, next %q", limit, held, p.next())
			}
			if after = p.next(); after == "" {
				break
			}
		}
		if fmt.Sprint(all) != "[1 2 3 4 5 6 7 8]" || answers != (8+limit-1)/limit {
			t.Errorf("limit %d: %v in %d answers", limit, all, answers)
		}
	}
	for _, bad := range []url.Values{{"limit": {"0"}}, {"limit": {"1001"}}, {"after": {"x"}}, {"after": {"-1"}}} {
		if _, err := partOf(bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
	if p, err := partOf(url.Values{"after": {"99"}}); err != nil || len(stretch(&p, lists[1])) != 0 || p.next() != "" {
		t.Errorf("behind the end: %+v, %v", p, err)
	}
}

// longRun is a run with long lists.
type longRun struct {
	plan    *loader.Plan
	rec     *loader.Record
	preview *loader.Preview
}

// fetch reads an answer, and tells how long it was.
func (w *world) fetch(method, path string, into any) int {
	w.t.Helper()
	resp, text := w.do(method, path, "{}", map[string]string{"Content-Type": "application/json"})
	if err := json.Unmarshal([]byte(text), into); err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("%s %s: %s %v: %.200s", method, path, resp.Status, err, text)
	}
	return len(text)
}

// TestLongAnswersArePaged: a run of 10,000 splits, its plan and the preview of one
// come in pages of bounded size; the client puts them together again.
func TestLongAnswersArePaged(t *testing.T) {
	const n = 10_000
	plan, rec := &loader.Plan{Kind: loader.Load}, &loader.Record{}
	preview := &loader.Preview{Plan: "p", Status: loader.PreviewReady}
	for i := range n {
		r := []loader.SplitRange{{Topic: "pageviews", Partition: int32(i)}}
		plan.Splits = append(plan.Splits, loader.Split{Index: i, Ranges: r})
		rec.Files = append(rec.Files, loader.File{Path: fmt.Sprintf("dt=1/%05d.parquet", i)})
		rec.Inputs = append(rec.Inputs, loader.Input{})
		rec.Retires, rec.Sealed = append(rec.Retires, fmt.Sprint(i)), append(rec.Sealed, int64(i))
		preview.Splits = append(preview.Splits, loader.PreviewSplit{Index: i, Ranges: r})
		preview.Ranges = append(preview.Ranges, loader.PreviewRange{Partition: int32(i)})
	}
	w, ctx := newWorld(t), t.Context()
	w.long = &longRun{plan, rec, preview}
	w.apply(job)
	runs, err := w.client.Trigger(ctx, "pageviews-hourly", Trigger{})
	if err != nil {
		t.Fatal(err)
	}
	w.gate <- struct{}{}
	run, err := w.client.Wait(ctx, runs[0].Run, nil)
	if err != nil {
		t.Fatal(err)
	}
	var first RunDetail
	if size := w.fetch(http.MethodGet, "/api/v1/runs/"+run.Run+"?detail", &first); size > pageLength || len(first.Splits) != pageLimit || len(first.Commit.Files) != 0 || first.Next != "200" || first.Counts != (RunCounts{n, n, n}) {
		t.Errorf("%d bytes, %d splits, %d files, next %q, of %+v", size, len(first.Splits), len(first.Commit.Files), first.Next, first.Counts)
	}
	d, err := w.client.RunDetail(ctx, run.Run)
	if err != nil || len(d.Splits) != n || len(d.Commit.Inputs) != n || len(d.Commit.Files) != n || len(d.Commit.Retires) != n || len(d.Commit.Sealed) != n || d.Next != "" {
		t.Fatalf("%v: %d splits", err, len(d.Splits))
	}
	for i := range n {
		if d.Splits[i].Index != i || d.Commit.Files[i].Path != rec.Files[i].Path || d.Commit.Sealed[i] != int64(i) {
			t.Fatalf("entry %d is another", i)
		}
	}
	var plans PlanList
	if size := w.fetch(http.MethodPost, "/api/v1/jobs/pageviews-hourly/plan", &plans); size > pageLength || plans.Next != "200" || len(plans.Plans[0].Preview.Ranges) != pageLimit || plans.Plans[0].Plan != nil || plans.Plans[0].Counts.Splits != n {
		t.Errorf("%d bytes, next %q, %+v", size, plans.Next, plans.Plans[0].Counts)
	}
	whole, err := w.client.Plan(ctx, "pageviews-hourly", Trigger{})
	if err != nil || len(whole[0].Preview.Splits) != n || len(whole[0].Plan.Splits) != n {
		t.Errorf("%v: %+v", err, whole[0].Counts)
	}
}

// TestLongBackfillsArePaged: 2,160 ticks come in pages, before and after it is made.
func TestLongBackfillsArePaged(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.apply(job)
	end := time.Now().UTC().Truncate(time.Hour)
	ask := Backfill{Job: "pageviews-hourly", From: end.Add(-2160 * time.Hour).Format(time.RFC3339), To: end.Format(time.RFC3339), DryRun: true}
	b, err := w.client.Backfill(ctx, ask)
	if err != nil || len(b.Items) != 2160 || b.Total != 2160 || b.ID != "" {
		t.Fatalf("%v: %d items of %d", err, len(b.Items), b.Total)
	}
	for i := 1; i < len(b.Items); i++ {
		if !b.Items[i].Tick.After(b.Items[i-1].Tick) {
			t.Fatalf("item %d is of %s, after %s", i, b.Items[i].Tick, b.Items[i-1].Tick)
		}
	}
	ask.DryRun = false
	if b, err = w.client.Backfill(ctx, ask); err != nil || len(b.Items) != 2160 || b.ID == "" {
		t.Fatalf("%v: %d items", err, len(b.Items))
	}
	var page BackfillPage
	if size := w.fetch(http.MethodGet, "/api/v1/backfills/"+b.ID, &page); size > 200<<10 || len(page.Items) != pageLimit || page.Next != "200" || page.Total != 2160 {
		t.Errorf("%d bytes, %d items, next %q", size, len(page.Items), page.Next)
	}
	if all, err := w.client.GetBackfill(ctx, b.ID); err != nil || len(all.Items) != 2160 {
		t.Errorf("%v: %d items", err, len(all.Items))
	}
	if one, err := w.client.BackfillState(ctx, b.ID); err != nil || len(one.Items) != 1 || one.Total != 2160 {
		t.Errorf("%v: %+v", err, one)
	}
	if _, err := w.client.SteerBackfill(ctx, b.ID, jobs.SteerCancel); err != nil {
		t.Error(err)
	}
}
