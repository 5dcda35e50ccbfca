package jobs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"sawlog/loader"
)

// recordVersion is the version of the journal's records.
const recordVersion = 1

// tickKey is how a tick's time stands in keys and run ids.
const tickKey = "20060102T150405Z"

// fold is everything the journal says: records in, jobs, ticks and runs out.
// What Open replays and what the scheduler decides go through the same apply.
//
// Only the records of one key come in order: compaction keeps the last of each,
// so a job's ticks and runs may come before the job, which was written again.
type fold struct {
	jobs      map[string]*jobState
	loose     map[string][]*Tick // by job: of jobs whose record has not come, or is gone
	runs      map[string]*Run
	byJob     map[string][]*Run // in queue order
	byTick    map[tickOf]*Run   // the last run made for a tick
	backfills map[string]*Backfill
	items     map[string][]Item  // by backfill
	driven    map[string]string  // by job: its open backfill, of which it has one at most
	digests   map[string]*digest // by job: of its runs; none after a change
	seq       int64              // of the last run
}

// tickOf is a tick in a data set.
type tickOf struct {
	job, dataset string
	at           int64 // seconds
}

func (r *Run) tickOf() tickOf { return tickOf{r.Job, r.Dataset, r.Tick.Unix()} }

// jobState is one job: its record, and what follows from it.
type jobState struct {
	Job
	spec   *Spec // nil when the text no longer parses
	broken error
	ticks  []*Tick // ascending
}

func newFold() *fold {
	return &fold{
		jobs: map[string]*jobState{}, loose: map[string][]*Tick{}, runs: map[string]*Run{}, byJob: map[string][]*Run{},
		byTick: map[tickOf]*Run{}, backfills: map[string]*Backfill{}, items: map[string][]Item{},
		driven: map[string]string{}, digests: map[string]*digest{},
	}
}

// entry is one record to append.
type entry struct {
	key   string
	value any // nil = take the key away
}

func jobEntry(j Job) entry { j.V = recordVersion; return entry{"job/" + j.Name, &j} }

func runEntry(r *Run) entry {
	r.V = recordVersion
	if r.Ranges == nil {
		r.Ranges = []loader.OutcomeRange{}
	}
	if r.Hours == nil {
		r.Hours = []loader.OutcomeHour{}
	}
	return entry{"run/" + r.Run, r}
}

func tickEntry(t *Tick) entry {
	t.V = recordVersion
	return entry{"tick/" + t.Job + "/" + t.Tick.UTC().Format(tickKey), t}
}

// bytes gives the record as the journal keeps it.
func (e entry) bytes() (key, value []byte, err error) {
	if e.value == nil {
		return []byte(e.key), nil, nil
	}
	value, err = json.Marshal(e.value)
	return []byte(e.key), value, err
}

// apply takes one record in.
func (f *fold) apply(key, value []byte) error {
	kind, rest, _ := strings.Cut(string(key), "/")
	if value != nil {
		var head struct{ V int }
		if err := json.Unmarshal(value, &head); err != nil {
			return fmt.Errorf("journal record %s: %w", key, err)
		}
		if head.V > recordVersion {
			return fmt.Errorf("journal record %s has version %d, this binary knows %d: it was written by a newer one", key, head.V, recordVersion)
		}
	}
	var err error
	switch kind {
	case "job":
		err = f.applyJob(rest, value)
	case "tick":
		err = f.applyTick(rest, value)
	case "run":
		err = f.applyRun(rest, value)
	case "backfill":
		err = f.applyBackfill(rest, value)
	case "items":
		err = f.applyItems(rest, value)
	default:
		return fmt.Errorf("journal record %s: this release knows no %q: a newer one wrote it, run that one", key, kind)
	}
	if err != nil {
		return fmt.Errorf("journal record %s: %w", key, err)
	}
	return nil
}

func (f *fold) applyJob(name string, value []byte) error {
	delete(f.digests, name)
	if value == nil {
		if state := f.jobs[name]; state != nil && len(state.ticks) > 0 {
			f.loose[name] = state.ticks
		}
		delete(f.jobs, name)
		return nil
	}
	var j Job
	if err := json.Unmarshal(value, &j); err != nil {
		return err
	}
	state := f.jobs[name]
	if state == nil {
		state = &jobState{ticks: f.loose[name]}
		f.jobs[name] = state
		delete(f.loose, name)
	}
	if state.spec == nil || state.Text != j.Text || state.Path != j.Path {
		state.spec, state.broken = ParseApplied([]byte(j.Text), j.Path)
	}
	state.Job = j
	return nil
}

func (f *fold) applyTick(rest string, value []byte) error {
	name, at, _ := strings.Cut(rest, "/")
	state := f.jobs[name]
	ticks := f.loose[name]
	if state != nil {
		ticks = state.ticks
	}
	if value == nil {
		ticks = slices.DeleteFunc(ticks, func(t *Tick) bool { return t.Tick.UTC().Format(tickKey) == at })
	} else {
		var t Tick
		if err := json.Unmarshal(value, &t); err != nil {
			return err
		}
		i, found := slices.BinarySearchFunc(ticks, t.Tick, func(have *Tick, want time.Time) int { return have.Tick.Compare(want) })
		if found {
			ticks[i] = &t
		} else {
			ticks = slices.Insert(ticks, i, &t)
		}
	}
	switch {
	case state != nil:
		state.ticks = ticks
	case len(ticks) == 0:
		delete(f.loose, name)
	default:
		f.loose[name] = ticks
	}
	return nil
}

func (f *fold) applyRun(id string, value []byte) error {
	old := f.runs[id]
	if value == nil {
		if old != nil {
			delete(f.runs, id)
			delete(f.digests, old.Job)
			f.byJob[old.Job] = slices.DeleteFunc(f.byJob[old.Job], func(r *Run) bool { return r == old })
			if f.byTick[old.tickOf()] == old {
				delete(f.byTick, old.tickOf())
			}
		}
		return nil
	}
	r := &Run{}
	if err := json.Unmarshal(value, r); err != nil {
		return err
	}
	f.seq = max(f.seq, r.Seq)
	f.runs[id] = r
	delete(f.digests, r.Job)
	if last := f.byTick[r.tickOf()]; !r.Tick.IsZero() && (last == nil || last.Run == id || last.Seq < r.Seq) {
		f.byTick[r.tickOf()] = r
	}
	list := f.byJob[r.Job]
	if i := slices.Index(list, old); old != nil && i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	i, _ := slices.BinarySearchFunc(list, r, func(a, b *Run) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Run, b.Run)) })
	f.byJob[r.Job] = slices.Insert(list, i, r)
	return nil
}

// cursor is the moment up to which ticks have been decided on.
func (j *jobState) cursor() time.Time {
	at := j.Since
	if n := len(j.ticks); n > 0 && j.ticks[n-1].Tick.After(at) {
		at = j.ticks[n-1].Tick
	}
	return at
}

// The states of a tick in a data set that no run tells.
const (
	TickMissing   = "missing"   // nothing was made of it
	TickDue       = "due"       // the schedule is about to make its run
	TickMerged    = "merged"    // a later tick stands for it
	TickForgotten = "forgotten" // it was decided on, and no run of it is remembered
)

// tickState says what became of a tick in a data set: the status of its last
// run, or one of the states above.
func (f *fold) tickState(job string, tick time.Time, dataset string) (string, *Run) {
	if r := f.byTick[tickOf{job, dataset, tick.Unix()}]; r != nil {
		return r.Status, r
	}
	state := f.jobs[job]
	i, found := slices.BinarySearchFunc(state.ticks, tick, func(have *Tick, want time.Time) int { return have.Tick.Compare(want) })
	switch {
	case found, !tick.After(state.Forgotten):
		return TickForgotten, nil
	case i < len(state.ticks) && state.ticks[i].Merged > 0 && !tick.Before(state.ticks[i].From):
		return TickMerged, nil
	case !state.Paused && tick.After(state.cursor()):
		return TickDue, nil
	}
	return TickMissing, nil
}

// tickID names the run of a tick.
func tickID(dataset string, tick time.Time) string {
	return dataset + "-" + tick.UTC().Format(tickKey)
}

// lastGood is the newest run of a job that ended well.
func (f *fold) lastGood(job string) *Run {
	var best *Run
	for _, r := range f.lastGoods(job) {
		if best == nil || r.Ended.After(best.Ended) {
			best = r
		}
	}
	return best
}

// lastGoods are the newest runs that ended well, by data set.
func (f *fold) lastGoods(job string) map[string]*Run {
	best := map[string]*Run{}
	for _, r := range f.byJob[job] {
		if b := best[r.Dataset]; r.Good() && (b == nil || r.Ended.After(b.Ended)) {
			best[r.Dataset] = r
		}
	}
	return best
}

// surplus lists the records to take away so that no data set keeps more than
// keep ended runs, and no job more than about keep ticks and keep backfills.
// What an open backfill still looks at stays, and so does the last good run of
// each data set, which says how fresh it is.
func (f *fold) surplus(job string, keep int) []entry {
	var out []entry
	ended, good := map[string]int{}, f.lastGoods(job)
	for _, r := range f.byJob[job] {
		if !r.Open() {
			ended[r.Dataset]++
		}
	}
	for _, r := range f.byJob[job] {
		if b := f.backfills[r.Backfill]; ended[r.Dataset] > keep && !r.Open() && r != good[r.Dataset] && (b == nil || !b.Open()) {
			out = append(out, entry{key: "run/" + r.Run})
			ended[r.Dataset]--
		}
	}
	return append(append(out, f.surplusTicks(job, keep)...), f.surplusBackfills(job, keep)...)
}

// surplusTicks forgets ticks a tenth of keep at a time, because the job's own
// record has to say up to where they are forgotten, and says it first.
func (f *fold) surplusTicks(job string, keep int) []entry {
	state := f.jobs[job]
	if state == nil || len(state.ticks) <= keep+keep/10 {
		return nil
	}
	old := state.ticks[:len(state.ticks)-keep]
	rec := state.Job
	rec.Forgotten = latest(rec.Forgotten, old[len(old)-1].Tick)
	out := []entry{jobEntry(rec)}
	for _, t := range old {
		out = append(out, entry{key: tickEntry(t).key})
	}
	return out
}

// orphans lists the records of jobs that are gone: their deletion was cut off.
func (f *fold) orphans() []entry {
	var out []entry
	for _, name := range sortedKeys(f.loose) {
		for _, t := range f.loose[name] {
			out = append(out, entry{key: tickEntry(t).key})
		}
	}
	for _, id := range sortedKeys(f.runs) {
		if f.jobs[f.runs[id].Job] == nil {
			out = append(out, entry{key: "run/" + id})
		}
	}
	return append(out, f.orphanBackfills()...)
}

// open lists the open runs of a job in order.
func (f *fold) open(job string) []*Run {
	var out []*Run
	for _, r := range f.byJob[job] {
		if r.Open() {
			out = append(out, r)
		}
	}
	return out
}
