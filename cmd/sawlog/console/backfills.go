package console

import (
	"net/http"
	"net/url"
	"time"

	"sawlog/jobs"
)

// backfillsBody is the page of all backfills.
type backfillsBody struct {
	Rows  []backfillRow
	Jobs  []string // with a schedule or runs: one may be made of each
	Pages pager
}

// backfillRow is one backfill of the list.
type backfillRow struct {
	*jobs.BackfillView
	Bar  []part
	Took string
}

// part is a stretch of the bar that shows how far a backfill is.
type part struct {
	State string
	N     int
	X, W  float64
}

// backfillBody is the page of one backfill.
type backfillBody struct {
	backfillRow
	Path     string
	Shown    []jobs.ItemView
	Pages    pager
	Lines    []string
	Can      map[string]bool // pause, resume, cancel, retry
	PerState []tally
}

// What the pages of backfills show at most.
const (
	backfillsOnPage = 50
	itemsOnPage     = 200
)

func (k *console) backfills(w http.ResponseWriter, r *http.Request) {
	z, err := zoneOf(r)
	if err != nil {
		k.missing(w, err)
		return
	}
	all := k.Jobs.Backfills(r.URL.Query().Get("job"))
	body := backfillsBody{Pages: pages(r, len(all), backfillsOnPage)}
	for _, b := range all[body.Pages.From:body.Pages.To] {
		body.Rows = append(body.Rows, k.backfillRow(b))
	}
	for _, st := range k.Jobs.List() {
		if st.State != "broken" && len(body.Jobs) < jobsOnPage {
			body.Jobs = append(body.Jobs, st.Name)
		}
	}
	k.show(w, http.StatusOK, "backfills.html", page{Title: "Backfills", Nav: "backfills", Zone: z, Body: body})
}

func (k *console) backfillRow(b *jobs.BackfillView) backfillRow {
	end := b.Ended
	if end.IsZero() {
		end = k.Now()
	}
	return backfillRow{BackfillView: b, Bar: barOf(b), Took: duration(max(0, end.Sub(b.Created)).Truncate(time.Second))}
}

// itemStates in the order of the bar: what is done comes first.
var itemStates = []string{
	jobs.Committed, jobs.Covered, jobs.Partial, jobs.Failed, jobs.Cancelled, jobs.Running, jobs.Queued, jobs.ItemWaiting,
}

// barOf lays the items of a backfill out by state.
func barOf(b *jobs.BackfillView) []part {
	var out []part
	x := 0.0
	for _, state := range itemStates {
		if n := b.Counts[state]; n > 0 {
			w := float64(n) / float64(b.Total) * stripWidth
			out = append(out, part{State: state, N: n, X: x, W: max(w-1, 0.5)})
			x += w
		}
	}
	return out
}

func (k *console) backfill(w http.ResponseWriter, r *http.Request) {
	z, err := zoneOf(r)
	if err != nil {
		k.missing(w, err)
		return
	}
	b, err := k.Jobs.GetBackfill(r.PathValue("backfill"))
	if err != nil {
		k.missing(w, err)
		return
	}
	id := shell(b.ID)
	body := backfillBody{
		backfillRow: k.backfillRow(b), Path: "/console/backfills/" + url.PathEscape(b.ID), Pages: pages(r, len(b.Items), itemsOnPage),
		Can:   steers(b),
		Lines: []string{"sawlog backfill get " + id, "sawlog backfill watch " + id},
	}
	body.Shown = b.Items[body.Pages.From:body.Pages.To]
	for _, p := range body.Bar {
		body.PerState = append(body.PerState, tally{p.State, p.N})
	}
	for _, how := range []string{jobs.SteerPause, jobs.SteerResume, jobs.SteerCancel, jobs.SteerRetry} {
		if body.Can[how] {
			body.Lines = append(body.Lines, "sawlog backfill "+how+" "+id)
		}
	}
	k.show(w, http.StatusOK, "backfill.html", page{Title: b.ID, Nav: "backfills", Watch: b.Job, Zone: z, Body: body})
}

// steers says which ways a backfill may be steered now.
func steers(b *jobs.BackfillView) map[string]bool {
	can := map[string]bool{}
	for _, how := range []string{jobs.SteerPause, jobs.SteerResume, jobs.SteerCancel, jobs.SteerRetry} {
		can[how] = b.CannotSteer(how) == nil
	}
	return can
}
