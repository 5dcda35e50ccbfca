package console

import (
	"html/template"
	"net/http"
	"slices"
	"time"

	"sawlog/jobs"
)

// overviewBody is the first page: what needs a person, and how the loads stand.
type overviewBody struct {
	strips
	Total     int
	Counts    []tally
	Open      int // runs that are queued or going on
	Backfills []*jobs.BackfillView
	Alarms    []alarm
	Quiet     int           // alarms beyond those shown
	Hidden    int           // jobs beyond those shown
	Cluster   template.HTML // of the brokers; empty = not known
	Example   string
}

// alarm is one thing that needs a person, and the step that mends it.
type alarm struct {
	Job, Kind, Why string
	Do             step
}

// What the overview shows at most.
const (
	alarmsShown    = 8
	jobsOnOverview = 15
)

func (k *console) overview(w http.ResponseWriter, r *http.Request) {
	z, err := zoneOf(r)
	if err != nil {
		k.missing(w, err)
		return
	}
	all, now := k.Jobs.List(), k.Now()
	body := overviewBody{Total: len(all), Counts: countStates(all), Example: exampleJob}
	if k.clusterPart != nil {
		body.Cluster = k.clusterPart(r)
	}
	for _, st := range all {
		body.Open += st.Open
		body.Alarms = append(body.Alarms, alarmsOf(st, now)...)
	}
	body.Quiet = max(0, len(body.Alarms)-alarmsShown)
	body.Alarms = body.Alarms[:min(len(body.Alarms), alarmsShown)]
	for _, b := range k.Jobs.Backfills("") {
		if b.Open() && len(body.Backfills) < alarmsShown {
			body.Backfills = append(body.Backfills, b)
		}
	}
	// Jobs that need a person come first.
	slices.SortStableFunc(all, func(a, b jobs.Status) int { return urgency(rowOf(b, now)) - urgency(rowOf(a, now)) })
	body.Hidden = max(0, len(all)-jobsOnOverview)
	for _, st := range all[:min(len(all), jobsOnOverview)] {
		body.Rows = append(body.Rows, rowOf(st, now))
	}
	k.fill(r, &body.strips, z)
	k.show(w, http.StatusOK, "overview.html", page{Title: "Overview", Nav: "overview", Zone: z, Body: body})
}

// urgency orders rows: what is broken before what is late before what goes on.
func urgency(row jobRow) int {
	return slices.Index([]string{"ok", "paused", "running", "stale", "failed", "broken"}, row.Icon)
}

// alarmsOf lists what is wrong with a job.
func alarmsOf(st jobs.Status, now time.Time) []alarm {
	var out []alarm
	job := jobPath(st.Name)
	add := func(kind, why string, do step) { out = append(out, alarm{st.Name, kind, why, do}) }
	switch last := st.Last; {
	case st.State == "broken":
		add("broken", "the job file no longer reads: "+st.Reason, step{Label: "Look", Href: job})
	case st.Trouble != "":
		add("no ticks", st.Trouble, step{Label: "Look", Href: job})
	case last != nil && (last.Status == jobs.Failed || last.Status == jobs.Partial):
		add(last.Status, last.Reason, step{Label: "Open the run", Href: runPath(last.Run)})
	case last != nil && last.Rows == 0 && last.Bad > 0:
		add("bad", "the last run loaded nothing: "+plural(int(last.Bad), "record")+" in quarantine", step{Label: "Open the run", Href: runPath(last.Run)})
	case st.Stale:
		why := "no good run yet, freshness is " + st.Freshness
		if !st.LastGood.IsZero() {
			why = "last good run " + distance(st.LastGood, now) + ", freshness is " + st.Freshness
		}
		add("stale", why, step{Label: "Run now", Href: job + "/run"})
	case st.State == "paused":
		add("paused", st.Reason, step{Label: "Resume", Href: job + "/resume"})
	}
	if len(st.Drift) > 0 {
		d := st.Drift[0]
		add("drift", count(d.Records)+" records do not fit column "+d.Column+" ("+d.Type+", seen "+d.Seen+")", step{Label: "Look", Href: job + "#drift"})
	}
	return out
}
