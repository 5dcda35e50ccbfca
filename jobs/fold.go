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
type fold struct {
	jobs  map[string]*jobState
	runs  map[string]*Run
	byJob map[string][]*Run // in queue order
	seq   int64             // of the last run
}

// jobState is one job: its record, and what follows from it.
type jobState struct {
	Job
	spec   *Spec // nil when the text no longer parses
	broken error
	ticks  []*Tick // ascending
}

func newFold() *fold {
	return &fold{jobs: map[string]*jobState{}, runs: map[string]*Run{}, byJob: map[string][]*Run{}}
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
	default:
		return fmt.Errorf("journal record %s: unknown kind", key)
	}
	if err != nil {
		return fmt.Errorf("journal record %s: %w", key, err)
	}
	return nil
}

func (f *fold) applyJob(name string, value []byte) error {
	if value == nil {
		delete(f.jobs, name)
		return nil
	}
	var j Job
	if err := json.Unmarshal(value, &j); err != nil {
		return err
	}
	state := f.jobs[name]
	if state == nil {
		state = &jobState{}
		f.jobs[name] = state
	}
	if state.spec == nil || state.Text != j.Text || state.Path != j.Path {
		state.spec, state.broken = Parse([]byte(j.Text), j.Path)
	}
	state.Job = j
	return nil
}

func (f *fold) applyTick(rest string, value []byte) error {
	name, at, _ := strings.Cut(rest, "/")
	state := f.jobs[name]
	if value == nil {
		if state != nil {
			state.ticks = slices.DeleteFunc(state.ticks, func(t *Tick) bool { return t.Tick.UTC().Format(tickKey) == at })
		}
		return nil
	}
	var t Tick
	if err := json.Unmarshal(value, &t); err != nil {
		return err
	}
	if state == nil {
		return nil // of a deleted job; the record goes with the next compaction
	}
	i, found := slices.BinarySearchFunc(state.ticks, t.Tick, func(have *Tick, want time.Time) int { return have.Tick.Compare(want) })
	if found {
		state.ticks[i] = &t
	} else {
		state.ticks = slices.Insert(state.ticks, i, &t)
	}
	return nil
}

func (f *fold) applyRun(id string, value []byte) error {
	old := f.runs[id]
	if value == nil {
		if old != nil {
			delete(f.runs, id)
			f.byJob[old.Job] = slices.DeleteFunc(f.byJob[old.Job], func(r *Run) bool { return r == old })
		}
		return nil
	}
	r := &Run{}
	if err := json.Unmarshal(value, r); err != nil {
		return err
	}
	f.seq = max(f.seq, r.Seq)
	f.runs[id] = r
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

// tickRuns lists the runs made for a tick, oldest first.
func (f *fold) tickRuns(job string, tick time.Time) []*Run {
	var out []*Run
	for _, r := range f.byJob[job] {
		if r.Tick.Equal(tick) && !tick.IsZero() {
			out = append(out, r)
		}
	}
	return out
}

// lastGood is the newest run of a job that ended well.
func (f *fold) lastGood(job string) *Run {
	var best *Run
	for _, r := range f.byJob[job] {
		if r.Good() && (best == nil || r.Ended.After(best.Ended)) {
			best = r
		}
	}
	return best
}

// surplus lists the records to take away so that no job keeps more than keep
// ended runs and ticks.
func (f *fold) surplus(job string, keep int) []entry {
	var out []entry
	ended := 0
	for _, r := range f.byJob[job] {
		if !r.Open() {
			ended++
		}
	}
	for _, r := range f.byJob[job] {
		if ended <= keep {
			break
		}
		if !r.Open() {
			out = append(out, entry{key: "run/" + r.Run})
			ended--
		}
	}
	if state := f.jobs[job]; state != nil {
		for _, t := range state.ticks[:max(0, len(state.ticks)-keep)] {
			out = append(out, entry{key: tickEntry(t).key})
		}
	}
	return out
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
