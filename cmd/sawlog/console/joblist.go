package console

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sawlog/jobs"
)

// jobRow is one job of a list, with the strips of its data sets.
type jobRow struct {
	jobs.Status
	Icon   string // ok | paused | broken | stale | failed | running
	Says   string
	NextIn string
	Sets   []setRow
	More   int // data sets beyond those shown
}

// setRow is one data set of a job.
type setRow struct {
	Name    string
	Dataset string
	Strip   template.HTML
	Error   string    // why its ledger can't be read; a strip is of Known
	Known   time.Time // when its ledger was read last
	Reading bool      // its ledger is read still; a strip is of before
}

// strips is a list of jobs over a span of hours.
type strips struct {
	Rows   []jobRow
	Axis   template.HTML
	Span   string
	Spans  []choice
	States any
	Zones  []choice
}

// jobsBody is the page of all jobs.
type jobsBody struct {
	strips
	Query   string
	Matches int
	Total   int
	Counts  []tally // jobs by state
	Pages   pager
	Example string
}

// tally is how many things are in a state.
type tally struct {
	State string
	N     int
}

// choice is one of several links, of which one is chosen.
type choice struct {
	Name, Href string
	Chosen     bool
}

// exampleJob is what the empty page proposes.
const exampleJob = `name: pageviews-hourly
source: {topics: [pageviews]}
schedule: {every: 1h, delay: 5m}
time: {field: ts, format: rfc3339}
output: {root: file:///var/lib/sawlog/warehouse/pageviews}`

// What one page shows at most.
const (
	jobsOnPage  = 50
	setsInRow   = 4
	viewersOnce = 8 // ledgers read at a time
)

// gridPatience is how long a page waits for all ledgers that must be read for it:
// after a start that is each of them, and each may hold years. The page says which
// are read still, and is drawn again soon.
const gridPatience = 100 * time.Millisecond

func (k *console) jobList(w http.ResponseWriter, r *http.Request) {
	z, err := zoneOf(r)
	if err != nil {
		k.missing(w, err)
		return
	}
	all, now := k.Jobs.List(), k.Now()
	body := jobsBody{Query: r.URL.Query().Get("q"), Total: len(all), Counts: countStates(all), Example: exampleJob}
	found := slices.DeleteFunc(all, func(st jobs.Status) bool {
		return body.Query != "" && !strings.Contains(strings.ToLower(st.Name+" "+st.Source), strings.ToLower(body.Query))
	})
	body.Matches = len(found)
	body.Pages = pages(r, len(found), jobsOnPage)
	for _, st := range found[body.Pages.From:body.Pages.To] {
		body.Rows = append(body.Rows, rowOf(st, now))
	}
	k.fill(r, &body.strips, z)
	k.show(w, http.StatusOK, "jobs.html", page{Title: "Jobs", Nav: "jobs", Zone: z, Body: body})
}

// countStates counts jobs by state, the most frequent first.
func countStates(all []jobs.Status) []tally {
	n := map[string]int{}
	for _, st := range all {
		n[st.State]++
	}
	out := make([]tally, 0, len(n))
	for state, n := range n {
		out = append(out, tally{state, n})
	}
	slices.SortFunc(out, func(a, b tally) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.State, b.State)) })
	return out
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
		row.Icon, row.Says = "running", plural(st.Open, "open run")
	}
	if !st.NextDue.IsZero() {
		row.NextIn = distance(st.NextDue, now)
	}
	return row
}

// spans are the lengths a strip may have.
var spans = []choice{{Name: "24h"}, {Name: "72h"}, {Name: "7d"}}

// fill reads the strips of all rows, several at a time.
func (k *console) fill(r *http.Request, list *strips, z zone) {
	query := r.URL.Query()
	list.States, list.Zones = states, z.choices(query, "")
	length, ok := map[string]time.Duration{"24h": 24 * time.Hour, "72h": 72 * time.Hour, "7d": 7 * 24 * time.Hour}[query.Get("span")]
	list.Span = query.Get("span")
	if !ok {
		list.Span, length = "72h", 72*time.Hour
	}
	for _, s := range spans {
		list.Spans = append(list.Spans, choice{Name: s.Name, Href: "?" + keep(query, "span", s.Name), Chosen: s.Name == list.Span})
	}
	to := k.Now().UTC().Truncate(time.Hour).Add(time.Hour)
	ctx, done := context.WithTimeout(r.Context(), gridPatience)
	defer done()
	var wg sync.WaitGroup
	room := make(chan struct{}, viewersOnce)
	var mu sync.Mutex
	for i := range list.Rows {
		row := &list.Rows[i]
		if row.State == "broken" {
			continue
		}
		wg.Add(1)
		room <- struct{}{}
		go func() {
			defer wg.Done()
			hours, unit := k.rowStrips(ctx, row, to, length, z)
			mu.Lock()
			if list.Axis == "" && unit == "hour" {
				list.Axis = axis(z, hours, unit)
			}
			mu.Unlock()
			<-room
		}()
	}
	wg.Wait()
}

// daysBack is how many days the strip of a job with daily folders shows at least.
const daysBack = 30

// rowStrips draws the strips of one job, and gives the hours of one for the axis.
func (k *console) rowStrips(ctx context.Context, row *jobRow, to time.Time, length time.Duration, z zone) (hours []jobs.Hour, unit string) {
	if spec, err := k.Jobs.Spec(row.Name); err == nil && spec.PartitionBy.Unit == "day" {
		length = max(length, daysBack*24*time.Hour)
	}
	row.More = max(0, len(row.Datasets)-setsInRow)
	for _, set := range row.Datasets[:min(len(row.Datasets), setsInRow)] {
		g, err := k.Jobs.Grid(ctx, row.Name, set.Dataset, to.Add(-length), to)
		drawn := setRow{Name: cmp.Or(set.Topic, set.Dataset), Dataset: set.Dataset, Error: g.Error, Known: g.Known, Reading: g.Reading}
		if err != nil {
			drawn.Error = err.Error()
		}
		if len(g.Hours) > 0 {
			drawn.Strip = strip(z, &g, set.Dataset)
			hours, unit = g.Hours, g.Unit
		}
		row.Sets = append(row.Sets, drawn)
	}
	return hours, unit
}

// pager is the page of a list that is shown.
type pager struct {
	From, To, Total int
	Previous, Next  string // links; empty = there is none
}

// First is the number of the first that is shown, counted from 1.
func (p pager) First() int { return p.From + 1 }

// pages reads ?page=, counted from 1.
func pages(r *http.Request, total, size int) pager { return pagesOf(r, "page", total, size) }

// pagesOf reads which page of one of several lists is asked for. A page that isn't
// there is the first: it is divided, since the product of a large number would pass
// what an int holds.
func pagesOf(r *http.Request, key string, total, size int) pager {
	n, err := strconv.Atoi(r.URL.Query().Get(key))
	if err != nil || n < 1 || n-1 > (total-1)/size {
		n = 1
	}
	p := pager{From: (n - 1) * size, To: min(n*size, total), Total: total}
	if n > 1 {
		p.Previous = "?" + keep(r.URL.Query(), key, strconv.Itoa(n-1))
	}
	if p.To < total {
		p.Next = "?" + keep(r.URL.Query(), key, strconv.Itoa(n+1))
	}
	return p
}
