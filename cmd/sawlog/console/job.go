package console

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"sawlog/jobs"
)

// jobBody is the page of one job: its hours, one data set at a time, and its runs.
type jobBody struct {
	jobRow
	Days     int
	Spans    []choice
	Zones    []choice
	Map      *mapOf // nil = nothing was loaded yet
	Hour     *hourBody
	Runs     []runLine
	States   any
	Lines    []string           // command lines
	Path     string             // of the job, for links
	Backfill *jobs.BackfillView // the open one
	Pages    pager              // of the data sets
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

// What the page of a job shows at most.
const (
	runsOnJob  = 30
	setsOnJob  = 20
	runsOfHour = 8
	daysShown  = 14
	daysAtMost = 366
)

func (k *console) job(w http.ResponseWriter, r *http.Request) {
	z, err := zoneOf(r)
	if err != nil {
		k.missing(w, err)
		return
	}
	st, err := k.Jobs.Get(r.PathValue("job"))
	if err != nil {
		k.missing(w, err)
		return
	}
	now, query := k.Now(), r.URL.Query()
	body := jobBody{jobRow: rowOf(st, now), States: states, Path: jobPath(st.Name), Lines: k.jobLines(st)}
	body.Days, body.Spans = daysOf(query)
	if spec, err := k.Jobs.Spec(st.Name); err == nil {
		body.Zones = z.choices(query, spec.PartitionBy.Zone)
		if err := k.hours(r, &body, spec, z); err != nil {
			k.missing(w, err)
			return
		}
	}
	for _, run := range k.Jobs.Runs(jobs.RunFilter{Job: st.Name, Limit: runsOnJob}) {
		body.Runs = append(body.Runs, lineOf(run, now))
	}
	for _, b := range k.Jobs.Backfills(st.Name) {
		if b.Open() {
			body.Backfill = b
			break
		}
	}
	k.show(w, http.StatusOK, "job.html", page{Title: st.Name, Nav: "jobs", Watch: st.Name, Zone: z, Body: body})
}

// daysOf reads ?days=.
func daysOf(query url.Values) (int, []choice) {
	days, err := strconv.Atoi(query.Get("days"))
	if err != nil || days < 1 || days > daysAtMost {
		days = daysShown
	}
	var spans []choice
	for _, n := range []int{3, daysShown, 30, 90} {
		name := strconv.Itoa(n)
		spans = append(spans, choice{Name: name + " days", Href: "?" + keep(query, "days", name), Chosen: n == days})
	}
	return days, spans
}

// hours draws the strips of the data sets, if there are several, the map of the
// chosen one, and the panel of the chosen hour.
func (k *console) hours(r *http.Request, body *jobBody, spec *jobs.Spec, z zone) error {
	sets, query := body.Datasets, r.URL.Query()
	if len(sets) == 0 {
		return nil
	}
	at := max(0, slices.IndexFunc(sets, func(s jobs.Set) bool { return s.Dataset == query.Get("set") }))
	ctx, done := context.WithTimeout(r.Context(), gridPatience)
	defer done()
	end := z.Days(k.Now(), 1)
	g, err := k.Jobs.Grid(ctx, body.Name, sets[at].Dataset, z.Days(end, -body.Days), end)
	if err != nil {
		return err
	}
	if len(sets) > 1 {
		body.Pages = pages(r, len(sets), setsOnJob)
		to := k.Now().UTC().Truncate(time.Hour).Add(time.Hour)
		for _, set := range sets[body.Pages.From:body.Pages.To] {
			one := jobRow{Status: body.Status}
			one.Datasets = []jobs.Set{set}
			k.rowStrips(ctx, &one, to, 72*time.Hour, z)
			body.Sets = append(body.Sets, one.Sets...)
		}
	}
	chosen := chosenHour(query.Get("hour"), g.Hours)
	m := &mapOf{Grid: g, Says: summary(g.Hours)}
	for _, h := range g.Hours {
		m.Total += h.Rows
	}
	switch {
	case len(g.Hours) == 0: // it is read still
	case g.Unit == "hour":
		m.SVG = (&dayMap{grid: &g, zone: z, query: query, chosen: chosen.Hour}).draw()
	default:
		m.SVG = strip(z, &g, g.Dataset)
	}
	body.Map = m
	if !chosen.Hour.IsZero() {
		body.Hour = k.panel(body, spec, &g, chosen, query, z)
	}
	return nil
}

// chosenHour is the cell that ?hour= names; there is none when it is not drawn.
func chosenHour(text string, hours []jobs.Hour) jobs.Hour {
	at, err := time.Parse(hourKey, text)
	if err != nil {
		return jobs.Hour{}
	}
	i := slices.IndexFunc(hours, func(h jobs.Hour) bool { return h.Hour.Equal(at) })
	if i < 0 {
		return jobs.Hour{}
	}
	return hours[i]
}

// panel tells what is known of one hour.
func (k *console) panel(body *jobBody, spec *jobs.Spec, g *jobs.Grid, h jobs.Hour, query url.Values, z zone) *hourBody {
	i := slices.IndexFunc(g.Hours, func(o jobs.Hour) bool { return o.Hour.Equal(h.Hour) })
	end := h.Hour.Add(time.Hour)
	if i+1 < len(g.Hours) {
		end = g.Hours[i+1].Hour
	} else if g.Unit == "day" {
		end = h.Hour.AddDate(0, 0, 1)
	}
	c := hourCase{
		hour: h, job: body.Status, unit: g.Unit, lateness: spec.PartitionBy.Lateness, end: end, now: k.Now(), zone: z,
		passed: slices.ContainsFunc(g.Hours[i+1:], func(o jobs.Hour) bool { return o.Sealed >= 0 }),
	}
	out := &hourBody{Hour: h, Dataset: g.Dataset, Close: "?" + keep(query, "hour", "")}
	if g.Error != "" {
		out.Stale = g.Known
	}
	out.Name = z.In(h.Hour).Format("Mon 2 Jan 2006 15:04")
	out.UTC = h.Hour.UTC().Format("2006-01-02 15:04") + " to " + end.UTC().Format("2006-01-02 15:04") + " UTC"
	for _, run := range k.Jobs.HourRuns(body.Name, g.Dataset, h.Hour, runsOfHour) {
		out.Runs = append(out.Runs, lineOf(run, c.now))
	}
	if h.Run != "" {
		c.run, _ = k.Jobs.Run(h.Run) // one that was forgotten says no more
	}
	out.Answer, out.Replay = c.answer(), c.replay()
	if i > 0 {
		out.Before = "?" + keep(query, "hour", g.Hours[i-1].Hour.UTC().Format(hourKey))
	}
	if i+1 < len(g.Hours) {
		out.After = "?" + keep(query, "hour", g.Hours[i+1].Hour.UTC().Format(hourKey))
	}
	return out
}

// jobLines are command lines for what the page shows.
func (k *console) jobLines(st jobs.Status) []string {
	name, now := shell(st.Name), k.Now().UTC()
	lines := []string{"sawlog job get " + name, "sawlog runs list --job " + name, "sawlog run " + name + " --wait"}
	if !st.Next.IsZero() {
		lines = append(lines, "sawlog backfill "+name+" --from "+now.AddDate(0, 0, -1).Format(time.DateOnly)+" --to "+now.Format(time.DateOnly)+" --only missing --dry-run")
	}
	return lines
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

// Why says in one line what a run is about: what went wrong, or who wanted it.
func (l runLine) Why() string {
	if l.Reason != "" {
		return l.Reason
	}
	if l.Kind == jobs.ByTick || l.By == "" {
		return l.Kind
	}
	return l.Kind + " by " + cmp.Or(l.By, "somebody")
}
