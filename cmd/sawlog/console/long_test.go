package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/offsets"
)

// pageBytes is what a page may hold, however long what it is about.
const pageBytes = 1 << 20

// TestLongRunsAreTurned: a run of 10,000 splits, of as many partitions and files, is
// shown in pages, each of bounded size, and all of it is on one of them.
func TestLongRunsAreTurned(t *testing.T) {
	const n = 10_000
	var splits []loader.Split
	rec := &loader.Record{}
	out := &loader.Outcome{Status: jobs.Committed, Plan: "p", Number: 1, Rows: n}
	hour := noon.Truncate(time.Hour)
	for i := range n {
		r := loader.SplitRange{Topic: "pageviews", Partition: int32(i), Range: offsets.Range{End: 1}}
		splits = append(splits, loader.Split{Index: i, Ranges: []loader.SplitRange{r}})
		at := hour.Add(-time.Duration(i) * time.Hour).Unix()
		rec.Files = append(rec.Files, loader.File{Path: fmt.Sprintf("dt=x/file-%05d.parquet", i), Hour: &at, Rows: 1})
		out.Ranges = append(out.Ranges, loader.OutcomeRange{Topic: "pageviews", Partition: int32(i), End: 1, Account: loader.Account{Data: 1}})
		out.Hours = append(out.Hours, loader.OutcomeHour{Hour: hour.Add(-time.Duration(i) * time.Hour).Format(time.RFC3339), Rows: 1})
	}
	s, err := jobs.Open(context.Background(), jobs.Config{Journal: &journal{}, Runner: long{out: out}, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	apply(t, s, job)
	run := ended(t, s, "pageviews-hourly")
	st := &stand{t: t, jobs: s, now: noon, h: New(Config{
		Jobs: s, Now: func() time.Time { return noon },
		Detail: func(context.Context, *jobs.Spec, *jobs.Run) ([]loader.Split, *loader.Record, error) {
			return splits, rec, nil
		},
	})}
	page := st.page(runPath(run.Run), http.StatusOK)
	st.has(page, "1–100 of 10,000", "?ranges=2", "?hours=2", "?page=2", "The beginning of it as JSON")
	if len(page) > pageBytes {
		t.Errorf("a page of %d bytes", len(page))
	}
	last := st.page(runPath(run.Run)+"?ranges=100&hours=100&page=100", http.StatusOK)
	st.has(last, "pageviews/9999", "file-09999", "?hours=100&amp;page=100&amp;ranges=99")
	rerun := st.page(runPath(run.Run)+"/rerun", http.StatusOK)
	st.has(rerun, "pageviews/199<", "1–200 of 10,000", "?page=2")
	st.lacks(rerun, "pageviews/200<")
	st.has(st.page(runPath(run.Run)+"/rerun?page=50", http.StatusOK), "pageviews/9999<")
	if len(rerun) > pageBytes {
		t.Errorf("a preview of %d bytes", len(rerun))
	}
}

// TestLongBackfillsAreTurned: the preview of 2,160 ticks, each over 30 partitions,
// and what it makes.
func TestLongBackfillsAreTurned(t *testing.T) {
	s, err := jobs.Open(context.Background(), jobs.Config{Journal: &journal{}, Runner: long{parts: 30}, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	apply(t, s, strings.ReplaceAll(job, "pageviews", "slow"))
	st := &stand{t: t, jobs: s, now: noon, h: New(Config{Jobs: s, Now: func() time.Time { return noon }})}
	end := noon.Truncate(time.Hour)
	ask := "/console/jobs/slow-hourly/backfill?from=" + end.Add(-2160*time.Hour).Format(time.RFC3339) + "&to=" + end.Format(time.RFC3339)
	page := st.page(ask, http.StatusOK)
	st.has(page, "Start 2,160 runs", "1–200 of 2,160", "page=2", "slow/29=")
	if n := strings.Count(page, "<tr>") + strings.Count(page, "<tr "); n > 210 || len(page) > 2*pageBytes {
		t.Errorf("%d lines, %d bytes", n, len(page))
	}
	st.has(st.page(ask+"&page=11", http.StatusOK), "2,001–2,160", end.Add(-time.Hour).Format("2006-01-02 15:04"))
	form := st.form(page)
	to := st.deed("/console/jobs/slow-hourly/backfill", form, http.StatusSeeOther)
	made := st.page(to, http.StatusOK)
	st.has(made, "1–200 of 2,160")
	if len(made) > pageBytes {
		t.Errorf("a page of %d bytes", len(made))
	}
}

// long is a runner whose runs and previews are long.
type long struct {
	runner
	out   *loader.Outcome
	parts int
}

func (l long) Run(ctx context.Context, s *jobs.Spec, set jobs.Set, p *jobs.Planned, e jobs.Exec) (*loader.Outcome, error) {
	if l.out == nil {
		return l.runner.Run(ctx, s, set, p, e)
	}
	return l.out, nil
}

func (l long) Windows(_ context.Context, _ *jobs.Spec, set jobs.Set, asks []jobs.Ask) (out []jobs.Window, err error) {
	for i := range asks {
		var w jobs.Window
		for p := range l.parts {
			w.Ranges = append(w.Ranges, loader.PreviewRange{Topic: "slow", Partition: int32(p), Start: offsets.Offset(i), End: offsets.Offset(i + 1)})
		}
		w.Rows, w.Files = int64(l.parts), 1
		out = append(out, w)
	}
	return out, nil
}
