package console

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
)

// journal keeps records in memory.
type journal struct {
	mu      sync.Mutex
	records [][2][]byte
}

func (j *journal) Append(_ context.Context, key, value []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records = append(j.records, [2][]byte{key, value})
	return nil
}

func (j *journal) Replay(context.Context, func(key, value []byte) error) error { return nil }

// runner commits at once, or fails, or never ends, as the name of the job says; every data set has
// the given hours.
type runner struct {
	hours map[int64]jobs.HourFacts
	err   error // of View
}

func (runner) Topics(context.Context, *jobs.Spec) ([]string, error) {
	return []string{"v.a", "v.b"}, nil
}

func (runner) Plan(context.Context, *jobs.Spec, jobs.Set, jobs.Ask) (*jobs.Planned, error) {
	return &jobs.Planned{ID: "0123456789abcdef"}, nil
}

func (runner) Run(ctx context.Context, s *jobs.Spec, _ jobs.Set, p *jobs.Planned, _ jobs.Exec) (*loader.Outcome, error) {
	if strings.HasPrefix(s.Name, "bad") {
		return nil, &loader.Error{Code: loader.ExitPartial, Msg: "7 <bad> records"}
	}
	if strings.HasPrefix(s.Name, "slow") {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if strings.HasPrefix(s.Name, "spoilt") {
		return &loader.Outcome{Status: jobs.Committed, Plan: p.ID, Quarantined: 1207, Number: 3}, nil
	}
	if strings.HasPrefix(s.Name, "drifting") {
		return &loader.Outcome{
			Status: jobs.Committed, Plan: p.ID, Rows: 1, Number: 3,
			Drift:      []loader.Drift{{Column: "user.<id>", Type: "int64", Seen: "string", Records: 12345}},
			NewColumns: []loader.Column{{Name: "referrer", Type: "string"}},
		}, nil
	}
	return &loader.Outcome{
		Status: jobs.Committed, Plan: p.ID, Rows: 1234567, Number: 3,
		Ranges: []loader.OutcomeRange{{Topic: "pageviews", Start: 0, End: 1234567, Account: loader.Account{Data: 1234567}}},
		Hours:  []loader.OutcomeHour{{Hour: "2026-11-29T13:00:00Z", Rows: 1234567}},
	}, nil
}

func (runner) Committed(context.Context, *jobs.Spec, jobs.Set, string) (*loader.Outcome, error) {
	return nil, nil
}

func (runner) Abandon(context.Context, *jobs.Spec, jobs.Set, string, string, string) error {
	return nil
}

func (r runner) Loads(context.Context, *jobs.Spec, jobs.Set, time.Time, time.Time) ([]int64, error) {
	return nil, nil
}

func (r runner) View(context.Context, *jobs.Spec, jobs.Set) (*jobs.View, error) {
	return &jobs.View{Head: 3, Hours: r.hours}, r.err
}

var noon = time.Date(2026, 11, 29, 14, 30, 0, 0, time.UTC)

// site is a console over a scheduler.
func site(t *testing.T, r runner) (*jobs.Scheduler, *httptest.Server) {
	t.Helper()
	s, err := jobs.Open(context.Background(), jobs.Config{Journal: &journal{}, Runner: r, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(New(Config{Jobs: s, Version: "test", Now: func() time.Time { return noon }}))
	t.Cleanup(func() {
		web.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, web
}

func apply(t *testing.T, s *jobs.Scheduler, text string) {
	t.Helper()
	if _, err := s.Apply(context.Background(), []byte(text), "job.yaml", "ann", false); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, web *httptest.Server, path string, status int) string {
	t.Helper()
	resp, err := http.Get(web.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status {
		t.Fatalf("%s: status %d, want %d:\n%s", path, resp.StatusCode, status, text)
	}
	return string(text)
}

func want(t *testing.T, page string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(page, w) {
			t.Errorf("the page lacks %q", w)
		}
	}
}

// ended runs a job and waits for its end.
func ended(t *testing.T, s *jobs.Scheduler, job string) *jobs.Run {
	t.Helper()
	feed, cancel := s.Subscribe()
	defer cancel()
	runs, err := s.Trigger(context.Background(), jobs.Trigger{Job: job, By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	for range feed {
		if r, err := s.Run(runs[0].Run); err != nil || !r.Open() {
			return r
		}
	}
	t.Fatal("the scheduler closed")
	return nil
}

const job = "name: pageviews-hourly\nsource: {topics: [pageviews]}\noutput: {root: 'file:///w/pageviews'}\nschedule: {every: 1h, delay: 5m}\n"

// Every shape there is: hours 0–11 of today, counted from midnight.
func facts() map[int64]jobs.HourFacts {
	day := noon.Truncate(24 * time.Hour)
	m := map[int64]jobs.HourFacts{}
	for h := range 12 {
		m[day.Add(time.Duration(h)*time.Hour).Unix()] = jobs.HourFacts{Rows: 10, Files: 1, Bytes: 2048, Sealed: h < 10, SealedIn: 2}
	}
	m[day.Add(3*time.Hour).Unix()] = jobs.HourFacts{Rows: 10, Files: 2, Late: 4, Sealed: true, SealedIn: 2}
	return m
}

func TestEmptyConsoleSaysWhatToDo(t *testing.T) {
	_, web := site(t, runner{})
	want(t, get(t, web, "/console/", 200), "No jobs yet", "sawlog job apply", "sawlog demo", "name: pageviews-hourly")
}

// The example on the empty page must be a job that can be applied.
func TestExampleJobApplies(t *testing.T) {
	if _, err := jobs.Parse([]byte(exampleJob), "example.yaml"); err != nil {
		t.Error(err)
	}
}

func TestOverview(t *testing.T) {
	s, web := site(t, runner{hours: facts()})
	apply(t, s, job)
	apply(t, s, "name: views\nsource: {pattern: '^v'}\noutput: {root: 'file:///w/{topic}'}\n")
	page := get(t, web, "/console/?span=24h", 200)
	want(t, page, `<a href="/console/jobs">2</a>`, "pageviews-hourly", "every 1h, 5m after", "no topic matches yet",
		`aria-label="pageviews-hourly: 9 sealed, 1 late, 2 filling, 2 missing, 1 future, 9 before"`,
		`data-cells="---------ssslssssssffmm."`)
	want(t, get(t, web, "/console/jobs?q=nothing-like-it", 200), "No job matches", "Show all 2")
	if page := get(t, web, "/console/jobs?q=view", 200); !strings.Contains(page, "pageviews-hourly") {
		t.Error("the filter takes matches away")
	}
}

func TestJobPage(t *testing.T) {
	s, web := site(t, runner{hours: facts()})
	apply(t, s, job)
	want(t, get(t, web, "/console/jobs/pageviews-hourly", 200), "No run yet", "sawlog run pageviews-hourly --wait")
	r := ended(t, s, "pageviews-hourly")
	page := get(t, web, "/console/jobs/pageviews-hourly?days=3", 200)
	want(t, page, "/console/runs/"+r.Run, "1,234,567", "manual by ann", "Sun 29 Nov 03:00 – late – 10 rows in 2 files, 4 late", `aria-current="true">3 days`)
	if n := strings.Count(page, `class="cell"`); n != 72 {
		t.Errorf("%d cells on a map of 3 days", n)
	}
	get(t, web, "/console/jobs/none", 404)
}

// TestDriftIsShown looks for drift and its way out on the pages of run and job.
func TestDriftIsShown(t *testing.T) {
	s, web := site(t, runner{})
	apply(t, s, strings.ReplaceAll(job, "pageviews-hourly", "drifting"))
	r := ended(t, s, "drifting")
	want(t, get(t, web, "/console/runs/"+r.Run, 200), "Drift", "user.&lt;id&gt;", "int64", "12,345", "sawlog out requeue "+r.Run, "New columns", "referrer")
	want(t, get(t, web, "/console/jobs/drifting", 200), "Drift", "user.&lt;id&gt;", "12,345", "sawlog out rewrite drifting", ">"+r.Run+"</a>")
}

// TestNothingButBadRecords: a last run that committed no row and put records into
// quarantine needs a person, though it did not fail.
func TestNothingButBadRecords(t *testing.T) {
	s, web := site(t, runner{})
	apply(t, s, strings.ReplaceAll(job, "pageviews-hourly", "spoilt"))
	r := ended(t, s, "spoilt")
	want(t, get(t, web, "/console/", 200), "loaded nothing: 1,207 records in quarantine", `<strong class="bad">1</strong>`, "/console/runs/"+r.Run)
	apply(t, s, strings.ReplaceAll(job, "pageviews", "sound"))
	ended(t, s, "sound-hourly")
	if page := get(t, web, "/console/", 200); strings.Count(page, "loaded nothing") != 1 {
		t.Error("a run that loaded rows needs a person")
	}
}

func TestRunPage(t *testing.T) {
	s, web := site(t, runner{})
	apply(t, s, job)
	r := ended(t, s, "pageviews-hourly")
	want(t, get(t, web, "/console/runs/"+r.Run, 200), "committed", "pageviews/0", "sawlog rerun "+r.Run, "/console/runs/"+r.Run+"/verify", "2026-11-29T13:00:00Z")
	apply(t, s, strings.ReplaceAll(job, "pageviews", "bad"))
	r = ended(t, s, "bad-hourly")
	page := get(t, web, "/console/runs/"+r.Run, 200)
	want(t, page, "7 &lt;bad&gt; records", "--accept-bad", "Retry")
	want(t, get(t, web, "/console/runs/"+r.Run+"/retry", 200), "Accept bad records", "7 &lt;bad&gt; records")
	if strings.Contains(page, "<bad>") {
		t.Error("a message is not escaped")
	}
	get(t, web, "/console/runs/none", 404)
	want(t, get(t, web, "/console/nowhere", 404), "there is no page /console/nowhere")
}

// Who has logged in may log out, on every page; else there is nothing to end.
func TestLogOut(t *testing.T) {
	s, web := site(t, runner{})
	if strings.Contains(get(t, web, "/console/", 200), "/logout") {
		t.Error("nobody has logged in")
	}
	web.Config.Handler = New(Config{Jobs: s, Login: true})
	for path, status := range map[string]int{"/console/": 200, "/console/jobs": 200, "/console/none": 404} {
		want(t, get(t, web, path, status), `<form method="post" action="/logout"><button class="plain">Log out</button></form>`)
	}
}

func TestUnreadableLedgerIsSaid(t *testing.T) {
	s, web := site(t, runner{err: errors.New("commit.json: wrong prev")})
	apply(t, s, job)
	want(t, get(t, web, "/console/", 200), "commit.json: wrong prev")
	want(t, get(t, web, "/console/jobs/pageviews-hourly", 200), "commit.json: wrong prev")
}

// Files reach for nothing elsewhere.
func TestFilesAreOwn(t *testing.T) {
	_, web := site(t, runner{})
	for _, file := range []string{"console.css", "others.css", "console.js", "icon.svg"} {
		if text := get(t, web, "/console/static/"+file, 200); strings.Contains(text, "://") && file != "icon.svg" {
			t.Errorf("%s reaches for another site", file)
		}
	}
}

func TestDrawingsAreWellFormed(t *testing.T) {
	var hours []jobs.Hour
	for i, s := range states {
		hours = append(hours, jobs.Hour{Hour: noon.Truncate(24 * time.Hour).Add(time.Duration(i) * time.Hour), State: s.Name, Active: i%2 == 0, Run: fmt.Sprintf("a&b-%d", i), Sealed: -1})
	}
	g := &jobs.Grid{Dataset: `<"&>`, Unit: "hour", Hours: hours}
	seen := map[string]bool{}
	for _, s := range states {
		seen[outline(s.Name, box{0, 0, 10, 16})] = true
	}
	if len(seen) != len(states) {
		t.Errorf("%d states share %d shapes: colour alone would tell them apart", len(states), len(seen))
	}
	for name, drawing := range map[string]string{"strip": string(strip(zone{}, g, g.Dataset)), "map": string((&dayMap{grid: g}).draw()), "axis": string(axis(zone{}, hours, "hour"))} {
		t.Log(name)
		wellFormed(t, drawing)
	}
}

func wellFormed(t *testing.T, drawing string) {
	t.Helper()
	for dec := xml.NewDecoder(strings.NewReader(drawing)); ; {
		if _, err := dec.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%v\n%s", err, drawing)
		}
	}
}

func TestFormats(t *testing.T) {
	for n, s := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := count(n); got != s {
			t.Errorf("count(%d) = %s", n, got)
		}
	}
	for n, s := range map[int64]string{5: "5 B", 2048: "2.00 KiB", 7213444: "6.88 MiB", 300 << 30: "300 GiB"} {
		if got := size(n); got != s {
			t.Errorf("size(%d) = %s", n, got)
		}
	}
	for d, s := range map[time.Duration]string{90 * time.Second: "in 1m", -3 * time.Hour: "3h 0m ago", 72 * time.Hour: "in 3d", -5 * time.Second: "5s ago"} {
		if got := distance(noon.Add(d), noon); got != s {
			t.Errorf("distance(%v) = %s", d, got)
		}
	}
	if got := shell("a b'c"); got != `'a b'\''c'` {
		t.Errorf("shell: %s", got)
	}
}

func (runner) Release(context.Context, *jobs.Spec, []string) error { return nil }
