package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sawlog/broker"
	"sawlog/formats"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/offsets"
)

// journal keeps records in memory; with dead set it refuses them.
type journal struct {
	mu   sync.Mutex
	dead bool
}

func (j *journal) Append(context.Context, []byte, []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dead {
		return errors.New("fenced")
	}
	return nil
}

func (j *journal) Replay(context.Context, func(key, value []byte) error) error { return nil }

// runner commits when it is let, or fails jobs whose name says so.
type runner struct{ gate chan struct{} }

func (runner) Topics(context.Context, *jobs.Spec) ([]string, error) { return []string{"v.a"}, nil }

func (runner) Plan(_ context.Context, _ *jobs.Spec, set jobs.Set, ask jobs.Ask) (*jobs.Planned, error) {
	return &jobs.Planned{ID: "0123456789abcdef", Preview: &loader.Preview{
		Plan: "0123456789abcdef", Status: "ready", Rows: 7, RowsAre: "exact", BytesAre: "estimate", HoursAre: "exact",
		Ranges: []loader.PreviewRange{}, Splits: []loader.PreviewSplit{}, Hours: []loader.PreviewHour{},
	}}, nil
}

func (r runner) Run(ctx context.Context, s *jobs.Spec, _ jobs.Set, p *jobs.Planned, e jobs.Exec) (*loader.Outcome, error) {
	select {
	case <-r.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if strings.HasPrefix(s.Name, "bad") && !e.AcceptBad {
		return nil, &loader.Error{Code: loader.ExitPartial, Msg: "7 bad records"}
	}
	return &loader.Outcome{Status: jobs.Committed, Plan: p.ID, Rows: 5, Number: 0, Hours: []loader.OutcomeHour{{Hour: "2026-11-29T13:00:00Z", Rows: 5}}}, nil
}

func (runner) Committed(context.Context, *jobs.Spec, jobs.Set, string) (*loader.Outcome, error) {
	return nil, nil
}

func (runner) Abandon(context.Context, *jobs.Spec, jobs.Set, string, string, string) error {
	return nil
}

func (runner) Loads(context.Context, *jobs.Spec, jobs.Set, time.Time, time.Time) ([]int64, error) {
	return []int64{3, 5}, nil
}

func (runner) Windows(_ context.Context, _ *jobs.Spec, _ jobs.Set, asks []jobs.Ask) ([]jobs.Window, error) {
	return slices.Repeat([]jobs.Window{{Ranges: []loader.PreviewRange{}, Rows: 21, Files: 2}}, len(asks)), nil
}

func (runner) View(context.Context, *jobs.Spec, jobs.Set) (*jobs.View, error) {
	return &jobs.View{Head: -1}, nil
}

// fakeCluster has one topic and one group.
type fakeCluster struct{ err error }

func (c fakeCluster) Info(context.Context) (*ClusterInfo, error) {
	return &ClusterInfo{ID: "c", Controller: 1, Brokers: []Broker{{ID: 1, Addr: "127.0.0.1:9092"}}}, c.err
}

func (c fakeCluster) Topics(context.Context) ([]Topic, error) {
	return []Topic{{Name: "pageviews", Partitions: []Partition{{Index: 2, Leader: 1, Replicas: []int32{1, 3}, ISR: []int32{1}, LogStart: 10, HighWatermark: 42}}}}, c.err
}

func (c fakeCluster) Groups(context.Context, bool) ([]Group, error) {
	if c.err != nil {
		return nil, c.err
	}
	return []Group{{Name: "g", Members: 1, Lag: 12, Offsets: []GroupOffset{{Topic: "pageviews", Partition: 2, Committed: 30, End: 42, Lag: 12}}}}, nil
}

type world struct {
	t       *testing.T
	jobs    *jobs.Scheduler
	journal *journal
	gate    chan struct{}
	web     *httptest.Server
	client  *Client
	ready   error
	tickets []Ticket

	long *longRun // what plans and details are, where set
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, journal: &journal{}, gate: make(chan struct{}, 100)}
	r := runner{gate: w.gate}
	s, err := jobs.Open(context.Background(), jobs.Config{Journal: w.journal, Runner: r})
	if err != nil {
		t.Fatal(err)
	}
	w.jobs = s
	w.web = httptest.NewServer(New(Config{
		Jobs: s, Cluster: fakeCluster{}, Loopback: true, Version: "9.9",
		Plan: func(ctx context.Context, spec *jobs.Spec, set jobs.Set, ask jobs.Ask) (*jobs.Planned, error) {
			if w.long != nil {
				return &jobs.Planned{ID: "p", Plan: w.long.plan, Preview: w.long.preview}, nil
			}
			return r.Plan(ctx, spec, set, ask)
		},
		Broker: func() broker.Snapshot { return broker.Snapshot{Requests: 77, LogBytes: 4096} },
		Place: func() broker.ClusterSnapshot {
			return broker.ClusterSnapshot{Fenced: true, Term: 5, UnderReplicated: 3, ISRShrinks: 4, TakeoverTime: 250 * time.Millisecond, Lag: map[offsets.BrokerID]int64{2: 9}}
		},
		Checks: map[string]func() error{"broker": func() error { return w.ready }}, Tickets: func() []Ticket { return w.tickets },
		Verify: func(_ context.Context, _ *jobs.Spec, set jobs.Set, run string) (any, error) {
			if run == "" {
				report := &loader.VerifyReport{Dataset: set.Dataset, Rows: 1<<53 + 1, Problems: []loader.Problem{{Path: "part-0", Kind: "changed"}, {Path: "part-1", Kind: "missing"}}}
				return report, &loader.Error{Code: loader.ExitMismatch, Msg: "part-0 has other bytes", Hint: "rerun it"}
			}
			return &loader.VerifyReport{Dataset: set.Dataset, Run: run, OK: true, Problems: []loader.Problem{}}, nil
		},
		Fold: func(context.Context, *jobs.Spec, jobs.Set) (*loader.Fold, error) { return loader.NewFold(), nil },
		Detail: func(_ context.Context, _ *jobs.Spec, run *jobs.Run) (*loader.Plan, *loader.Record, error) {
			if w.long != nil {
				err := w.long.look()
				if err != nil {
					return nil, nil, err
				}
				return w.long.plan, w.long.rec, nil
			}
			plan := &loader.Plan{
				Kind: loader.Load, Isolation: "read_committed", Bucket: loader.Bucket{Unit: "hour"}, Writer: loader.Writer{Format: "parquet"}, Decode: formats.Options{Value: "json"}, Topics: []loader.PlanTopic{}, Inputs: []loader.PlanInput{},
				Splits: []loader.Split{{Index: 3, Ranges: []loader.SplitRange{}}},
			}
			return plan, &loader.Record{Number: *run.Ledger, Files: []loader.File{{Path: "dt=1/a.parquet"}}}, nil
		},
	}))
	w.client, err = NewClient(w.web.URL, "ann")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.web.CloseClientConnections()
		w.web.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

const job = "name: pageviews-hourly\nsource: {topics: [pageviews]}\noutput: {root: 'file:///w/pageviews'}\nschedule: {every: 1h, delay: 5m}\n"

func (w *world) apply(text string) *jobs.Applied {
	w.t.Helper()
	a, err := w.client.Apply(w.t.Context(), []byte(text), "job.yaml", false)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// exit checks the error's code, exit code and hint.
func (w *world) exit(err error, code string, exit int, says string) {
	w.t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != code || e.ExitCode() != exit || !strings.Contains(e.Message+" "+e.Hint, says) {
		w.t.Errorf("got %#v (%v), want %s, exit %d, saying %q", e, err, code, exit, says)
	}
}

func TestJobsOverHTTP(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	dry, err := w.client.Apply(ctx, []byte(job), "job.yaml", true)
	if err != nil || !dry.DryRun || dry.Change != "created" {
		t.Fatalf("dry run: %+v, %v", dry, err)
	}
	if all, err := w.client.Jobs(ctx); err != nil || len(all) != 0 {
		t.Fatalf("a dry run changed something: %v, %v", all, err)
	}
	if a := w.apply(job); a.Change != "created" || a.NextDue.Sub(a.Next) != 5*time.Minute {
		t.Errorf("applied: %+v", a)
	}
	st, err := w.client.Job(ctx, "pageviews-hourly")
	if err != nil || st.Text != job || st.By != "ann" || st.State != "active" {
		t.Errorf("job: %+v, %v", st, err)
	}
	if st, err = w.client.Pause(ctx, "pageviews-hourly", "move"); err != nil || st.State != "paused" || st.Reason != "move, by ann" {
		t.Errorf("pause: %+v, %v", st, err)
	}
	if r, err := w.client.Resume(ctx, "pageviews-hourly", true); err != nil || r.Say != "no tick was missed" {
		t.Errorf("resume, dry: %+v, %v", r, err)
	}
	if st, err = w.client.Job(ctx, "pageviews-hourly"); err != nil || st.State != "paused" {
		t.Errorf("a dry run changed something: %+v, %v", st, err)
	}
	if r, err := w.client.Resume(ctx, "pageviews-hourly", false); err != nil || r.Say != "no tick was missed" {
		t.Errorf("resume: %+v, %v", r, err)
	}
	if ticks, err := w.client.Next(ctx, "pageviews-hourly", 3); err != nil || len(ticks) != 3 || ticks[2].Tick.Sub(ticks[0].Tick) != 2*time.Hour {
		t.Errorf("next: %v, %v", ticks, err)
	}
	if text, err := w.client.Explain(ctx, "pageviews-hourly"); err != nil || !strings.Contains(string(text), "catchup: missing # default") {
		t.Errorf("explain: %s, %v", text, err)
	}
	if plans, err := w.client.Plan(ctx, "pageviews-hourly", Trigger{}); err != nil || len(plans) != 1 || plans[0].Preview.Rows != 7 {
		t.Errorf("plan: %+v, %v", plans, err)
	}
	var h HourList
	if _, text := w.do("GET", "/api/v1/jobs/pageviews-hourly/hours", "", nil); json.Unmarshal([]byte(text), &h) != nil || len(h.Grids) != 1 || len(h.Grids[0].Hours) != 72 {
		t.Errorf("hours: %s", text)
	}
	if err := w.client.Delete(ctx, "pageviews-hourly"); err != nil {
		t.Error(err)
	}
	if all, err := w.client.Jobs(ctx); err != nil || len(all) != 0 {
		t.Errorf("after delete: %v, %v", all, err)
	}
}

func TestRunsOverHTTP(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.apply(job)
	w.apply(strings.ReplaceAll(job, "pageviews", "bad"))
	runs, err := w.client.Trigger(ctx, "pageviews-hourly", Trigger{})
	if err != nil || len(runs) != 1 || runs[0].By != "ann" {
		t.Fatal(runs, err)
	}
	w.gate <- struct{}{}
	var seen []string
	r, err := w.client.Wait(ctx, runs[0].Run, func(ev jobs.Event) { seen = append(seen, ev.Kind+" "+ev.Status) })
	if err != nil || r.Status != jobs.Committed || r.Rows != 5 || r.Ledger == nil {
		t.Errorf("waited: %+v, %v (%v)", r, err, seen)
	}
	if d, err := w.client.RunDetail(ctx, r.Run); err != nil || d.Rows != 5 || d.Splits[0].Index != 3 || d.Planned.Kind != loader.Load || len(d.Planned.Splits) != 0 || d.Commit.Files[0].Path != "dt=1/a.parquet" || len(d.Attempts) != 1 {
		t.Errorf("detail: %+v, %v", d, err)
	}
	if list, err := w.client.Runs(ctx, jobs.RunFilter{Job: "pageviews-hourly", Status: jobs.Committed}); err != nil || len(list) != 1 {
		t.Errorf("list: %v, %v", list, err)
	}
	var report struct{ Dataset string }
	if err := w.client.VerifyRun(ctx, r.Run, &report); err != nil || report.Dataset != "pageviews-hourly" {
		t.Errorf("verify: %+v, %v", report, err)
	}
	w.exit(w.client.Rerun(ctx, r.Run, &report), CodeUnavailable, 6, "rerun is not available on this server")
	_, err = w.client.Retry(ctx, r.Run, Retry{})
	w.exit(err, CodeConflict, 4, "nothing to retry")

	runs, err = w.client.Trigger(ctx, "bad-hourly", Trigger{})
	if err != nil {
		t.Fatal(err)
	}
	w.gate <- struct{}{}
	if r, err = w.client.Wait(ctx, runs[0].Run, nil); err != nil || r.Status != jobs.Partial || r.Exit != 7 {
		t.Errorf("bad records: %+v, %v", r, err)
	}
	w.gate <- struct{}{}
	if _, err := w.client.Retry(ctx, r.Run, Retry{AcceptBad: true}); err != nil {
		t.Fatal(err)
	}
	if r, err = w.client.Wait(ctx, r.Run, nil); err != nil || r.Status != jobs.Committed {
		t.Errorf("accepted: %+v, %v", r, err)
	}

	if runs, err = w.client.Trigger(ctx, "bad-hourly", Trigger{}); err != nil {
		t.Fatal(err)
	}
	if r, err = w.client.Cancel(ctx, runs[0].Run); err != nil || r.Status != jobs.Cancelled || r.Reason != "cancelled by ann" {
		t.Errorf("cancelled: %+v, %v", r, err)
	}
}

func TestBackfillsOverHTTP(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.apply(job)
	ask := Backfill{Job: "pageviews-hourly", From: "-5h", To: "now", Only: "all", Order: "newest"}
	b, err := w.client.Backfill(ctx, ask)
	if err != nil || b.ID == "" || b.Status != jobs.BackfillRunning || b.By != "ann" || *b.Items[0].Record != 5 {
		t.Fatalf("made: %+v, %v", b, err)
	}
	_, err = w.client.Backfill(ctx, ask)
	w.exit(err, CodeConflict, 4, "sawlog backfill get "+b.ID)
	if p, err := w.client.SteerBackfill(ctx, b.ID, jobs.SteerPause); err != nil || p.Status != jobs.BackfillPaused || p.ChangedBy != "ann" {
		t.Errorf("paused: %+v, %v", p, err)
	}
	_, err = w.client.SteerBackfill(ctx, b.ID, jobs.SteerPause)
	w.exit(err, CodeConflict, 4, "is paused: it cannot be paused")
	if p, err := w.client.SteerBackfill(ctx, b.ID, jobs.SteerResume); err != nil || p.Status != jobs.BackfillRunning {
		t.Errorf("resumed: %+v, %v", p, err)
	}
	w.gate <- struct{}{}
	w.gate <- struct{}{}
	for _, it := range b.Items {
		for {
			_, err := w.client.Run(ctx, it.Run)
			if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeNotFound {
				time.Sleep(10 * time.Millisecond) // the run before it has to end
				continue
			}
			if r, err := w.client.Wait(ctx, it.Run, nil); err != nil || r.Status != jobs.Committed || r.Backfill != b.ID {
				t.Errorf("run %+v, %v", r, err)
			}
			break
		}
	}
	for {
		if b, err = w.client.GetBackfill(ctx, b.ID); err != nil || !b.Open() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil || b.Status != jobs.BackfillCompleted || b.Counts[jobs.Committed] != 2 || b.Rows != 10 {
		t.Errorf("ended: %+v, %v", b, err)
	}
	_, err = w.client.SteerBackfill(ctx, b.ID, jobs.SteerRetry)
	w.exit(err, CodeConflict, 4, "no item of it failed")
	if list, err := w.client.Backfills(ctx, "pageviews-hourly"); err != nil || len(list) != 1 || list[0].Items != nil || list[0].Total != 2 {
		t.Errorf("list: %+v, %v", list, err)
	}
	_, err = w.client.Backfills(ctx, "none")
	w.exit(err, CodeNotFound, 3, `no job "none"`)
	_, err = w.client.GetBackfill(ctx, "none")
	w.exit(err, CodeNotFound, 3, "sawlog backfill list")
}

func TestErrorsOverHTTP(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	_, err := w.client.Job(ctx, "none")
	w.exit(err, CodeNotFound, 3, `no job "none"`)
	_, err = w.client.Run(ctx, "none")
	w.exit(err, CodeNotFound, 3, "no run")
	_, err = w.client.Apply(ctx, []byte(job+"shedule: 1\n"), "a.yaml", false)
	w.exit(err, CodeInvalid, 2, "a.yaml:5:1: shedule: unknown key; did you mean schedule?")
	if e, ok := errors.AsType[*Error](err); !ok || len(e.Problems) != 1 || e.Problems[0].Line != 5 {
		t.Errorf("problems: %#v", e)
	}
	w.apply(job)
	_, err = w.client.Apply(ctx, []byte(strings.Replace(job, "hourly", "daily", 1)), "b.yaml", false)
	w.exit(err, CodeConflict, 4, "choose another output.root")
	_, err = w.client.Trigger(ctx, "pageviews-hourly", Trigger{From: "2026-11-29"})
	w.exit(err, CodeInvalid, 2, "a window needs from and to")
	_, err = w.client.Backfill(ctx, Backfill{Job: "pageviews-hourly", From: "yesterday", To: "now"})
	w.exit(err, CodeInvalid, 2, `"yesterday" is no time`)
	_, err = w.client.Backfill(ctx, Backfill{Job: "pageviews-hourly", From: "-5h", To: "now", Only: "some"})
	w.exit(err, CodeInvalid, 2, "want missing, failed or all")
	all, err := w.client.Backfill(ctx, Backfill{Job: "pageviews-hourly", From: "-5h", To: "now", Only: "all", DryRun: true})
	if err != nil || all.Total != 2 || *all.Items[1].Record != 5 || all.Items[1].Action != "supersede" || all.Rows != 42 || all.Items[0].Window.Files != 2 {
		t.Errorf("backfill of all: %+v, %v", all, err)
	}
	_, err = w.client.Again(ctx, "none", AgainAsk{})
	w.exit(err, CodeNotFound, 3, `no run "none"`)
	found := &loader.VerifyReport{}
	w.exit(w.client.VerifyDataset(ctx, "pageviews-hourly", found), CodeMismatch, 8, "rerun it")
	if len(found.Problems) != 2 || found.Problems[1].Path != "part-1" || found.Rows != 1<<53+1 {
		t.Errorf("the report beside the error: %+v", found)
	}
	_, err = w.client.Dataset(ctx, "none")
	w.exit(err, CodeNotFound, 3, "no job of this server writes a data set none")
	if _, text := w.do("GET", "/api/v1/datasets", "", nil); !strings.Contains(text, `{"dataset":"pageviews-hourly","job":"pageviews-hourly"`) {
		t.Errorf("datasets: %s", text)
	}
	if d, err := w.client.Dataset(ctx, "pageviews-hourly"); err != nil || d.Ledger != -1 || d.Root != "file:///w/pageviews" {
		t.Errorf("dataset: %+v, %v", d, err)
	}
	_, err = w.client.Apply(ctx, []byte(strings.Repeat("#", bodyLimit+1)), "big.yaml", false)
	w.exit(err, CodeInvalid, 2, "longer than 1 MiB")
	w.journal.mu.Lock()
	w.journal.dead = true
	w.journal.mu.Unlock()
	_, err = w.client.Pause(ctx, "pageviews-hourly", "")
	w.exit(err, CodeUnavailable, 6, "look before asking again")

	gone, err := NewClient("http://127.0.0.1:1", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = gone.Jobs(ctx)
	w.exit(err, CodeUnavailable, 6, "sawlog serve")
	_, err = NewClient("localhost:8088", "")
	w.exit(err, CodeInvalid, 2, "want http://HOST:PORT")
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	foreign, err := NewClient(other.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = foreign.Jobs(ctx)
	w.exit(err, CodeFailed, 1, "is that address a sawlog server?")
}

func (w *world) do(method, path, body string, header map[string]string) (*http.Response, string) {
	w.t.Helper()
	req, err := http.NewRequest(method, w.web.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for k, v := range header {
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(text)
}

func TestForeignPagesAreKeptOut(t *testing.T) {
	w := newWorld(t)
	w.apply(job)
	const pause = "/api/v1/jobs/pageviews-hourly/pause"
	tests := []struct {
		name, method, path string
		header             map[string]string
		status             int
	}{
		{"a tool", "POST", pause, nil, 200},
		{"our own page", "POST", pause, map[string]string{"Sec-Fetch-Site": "same-origin"}, 200},
		{"a foreign page", "POST", pause, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"a foreign page, by origin", "POST", pause, map[string]string{"Origin": "http://evil.example"}, 403},
		{"a page beside it", "DELETE", "/api/v1/jobs/pageviews-hourly", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{"reading is no write", "GET", "/api/v1/jobs", map[string]string{"Sec-Fetch-Site": "cross-site"}, 200},
		{"a rebound name", "GET", "/api/v1/jobs", map[string]string{"Host": "evil.example:8088"}, 403},
		{"localhost", "GET", "/api/v1/jobs", map[string]string{"Host": "localhost:8088"}, 200},
		{"IPv6 loopback", "GET", "/api/v1/jobs", map[string]string{"Host": "[::1]:8088"}, 200},
		{"wrong method", "PUT", pause, nil, 404},
	}
	for _, tt := range tests {
		resp, text := w.do(tt.method, tt.path, "", tt.header)
		if resp.StatusCode != tt.status {
			t.Errorf("%s: %d, want %d: %s", tt.name, resp.StatusCode, tt.status, text)
		}
		var e Error
		if tt.status >= 400 && (json.Unmarshal([]byte(text), &e) != nil || e.Code == "" || e.Message == "") {
			t.Errorf("%s: the error is no {code, message}: %s", tt.name, text)
		}
		if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", tt.name, csp)
		}
	}
}

func TestHealthMetricsAndCluster(t *testing.T) {
	w := newWorld(t)
	w.apply(job)
	if _, text := w.do("GET", "/livez", "", nil); text != "ok\n" {
		t.Errorf("livez: %s", text)
	}
	if _, text := w.do("GET", "/readyz?verbose", "", nil); text != "[+] broker ok\nok\n" {
		t.Errorf("readyz: %s", text)
	}
	w.tickets = []Ticket{{Service: "nn1", Principal: "load@EX", End: time.Unix(1_900_000_000, 0)}, {Service: "nn2", Principal: "load@EX", Err: errors.New("the key is old")}}
	if resp, text := w.do("GET", "/readyz?verbose", "", nil); resp.StatusCode != 200 || text != "[+] broker ok\n[+] login for nn1 ok: load@EX, ticket until 2030-03-17T17:46:40Z\n[!] login for nn2: the key is old\nok\n" {
		t.Errorf("readyz with tickets: %d %s", resp.StatusCode, text)
	}
	w.ready = errors.New("no controller")
	if resp, text := w.do("GET", "/readyz", "", nil); resp.StatusCode != 503 || !strings.HasPrefix(text, "[-] broker: no controller\n") || !strings.HasSuffix(text, "\nnot ready\n") {
		t.Errorf("not ready: %d %s", resp.StatusCode, text)
	}
	_, text := w.do("GET", "/metrics", "", nil)
	for _, line := range []string{
		`sawlog_kerberos_login_ok{principal="load@EX",service="nn1"} 1`, `sawlog_kerberos_login_ok{principal="load@EX",service="nn2"} 0`,
		`sawlog_kerberos_ticket_expires_timestamp_seconds{principal="load@EX",service="nn1"} 1.9e+09`,
		"sawlog_requests_total 77", "sawlog_log_bytes 4096", `sawlog_job_paused{name="pageviews-hourly"} 0`,
		`kafka_topic_partition_current_offset{partition="2",topic="pageviews"} 42`,
		`kafka_topic_partition_oldest_offset{partition="2",topic="pageviews"} 10`,
		`kafka_consumergroup_lag{consumergroup="g",partition="2",topic="pageviews"} 12`,
		`kafka_consumergroup_current_offset{consumergroup="g",partition="2",topic="pageviews"} 30`,
		`kafka_consumergroup_lag_sum{consumergroup="g",topic="pageviews"} 12`, `kafka_consumergroup_current_offset_sum{consumergroup="g",topic="pageviews"} 30`,
		`kafka_consumergroup_members{consumergroup="g"} 1`, `kafka_topic_partitions{topic="pageviews"} 1`, "kafka_brokers 1",
		`kafka_topic_partition_replicas{partition="2",topic="pageviews"} 2`, `kafka_topic_partition_in_sync_replica{partition="2",topic="pageviews"} 1`,
		`kafka_topic_partition_under_replicated_partition{partition="2",topic="pageviews"} 1`, `kafka_topic_partition_leader{partition="2",topic="pageviews"} 1`,
		`kafka_topic_partition_leader_is_preferred{partition="2",topic="pageviews"} 1`, "sawlog_metrics_left_out_series 0", "sawlog_metrics_groups_untold 0",
		`sawlog_build_info{version="9.9"} 1`, "sawlog_scheduler_running 1", `sawlog_job_trouble{name="pageviews-hourly"} 0`,
		"sawlog_active_controller 0", "sawlog_broker_fenced 1", "sawlog_metadata_term 5", "sawlog_partitions_under_replicated 3",
		"sawlog_isr_shrinks_total 4", "sawlog_takeover_seconds_total 0.25", `sawlog_follower_lag_records{broker="2"} 9`,
		"go_goroutines ",
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("metrics lack %q", line)
		}
	}
	for path, word := range map[string]string{
		"/api/v1/cluster": `"controller":1`, "/api/v1/topics": `"topic":"pageviews"`, "/api/v1/topics/pageviews": `"high_watermark":42`,
		"/api/v1/groups": `"group":"g"`, "/api/v1/groups/g": `"lag":12`, "/api/v1/version": `"9.9"`, "/debug/pprof/cmdline": "",
	} {
		if resp, text := w.do("GET", path, "", nil); resp.StatusCode != 200 && word != "" || !strings.Contains(text, word) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	if resp, _ := w.do("GET", "/api/v1/topics/none", "", nil); resp.StatusCode != 404 {
		t.Errorf("no such topic: %d", resp.StatusCode)
	}
	if resp, _ := w.do("GET", "/api/v1/nonsense", "", nil); resp.StatusCode != 404 {
		t.Errorf("no such resource: %d", resp.StatusCode)
	}
}

func TestEventsKeepToOneJob(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.apply(job)
	w.apply(strings.ReplaceAll(job, "pageviews", "other"))
	var got []jobs.Event
	err := w.client.watch(ctx, "other-hourly", func() bool {
		for _, name := range []string{"pageviews-hourly", "other-hourly"} {
			if _, err := w.client.Pause(ctx, name, ""); err != nil {
				t.Error(err)
			}
		}
		return true
	}, func(ev jobs.Event) bool { got = append(got, ev); return false })
	if err != nil || len(got) != 1 || got[0].Job != "other-hourly" || got[0].Status != "paused" || got[0].ID == 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func (runner) Release(context.Context, *jobs.Spec, []string) error { return nil }

// TestClientAsksAgain: a server that can't yet, and has done nothing, is asked
// again; one that broke off is not.
func TestClientAsksAgain(t *testing.T) {
	asked := 0
	answers := []*Error{
		{Status: http.StatusServiceUnavailable, Code: CodeUnavailable, Message: "not yet"},
		{Status: http.StatusBadGateway, Code: CodeUnavailable, Message: "broke off"},
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		Refuse(w, answers[min(asked, 1)])
		asked++
	}))
	defer web.Close()
	c, err := NewClient(web.URL, "me")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Pause(t.Context(), "j", ""); err == nil || err.Error() != "broke off" || asked != 2 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	starting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked > 3 {
			reply(w, http.StatusOK, JobList{Jobs: []jobs.Status{{Name: "j"}}})
			return
		}
		w.Header().Set("Retry-After", "1")
		say(w, http.StatusServiceUnavailable, "[-] broker: it starts\nnot ready\n")
	}))
	defer starting.Close()
	if c, err = NewClient(starting.URL, "me"); err != nil {
		t.Fatal(err)
	}
	if list, err := c.Jobs(t.Context()); err != nil || len(list) != 1 || asked != 4 {
		t.Errorf("a server that starts: asked %d times in all: %v, %v", asked, list, err)
	}
}

// TestElsewhere: without a scheduler what needs one is answered by another
// handler, and the rest by this one.
func TestElsewhere(t *testing.T) {
	there := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { say(w, http.StatusTeapot, r.URL.Path) })
	h := New(Config{Elsewhere: there, Console: there})
	for path, want := range map[string]int{
		"/api/v1/jobs": 418, "/api/v1/jobs/j/pause": 418, "/api/v1/backfills": 418, "/api/v1/runs": 418, "/api/v1/runs/r": 418,
		"/api/v1/datasets/d": 418, "/api/v1/events": 418, "/console/": 418, "/livez": 200, "/metrics": 200, "/api/v1/version": 200,
		"/api/v1/nothing": 404, "/api/v1/topics": 501,
	} {
		if w := sent(h, http.MethodGet, path, ""); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

// TestPages: a list comes in pages that together are the list, whatever ends
// them, and goes on behind an entry that is gone.
func TestPages(t *testing.T) {
	var list []string
	for i := range 450 {
		list = append(list, fmt.Sprintf("%03d", i))
	}
	key := func(s *string) string { return (*s)[:3] }
	read := func(list []string, sorted bool, limit string) (all []string, pages int) {
		query := url.Values{}
		if limit != "" {
			query.Set("limit", limit)
		}
		for {
			part, next, err := page(query, list, sorted, key)
			if err != nil {
				t.Fatal(err)
			}
			all, pages = append(all, part...), pages+1
			if next == "" {
				return all, pages
			}
			query.Set("after", next)
		}
	}
	for limit, want := range map[string]int{"": 3, "1": 450, "449": 2, "450": 1, "1000": 1} {
		if all, n := read(list, true, limit); !slices.Equal(all, list) || n != want {
			t.Errorf("limit %q: %d entries in %d pages, want %d", limit, len(all), n, want)
		}
	}
	long := slices.Clone(list[:10])
	for i := range long {
		long[i] += strings.Repeat("x", pageLength/3)
	}
	if all, n := read(long, false, ""); !slices.Equal(all, long) || n != 5 {
		t.Errorf("long entries: %d in %d pages", len(all), n)
	}
	if part, _, err := page(url.Values{"after": {"0071"}}, list, true, key); err != nil || part[0] != "008" {
		t.Errorf("behind what is gone: %v, %v", part, err)
	}
	if _, _, err := page(url.Values{"after": {"gone"}}, list, false, key); asError(err).Code != CodeConflict {
		t.Errorf("behind what is gone, out of order: %v", err)
	}
	if part, next, err := page(url.Values{"after": {"999"}}, list, true, key); err != nil || len(part) != 0 || next != "" {
		t.Errorf("behind the end: %v, %q, %v", part, next, err)
	}
}

// TestSeriesAreBounded: a cluster with more partitions and groups than one answer
// holds has them counted.
func TestSeriesAreBounded(t *testing.T) {
	huge := hugeCluster{}
	for i := range 3000 {
		topic := Topic{Name: fmt.Sprintf("t%04d", i), Partitions: make([]Partition, 10)}
		huge.topics = append(huge.topics, topic)
		g := Group{Name: topic.Name}
		for p := range int32(10) {
			g.Offsets = append(g.Offsets, GroupOffset{Topic: topic.Name, Partition: p})
			topic.Partitions[p].Index = p
		}
		huge.groups = append(huge.groups, g)
	}
	w := sent(New(Config{Cluster: huge}), "GET", "/metrics", "")
	lines := strings.Count(w.Body.String(), "\nkafka_")
	left := 0
	for line := range strings.SplitSeq(w.Body.String(), "\n") {
		if rest, ok := strings.CutPrefix(line, "sawlog_metrics_left_out_series "); ok {
			if _, err := fmt.Sscan(rest, &left); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := 3000 * (1 + seriesOfPartition*10 + 1 + 2 + seriesOfOffset*10)
	if w.Code != 200 || lines != seriesMost || left != all-seriesMost {
		t.Errorf("%d: %d series, %d left out, of %d", w.Code, lines, left, all)
	}
}

type hugeCluster struct {
	topics []Topic
	groups []Group
	untold error // of some brokers
}

func (hugeCluster) Info(context.Context) (*ClusterInfo, error) {
	return nil, errors.New("not now")
}
func (h hugeCluster) Topics(context.Context) ([]Topic, error)       { return h.topics, nil }
func (h hugeCluster) Groups(context.Context, bool) ([]Group, error) { return h.groups, h.untold }

// TestSeriesOfOddGroups: a group's name may be any bytes; one that is no UTF-8
// must not end the scrape, and the groups behind it be gone.
func TestSeriesOfOddGroups(t *testing.T) {
	odd := hugeCluster{groups: []Group{
		{Name: "\x00\xff", Members: 3, Offsets: []GroupOffset{{Topic: "a", Committed: 1, Lag: 2}}},
		{Name: "ÿ", Members: 4},
	}}
	w := sent(New(Config{Cluster: odd}), "GET", "/metrics", "")
	for _, line := range []string{
		`kafka_consumergroup_members{consumergroup="\"\\x00\\xff\""} 3`, `kafka_consumergroup_lag{consumergroup="\"\\x00\\xff\"",partition="0",topic="a"} 2`,
		`kafka_consumergroup_lag_sum{consumergroup="\"\\x00\\xff\"",topic="a"} 2`, `kafka_consumergroup_members{consumergroup="ÿ"} 4`,
	} {
		if w.Code != 200 || !strings.Contains(w.Body.String(), "\n"+line+"\n") {
			t.Errorf("%d: no %s", w.Code, line)
		}
	}
}
