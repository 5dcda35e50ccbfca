package console

import (
	"context"
	"net/http"
	"net/url"

	"sawlog/jobs"
)

// act is something a person can have done. Asked for by GET it is a page that
// says exactly what it would do and the equal command line; by POST it is done,
// and the answer leads to where its outcome is seen.
type act struct {
	ask func(context.Context, *http.Request, zone) (*confirm, error)
	do  func(context.Context, *http.Request) (to string, err error)
}

// confirm is what the page of an act says.
type confirm struct {
	Title  string
	Job    string // it concerns
	Back   string // where it came from
	Name   string // of Back
	Does   string // what it does, in a sentence
	Facts  []fact
	Ranges []rangeLine
	Items  []itemLine // of a backfill
	More   int        // lines beyond those shown
	Notes  []string
	Fields []field // of the form
	Form   string  // where the fields lead to another preview; empty = they go with the deed
	Hidden []fact  // go with the deed, unseen
	Button string  // empty = there is nothing to do
	Danger bool
	Line   string // the equal command line
	Path   string // where the deed is posted
}

// fact is one thing with its name.
type fact struct{ Name, Value string }

// field is an input of a form.
type field struct {
	Name, Label, Value, Type string // text | checkbox | select
	Hint                     string
	Options                  []string
}

// rangeLine is a range that is read.
type rangeLine struct {
	Dataset   string
	Topic     string
	Partition int32
	Start     int64
	End       int64
	Gap       int64
}

// Offsets is how many it has.
func (l rangeLine) Offsets() int64 { return l.End - l.Start }

// itemLine is one run a backfill would make.
type itemLine struct {
	jobs.ItemView
	Ranges []rangeLine
}

// rangesShown bounds the ranges a preview lists.
const rangesShown = 200

// acts are all there are, by their path below /console/.
func (k *console) acts() map[string]act {
	return map[string]act{
		"jobs/{job}/run":              {k.askRun, k.doRun},
		"jobs/{job}/pause":            {k.askPause, k.doPause},
		"jobs/{job}/resume":           {k.askResume, k.doResume},
		"jobs/{job}/verify":           {k.askVerifySet, k.doVerifySet},
		"jobs/{job}/backfill":         {k.askBackfill, k.doBackfill},
		"runs/{run}/cancel":           {k.askCancel, k.doCancel},
		"runs/{run}/retry":            {k.askRetry, k.doRetry},
		"runs/{run}/verify":           {k.askVerify, k.doVerify},
		"runs/{run}/rerun":            {k.askRerun, k.doRerun},
		"runs/{run}/again":            {k.askAgain, k.doAgain},
		"backfills/{backfill}/pause":  k.steer(jobs.SteerPause),
		"backfills/{backfill}/resume": k.steer(jobs.SteerResume),
		"backfills/{backfill}/cancel": k.steer(jobs.SteerCancel),
		"backfills/{backfill}/retry":  k.steer(jobs.SteerRetry),
	}
}

// routeActs gives each act its page and its deed.
func (k *console) routeActs(mux *http.ServeMux) {
	for path, a := range k.acts() {
		mux.HandleFunc("GET /console/"+path, func(w http.ResponseWriter, r *http.Request) {
			z, err := zoneOf(r)
			if err != nil {
				k.missing(w, err)
				return
			}
			c, err := a.ask(r.Context(), r, z)
			if err != nil {
				k.missing(w, err)
				return
			}
			c.Path = r.URL.Path
			k.show(w, http.StatusOK, "confirm.html", page{Title: c.Title, Nav: "jobs", Still: true, Zone: z, Body: c})
		})
		mux.HandleFunc("POST /console/"+path, func(w http.ResponseWriter, r *http.Request) {
			if err := r.ParseForm(); err != nil {
				k.missing(w, &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "the form does not read: " + err.Error()})
				return
			}
			z, err := zoneOf(r)
			if err != nil {
				k.missing(w, err)
				return
			}
			to, err := a.do(r.Context(), r)
			if err != nil {
				k.missing(w, err)
				return
			}
			http.Redirect(w, r, page{Zone: z}.Link(to), http.StatusSeeOther)
		})
	}
}

// by is who the history says asked for something.
const by = "console"

func jobPath(job string) string { return "/console/jobs/" + url.PathEscape(job) }

func runPath(run string) string { return "/console/runs/" + url.PathEscape(run) }
