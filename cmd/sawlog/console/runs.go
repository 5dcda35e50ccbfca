package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sawlog/jobs"
	"sawlog/offsets"
)

// runsBody is the page of all runs.
type runsBody struct {
	Ask    runsAsk
	Jobs   []string
	States []string
	Kinds  []string
	Rows   []runLine
	Older  string // links to the pages behind and before
	Newer  string
	Some   bool // there are runs, whatever is asked for
	Lines  []string
}

// runsAsk is what the form of the page says.
type runsAsk struct{ Job, Status, Kind, Since, Until string }

// Asks tells whether the page shows some of the runs only.
func (a runsAsk) Asks() bool { return a != runsAsk{} }

// runsOnPage is how many runs a page shows.
const runsOnPage = 50

func (k *console) runs(w http.ResponseWriter, r *http.Request) {
	z, err := zoneOf(r)
	if err != nil {
		k.missing(w, err)
		return
	}
	query := r.URL.Query()
	body := runsBody{Ask: runsAskOf(query), States: jobs.RunStates, Kinds: jobs.RunKinds}
	f, err := k.runFilter(body.Ask, query)
	if err != nil {
		k.missing(w, err)
		return
	}
	f.Limit = runsOnPage + 1 // to know whether there is more
	runs := k.Jobs.Runs(f)
	more := len(runs) > runsOnPage
	if f.Before != "" {
		runs = runs[max(0, len(runs)-runsOnPage):]
	} else {
		runs = runs[:min(len(runs), runsOnPage)]
	}
	now := k.Now()
	for _, run := range runs {
		body.Rows = append(body.Rows, lineOf(run, now))
	}
	body.page(query, f, more)
	for _, st := range k.Jobs.List() {
		body.Jobs = append(body.Jobs, st.Name)
	}
	body.Some = len(runs) > 0 || len(k.Jobs.Runs(jobs.RunFilter{Limit: 1})) > 0
	body.Lines = []string{body.Ask.line()}
	k.show(w, http.StatusOK, "runs.html", page{Title: "Runs", Nav: "runs", Watch: f.Job, Still: f.After != "" || f.Before != "", Zone: z, Body: body})
}

// page links to the runs behind and before those that are shown.
func (b *runsBody) page(query url.Values, f jobs.RunFilter, more bool) {
	if len(b.Rows) == 0 {
		return
	}
	q := url.Values{}
	for key := range query {
		if key != "after" && key != "before" && query.Get(key) != "" {
			q.Set(key, query.Get(key))
		}
	}
	first, last := b.Rows[0].Run.Run, b.Rows[len(b.Rows)-1].Run.Run
	if more && f.Before == "" || f.Before != "" {
		b.Older = "?" + keep(q, "after", last)
	}
	if more && f.Before != "" || f.After != "" {
		b.Newer = "?" + keep(q, "before", first)
	}
}

func runsAskOf(query url.Values) runsAsk {
	text := func(name string) string { return strings.TrimSpace(query.Get(name)) }
	return runsAsk{Job: text("job"), Status: text("status"), Kind: text("kind"), Since: text("since"), Until: text("until")}
}

// runFilter picks the runs that are asked for.
func (k *console) runFilter(a runsAsk, query url.Values) (f jobs.RunFilter, err error) {
	f = jobs.RunFilter{Job: a.Job, Status: a.Status, Kind: a.Kind, After: query.Get("after"), Before: query.Get("before")}
	wrong := func(msg, hint string) (jobs.RunFilter, error) {
		return f, &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: msg, Hint: hint}
	}
	if f.Job != "" {
		if _, err := k.Jobs.Get(f.Job); err != nil {
			return f, err
		}
	}
	for _, one := range []struct {
		name, value string
		known       []string
	}{{"state", f.Status, jobs.RunStates}, {"kind", f.Kind, jobs.RunKinds}} {
		if one.value != "" && !slices.Contains(one.known, one.value) {
			return wrong("there is no "+one.name+" "+strconv.Quote(one.value), "want "+strings.Join(one.known, ", "))
		}
	}
	for _, bound := range []struct {
		name, text string
		to         *time.Time
	}{{"since", a.Since, &f.Since}, {"until", a.Until, &f.Until}} {
		if bound.text == "" {
			continue
		}
		if *bound.to, err = offsets.ParseTime(bound.text, k.Now()); err != nil {
			return wrong(bound.name+": "+err.Error(), "times look like 2026-11-29, 2026-11-29T14, 2026-11-29T14:00:00Z or -24h")
		}
	}
	for _, id := range []string{f.After, f.Before} {
		if id == "" {
			continue
		}
		if _, err := k.Jobs.Run(id); err != nil {
			return f, &jobs.Refusal{Kind: jobs.ErrNotFound, Msg: "run " + id + ", where the page began, is no longer remembered", Hint: "begin again with the newest: /console/runs"}
		}
	}
	return f, nil
}

// line is the command line that lists the same.
func (a runsAsk) line() string {
	words := []string{"sawlog runs list"}
	for _, flag := range []fact{{"job", a.Job}, {"status", a.Status}, {"kind", a.Kind}, {"since", a.Since}, {"until", a.Until}} {
		if flag.Value != "" {
			words = append(words, "--"+flag.Name, shell(flag.Value))
		}
	}
	return strings.Join(words, " ")
}
