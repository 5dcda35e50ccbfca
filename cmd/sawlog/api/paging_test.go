package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
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

// TestAnswersAreBounded: several lists of long entries make no longer answer than
// one does.
func TestAnswersAreBounded(t *testing.T) {
	lists := make([][]string, 5)
	for i := range lists {
		for n := range 7 {
			lists[i] = append(lists[i], strings.Repeat(fmt.Sprint(i*7+n, ";"), pageLength/40))
		}
	}
	lists[3][2] = strings.Repeat("x", 2*pageLength) // comes alone
	all, after := 0, ""
	for answers := 0; answers == 0 || after != ""; answers++ {
		p, err := partOf(url.Values{"after": {after}})
		if err != nil {
			t.Fatal(err)
		}
		length, held := 0, 0
		for _, list := range lists {
			for _, s := range stretch(&p, list) {
				if s != lists[all/7][all%7] {
					t.Fatalf("entry %d is another", all)
				}
				length, held, all = length+len(s), held+1, all+1
			}
		}
		if held == 0 || held > 1 && length > pageLength {
			t.Fatalf("an answer of %d entries, %d bytes", held, length)
		}
		after = p.next()
	}
	if all != 35 {
		t.Errorf("%d entries", all)
	}
}

// longRun is a run with long lists.
type longRun struct {
	plan    *loader.Plan
	rec     *loader.Record
	preview *loader.Preview
	turn    func() error // is called before each look at them, and may say that it is refused; nil = none is
}

func (l *longRun) look() error {
	if l.turn == nil {
		return nil
	}
	return l.turn()
}

// ended is a world with a run of n splits that has committed.
func (l *longRun) ended(t *testing.T, n int) (*world, *jobs.Run) {
	t.Helper()
	l.plan, l.rec, l.preview = &loader.Plan{Kind: loader.Load}, &loader.Record{}, &loader.Preview{Plan: "p", Status: loader.PreviewReady}
	for i := range n {
		r := []loader.SplitRange{{Topic: "pageviews", Partition: int32(i)}}
		l.plan.Splits = append(l.plan.Splits, loader.Split{Index: i, Ranges: r})
		l.rec.Files = append(l.rec.Files, loader.File{Path: fmt.Sprintf("dt=1/%05d.parquet", i)})
		l.rec.Inputs = append(l.rec.Inputs, loader.Input{})
		l.rec.Retires, l.rec.Sealed = append(l.rec.Retires, fmt.Sprint(i)), append(l.rec.Sealed, int64(i))
		l.preview.Splits = append(l.preview.Splits, loader.PreviewSplit{Index: i, Ranges: r})
		l.preview.Ranges = append(l.preview.Ranges, loader.PreviewRange{Partition: int32(i)})
	}
	w, ctx := newWorld(t), t.Context()
	w.long = l
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
	return w, run
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
	l := &longRun{}
	w, run := l.ended(t, n)
	ctx := t.Context()
	var first RunDetail
	if size := w.fetch(http.MethodGet, "/api/v1/runs/"+run.Run+"?detail", &first); size > pageLength || len(first.Splits) != pageLimit || len(first.Commit.Files) != 0 || !strings.HasPrefix(first.Next, "200-") || first.Counts != (RunCounts{n, n, n}) {
		t.Errorf("%d bytes, %d splits, %d files, next %q, of %+v", size, len(first.Splits), len(first.Commit.Files), first.Next, first.Counts)
	}
	d, err := w.client.RunDetail(ctx, run.Run)
	if err != nil || len(d.Splits) != n || len(d.Commit.Inputs) != n || len(d.Commit.Files) != n || len(d.Commit.Retires) != n || len(d.Commit.Sealed) != n || d.Next != "" {
		t.Fatalf("%v: %d splits", err, len(d.Splits))
	}
	for i := range n {
		if d.Splits[i].Index != i || d.Commit.Files[i].Path != l.rec.Files[i].Path || d.Commit.Sealed[i] != int64(i) {
			t.Fatalf("entry %d is another", i)
		}
	}
	var plans PlanList
	if size := w.fetch(http.MethodPost, "/api/v1/jobs/pageviews-hourly/plan", &plans); size > pageLength || !strings.HasPrefix(plans.Next, "200-") || len(plans.Plans[0].Preview.Ranges) != pageLimit || plans.Plans[0].Plan != nil || plans.Plans[0].Counts.Splits != n {
		t.Errorf("%d bytes, next %q, %+v", size, plans.Next, plans.Plans[0].Counts)
	}
	whole, err := w.client.Plan(ctx, "pageviews-hourly", Trigger{})
	if err != nil || len(whole[0].Preview.Splits) != n || len(whole[0].Plan.Splits) != n {
		t.Errorf("%v: %+v", err, whole[0].Counts)
	}
}

// TestPagesAreOfOneThing: a page of a run or plan that is another by now is
// refused, not cut out of it.
func TestPagesAreOfOneThing(t *testing.T) {
	l := &longRun{}
	w, run := l.ended(t, 2500)
	detail, planned := "/api/v1/runs/"+run.Run+"?detail", "/api/v1/jobs/pageviews-hourly/plan?limit=100"
	after := func(method, path string, body ...string) (status int, next string) {
		resp, text := w.do(method, path, strings.Join(body, ""), nil)
		var page struct{ Next string }
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, page.Next
	}
	_, next := after("GET", detail)
	if status, further := after("GET", detail+"&after="+next); status != http.StatusOK || !strings.HasPrefix(further, "400-") {
		t.Errorf("%d, next %q", status, further)
	}
	if status, _ := after("GET", detail+"&after=200"); status != http.StatusConflict {
		t.Errorf("a page of something or other: %d", status)
	}
	l.plan.Splits = l.plan.Splits[1:]
	if status, _ := after("GET", detail+"&after="+next); status != http.StatusConflict {
		t.Errorf("a run that has another plan: %d", status)
	}
	l.turn = func() error { return &loader.Error{Code: loader.ExitUnavailable, Msg: "no NameNode"} }
	if status, _ := after("GET", detail+"&after="+next); status != http.StatusServiceUnavailable {
		t.Errorf("a run that can't be read: %d", status)
	}
	if status, _ := after("GET", detail); status != http.StatusOK {
		t.Errorf("what is known of it: %d", status)
	}
	l.turn = nil

	_, next = after("POST", planned)
	l.preview.Plan, l.preview.Bytes = "q", 1 // of another moment
	if status, _ := after("POST", planned+"&after="+next); status != http.StatusOK {
		t.Errorf("the same plan: %d", status)
	}
	l.preview.Ranges[7].End++
	if status, _ := after("POST", planned+"&after="+next); status != http.StatusConflict {
		t.Errorf("a plan of other ranges: %d", status)
	}
	if status, _ := after("POST", "/api/v1/jobs/pageviews-hourly/plan?whole&after="+next); status != http.StatusOK {
		t.Errorf("the whole of it: %d", status)
	}
	if status, _ := after("POST", "/api/v1/runs/"+run.Run+"/again?after="+next, `{"dry_run":true}`); status != http.StatusConflict {
		t.Errorf("what is loaded again is no page of a plan: %d", status)
	}
}

// TestDetailIsWhole: the client hands out all of a run, or says why it can't.
func TestDetailIsWhole(t *testing.T) {
	const n = 2500
	l := &longRun{}
	w, run := l.ended(t, n)
	looks := 0
	l.turn = func() error {
		if looks++; looks > 1 {
			return &loader.Error{Code: loader.ExitUnavailable, Msg: "no NameNode"}
		}
		return nil
	}
	_, err := w.client.RunDetail(t.Context(), run.Run)
	w.exit(err, CodeUnavailable, 6, "no NameNode")

	looks = 0
	l.turn = func() error {
		if looks++; looks == 2 { // it goes on meanwhile
			l.plan = &loader.Plan{Kind: loader.Load, Splits: l.plan.Splits[1:]}
		}
		return nil
	}
	d, err := w.client.RunDetail(t.Context(), run.Run)
	if err != nil || len(d.Splits) != n-1 || d.Splits[0].Index != 1 || len(d.Commit.Files) != n {
		t.Errorf("%v: %d splits", err, len(d.Splits))
	}
	l.turn = func() error { // and never stands still
		l.plan = &loader.Plan{Kind: loader.Load, Splits: l.plan.Splits[1:]}
		return nil
	}
	_, err = w.client.RunDetail(t.Context(), run.Run)
	w.exit(err, CodeConflict, 4, "begin again")

	short := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, RunDetail{Run: &jobs.Run{}, Splits: l.plan.Splits[:3], Counts: RunCounts{Splits: 4}})
	})
	_, err = short.RunDetail(t.Context(), "r")
	w.exit(err, CodeUnavailable, 6, "3 of 4 splits")
}

// TestLongBackfillsArePaged: 2,160 ticks come in pages, before and after it is made.
func TestLongBackfillsArePaged(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.apply(job)
	end := time.Now().UTC().Truncate(time.Hour)
	ask := Backfill{Job: "pageviews-hourly", From: end.Add(-2160 * time.Hour).Format(time.RFC3339), To: end.Format(time.RFC3339), DryRun: true}
	asked := 0
	w.client.HTTP = &http.Client{Transport: counted{&asked}}
	b, err := w.client.Backfill(ctx, ask)
	if asked != 1 {
		t.Errorf("a dry run was asked for %d times: it is planned anew each time", asked)
	}
	if err != nil || len(b.Items) != 2160 || b.Total != 2160 || b.ID != "" {
		t.Fatalf("%v: %d items of %d", err, len(b.Items), b.Total)
	}
	for i := 1; i < len(b.Items); i++ {
		if !b.Items[i].Tick.After(b.Items[i-1].Tick) {
			t.Fatalf("item %d is of %s, after %s", i, b.Items[i].Tick, b.Items[i-1].Tick)
		}
	}
	preview := func(ask Backfill, after string) (status int, next string) {
		body, err := json.Marshal(ask)
		if err != nil {
			t.Fatal(err)
		}
		resp, text := w.do("POST", "/api/v1/backfills?after="+after, string(body), nil)
		var page struct{ Next string }
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, page.Next
	}
	_, next := preview(ask, "")
	if status, further := preview(ask, next); status != http.StatusOK || !strings.HasPrefix(further, "400-") {
		t.Errorf("%d, next %q", status, further)
	}
	later := ask
	later.To = end.Add(-time.Hour).Format(time.RFC3339)
	if status, _ := preview(later, next); status != http.StatusConflict {
		t.Errorf("a page of another window's items: %d", status)
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

// counted counts what is asked.
type counted struct{ n *int }

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	*c.n++
	return http.DefaultTransport.RoundTrip(r)
}
