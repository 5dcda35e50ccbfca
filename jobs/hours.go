package jobs

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"sawlog/loader"
)

// The states of an hour of the grid.
const (
	HourMissing = "missing" // nothing is in it
	HourFilling = "filling" // rows are in it, more may come
	HourSealed  = "sealed"  // complete
	HourLate    = "late"    // sealed, then rows came
	HourFailed  = "failed"  // not sealed, and the run that should have filled it failed
	HourRunning = "running" // a run that may fill it is queued or going on
	HourFuture  = "future"  // not over yet and empty
	HourBefore  = "before"  // before the data set's first hour, or before the job while it has none
)

// Hour is one cell of the grid.
type Hour struct {
	Hour   time.Time `json:"hour"`
	State  string    `json:"state"`
	Rows   int64     `json:"rows"`
	Late   int64     `json:"late,omitempty"`
	Files  int       `json:"files"`
	Bytes  int64     `json:"bytes"`
	Active bool      `json:"active,omitempty"` // a run is going on, whatever the state
	Run    string    `json:"run,omitempty"`    // the last run that touched it
	Sealed int64     `json:"sealed_in"`        // ledger number of the seal; -1 = not sealed
}

// Grid is the hours of one data set.
type Grid struct {
	Job     string `json:"job"`
	Dataset string `json:"dataset"`
	Topic   string `json:"topic,omitempty"`
	Unit    string `json:"unit"`
	Head    int64  `json:"ledger"` // head of the ledger the grid was read from; -1 = empty
	Error   string `json:"error,omitempty"`
	Hours   []Hour `json:"hours"` // none = nothing is known of the ledger

	// Known is when the ledger was read that Hours tell of; with an error it is
	// when that was done last.
	Known time.Time `json:"known_at,omitzero"`
	// Reading: the ledger is read just now, and the context of who asked ended
	// before that. Hours are what was known before.
	Reading bool `json:"-"`
}

// gridLimit bounds the cells of one answer.
const gridLimit = 24 * 400

// Hours gives the grid of each data set of a job, for the units of [from, to).
func (s *Scheduler) Hours(ctx context.Context, name string, from, to time.Time) ([]Grid, error) {
	j, err := s.job(name)
	if err != nil {
		return nil, err
	}
	if j.spec == nil {
		return nil, refuse(ErrInvalid, "job %s no longer reads: %v", name, j.broken)
	}
	starts, err := units(j.spec.PartitionBy, from, to)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	sets := s.knownSets(j)
	s.mu.Unlock()
	grids := make([]Grid, 0, len(sets))
	for _, set := range sets {
		grids = append(grids, s.grid(ctx, j, set, starts))
	}
	return grids, nil
}

// Grid gives the grid of one data set of a job, for the units of [from, to).
func (s *Scheduler) Grid(ctx context.Context, name, dataset string, from, to time.Time) (Grid, error) {
	j, err := s.job(name)
	if err != nil {
		return Grid{}, err
	}
	if j.spec == nil {
		return Grid{}, refuse(ErrInvalid, "job %s no longer reads: %v", name, j.broken)
	}
	starts, err := units(j.spec.PartitionBy, from, to)
	if err != nil {
		return Grid{}, err
	}
	s.mu.Lock()
	sets := s.knownSets(j)
	s.mu.Unlock()
	for _, set := range sets {
		if set.Dataset == dataset {
			return s.grid(ctx, j, set, starts), nil
		}
	}
	return Grid{}, refuse(ErrNotFound, "job %s has no data set %q", name, dataset)
}

// grid reads one data set's cells.
func (s *Scheduler) grid(ctx context.Context, j *jobState, set Set, starts []time.Time) Grid {
	v := s.view(ctx, j, set)
	g := Grid{Job: j.Name, Dataset: set.Dataset, Topic: set.Topic, Unit: j.spec.PartitionBy.Unit, Head: -1, Hours: []Hour{}, Known: v.known, Reading: v.late}
	if v.err != nil {
		g.Error = v.err.Error()
	}
	view := v.view
	if view == nil {
		return g
	}
	g.Head = view.Head
	s.mu.Lock()
	runs := s.setRuns(j.Name, set.Dataset)
	s.mu.Unlock()
	g.Hours = cells(j.spec, view, runs, starts, j.begins(view), s.now())
	return g
}

// HourRuns lists the last runs that wrote rows into the hour or day that begins
// at start, newest first, at most limit.
func (s *Scheduler) HourRuns(job, dataset string, start time.Time, limit int) []*Run {
	key := start.UTC().Format(time.RFC3339)
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Run
	for _, r := range slices.Backward(s.f.byJob[job]) {
		if len(out) == limit {
			break
		}
		if r.Dataset == dataset && slices.ContainsFunc(r.Hours, func(h loader.OutcomeHour) bool { return h.Hour == key }) {
			out = append(out, r.clone())
		}
	}
	return out
}

// units lists the starts of the hours or days that begin in [from, to).
func units(p PartitionBy, from, to time.Time) ([]time.Time, error) {
	if !from.Before(to) {
		return nil, refuse(ErrInvalid, "the window %s..%s is empty", from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	if to.Sub(from) > gridLimit*time.Hour {
		return nil, refuse(ErrInvalid, "the window is longer than %d days", gridLimit/24)
	}
	var starts []time.Time
	for t := unitStart(p.Unit, from.In(p.where)); t.Before(to); t = unitEnd(p.Unit, t) {
		if !t.Before(from) {
			starts = append(starts, t)
		}
	}
	return starts, nil
}

// unitStart is the start of the local hour or day that holds t.
func unitStart(unit string, t time.Time) time.Time {
	if unit == "day" {
		y, m, d := t.Date()
		return time.Date(y, m, d, 0, 0, 0, 0, t.Location())
	}
	_, offset := t.Zone()
	back := time.Duration(offset%3600) * time.Second
	return t.Add(back).Truncate(time.Hour).Add(-back)
}

func unitEnd(unit string, start time.Time) time.Time {
	if unit == "day" {
		return start.AddDate(0, 0, 1)
	}
	return start.Add(time.Hour)
}

// setRuns lists copies of the runs of a data set, oldest first. The caller holds mu.
func (s *Scheduler) setRuns(job, dataset string) []*Run {
	var out []*Run
	for _, r := range s.f.byJob[job] {
		if r.Dataset == dataset {
			out = append(out, r)
		}
	}
	return out
}

// begins is the start of the data set's first hour; while it has none, the
// moment its job was applied.
func (j *jobState) begins(view *View) time.Time {
	if len(view.Hours) == 0 {
		return j.At
	}
	first := int64(math.MaxInt64)
	for at := range view.Hours {
		first = min(first, at)
	}
	return time.Unix(first, 0)
}

// cells gives each hour its state: what the ledger says first, then what the
// runs say of hours that are not sealed.
func cells(spec *Spec, view *View, runs []*Run, starts []time.Time, begins, now time.Time) []Hour {
	out := make([]Hour, len(starts))
	touched := touches(runs, starts)
	for i, start := range starts {
		facts, known := view.Hours[start.Unix()]
		h := Hour{Hour: start.UTC(), Rows: facts.Rows, Late: facts.Late, Files: facts.Files, Bytes: facts.Bytes, Sealed: -1}
		h.Run = touched[h.Hour.Format(time.RFC3339)]
		end := unitEnd(spec.PartitionBy.Unit, start)
		switch {
		case facts.Sealed && facts.Late > 0:
			h.State, h.Sealed = HourLate, facts.SealedIn
		case facts.Sealed:
			h.State, h.Sealed = HourSealed, facts.SealedIn
		case known && facts.Files > 0:
			h.State = HourFilling
		case end.After(now):
			h.State = HourFuture
		case !end.After(begins):
			h.State = HourBefore
		default:
			h.State = HourMissing
		}
		out[i] = h
	}
	overlay(spec, runs, out, lastSealed(view))
	return out
}

// touches names the last run that wrote to each of the hours.
func touches(runs []*Run, starts []time.Time) map[string]string {
	touched := map[string]string{}
	if len(starts) == 0 {
		return touched
	}
	// As text they have the order of time: all are UTC and equally long.
	first, last := starts[0].UTC().Format(time.RFC3339), starts[len(starts)-1].UTC().Format(time.RFC3339)
	for _, r := range runs {
		for _, h := range r.Hours {
			if first <= h.Hour && h.Hour <= last {
				touched[h.Hour] = r.Run
			}
		}
	}
	return touched
}

// lastSealed is the start of the newest sealed hour: a hole before it is no
// matter of a run in work.
func lastSealed(view *View) time.Time {
	last := int64(0)
	for at, facts := range view.Hours {
		if facts.Sealed {
			last = max(last, at)
		}
	}
	return time.Unix(last, 0)
}

// overlay marks the hours that runs in work or failed runs should fill. A run
// fills what came since the run before it, up to its tick or its start: the
// hours that end in that span, unless they are sealed or older than a sealed one.
func overlay(spec *Spec, runs []*Run, hours []Hour, sealed time.Time) {
	if len(hours) == 0 {
		return
	}
	before := unitEnd(spec.PartitionBy.Unit, sealed) // up to here is loaded
	first := hours[0].Hour
	for _, r := range runs {
		upTo := r.reach()
		mark := ""
		switch {
		case r.Open():
			mark = HourRunning
		case r.Status == Failed || r.Status == Partial:
			mark = HourFailed
		case r.Good():
			clearFailed(hours, upTo)
			if upTo.After(before) {
				before = upTo
			}
		}
		if mark == "" || upTo.Before(first) {
			continue
		}
		from := sort.Search(len(hours), func(i int) bool { return unitEnd(spec.PartitionBy.Unit, hours[i].Hour).After(before) })
		for i := from; i < len(hours) && hours[i].Hour.Before(upTo); i++ {
			setMark(&hours[i], mark, r)
		}
	}
}

func setMark(h *Hour, mark string, r *Run) {
	h.Active = h.Active || mark == HourRunning
	if h.State == HourSealed || h.State == HourLate {
		return
	}
	if h.State == HourBefore || mark == HourFailed && h.State == HourFuture {
		return
	}
	h.State, h.Run = mark, r.Run
}

// clearFailed takes the failed mark off hours a later run has loaded.
func clearFailed(hours []Hour, upTo time.Time) {
	for i := range hours {
		if hours[i].State == HourFailed && hours[i].Hour.Before(upTo) {
			hours[i].State = HourMissing
			if hours[i].Files > 0 {
				hours[i].State = HourFilling
			}
		}
	}
}

// reach is the moment up to which a run takes what came.
func (r *Run) reach() time.Time {
	for _, t := range []time.Time{r.UpTo, r.Tick, r.Started, r.Queued} {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// checkFresh tells when a job goes stale or fresh again: the last good run of one
// of its data sets, or its application, lies further back than freshness allows.
// The caller holds act.
func (s *Scheduler) checkFresh(name string, now time.Time) {
	s.mu.Lock()
	j := s.f.jobs[name]
	if j == nil || j.spec == nil || j.spec.Freshness == 0 {
		delete(s.stale, name)
		s.mu.Unlock()
		return
	}
	since, dataset := s.freshSince(j)
	was, is := s.stale[name], now.Sub(since) > j.spec.Freshness
	s.stale[name] = is
	spec := j.spec
	s.mu.Unlock()
	if is == was {
		return
	}
	ev := Event{Kind: "job", At: now, Job: name, Status: "fresh"}
	if is {
		ev.Status = "stale"
		ev.Reason = fmt.Sprintf("no good run since %s, freshness is %s", since.Format(time.RFC3339), FormatDuration(spec.Freshness))
		s.tellStale(spec, Notice{Event: "stale", Job: name, Dataset: dataset, At: now, Since: since, Reason: ev.Reason})
	}
	s.events.send(ev)
}

// freshSince is the moment since which the stalest data set of a job has had no
// good run. The caller holds mu.
func (s *Scheduler) freshSince(j *jobState) (since time.Time, dataset string) {
	good := s.f.lastGoods(j.Name)
	for _, set := range s.presentSets(j) {
		at := j.At
		if r := good[set.Dataset]; r != nil {
			at = latest(at, r.Ended)
		}
		if dataset == "" || at.Before(since) {
			since, dataset = at, set.Dataset
		}
	}
	if dataset == "" {
		since = j.At
	}
	return since, dataset
}
