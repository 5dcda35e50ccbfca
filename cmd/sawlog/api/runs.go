package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sawlog/jobs"
	"sawlog/loader"
)

// listRuns lists runs, newest first.
func (s *server) listRuns(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	f, err := s.runFilter(query)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	limit := f.Limit
	f.Limit++ // to know whether there is more
	runs := s.Jobs.Runs(f)
	out := RunList{Runs: runs[:fitting(runs, min(limit, len(runs)), new(int))]}
	if n := len(out.Runs); n < len(runs) {
		out.Next = out.Runs[n-1].Run
	}
	reply(w, http.StatusOK, out)
}

func (s *server) runFilter(query url.Values) (f jobs.RunFilter, err error) {
	f = jobs.RunFilter{Job: query.Get("job"), Status: query.Get("status"), Kind: query.Get("kind"), Backfill: query.Get("backfill"), After: query.Get("after")}
	if f.Limit, err = number(query, "limit", 50, 1, pageMost); err != nil {
		return f, err
	}
	if f.Tick, err = moment(query.Get("tick"), f.Tick); err != nil {
		return f, err
	}
	if f.Since, err = moment(query.Get("since"), f.Since); err != nil {
		return f, err
	}
	if f.Until, err = moment(query.Get("until"), f.Until); err != nil {
		return f, err
	}
	if f.Kind != "" && !slices.Contains(jobs.RunKinds, f.Kind) {
		return f, &Error{Code: CodeInvalid, Message: fmt.Sprintf("kind %q: want %s", f.Kind, strings.Join(jobs.RunKinds, ", "))}
	}
	if f.Status != "" && !slices.Contains(jobs.RunStates, f.Status) {
		return f, &Error{Code: CodeInvalid, Message: fmt.Sprintf("status %q: want %s", f.Status, strings.Join(jobs.RunStates, ", "))}
	}
	if f.Job != "" {
		if _, err := s.Jobs.Get(f.Job); err != nil {
			return f, err
		}
	}
	if f.Backfill != "" {
		if _, err := s.Jobs.GetBackfill(f.Backfill); err != nil {
			return f, err
		}
	}
	if f.After != "" {
		if _, err := s.Jobs.Run(f.After); err != nil {
			return f, pageGone(f.After)
		}
	}
	return f, nil
}

// RunDetail is a run with what its data set's ledger says of it.
type RunDetail struct {
	*jobs.Run
	Planned *loader.Plan   `json:"planned,omitempty"` // its plan, but for the splits; none where it has none, or the plan is gone
	Splits  []loader.Split `json:"splits,omitempty"`  // those of the plan, as many as the page holds
	Commit  *loader.Record `json:"commit,omitempty"`  // with the inputs, files, retires and sealed hours the page holds; none when it has not committed
	Counts  RunCounts      `json:"counts,omitzero"`   // of the whole
	Unread  string         `json:"unread,omitempty"`  // why plan and commit can't be read where the data set is
	Next    string         `json:"next,omitempty"`    // after= of the page that follows; none = this is the last
}

// RunCounts is how much there is of a run, on all pages of its detail.
type RunCounts struct {
	Splits int `json:"splits"`
	Inputs int `json:"inputs"`
	Files  int `json:"files"`
}

// getRun answers one run; with ?detail= the splits of its plan and its commit too,
// in pages: their lists may be long.
func (s *server) getRun(w http.ResponseWriter, r *http.Request) {
	run, err := s.Jobs.Run(r.PathValue("run"))
	if err != nil || !truth(r.URL.Query(), "detail") {
		s.answer(w, r, run, err)
		return
	}
	if s.Detail == nil {
		s.fail(w, r, notAvailable("the detail of a run"))
		return
	}
	spec, err := s.Jobs.Spec(run.Job)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	page, err := partOf(r.URL.Query())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := RunDetail{Run: run}
	plan, commit, err := s.Detail(r.Context(), spec, run)
	if err != nil {
		out.Unread = err.Error() // what is known here is answered all the same
	}
	if plan != nil {
		out.Counts.Splits = len(plan.Splits)
	}
	if commit != nil {
		out.Counts.Inputs, out.Counts.Files = len(commit.Inputs), len(commit.Files)
	}
	if other := page.same([]any{run.Plan, run.Ledger, out.Counts}); other != nil {
		s.fail(w, r, cmp.Or(err, other)) // what can't be read has no further pages
		return
	}
	if plan != nil {
		bare := *plan
		bare.Splits = []loader.Split{}
		out.Planned, out.Splits = &bare, stretch(&page, plan.Splits)
	}
	if commit != nil {
		rec := *commit
		rec.Inputs, rec.Files = stretch(&page, rec.Inputs), stretch(&page, rec.Files)
		rec.Retires, rec.Sealed = stretch(&page, rec.Retires), stretch(&page, rec.Sealed)
		out.Commit = &rec
	}
	out.Next = page.next()
	reply(w, http.StatusOK, out)
}

func (s *server) cancelRun(w http.ResponseWriter, r *http.Request) {
	run, err := s.Jobs.Cancel(r.Context(), r.PathValue("run"), by(r))
	s.answer(w, r, run, err)
}

// Retry is the body that queues an ended run again.
type Retry struct {
	AcceptBad bool   `json:"accept_bad,omitempty"`
	AcceptGap string `json:"accept_gap,omitempty"`
}

func (s *server) retryRun(w http.ResponseWriter, r *http.Request) {
	var ask Retry
	if err := body(r, &ask); err != nil {
		s.fail(w, r, err)
		return
	}
	run, err := s.Jobs.Retry(r.Context(), r.PathValue("run"), by(r), ask.AcceptBad, ask.AcceptGap)
	s.answer(w, r, run, err)
}

// AgainAsk is the body that has the offsets of a committed run loaded again by
// the job as it is now.
type AgainAsk struct {
	Bad    bool `json:"bad,omitempty"` // only splits with quarantined records
	DryRun bool `json:"dry_run,omitempty"`
}

// Again is the answer: the run that was queued, or what it would do.
type Again struct {
	Run     *jobs.Run       `json:"run,omitempty"`
	Root    string          `json:"root,omitempty"`
	Plan    *loader.Plan    `json:"plan,omitempty"` // with whole=true
	Preview *loader.Preview `json:"preview,omitempty"`
	Counts  *PlanCounts     `json:"counts,omitempty"` // of the whole preview
	Next    string          `json:"next,omitempty"`   // after= of the page that follows; none = this is the last
}

func (s *server) againRun(w http.ResponseWriter, r *http.Request) {
	var ask AgainAsk
	if err := body(r, &ask); err != nil {
		s.fail(w, r, err)
		return
	}
	if !ask.DryRun {
		run, err := s.Jobs.Again(r.Context(), r.PathValue("run"), by(r), ask.Bad)
		s.answer(w, r, Again{Run: run}, err)
		return
	}
	planned, root, err := s.Jobs.PlanAgain(r.Context(), r.PathValue("run"), ask.Bad)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	page, err := previewPart(r.URL.Query())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if err := page.planned(planned); err != nil {
		s.fail(w, r, err)
		return
	}
	one := page.view(planned)
	reply(w, http.StatusOK, Again{Root: root, Plan: one.Plan, Preview: one.Preview, Counts: &one.Counts, Next: page.next()})
}

// overRun answers what the loader finds out about a committed run.
func (s *server) overRun(what string, do func(context.Context, *jobs.Spec, jobs.Set, string) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if do == nil {
			s.fail(w, r, notAvailable(what))
			return
		}
		run, err := s.Jobs.Run(r.PathValue("run"))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		spec, err := s.Jobs.Spec(run.Job)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		report, err := do(r.Context(), spec, jobs.Set{Dataset: run.Dataset, Topic: run.Topic}, run.Run)
		s.report(w, r, report, err)
	}
}
