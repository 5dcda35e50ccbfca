package console

import (
	"context"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sawlog/jobs"
)

// overviewBody is the page of all jobs.
type overviewBody struct {
	Rows    []jobRow
	Axis    template.HTML
	Span    string
	Spans   []choice
	Query   string
	Shown   int
	Total   int
	Counts  map[string]int // jobs by state
	Trouble int            // data sets with failed or missing hours
	States  any
	Example string
}

// choice is one of several links, of which one is chosen.
type choice struct {
	Name, Href string
	Chosen     bool
}

// jobRow is one job of the overview.
type jobRow struct {
	jobs.Status
	Icon   string // ok | paused | broken | stale | failed | running
	Says   string
	NextIn string
	Sets   []setRow
}

// setRow is one data set of a job.
type setRow struct {
	Name  string
	Strip template.HTML
	Rows  int64
	Error string
}

// exampleJob is what the empty page proposes.
const exampleJob = `name: pageviews-hourly
source: {topics: [pageviews]}
schedule: {every: 1h, delay: 5m}
time: {field: ts, format: rfc3339}
output: {root: file:///var/lib/sawlog/warehouse/pageviews}`

// viewers bounds how many ledgers are read at a time for one page.
const viewers = 8

func (k *console) overview(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	now := k.Now().UTC()
	span := query.Get("span")
	back, ok := map[string]time.Duration{"24h": 24 * time.Hour, "72h": 72 * time.Hour, "7d": 7 * 24 * time.Hour}[span]
	if !ok {
		span, back = "72h", 72*time.Hour
	}
	to := now.Truncate(time.Hour).Add(time.Hour)
	from := to.Add(-back)
	body := overviewBody{Span: span, Query: query.Get("q"), States: states, Example: exampleJob, Counts: map[string]int{}}
	for _, name := range []string{"24h", "72h", "7d"} {
		body.Spans = append(body.Spans, choice{Name: name, Href: "?" + keep(query, "span", name), Chosen: name == span})
	}
	all := k.Jobs.List()
	body.Total = len(all)
	for _, st := range all {
		body.Counts[st.State]++
		if body.Query != "" && !strings.Contains(strings.ToLower(st.Name+" "+st.Source), strings.ToLower(body.Query)) {
			continue
		}
		body.Rows = append(body.Rows, rowOf(st, now))
	}
	body.Shown = len(body.Rows)
	k.fillStrips(r.Context(), &body, from, to)
	k.show(w, http.StatusOK, "overview.html", page{Title: "Overview", Nav: "overview", Body: body})
}

// keep is the query with one key changed.
func keep(query url.Values, key, value string) string {
	q := url.Values{}
	for k, v := range query {
		q[k] = slices.Clone(v)
	}
	q.Set(key, value)
	return q.Encode()
}

// rowOf says how a job stands.
func rowOf(st jobs.Status, now time.Time) jobRow {
	row := jobRow{Status: st, Icon: "ok", Says: st.State}
	switch {
	case st.State == "broken":
		row.Icon = "broken"
	case st.Last != nil && (st.Last.Status == jobs.Failed || st.Last.Status == jobs.Partial):
		row.Icon, row.Says = "failed", "last run "+st.Last.Status
	case st.Stale:
		row.Icon, row.Says = "stale", "stale"
	case st.State == "paused":
		row.Icon = "paused"
	case st.Open > 0:
		row.Icon, row.Says = "running", strconv.Itoa(st.Open)+" open runs"
		if st.Open == 1 {
			row.Says = "1 open run"
		}
	}
	if !st.NextDue.IsZero() {
		row.NextIn = distance(st.NextDue, now)
	}
	return row
}

// fillStrips reads the grids of all rows, several at a time.
func (k *console) fillStrips(ctx context.Context, body *overviewBody, from, to time.Time) {
	grids := make([][]jobs.Grid, len(body.Rows))
	errs := make([]error, len(body.Rows))
	var wg sync.WaitGroup
	room := make(chan struct{}, viewers)
	for i := range body.Rows {
		if body.Rows[i].State == "broken" {
			continue
		}
		wg.Add(1)
		room <- struct{}{}
		go func() {
			defer wg.Done()
			grids[i], errs[i] = k.Jobs.Hours(ctx, body.Rows[i].Name, k.reach(body.Rows[i].Name, from, to), to)
			<-room
		}()
	}
	wg.Wait()
	for i := range body.Rows {
		row := &body.Rows[i]
		if errs[i] != nil {
			row.Sets = append(row.Sets, setRow{Name: row.Name, Error: errs[i].Error()})
			continue
		}
		for _, g := range grids[i] {
			set := setRow{Name: g.Dataset, Error: g.Error, Strip: strip(&g, g.Dataset)}
			if g.Topic != "" {
				set.Name = g.Topic
			}
			troubled := false
			for _, h := range g.Hours {
				set.Rows += h.Rows
				troubled = troubled || h.State == jobs.HourFailed
			}
			if troubled {
				body.Trouble++
			}
			row.Sets = append(row.Sets, set)
			if body.Axis == "" && g.Unit == "hour" {
				body.Axis = axis(g.Hours, g.Unit)
			}
		}
	}
}

// daysBack is how many days the strip of a job with daily folders shows at least.
const daysBack = 30

// reach is the start of a job's strip.
func (k *console) reach(name string, from, to time.Time) time.Time {
	if spec, err := k.Jobs.Spec(name); err == nil && spec.PartitionBy.Unit == "day" && to.Sub(from) < daysBack*24*time.Hour {
		return to.AddDate(0, 0, -daysBack)
	}
	return from
}

// jobBody is the page of one job.
type jobBody struct {
	jobRow
	Days   int
	Spans  []choice
	Maps   []mapOf
	Runs   []runLine
	States any
	Lines  []string // command lines
}

// mapOf is the map of one data set.
type mapOf struct {
	jobs.Grid
	SVG   template.HTML
	Says  string
	Total int64
}

// runLine is one line of a table of runs.
type runLine struct {
	*jobs.Run
	When string
	Took string
}

func (k *console) job(w http.ResponseWriter, r *http.Request) {
	st, err := k.Jobs.Get(r.PathValue("job"))
	if err != nil {
		k.missing(w, err)
		return
	}
	now := k.Now().UTC()
	days, err := strconv.Atoi(r.URL.Query().Get("days"))
	if err != nil || days < 1 || days > 366 {
		days = 14
	}
	body := jobBody{jobRow: rowOf(st, now), Days: days, States: states}
	for _, n := range []int{3, 14, 30, 90} {
		name := strconv.Itoa(n)
		body.Spans = append(body.Spans, choice{Name: name + " days", Href: "?" + keep(r.URL.Query(), "days", name), Chosen: n == days})
	}
	to := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	if st.State != "broken" {
		grids, err := k.Jobs.Hours(r.Context(), st.Name, to.AddDate(0, 0, -days), to)
		if err != nil {
			k.missing(w, err)
			return
		}
		for _, g := range grids {
			m := mapOf{Grid: g, Says: summary(g.Hours)}
			for _, h := range g.Hours {
				m.Total += h.Rows
			}
			if g.Unit == "hour" {
				m.SVG = dayMap(&g)
			} else {
				m.SVG = strip(&g, g.Dataset)
			}
			body.Maps = append(body.Maps, m)
		}
	}
	for _, run := range k.Jobs.Runs(jobs.RunFilter{Job: st.Name, Limit: 30}) {
		body.Runs = append(body.Runs, lineOf(run, now))
	}
	name := shell(st.Name)
	body.Lines = []string{"sawlog run " + name + " --wait", "sawlog plan " + name}
	if body.Schedule != "on request" {
		body.Lines = append(body.Lines, "sawlog backfill "+name+" --from "+now.AddDate(0, 0, -1).Format(time.DateOnly)+" --to "+now.Format(time.DateOnly)+" --only missing")
	}
	body.Lines = append(body.Lines, "sawlog verify "+name)
	k.show(w, http.StatusOK, "job.html", page{Title: st.Name, Nav: "jobs", Watch: st.Name, Body: body})
}

func lineOf(run *jobs.Run, now time.Time) runLine {
	line := runLine{Run: run, When: distance(run.Queued, now)}
	switch {
	case run.Status == jobs.Running:
		line.Took = duration(now.Sub(run.Started))
	case !run.Ended.IsZero() && !run.Started.IsZero():
		line.Took = duration(run.Ended.Sub(run.Started))
	}
	return line
}

// runBody is the page of one run.
type runBody struct {
	runLine
	Stage   []stage
	JSON    string
	Lines   []string
	Offsets int64
	Open    bool
	Retry   bool
}

// stage is a stretch of a run with its share of the whole, for the bar.
type stage struct {
	jobs.Phase
	X, W float64
	Took string
}

func (k *console) run(w http.ResponseWriter, r *http.Request) {
	run, err := k.Jobs.Run(r.PathValue("run"))
	if err != nil {
		k.missing(w, err)
		return
	}
	body := runBody{runLine: lineOf(run, k.Now().UTC()), Open: run.Open(), Retry: !run.Open() && !run.Good()}
	var total int64
	for _, p := range run.Phases {
		total += p.MS
	}
	x := 0.0
	for _, p := range run.Phases {
		width := 0.0
		if total > 0 {
			width = float64(p.MS) / float64(total) * stripWidth
		}
		body.Stage = append(body.Stage, stage{Phase: p, X: x, W: width, Took: duration(time.Duration(p.MS) * time.Millisecond)})
		x += width
	}
	for _, in := range run.Ranges {
		body.Offsets += int64(in.End - in.Start)
	}
	text, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		k.missing(w, err)
		return
	}
	body.JSON = string(text)
	id := shell(run.Run)
	switch {
	case body.Open:
		body.Lines = []string{"sawlog runs watch " + id, "sawlog runs cancel " + id}
	case body.Retry && run.Status == jobs.Partial:
		body.Lines = []string{"sawlog runs retry " + id + " --accept-bad", "sawlog runs retry " + id}
	case body.Retry:
		body.Lines = []string{"sawlog runs retry " + id}
	default:
		body.Lines = []string{"sawlog rerun " + id, "sawlog verify " + id}
	}
	k.show(w, http.StatusOK, "run.html", page{Title: run.Run, Nav: "jobs", Watch: run.Job, Body: body})
}
