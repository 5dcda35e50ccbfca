package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
)

// post sends a form and gives where the answer leads, or its text.
func post(t *testing.T, web *httptest.Server, path string, form url.Values, status int) string {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.PostForm(web.URL+path, form)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != status {
		t.Fatalf("POST %s: status %d, want %d", path, resp.StatusCode, status)
	}
	return resp.Header.Get("Location")
}

// hands is what the loader does in these tests: verify finds one file changed
// until a rerun.
type hands struct{ healed bool }

func (h *hands) rerun(_ context.Context, _ *jobs.Spec, _ jobs.Set, run string) (*loader.RerunReport, error) {
	h.healed = true
	return &loader.RerunReport{Run: run, Restored: 1, Identical: 3, Files: []loader.RerunFile{{Path: "dt=x/<b>.parquet", State: loader.RerunRestored}, {Path: "same", State: loader.RerunIdentical}}}, nil
}

func (h *hands) verify(_ context.Context, _ *jobs.Spec, set jobs.Set, run string) (*loader.VerifyReport, error) {
	r := &loader.VerifyReport{Dataset: set.Dataset, Run: run, Files: 4, OK: h.healed}
	if h.healed {
		return r, nil
	}
	r.Problems = []loader.Problem{{Path: "dt=x/<b>.parquet", Kind: "changed", Detail: "has sha256 1f, want 2e"}}
	return r, &loader.Error{Code: loader.ExitMismatch, Msg: "1 problems; the first is dt=x/<b>.parquet"}
}

// workshop is a console that can do everything.
func workshop(t *testing.T, r runner) (*jobs.Scheduler, *httptest.Server) {
	t.Helper()
	s, plain := site(t, r)
	h := &hands{}
	plain.Config.Handler = New(Config{
		Jobs: s, Now: func() time.Time { return noon }, Rerun: h.rerun, Verify: h.verify,
		Plan: func(context.Context, *jobs.Spec, jobs.Set, jobs.Ask) (*jobs.Planned, error) {
			return &jobs.Planned{ID: "p", Preview: &loader.Preview{
				Status: loader.PreviewReady, Rows: 1200, Bytes: 4096,
				Ranges: []loader.PreviewRange{{Topic: "pageviews", Partition: 3, Start: 100, End: 1300}},
			}}, nil
		},
		Detail: func(_ context.Context, _ *jobs.Spec, run *jobs.Run) ([]loader.Split, *loader.Record, error) {
			if run.Status != jobs.Committed {
				return nil, nil, nil
			}
			hour := noon.Truncate(time.Hour).Unix()
			return []loader.Split{{Ranges: []loader.SplitRange{{Topic: "pageviews"}}}}, &loader.Record{Files: []loader.File{{Path: "dt=x/<a>.parquet", Hour: &hour, Rows: 5, SHA256: "0123456789abcdef"}, {Path: "q.quarantine"}}}, nil
		},
	})
	return s, plain
}

// TestEveryDeedIsShownFirst: for each act the page says what it would do and the
// equal command line, and only its form does it.
func TestEveryDeedIsShownFirst(t *testing.T) {
	s, web := workshop(t, runner{hours: facts()})
	apply(t, s, job)
	apply(t, s, strings.ReplaceAll(job, "pageviews", "bad"))
	good, bad := ended(t, s, "pageviews-hourly"), ended(t, s, "bad-hourly")
	apply(t, s, strings.ReplaceAll(job, "pageviews", "slow"))
	b, err := s.Backfill(context.Background(), jobs.BackfillAsk{Job: "slow-hourly", From: noon.Add(-3 * time.Hour), To: noon, By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path   string
		says   []string
		line   string
		form   url.Values
		leads  string // prefix
		before func()
	}{
		{path: "jobs/pageviews-hourly/pause", says: []string{"Ticks make no runs", "Open runs"}, line: "sawlog job pause pageviews-hourly", form: url.Values{"reason": {"moving house"}}, leads: "/console/jobs/pageviews-hourly"},
		{path: "jobs/pageviews-hourly/resume", says: []string{"Ticks make runs again", "Missed ticks"}, line: "sawlog job resume pageviews-hourly", leads: "/console/jobs/pageviews-hourly"},
		{path: "jobs/pageviews-hourly/run", says: []string{"1,200", "4.00 KiB", "pageviews/3", "1300"}, line: "sawlog run pageviews-hourly", leads: "/console/runs/pageviews-hourly-"},
		{path: "jobs/pageviews-hourly/verify", says: []string{"whole ledger"}, line: "sawlog verify pageviews-hourly", form: url.Values{"set": {"pageviews-hourly"}}, leads: "/console/reports/"},
		{path: "jobs/pageviews-hourly/backfill?from=2026-11-28&to=2026-11-29&only=missing", says: []string{"Start 24 runs", "2026-11-28 00:00"}, line: "sawlog backfill pageviews-hourly --from 2026-11-28T00:00:00Z --to 2026-11-29T00:00:00Z --only missing", form: url.Values{"from": {"2026-11-28T00:00:00Z"}, "to": {"2026-11-28T02:00:00Z"}, "only": {"missing"}}, leads: "/console/backfills/pageviews-hourly-backfill-"},
		{path: "runs/" + bad.Run + "/retry", says: []string{"7 &lt;bad&gt; records", "Accept bad records"}, line: "sawlog runs retry " + bad.Run, form: url.Values{"accept_bad": {"1"}}, leads: "/console/runs/" + bad.Run},
		{path: "runs/" + good.Run + "/verify", says: []string{"1,234,567", "Nothing is changed"}, line: "sawlog verify " + good.Run, leads: "/console/reports/"},
		{path: "runs/" + good.Run + "/rerun", says: []string{"same bytes", "pageviews/0"}, line: "sawlog rerun " + good.Run, leads: "/console/reports/"},
		{path: "runs/" + good.Run + "/again", says: []string{"by the job as it is now"}, line: "sawlog rerun " + good.Run + " --with-current-job", leads: "/console/runs/pageviews-hourly-"},
		{path: "backfills/" + b.ID + "/pause", says: []string{"No further run"}, line: "sawlog backfill pause " + b.ID, leads: "/console/backfills/" + b.ID},
		{path: "backfills/" + b.ID + "/resume", says: []string{"begin again"}, line: "sawlog backfill resume " + b.ID, leads: "/console/backfills/" + b.ID},
		{path: "backfills/" + b.ID + "/cancel", says: []string{"What has committed stays"}, line: "sawlog backfill cancel " + b.ID, leads: "/console/backfills/" + b.ID},
	} {
		t.Run(strings.ReplaceAll(c.path, "/", " "), func(t *testing.T) {
			page := get(t, web, "/console/"+c.path, 200)
			want(t, page, append(c.says, "<code>"+strings.ReplaceAll(c.line, "'", "&#39;"), `method="post"`)...)
			path, _, _ := strings.Cut(c.path, "?")
			if to := post(t, web, "/console/"+path, c.form, http.StatusSeeOther); !strings.HasPrefix(to, c.leads) {
				t.Errorf("it leads to %s, want %s", to, c.leads)
			}
		})
	}
	if run, err := s.Run(bad.Run); err != nil || !run.AcceptBad {
		t.Errorf("bad records were not accepted: %+v, %v", run, err)
	}
}

// TestDeedsThatCannotBe are refused with the reason, by the page and by the form.
func TestDeedsThatCannotBe(t *testing.T) {
	s, web := workshop(t, runner{})
	apply(t, s, job)
	good := ended(t, s, "pageviews-hourly")
	for path, status := range map[string]int{
		"runs/" + good.Run + "/cancel": 409, "runs/" + good.Run + "/retry": 409, "runs/none/verify": 404, "jobs/none/run": 404, "jobs/none/pause": 404,
		"backfills/none/pause": 404, "jobs/pageviews-hourly/verify?set=other": 404,
	} {
		page := get(t, web, "/console/"+path, status)
		want(t, page, "<h1>"+http.StatusText(status)+"</h1>")
		post(t, web, "/console/"+path, nil, status)
	}
	get(t, web, "/console/jobs/pageviews-hourly/backfill?from=soon&to=later", 400)
	post(t, web, "/console/jobs/pageviews-hourly/backfill", url.Values{"from": {"2026-11-29"}, "to": {"2026-11-28"}}, 400)
}

// TestNothingIsDoneByGet: asking changes nothing, and every writing route of the
// console is one of its acts.
func TestNothingIsDoneByGet(t *testing.T) {
	s, web := workshop(t, runner{})
	apply(t, s, job)
	good := ended(t, s, "pageviews-hourly")
	k := &console{}
	for path := range k.acts() {
		path = strings.NewReplacer("{job}", "pageviews-hourly", "{run}", good.Run, "{backfill}", "none").Replace(path)
		resp, err := http.Get(web.URL + "/console/" + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if runs := s.Runs(jobs.RunFilter{}); len(runs) != 1 || len(s.Backfills("")) != 0 {
		t.Errorf("%d runs and %d backfills after looking", len(runs), len(s.Backfills("")))
	}
	if st, err := s.Get("pageviews-hourly"); err != nil || st.State == "paused" {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestReports: what verify finds is shown with what heals it.
func TestReports(t *testing.T) {
	s, web := workshop(t, runner{})
	apply(t, s, job)
	run := "/console/runs/" + ended(t, s, "pageviews-hourly").Run
	broken := get(t, web, post(t, web, run+"/verify", nil, 303), 200)
	want(t, broken, "1 thing is not as the ledger says", "dt=x/&lt;b&gt;.parquet", "want 2e", `href="`+run+`/rerun">Rerun heals it`)
	want(t, get(t, web, post(t, web, run+"/rerun", nil, 303), 200), "1 file is back", "dt=x/&lt;b&gt;.parquet", `href="`+run+`/verify"`)
	want(t, get(t, web, post(t, web, run+"/verify", nil, 303), 200), "All 4 files are as the ledger says")
	want(t, get(t, web, "/console/reports/none", 404), "verify or rerun once more")
	var last string
	for range reportsKept + 1 {
		last = post(t, web, run+"/verify", nil, 303)
	}
	get(t, web, last, 200)
}

// TestBackfillPages shows the list, one with its items, and how it may be steered.
func TestBackfillPages(t *testing.T) {
	s, web := workshop(t, runner{hours: facts()})
	want(t, get(t, web, "/console/backfills", 200), "No backfills", "sawlog job apply")
	apply(t, s, job)
	want(t, get(t, web, "/console/backfills", 200), "<option>pageviews-hourly</option>")
	if to := get(t, web, "/console/backfills/new?job=pageviews-hourly", 200); !strings.Contains(to, "Backfill pageviews-hourly") {
		t.Error("the choice of a job leads elsewhere")
	}
	b, err := s.Backfill(context.Background(), jobs.BackfillAsk{Job: "pageviews-hourly", From: noon.Add(-5 * time.Hour), To: noon, By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if one, err := s.GetBackfill(b.ID); err != nil || !one.Open() {
			break
		}
		time.Sleep(time.Millisecond) // the scheduler acts
	}
	page := get(t, web, "/console/backfills/"+b.ID, 200)
	want(t, page, "completed", "5 committed", "2026-11-29 10:00", "sawlog backfill get "+b.ID, "by ann")
	if strings.Contains(page, ">Cancel<") || strings.Contains(page, "Retry failed only") {
		t.Error("a backfill that is done can be steered")
	}
	want(t, get(t, web, "/console/backfills", 200), b.ID, "completed")
	get(t, web, "/console/backfills/none", 404)
}

// TestLanes draws attempts that failed, were repeated, went on twice at a time or
// were stopped, each told apart without colour.
func TestLanes(t *testing.T) {
	task := func(split int, attempt, phase string, since, ms int64, failed string) jobs.Task {
		return jobs.Task{
			TaskProgress: loader.TaskProgress{Split: split, Attempt: attempt, Phase: phase, Offsets: 50, Total: 100}, Since: since, MS: ms, Error: failed,
			Phases: []jobs.Phase{{Name: "read", MS: ms / 2}},
		}
	}
	run := &jobs.Run{Outcome: loader.Outcome{Status: jobs.Running}, Tasks: []jobs.Task{
		task(0, "a", "read", 0, 1000, "connection <refused>"), task(0, "b", "done", 1200, 1000, ""),
		task(1, "c", "done", 0, 2000, ""), task(1, "d", "write", 500, 1500, ""),
		task(2, "e", "read", 0, 0, ""),
	}}
	lanes, more := lanesOf(run, []loader.Split{{Index: 1, Ranges: []loader.SplitRange{{Topic: "views", Partition: 4}}}}, 10)
	if len(lanes) != 3 || more != 0 {
		t.Fatalf("%d lanes, %d more", len(lanes), more)
	}
	for i, c := range []struct {
		says, height, ends, not string
		errors                  int
	}{{"done", `height="14"`, "end-failed", "end-open", 1}, {"done", `height="28"`, "end-open", "end-failed", 0}, {"read", `height="14"`, "end-open", "end-done", 0}} {
		l := lanes[i]
		if l.Says != c.says || !strings.Contains(string(l.SVG), c.height) || !strings.Contains(string(l.SVG), c.ends) || strings.Contains(string(l.SVG), c.not) || len(l.Errors) != c.errors {
			t.Errorf("lane %d: %+v", i, l)
		}
		wellFormed(t, string(l.SVG))
	}
	if !slices.Equal(lanes[1].Ranges, []string{"views/4=0..0"}) || lanes[1].Share != 50 {
		t.Errorf("%+v", lanes[1])
	}
	run.Status = jobs.Cancelled
	if lanes, _ = lanesOf(run, nil, 10); lanes[2].Says != "stopped" || !strings.Contains(string(lanes[2].SVG), "end-stopped") {
		t.Errorf("%+v", lanes[2])
	}
	if lanes, more = lanesOf(run, nil, 1); len(lanes) != 1 || more != 2 {
		t.Errorf("%d lanes, %d more", len(lanes), more)
	}
}

// TestEveryPageKeepsThePolicy: no style, script or handler inside a page, nothing
// from elsewhere, and what others wrote is escaped.
func TestEveryPageKeepsThePolicy(t *testing.T) {
	s, web := workshop(t, runner{hours: facts(), err: nil})
	apply(t, s, job)
	apply(t, s, strings.ReplaceAll(job, "pageviews", "drifting"))
	good := ended(t, s, "pageviews-hourly")
	_ = ended(t, s, "drifting-hourly")
	_, err := s.Backfill(context.Background(), jobs.BackfillAsk{Job: "pageviews-hourly", From: noon.Add(-5 * time.Hour), To: noon})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(context.Background(), "drifting-hourly", "<script>alert(1)</script>", `" onclick="x`); err != nil {
		t.Fatal(err)
	}
	inline := regexp.MustCompile(`(?i)\sstyle=|<style|<[^>]*\son[a-z]+=|<script>|javascript:|(?:src|href|action)="(?:https?:)?//`)
	for _, path := range []string{
		"", "jobs", "jobs/pageviews-hourly?hour=2026-11-29T03:00", "jobs/drifting-hourly", "runs/" + good.Run, "backfills", "backfills/" + s.Backfills("")[0].ID,
		"jobs/pageviews-hourly/run", "jobs/pageviews-hourly/backfill", "runs/" + good.Run + "/rerun",
	} {
		page := get(t, web, "/console/"+path, 200)
		if found := inline.FindString(page); found != "" {
			t.Errorf("/console/%s holds %q", path, found)
		}
		if strings.Contains(page, "alert(1)</script>") || strings.Contains(page, "<b>.parquet") {
			t.Errorf("/console/%s is not escaped", path)
		}
	}
	want(t, get(t, web, "/console/nowhere-%3Cscript%3E", 404), "nowhere-&lt;script&gt;")
}

var errAway = errors.New("the brokers are away")

// TestPreviewWithoutBrokers says what is the matter and still offers to run.
func TestPreviewWithoutBrokers(t *testing.T) {
	s, _ := site(t, runner{})
	apply(t, s, job)
	web := httptest.NewServer(New(Config{Jobs: s, Now: func() time.Time { return noon }, Plan: func(context.Context, *jobs.Spec, jobs.Set, jobs.Ask) (*jobs.Planned, error) { return nil, errAway }}))
	defer web.Close()
	want(t, get(t, web, "/console/jobs/pageviews-hourly/run", 200), "cannot be planned: the brokers are away", "Run now")
}
