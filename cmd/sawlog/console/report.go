package console

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
)

// kept is the report of something that was done, until it is pushed out by others.
type kept struct {
	ID           string
	Job          string
	Run          string // empty = the whole data set
	Dataset      string
	At           time.Time
	Took         time.Duration
	Verify       *loader.VerifyReport
	Rerun        *loader.RerunReport
	Err          string
	More         int    // lines beyond those shown
	Line         string // the equal command line
	Heals, Again string // links: what mends it, what checks it
}

// The reports kept, and the lines one shows.
const (
	reportsKept = 50
	linesShown  = 200
)

// keep keeps a report and says where it is seen.
func (k *console) keep(r *kept) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reported++
	r.ID = fmt.Sprintf("%s-%d", r.At.UTC().Format("20060102T150405"), k.reported)
	k.reports = append(k.reports, r)
	k.reports = k.reports[max(0, len(k.reports)-reportsKept):]
	return "/console/reports/" + url.PathEscape(r.ID)
}

func (k *console) report(w http.ResponseWriter, r *http.Request) {
	z, err := zoneOf(r)
	if err != nil {
		k.missing(w, err)
		return
	}
	id := r.PathValue("report")
	k.mu.Lock()
	var found *kept
	for _, one := range k.reports {
		if one.ID == id {
			found = one
		}
	}
	k.mu.Unlock()
	if found == nil {
		k.missing(w, &jobs.Refusal{Kind: jobs.ErrNotFound, Msg: "there is no report " + id, Hint: "the server keeps its last reports until it is restarted: verify or rerun once more"})
		return
	}
	body := *found
	body.show()
	k.show(w, http.StatusOK, "report.html", page{Title: body.title(), Nav: "jobs", Still: true, Zone: z, Body: body})
}

func (r *kept) title() string {
	what := "Rerun of "
	if r.Verify != nil {
		what = "Verify "
	}
	if r.Run != "" {
		return what + r.Run
	}
	return what + r.Dataset
}

// show cuts what is too long and says what is next.
func (r *kept) show() {
	if v := r.Verify; v != nil {
		short := *v
		if len(v.Problems) > 0 {
			r.Err = "" // it tells of the first of them
		}
		r.More = max(0, len(v.Problems)-linesShown)
		short.Problems = v.Problems[:len(v.Problems)-r.More]
		r.Verify = &short
		r.Line = "sawlog verify " + shell(r.Dataset)
		r.Again = jobPath(r.Job) + "/verify?set=" + url.QueryEscape(r.Dataset)
		if r.Run != "" {
			r.Line, r.Again = "sawlog verify "+shell(r.Run), runPath(r.Run)+"/verify"
			if !v.OK {
				r.Heals = runPath(r.Run) + "/rerun"
			}
		}
	}
	if v := r.Rerun; v != nil {
		short := *v
		short.Files = nil
		for _, f := range v.Files {
			if f.State != loader.RerunIdentical {
				short.Files = append(short.Files, f)
			}
		}
		r.More = max(0, len(short.Files)-linesShown)
		short.Files = short.Files[:len(short.Files)-r.More]
		r.Rerun = &short
		r.Line, r.Again = "sawlog rerun "+shell(r.Run), runPath(r.Run)+"/verify"
	}
}
