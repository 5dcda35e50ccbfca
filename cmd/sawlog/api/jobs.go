package api

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/offsets"
)

func (s *server) routeJobs(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/jobs", s.listJobs)
	mux.HandleFunc("POST /api/v1/jobs", s.applyJob)
	mux.HandleFunc("GET /api/v1/jobs/{job}", s.getJob)
	mux.HandleFunc("DELETE /api/v1/jobs/{job}", s.deleteJob)
	mux.HandleFunc("GET /api/v1/jobs/{job}/explain", s.explainJob)
	mux.HandleFunc("GET /api/v1/jobs/{job}/next", s.nextTicks)
	mux.HandleFunc("GET /api/v1/jobs/{job}/hours", s.hours)
	mux.HandleFunc("POST /api/v1/jobs/{job}/pause", s.pauseJob)
	mux.HandleFunc("POST /api/v1/jobs/{job}/resume", s.resumeJob)
	mux.HandleFunc("POST /api/v1/jobs/{job}/trigger", s.triggerJob)
	mux.HandleFunc("POST /api/v1/jobs/{job}/plan", s.planJob)
}

// JobList is the answer to GET /api/v1/jobs.
type JobList struct {
	Jobs []jobs.Status `json:"jobs"`
}

func (s *server) listJobs(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, JobList{Jobs: s.Jobs.List()})
}

// by names who asks: the user the client names, or the address it comes from.
func by(r *http.Request) string {
	if who := r.Header.Get(userHeader); who != "" && len(who) <= 200 && !strings.ContainsAny(who, "\r\n") {
		return who
	}
	return "http"
}

// userHeader carries the name of who asks. Nothing is authenticated yet; it is
// for the record only.
const userHeader = "X-Sawlog-User"

// applyJob takes a job file as the body; ?path= names it in messages, and with
// ?dry_run= nothing is changed.
func (s *server) applyJob(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	query := r.URL.Query()
	path := query.Get("path")
	if path == "" {
		path = "job.yaml"
	}
	applied, err := s.Jobs.Apply(r.Context(), text, path, by(r), truth(query, "dry_run"))
	s.answer(w, r, applied, err)
}

// answer sends a value, or the error.
func (s *server) answer(w http.ResponseWriter, r *http.Request, value any, err error) {
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, value)
}

// truth reads a flag of the query; the bare name counts as true.
func truth(query url.Values, name string) bool {
	if !query.Has(name) {
		return false
	}
	on, err := strconv.ParseBool(query.Get(name))
	return query.Get(name) == "" || err == nil && on
}

func (s *server) getJob(w http.ResponseWriter, r *http.Request) {
	st, err := s.Jobs.Get(r.PathValue("job"))
	s.answer(w, r, st, err)
}

func (s *server) deleteJob(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("job")
	s.answer(w, r, map[string]string{"job": name, "change": "deleted"}, s.Jobs.Delete(r.Context(), name))
}

func (s *server) explainJob(w http.ResponseWriter, r *http.Request) {
	spec, err := s.Jobs.Spec(r.PathValue("job"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	text, err := spec.Explain()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(text) // the caller went away
}

// TickList is the answer to GET /api/v1/jobs/{job}/next.
type TickList struct {
	Ticks []jobs.NextTick `json:"ticks"`
}

func (s *server) nextTicks(w http.ResponseWriter, r *http.Request) {
	n, err := number(r.URL.Query(), "n", 10, 1, 1000)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	ticks, err := s.Jobs.Next(r.PathValue("job"), n)
	s.answer(w, r, TickList{Ticks: ticks}, err)
}

func number(query url.Values, name string, fallback, low, high int) (int, error) {
	if !query.Has(name) {
		return fallback, nil
	}
	n, err := strconv.Atoi(query.Get(name))
	if err != nil || n < low || n > high {
		return 0, &Error{Code: CodeInvalid, Message: name + ": want a number from " + strconv.Itoa(low) + " to " + strconv.Itoa(high)}
	}
	return n, nil
}

// moment reads a TIME of the range grammar.
func moment(text string, fallback time.Time) (time.Time, error) {
	if text == "" {
		return fallback, nil
	}
	at, err := offsets.ParseTime(text, time.Now())
	if err != nil {
		return at, &Error{Code: CodeInvalid, Message: err.Error()}
	}
	return at, nil
}

// HourList is the answer to GET /api/v1/jobs/{job}/hours.
type HourList struct {
	From  time.Time   `json:"from"`
	To    time.Time   `json:"to"`
	Grids []jobs.Grid `json:"datasets"`
}

// hours answers the grid of [from, to); without bounds the last 72 hours.
func (s *server) hours(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	now := time.Now().UTC().Truncate(time.Hour)
	to, err := moment(query.Get("to"), now.Add(time.Hour))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	from, err := moment(query.Get("from"), to.Add(-72*time.Hour))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	grids, err := s.Jobs.Hours(r.Context(), r.PathValue("job"), from, to)
	s.answer(w, r, HourList{From: from, To: to, Grids: grids}, err)
}

func (s *server) pauseJob(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Reason string `json:"reason"`
	}
	if err := body(r, &ask); err != nil {
		s.fail(w, r, err)
		return
	}
	name := r.PathValue("job")
	if err := s.Jobs.Pause(r.Context(), name, by(r), ask.Reason); err != nil {
		s.fail(w, r, err)
		return
	}
	st, err := s.Jobs.Get(name)
	s.answer(w, r, st, err)
}

// Resumed is the answer to resuming a job.
type Resumed struct {
	Job     string       `json:"job"`
	Catchup jobs.Catchup `json:"catchup"`
	Say     string       `json:"message"`
}

// ResumeAsk is the body that resumes a job, or asks what that would make.
type ResumeAsk struct {
	DryRun bool `json:"dry_run,omitempty"`
}

func (s *server) resumeJob(w http.ResponseWriter, r *http.Request) {
	var ask ResumeAsk
	if err := body(r, &ask); err != nil {
		s.fail(w, r, err)
		return
	}
	name := r.PathValue("job")
	c, err := s.Jobs.Resume(r.Context(), name, ask.DryRun)
	say := c.String()
	if c.Ticks > 0 && c.Policy == jobs.CatchupNone {
		say = strconv.Itoa(c.Ticks) + " missed ticks make no runs of their own; the next run takes their offsets"
	}
	s.answer(w, r, Resumed{Job: name, Catchup: c, Say: say}, err)
}

// Trigger is the body that starts runs of a job.
type Trigger struct {
	From      string `json:"from,omitempty"` // TIME; with To: the ticks of [from, to)
	To        string `json:"to,omitempty"`
	Topic     string `json:"topic,omitempty"`
	AcceptGap string `json:"accept_gap,omitempty"`
	Scan      bool   `json:"scan,omitempty"` // of a plan only
}

func (t Trigger) window() (from, to time.Time, err error) {
	if (t.From == "") != (t.To == "") {
		return from, to, &Error{Code: CodeInvalid, Message: "a window needs from and to"}
	}
	if from, err = moment(t.From, from); err == nil {
		to, err = moment(t.To, to)
	}
	return from, to, err
}

// RunList is an answer that lists runs.
type RunList struct {
	Runs []*jobs.Run `json:"runs"`
}

func (s *server) triggerJob(w http.ResponseWriter, r *http.Request) {
	var ask Trigger
	err := body(r, &ask)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	from, to, err := ask.window()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	runs, err := s.Jobs.Trigger(r.Context(), jobs.Trigger{
		Job: r.PathValue("job"), From: from, To: to, Topic: ask.Topic, By: by(r), AcceptGap: ask.AcceptGap,
	})
	s.answer(w, r, RunList{Runs: runs}, err)
}

// PlanList is the answer to planning a job: one preview for each data set.
type PlanList struct {
	Plans []PlanOf `json:"plans"`
}

// PlanOf is what a run of one data set would do.
type PlanOf struct {
	jobs.Set
	Preview *loader.Preview `json:"preview"`
	Plan    *loader.Plan    `json:"plan,omitempty"`
}

func (s *server) planJob(w http.ResponseWriter, r *http.Request) {
	if s.Plan == nil {
		s.fail(w, r, notAvailable("planning"))
		return
	}
	var ask Trigger
	if err := body(r, &ask); err != nil {
		s.fail(w, r, err)
		return
	}
	_, to, err := ask.window()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	spec, err := s.Jobs.Spec(r.PathValue("job"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	sets, err := s.Jobs.Sets(r.Context(), spec.Name)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := PlanList{Plans: []PlanOf{}}
	for _, set := range sets {
		if ask.Topic != "" && set.Topic != ask.Topic {
			continue
		}
		p, err := s.Plan(r.Context(), spec, set, jobs.Ask{UpTo: to, AcceptGap: ask.AcceptGap, By: by(r), Scan: ask.Scan})
		if err != nil {
			s.fail(w, r, err)
			return
		}
		out.Plans = append(out.Plans, PlanOf{Set: set, Preview: p.Preview, Plan: p.Plan})
	}
	reply(w, http.StatusOK, out)
}
