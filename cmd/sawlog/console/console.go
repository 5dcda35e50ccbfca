// Package console is the web console: pages drawn on the server, an own few
// hundred lines of script that keep them live, and nothing from anywhere else.
// The state of a page is its URL; every page works without the script.
package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
)

//go:embed static/*.css static/*.js static/*.svg
var static embed.FS

//go:embed static/*.html
var sheets embed.FS

// Config is what the console shows.
type Config struct {
	Jobs    *jobs.Scheduler
	Logger  *slog.Logger
	Version string
	Now     func() time.Time // nil = time.Now
	Login   bool             // readers have logged in, so they may log out

	// Elsewhere answers what needs Jobs while that is nil: another node has them.
	Elsewhere http.Handler

	// What the loader can tell and do. Fields that are nil leave their part out.
	Plan   func(ctx context.Context, s *jobs.Spec, set jobs.Set, ask jobs.Ask) (*jobs.Planned, error)
	Detail func(ctx context.Context, s *jobs.Spec, run *jobs.Run) ([]loader.Split, *loader.Record, error)
	// Rerun remakes a run's files from its plan; Verify checks a run or, with
	// run empty, the data set. Both may give a report with their error.
	Rerun  func(ctx context.Context, s *jobs.Spec, set jobs.Set, run string) (*loader.RerunReport, error)
	Verify func(ctx context.Context, s *jobs.Spec, set jobs.Set, run string) (*loader.VerifyReport, error)
	Sources
}

// console serves the pages under /console/.
type console struct {
	Config
	templates *template.Template

	// clusterPart draws what the overview says of the brokers; nil = nothing.
	clusterPart func(*http.Request) template.HTML
	rates       rates

	mu       sync.Mutex
	reports  []*kept // the last ones
	reported int
}

// New makes the handler of /console/ and everything below.
func New(c Config) http.Handler {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	k := &console{Config: c, templates: template.Must(template.New("").Funcs(template.FuncMap{
		"count": count, "size": size, "clock": clock, "shape": legendShape, "took": took, "distance": func(t time.Time) string { return distance(t, c.Now()) },
		"nav": func() []place { return places }, "path": url.PathEscape, "query": url.QueryEscape, "duration": duration,
		"phases": func() []string { return taskPhases }, "more": func(all, shown int) int { return all - shown },
	}).Funcs(otherFuncs).ParseFS(sheets, "static/*.html"))}
	mux := http.NewServeMux()
	k.others(mux)
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic("console: " + err.Error()) // the embedded folder is part of the binary
	}
	mux.Handle("GET /console/static/", http.StripPrefix("/console/static/", cached(http.FileServerFS(files))))
	if c.Jobs == nil && c.Elsewhere != nil {
		mux.Handle("/console/", c.Elsewhere)
		return mux
	}
	mux.HandleFunc("GET /console/{$}", k.overview)
	mux.HandleFunc("GET /console/jobs/{job}", k.job)
	mux.HandleFunc("GET /console/jobs", k.jobList)
	mux.HandleFunc("GET /console/runs", k.runs)
	mux.HandleFunc("GET /console/runs/{run}", k.run)
	mux.HandleFunc("GET /console/backfills", k.backfills)
	mux.HandleFunc("GET /console/backfills/new", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, jobPath(r.FormValue("job"))+"/backfill", http.StatusSeeOther)
	})
	mux.HandleFunc("GET /console/backfills/{backfill}", k.backfill)
	mux.HandleFunc("GET /console/reports/{report}", k.report)
	k.routeActs(mux)
	mux.HandleFunc("/console/", func(w http.ResponseWriter, r *http.Request) {
		k.missing(w, &jobs.Refusal{Kind: jobs.ErrNotFound, Msg: "there is no page " + r.URL.Path})
	})
	return mux
}

// cached lets browsers keep files for a minute; a new binary is seen soon.
func cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		next.ServeHTTP(w, r)
	})
}

// page is what every template gets.
type page struct {
	Title   string
	Nav     string // key of the place in the navigation the page belongs to
	Version string
	Now     time.Time
	Watch   string // job whose events concern the page; empty = all
	Still   bool   // the page shows a moment: it is not kept live
	Zone    zone
	Login   bool // there is a session to end
	Body    any
}

// Link is a path of the console in the zone of the page.
func (p page) Link(path string) string {
	if p.Zone.name == "" {
		return path
	}
	path, fragment, _ := strings.Cut(path, "#")
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	path += mark + "zone=" + url.QueryEscape(p.Zone.name)
	if fragment != "" {
		path += "#" + fragment
	}
	return path
}

// show renders a page whole before a byte of it is sent.
func (k *console) show(w http.ResponseWriter, status int, name string, p page) {
	p.Version, p.Now, p.Login = k.Version, k.Now().UTC(), k.Login
	var b bytes.Buffer
	if err := k.templates.ExecuteTemplate(&b, name, p); err != nil {
		k.Logger.Error("page not drawn", "page", name, "err", err)
		http.Error(w, "the page cannot be drawn: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader went away
}

// missing shows an error as a page.
func (k *console) missing(w http.ResponseWriter, err error) {
	status, body := http.StatusInternalServerError, map[string]string{"Message": err.Error()}
	if refusal, ok := errors.AsType[*jobs.Refusal](err); ok {
		body["Hint"], status = refusal.Hint, statusOf(refusal)
	}
	if e, ok := errors.AsType[*loader.Error](err); ok {
		body["Hint"] = e.Hint
	}
	k.show(w, status, "error.html", page{Title: http.StatusText(status), Still: true, Body: body})
}

// statusOf is the status of an answer that refuses.
func statusOf(r *jobs.Refusal) int {
	switch r.Kind {
	case jobs.ErrNotFound:
		return http.StatusNotFound
	case jobs.ErrInvalid:
		return http.StatusBadRequest
	case jobs.ErrConflict:
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}

// shell quotes a word for the command lines the console shows.
func shell(word string) string {
	if word != "" && strings.IndexFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/:=", r))
	}) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
