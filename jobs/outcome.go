package jobs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sawlog/loader"
)

// covered tells that nothing is left to load.
func (p *Planned) covered() bool {
	return p.Preview != nil && p.Preview.Status == loader.PreviewCovered
}

// resumes tells that the plan was found open.
func (p *Planned) resumes() bool { return p.Preview != nil && p.Preview.Status == loader.PreviewResume }

// joined is what two loads of one run brought, one after the other; either may
// be nil. Plan and ledger number are those of the later one that committed.
func joined(a, b *loader.Outcome) *loader.Outcome {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	c := *b
	if b.Number < 0 {
		c.Status, c.Plan, c.Number = a.Status, cmp.Or(b.Plan, a.Plan), a.Number
	}
	c.Rows += a.Rows
	c.Quarantined += a.Quarantined
	c.Skipped += a.Skipped
	c.Files += a.Files
	c.Bytes += a.Bytes
	c.Ranges = slices.Concat(a.Ranges, b.Ranges)
	c.Hours = joinedHours(a.Hours, b.Hours)
	c.Drift, c.NewColumns = slices.Concat(a.Drift, b.Drift), slices.Concat(a.NewColumns, b.NewColumns)
	c.Notes = maps.Clone(a.Notes)
	for what, n := range b.Notes {
		if c.Notes == nil {
			c.Notes = map[string]int64{}
		}
		c.Notes[what] += n
	}
	return &c
}

func joinedHours(a, b []loader.OutcomeHour) []loader.OutcomeHour {
	out := slices.Clone(a)
	for _, h := range b {
		i, found := slices.BinarySearchFunc(out, h.Hour, func(have loader.OutcomeHour, hour string) int { return cmp.Compare(have.Hour, hour) })
		if !found {
			out = slices.Insert(out, i, loader.OutcomeHour{Hour: h.Hour})
		}
		out[i].Rows += h.Rows
		out[i].Late += h.Late
	}
	return out
}

// tasks gathers what is heard of an attempt at a run: the stretches it has gone
// through, and the attempts at its splits. It is read while they go on.
type tasks struct {
	began  time.Time // by this process's own clock
	mu     sync.Mutex
	at     map[string]*heard // by split and attempt
	phases []Phase           // those that have ended
	phase  string            // the one that goes on
	since  time.Time
}

// heard is the last of an attempt, and when its first was heard, and the first of
// the phase it is in.
type heard struct {
	task         Task
	since, phase time.Time // by this process's own clock
}

// enter ends a phase and begins the next; "" begins none.
func (t *tasks) enter(phase string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phases = t.stretches(now)
	t.phase, t.since = phase, now
}

// stretches are the phases gone through until now. The caller holds mu.
func (t *tasks) stretches(now time.Time) []Phase {
	if t.phase == "" {
		return slices.Clone(t.phases)
	}
	return append(slices.Clone(t.phases), Phase{Name: t.phase, MS: now.Sub(t.since).Milliseconds()})
}

// show puts what is known by now into a copy of the run.
func (t *tasks) show(r *Run) {
	t.mu.Lock()
	r.Phases = t.stretches(time.Now())
	t.mu.Unlock()
	r.Tasks = t.list()
}

func (t *tasks) hear(p Progress) {
	if p.Task == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key, now := fmt.Sprintf("%d/%s", p.Task.Split, p.Task.Attempt), time.Now()
	h := t.at[key]
	if h == nil {
		h = &heard{since: now, phase: now}
		h.task.Since = now.Sub(t.began).Milliseconds()
		t.at[key] = h
	}
	if word := h.word(p); p.Error == "" || h.task.Attempt == "" {
		h.advance(&word, now)
	}
	h.task.Error = p.Error
	h.task.MS = now.Sub(h.since).Milliseconds()
}

// word is how far the attempt is by what is heard now. That it has ended is said
// without its phase and its counts.
func (h *heard) word(p Progress) loader.TaskProgress {
	word := *p.Task
	if word.Phase != "" {
		return word
	}
	if h.task.Attempt != "" {
		word = h.task.TaskProgress
	}
	if p.Error == "" {
		word.Phase = "done"
	}
	return word
}

// advance takes in how far the attempt is. The time since the last word counts
// for the phase it was in then.
func (h *heard) advance(p *loader.TaskProgress, now time.Time) {
	if was := h.task.Phase; was != "" {
		n := len(h.task.Phases)
		if n == 0 || h.task.Phases[n-1].Name != was {
			h.task.Phases = append(h.task.Phases, Phase{Name: was})
			n++
		}
		h.task.Phases[n-1].MS += now.Sub(h.phase).Milliseconds()
	}
	h.task.TaskProgress, h.phase = *p, now
}

// list is what was heard, by split and in order of time, as much as a run keeps.
func (t *tasks) list() []Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Collect(maps.Values(t.at))
	slices.SortFunc(all, func(a, b *heard) int {
		return cmp.Or(cmp.Compare(a.task.Split, b.task.Split), a.since.Compare(b.since), cmp.Compare(a.task.Attempt, b.task.Attempt))
	})
	var out []Task
	for _, h := range all[:min(len(all), tasksKept)] {
		task := h.task
		task.Phases = slices.Clone(task.Phases) // it may go on
		out = append(out, task)
	}
	return out
}
