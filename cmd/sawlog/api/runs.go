package api

import (
	"context"
	"net/http"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
)

func (s *server) routeRuns(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/runs", s.listRuns)
	mux.HandleFunc("GET /api/v1/runs/{run}", s.getRun)
	mux.HandleFunc("POST /api/v1/runs/{run}/cancel", s.cancelRun)
	mux.HandleFunc("POST /api/v1/runs/{run}/retry", s.retryRun)
	mux.HandleFunc("POST /api/v1/runs/{run}/again", s.againRun)
	mux.HandleFunc("POST /api/v1/runs/{run}/rerun", s.overRun("rerun", s.Rerun))
	mux.HandleFunc("POST /api/v1/runs/{run}/verify", s.overRun("verify", s.Verify))
}

// listRuns lists runs, newest first; ?job= ?status= ?tick= ?limit=.
func (s *server) listRuns(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, err := number(query, "limit", 50, 1, 10_000)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	f := jobs.RunFilter{Job: query.Get("job"), Status: query.Get("status"), Limit: limit}
	if f.Tick, err = moment(query.Get("tick"), f.Tick); err != nil {
		s.fail(w, r, err)
		return
	}
	if f.Job != "" {
		if _, err := s.Jobs.Get(f.Job); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	reply(w, http.StatusOK, RunList{Runs: s.Jobs.Runs(f)})
}

// RunDetail is a run with what its data set's ledger says of it.
type RunDetail struct {
	*jobs.Run
	Splits []loader.Split `json:"splits"`           // of its plan; empty when it has none
	Commit *loader.Record `json:"commit,omitempty"` // with every file; nil when it has not committed
}

// getRun answers one run; with ?detail= the splits of its plan and its commit too.
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
	out := RunDetail{Run: run}
	out.Splits, out.Commit, err = s.Detail(r.Context(), spec, run)
	s.answer(w, r, out, err)
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
	Plan    *loader.Plan    `json:"plan,omitempty"`
	Preview *loader.Preview `json:"preview,omitempty"`
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
	reply(w, http.StatusOK, Again{Root: root, Plan: planned.Plan, Preview: planned.Preview})
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
		s.answer(w, r, report, err)
	}
}

func (s *server) routeDatasets(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/datasets", s.listDatasets)
	mux.HandleFunc("GET /api/v1/datasets/{dataset}", s.getDataset)
	mux.HandleFunc("POST /api/v1/datasets/{dataset}/verify", s.verifyDataset)
}

// Dataset is a data set: who writes it and where, and, asked for alone, what
// its ledger says.
type Dataset struct {
	jobs.Set
	Job        string             `json:"job"`
	Root       string             `json:"root"`
	Namenodes  []string           `json:"namenodes,omitempty"` // of a root on HDFS, where the job names them
	Ledger     int64              `json:"ledger"`              // head; -1 = empty
	Files      int64              `json:"files"`
	Rows       int64              `json:"rows"`
	Bytes      int64              `json:"bytes"`
	Columns    []Column           `json:"columns,omitempty"`
	Partitions []PartitionState   `json:"partitions,omitempty"`
	Hours      []loader.HourState `json:"hours,omitempty"`
}

// Column is one column of a data set.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// PartitionState is how far a partition is loaded.
type PartitionState struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Start     int64  `json:"start"`
	Next      int64  `json:"next"` // the offset the next load starts at
}

// DatasetList is the answer to GET /api/v1/datasets.
type DatasetList struct {
	Datasets []Dataset `json:"datasets"`
}

func (s *server) listDatasets(w http.ResponseWriter, r *http.Request) {
	out := DatasetList{Datasets: []Dataset{}}
	for _, j := range s.Jobs.List() {
		for _, set := range j.Datasets {
			out.Datasets = append(out.Datasets, Dataset{Set: set, Job: j.Name, Root: j.Root, Ledger: -1})
		}
	}
	reply(w, http.StatusOK, out)
}

// dataset finds the job that writes a data set.
func (s *server) dataset(name string) (*jobs.Spec, jobs.Set, error) {
	for _, j := range s.Jobs.List() {
		for _, set := range j.Datasets {
			if set.Dataset == name {
				spec, err := s.Jobs.Spec(j.Name)
				return spec, set, err
			}
		}
	}
	return nil, jobs.Set{}, &Error{Code: CodeNotFound, Message: "no job of this server writes a data set " + name, Hint: "GET /api/v1/datasets lists them"}
}

func (s *server) getDataset(w http.ResponseWriter, r *http.Request) {
	spec, set, err := s.dataset(r.PathValue("dataset"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if s.Fold == nil {
		s.fail(w, r, notAvailable("reading ledgers"))
		return
	}
	f, err := s.Fold(r.Context(), spec, set)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := Dataset{Set: set, Job: spec.Name, Root: spec.Output.Root, Namenodes: spec.Output.Access.Namenodes, Ledger: -1}
	if l, err := spec.Load(set.Topic, time.Now()); err == nil {
		out.Root = l.Root
	}
	if f != nil {
		out.fill(f)
	}
	reply(w, http.StatusOK, out)
}

// fill takes in what the ledger says.
func (d *Dataset) fill(f *loader.Fold) {
	d.Ledger, d.Hours = f.Head, f.HourStates(0, 0)
	for _, h := range d.Hours {
		d.Files, d.Rows, d.Bytes = d.Files+h.Files, d.Rows+h.Rows, d.Bytes+h.Bytes
	}
	if f.Schema != nil {
		for _, c := range f.Schema.Fields {
			d.Columns = append(d.Columns, Column{Name: c.Name, Type: c.Type.String()})
		}
	}
	for key, p := range f.Partitions {
		d.Partitions = append(d.Partitions, PartitionState{Topic: p.Topic, Partition: key.Partition, Start: int64(p.Start), Next: int64(p.Next())})
	}
	sortPartitions(d.Partitions)
}

func (s *server) verifyDataset(w http.ResponseWriter, r *http.Request) {
	if s.Verify == nil {
		s.fail(w, r, notAvailable("verify"))
		return
	}
	spec, set, err := s.dataset(r.PathValue("dataset"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	report, err := s.Verify(r.Context(), spec, set, "")
	s.answer(w, r, report, err)
}
