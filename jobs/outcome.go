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

// tasks gathers what is heard of the attempts at a run's splits.
type tasks struct {
	mu sync.Mutex
	at map[string]*heard // by split and attempt
}

// heard is the last of an attempt, and when its first was heard.
type heard struct {
	task  Task
	since time.Time // by this process's own clock
}

func (t *tasks) hear(p Progress) {
	if p.Task == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := fmt.Sprintf("%d/%s", p.Task.Split, p.Task.Attempt)
	h := t.at[key]
	if h == nil {
		h = &heard{since: time.Now()}
		t.at[key] = h
	}
	if p.Error == "" || h.task.Attempt == "" {
		h.task.TaskProgress = *p.Task
	}
	h.task.Error = p.Error
	h.task.MS = time.Since(h.since).Milliseconds()
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
		out = append(out, h.task)
	}
	return out
}
