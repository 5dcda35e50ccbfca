package api

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/offsets"
)

// JobList is the answer to GET /api/v1/jobs.
type JobList struct {
	Jobs []jobs.Status `json:"jobs"`
	Next string        `json:"next,omitempty"` // after= of the page that follows; none = this is the last
}

func (s *server) listJobs(w http.ResponseWriter, r *http.Request) {
	listed(s, w, r, s.Jobs.List(), true, func(j *jobs.Status) string { return j.Name }, func(part []jobs.Status, next string) any { return JobList{part, next} })
}

// by names who asks: the user the client names, or the address it comes from.
func by(r *http.Request) string {
	if who := r.Header.Get(userHeader); who != "" && len(who) <= 200 && !strings.ContainsAny(who, "\r\n") {
		return who
	}
	return "http"
}

// userHeader carries the name of who asks. A token names nobody; this is for
// the record only.
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

// Deleted is the answer to deleting a job.
type Deleted struct {
	Job    string `json:"job"`
	Change string `json:"change"` // deleted
}

func (s *server) deleteJob(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("job")
	s.answer(w, r, Deleted{name, "deleted"}, s.Jobs.Delete(r.Context(), name))
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
	Next  string      `json:"next,omitempty"` // after= of the page that follows; none = this is the last
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
	out := HourList{From: from, To: to, Grids: []jobs.Grid{}}
	sets, next, err := s.setsOf(r.PathValue("job"), query)
	length := 0
	for i := 0; i < len(sets) && err == nil; i++ {
		var g jobs.Grid
		if g, err = s.Jobs.Grid(r.Context(), r.PathValue("job"), sets[i].Dataset, from, to); err != nil {
			break
		}
		text, _ := json.Marshal(g) // the answer will say so
		if length += len(text); length > pageLength && i > 0 {
			next = sets[i-1].Dataset
			break
		}
		out.Grids = append(out.Grids, g)
	}
	out.Next = next
	s.answer(w, r, out, err)
}

// setsOf is the page of a job's data sets that a query asks for.
func (s *server) setsOf(job string, query url.Values) (part []jobs.Set, next string, err error) {
	st, err := s.Jobs.Get(job)
	if err != nil {
		return nil, "", err
	}
	sets := slices.SortedFunc(slices.Values(st.Datasets), func(a, b jobs.Set) int { return cmp.Compare(a.Dataset, b.Dataset) })
	if name := query.Get("dataset"); name != "" {
		sets = slices.DeleteFunc(sets, func(set jobs.Set) bool { return set.Dataset != name })
		if len(sets) == 0 {
			return nil, "", &Error{Code: CodeNotFound, Message: "job " + job + " makes no data set " + name}
		}
	}
	return page(query, sets, true, func(set *jobs.Set) string { return set.Dataset })
}

// PauseAsk is the body that pauses a job.
type PauseAsk struct {
	Reason string `json:"reason,omitempty"`
}

func (s *server) pauseJob(w http.ResponseWriter, r *http.Request) {
	var ask PauseAsk
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
	Next string      `json:"next,omitempty"` // after= of the page that follows; none = this is the last
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
	Next  string   `json:"next,omitempty"` // after= of the page that follows; none = this is the last
}

// PlanOf is what a run of one data set would do.
type PlanOf struct {
	jobs.Set
	Preview *loader.Preview `json:"preview"`        // with the ranges, splits, hours and retired files the page holds
	Counts  PlanCounts      `json:"counts"`         // of the whole
	Plan    *loader.Plan    `json:"plan,omitempty"` // with whole=true
}

// PlanCounts is how long the lists of a preview are, on all its pages.
type PlanCounts struct {
	Ranges  int `json:"ranges"`
	Splits  int `json:"splits"`
	Hours   int `json:"hours"`
	Retires int `json:"retires"`
}

// previews is the part of previews that an answer holds: a page of their lists, or
// with ?whole= all of them, and the plans.
type previews struct {
	part
	whole bool
}

func previewPart(query url.Values) (previews, error) {
	p, err := partOf(query)
	whole := truth(query, "whole")
	if whole {
		p.left = maxEntries
	}
	return previews{p, whole}, err
}

// planned refuses a page of other plans than the page before. Their ids are no help:
// one has the moment in it.
func (p *previews) planned(all ...*jobs.Planned) error {
	if p.whole {
		return nil
	}
	var lists []any
	for _, one := range all {
		if one.Preview == nil {
			continue
		}
		v := *one.Preview
		lists = append(lists, v.Ranges, v.Retires)
		for _, split := range v.Splits {
			lists = append(lists, split.Ranges)
		}
		for _, hour := range v.Hours {
			lists = append(lists, hour.Hour)
		}
	}
	return p.same(lists)
}

// view is what the answer holds of one preview.
func (p *previews) view(planned *jobs.Planned) (out PlanOf) {
	if p.whole {
		out.Plan = planned.Plan
	}
	if planned.Preview == nil {
		return out
	}
	v := *planned.Preview
	out.Counts = PlanCounts{len(v.Ranges), len(v.Splits), len(v.Hours), len(v.Retires)}
	if !p.whole {
		v.Ranges, v.Splits = stretch(&p.part, v.Ranges), stretch(&p.part, v.Splits)
		v.Hours, v.Retires = stretch(&p.part, v.Hours), stretch(&p.part, v.Retires)
	}
	out.Preview = &v
	return out
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
	page, err := previewPart(r.URL.Query())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if ask.Topic != "" {
		sets = slices.DeleteFunc(sets, func(set jobs.Set) bool { return set.Topic != ask.Topic })
	}
	all := make([]*jobs.Planned, len(sets))
	for i, set := range sets {
		all[i], err = s.Plan(r.Context(), spec, set, jobs.Ask{UpTo: to, AcceptGap: ask.AcceptGap, By: by(r), Scan: ask.Scan})
		if err != nil {
			s.fail(w, r, err)
			return
		}
	}
	if err := page.planned(all...); err != nil {
		s.fail(w, r, err)
		return
	}
	out := PlanList{Plans: make([]PlanOf, len(all))}
	for i := range all {
		out.Plans[i] = page.view(all[i])
		out.Plans[i].Set = sets[i]
	}
	out.Next = page.next()
	reply(w, http.StatusOK, out)
}
