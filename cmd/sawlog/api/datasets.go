package api

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
)

// Dataset is a data set: who writes it and where, and, asked for alone, what
// its ledger says.
type Dataset struct {
	jobs.Set
	Job        string           `json:"job"`
	Root       string           `json:"root"`
	Namenodes  []string         `json:"namenodes,omitempty"` // of a root on HDFS, where the job names them
	Ledger     int64            `json:"ledger"`              // head; -1 = empty
	Hours      int64            `json:"hours"`               // that have a history
	Files      int64            `json:"files"`
	Rows       int64            `json:"rows"`
	Bytes      int64            `json:"bytes"`
	Columns    []Column         `json:"columns,omitempty"`
	Partitions []PartitionState `json:"partitions,omitempty"`
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
	Datasets []Dataset `json:"datasets"`       // without what their ledgers say
	Next     string    `json:"next,omitempty"` // after= of the page that follows; none = this is the last
}

func (s *server) listDatasets(w http.ResponseWriter, r *http.Request) {
	var all []Dataset
	for _, j := range s.Jobs.List() {
		for _, set := range j.Datasets {
			all = append(all, Dataset{Set: set, Job: j.Name, Root: j.Root, Ledger: -1})
		}
	}
	slices.SortFunc(all, func(a, b Dataset) int { return cmp.Compare(a.Dataset, b.Dataset) })
	listed(s, w, r, all, true, func(d *Dataset) string { return d.Dataset }, func(part []Dataset, next string) any { return DatasetList{part, next} })
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
	spec, set, f, err := s.folded(r)
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

// folded reads the ledger of the data set a request names; nil = nothing loaded yet.
func (s *server) folded(r *http.Request) (*jobs.Spec, jobs.Set, *loader.Fold, error) {
	spec, set, err := s.dataset(r.PathValue("dataset"))
	if err != nil {
		return nil, set, nil, err
	}
	if s.Fold == nil {
		return nil, set, nil, notAvailable("reading ledgers")
	}
	f, err := s.Fold(r.Context(), spec, set)
	return spec, set, f, err
}

// DatasetHours is the answer to GET /api/v1/datasets/{dataset}/hours.
type DatasetHours struct {
	Hours []loader.HourState `json:"hours"`
	Next  string             `json:"next,omitempty"` // after= of the page that follows; none = this is the last
}

func (s *server) datasetHours(w http.ResponseWriter, r *http.Request) {
	from, to, err := span(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	_, _, f, err := s.folded(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var hours []loader.HourState
	if f != nil {
		hours = f.HourStates(from, to)
	}
	listed(s, w, r, hours, true, func(h *loader.HourState) string { return h.Hour }, func(part []loader.HourState, next string) any { return DatasetHours{part, next} })
}

// DatasetFiles is the answer to GET /api/v1/datasets/{dataset}/files.
type DatasetFiles struct {
	Files []*loader.Visible `json:"files"`
	Next  string            `json:"next,omitempty"` // after= of the page that follows; none = this is the last
}

// datasetFiles lists files; with bounds those of the hours in them, and not what
// is in quarantine, which is of no hour.
func (s *server) datasetFiles(w http.ResponseWriter, r *http.Request) {
	from, to, err := span(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	_, _, f, err := s.folded(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var files []*loader.Visible
	if f != nil {
		files = f.All()
	}
	if from != 0 || to != 0 {
		files = slices.DeleteFunc(files, func(v *loader.Visible) bool { return v.Hour == nil || *v.Hour < from || to != 0 && *v.Hour >= to })
	}
	listed(s, w, r, files, true, func(v **loader.Visible) string { return (*v).Path }, func(part []*loader.Visible, next string) any { return DatasetFiles{part, next} })
}

// span reads from and to in seconds since 1970; 0 = none.
func span(r *http.Request) (from, to int64, err error) {
	for name, at := range map[string]*int64{"from": &from, "to": &to} {
		t, err := moment(r.URL.Query().Get(name), time.Time{})
		if err != nil {
			return 0, 0, err
		}
		if !t.IsZero() {
			*at = t.Unix()
		}
	}
	return from, to, nil
}

// fill takes in what the ledger says.
func (d *Dataset) fill(f *loader.Fold) {
	hours := f.HourStates(0, 0)
	d.Ledger, d.Hours = f.Head, int64(len(hours))
	for _, h := range hours {
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
	s.report(w, r, report, err)
}

// report answers with a report, also beside the error of what it found.
func (s *server) report(w http.ResponseWriter, r *http.Request, report any, err error) {
	if err == nil {
		reply(w, http.StatusOK, report)
		return
	}
	e := *asError(err)
	if raw, unwritten := json.Marshal(report); unwritten == nil && string(raw) != "null" {
		e.Report = raw
	}
	s.fail(w, r, &e)
}
