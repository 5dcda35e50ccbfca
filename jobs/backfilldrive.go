package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sawlog/loader"
)

// BackfillView is a backfill as people see it.
type BackfillView struct {
	Backfill
	DryRun bool           `json:"dry_run,omitempty"`
	Total  int            `json:"total"`           // items
	Counts map[string]int `json:"counts"`          // items by state
	Rows   int64          `json:"rows"`            // loaded so far; of a preview: at most to be loaded
	Bytes  int64          `json:"bytes,omitempty"` // of a preview: of the log, estimated
	Files  int64          `json:"files,omitempty"` // of a preview, estimated
	Items  []ItemView     `json:"items,omitempty"` // in the order they are carried out
	Say    string         `json:"message"`
}

// ItemView is an item and where it stands.
type ItemView struct {
	Item
	State  string  `json:"state"`
	Reason string  `json:"reason,omitempty"`
	Window *Window `json:"window,omitempty"` // of a preview
}

// openBackfill is the open backfill of a job, or nil.
func (s *Scheduler) openBackfill(job string) *Backfill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f.backfills[s.f.driven[job]]
}

// drive takes the open backfill of a job on. The caller holds act.
func (s *Scheduler) drive(name string, now time.Time) error {
	b := s.openBackfill(name)
	if b == nil {
		return nil
	}
	j, err := s.job(name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	items := s.f.items[b.ID]
	facts, runs := s.f.facts(b)
	s.mu.Unlock()
	m := nextMove(b.Status, facts)
	for _, i := range m.Cancel {
		if err := s.stopItem(runs[i].clone(), b.ChangedBy); err != nil {
			return err
		}
	}
	for _, i := range m.Queue {
		if err := s.queueItem(j, b, &items[i]); err != nil {
			return err
		}
	}
	if m.End == "" {
		return nil
	}
	return s.endBackfill(b, items, facts, runs, m.End, now)
}

// queueItem queues the run of an item, made for it or ended before.
func (s *Scheduler) queueItem(j *jobState, b *Backfill, it *Item) error {
	s.mu.Lock()
	r := s.f.runs[it.Run]
	s.mu.Unlock()
	if r != nil {
		r = r.clone()
	} else {
		r = s.newRun(j, Set{Dataset: it.Dataset, Topic: it.Topic}, it.Run, ByBackfill, b.By)
		r.Tick, r.UpTo, r.Again = it.Tick, it.Tick, it.Record
	}
	r.Backfill, r.Round = b.ID, b.Round
	return s.again(s.ctx, r, b.By, false, b.AcceptGap)
}

// stopItem ends an item's run, at once when it is queued, else as soon as it can.
func (s *Scheduler) stopItem(r *Run, by string) error {
	s.mu.Lock()
	a := s.active[r.Run]
	if a != nil {
		a.by = by
	}
	s.mu.Unlock()
	if a != nil {
		a.cancel(errCancelled)
		return nil
	}
	if r.Status != Queued {
		return nil // it is just ending
	}
	_, err := s.cancelQueued(s.ctx, r, by)
	if loader.ExitCode(err) == loader.ExitConflict {
		return nil // it has committed, and will find that out
	}
	return err
}

// endBackfill writes down how each item ended, and then that the backfill has.
func (s *Scheduler) endBackfill(b *Backfill, items []Item, facts []itemFact, runs []*Run, status string, now time.Time) error {
	items = slices.Clone(items)
	for i := range items {
		items[i].Status = facts[i].State
		if status == BackfillCancelled && facts[i].State == ItemWaiting {
			items[i].Status = Cancelled
		}
		if runs[i] != nil {
			items[i].Rows = runs[i].Rows
		}
	}
	if err := s.append(s.ctx, itemsEntry(b.ID, items)); err != nil {
		return err
	}
	ended := *b
	ended.Status, ended.Ended = status, now
	s.c.Logger.Info("backfill ended", "backfill", b.ID, "job", b.Job, "status", status)
	return s.saveBackfill(s.ctx, &ended)
}

// SteerBackfill pauses, resumes or cancels a backfill, or retries what failed of
// it. Runs that are going on go on when it is paused, and stop when it is
// cancelled.
func (s *Scheduler) SteerBackfill(ctx context.Context, id, how, by string) (*BackfillView, error) {
	s.act.Lock()
	defer s.act.Unlock()
	s.mu.Lock()
	old := s.f.backfills[id]
	var failed int
	if old != nil {
		facts, _ := s.f.facts(old)
		for _, f := range facts {
			if bad(f.State) {
				failed++
			}
		}
	}
	s.mu.Unlock()
	if old == nil {
		return nil, noBackfill(id)
	}
	next, ok := steered(how, old.Status, !old.Open(), failed)
	if !ok {
		return nil, cannotSteer(old, how, failed)
	}
	b := *old
	b.Status, b.Reason, b.ChangedBy = next, how+"d", by
	switch how {
	case SteerCancel:
		b.Cut, b.Reason = true, "cancelled"
	case SteerRetry:
		b.Round++
		b.Ended, b.Reason = time.Time{}, plural(failed, "failed item")+" retried"
		if err := s.onlyBackfill(b.Job); err != nil {
			return nil, err
		}
	}
	if by != "" {
		b.Reason += " by " + by
	}
	if err := s.saveBackfill(ctx, &b); err != nil {
		return nil, err
	}
	s.kick()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f.view(&b, false), nil
}

func noBackfill(id string) error {
	return &Refusal{Kind: ErrNotFound, Msg: fmt.Sprintf("no backfill %q", id), Hint: "sawlog backfill list shows them"}
}

// CannotSteer is why a backfill can't be steered so, nil where it can.
func (b *BackfillView) CannotSteer(how string) error {
	failed := b.Counts[Failed] + b.Counts[Partial]
	if _, ok := steered(how, b.Status, !b.Open(), failed); ok {
		return nil
	}
	return cannotSteer(&b.Backfill, how, failed)
}

func cannotSteer(b *Backfill, how string, failed int) error {
	r := &Refusal{
		Kind: ErrConflict, Msg: fmt.Sprintf("backfill %s is %s: it cannot be %sd", b.ID, b.Status, how),
		Hint: "sawlog backfill get " + b.ID + " shows how it stands",
	}
	switch {
	case how == SteerCancel:
		r.Msg = fmt.Sprintf("backfill %s is %s: it cannot be cancelled", b.ID, b.Status)
	case how == SteerRetry && b.Open():
		r.Msg, r.Hint = fmt.Sprintf("backfill %s is %s: it can be retried once it has ended", b.ID, b.Status), "sawlog runs retry RUN retries one run now"
	case how == SteerRetry && failed == 0:
		r.Msg, r.Hint = fmt.Sprintf("backfill %s is %s: no item of it failed", b.ID, b.Status), "another backfill --only missing makes what was cancelled"
	}
	return r
}

// Backfills lists backfills, newest first, without their items; an empty job
// means all jobs.
func (s *Scheduler) Backfills(job string) []*BackfillView {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []*BackfillView{}
	for _, b := range s.f.backfills {
		if job == "" || b.Job == job {
			out = append(out, s.f.view(b, false))
		}
	}
	slices.SortFunc(out, func(a, b *BackfillView) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return out
}

// GetBackfill gives one backfill with its items.
func (s *Scheduler) GetBackfill(id string) (*BackfillView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.f.backfills[id]
	if b == nil {
		return nil, noBackfill(id)
	}
	return s.f.view(b, true), nil
}

func (f *fold) view(b *Backfill, full bool) *BackfillView {
	items := f.items[b.ID]
	facts, runs := f.facts(b)
	v := viewOf(b, items, facts)
	for i := range v.Items {
		if runs[i] != nil {
			v.Items[i].Rows, v.Items[i].Reason = runs[i].Rows, runs[i].Reason
		}
		v.Rows += v.Items[i].Rows
	}
	if !full {
		v.Items = nil
	}
	return v
}

func waitingFacts(items []Item) []itemFact {
	facts := make([]itemFact, len(items))
	for i := range items {
		facts[i] = itemFact{Dataset: items[i].Dataset, State: ItemWaiting}
	}
	return facts
}

func viewOf(b *Backfill, items []Item, facts []itemFact) *BackfillView {
	v := &BackfillView{Backfill: *b, Total: len(items), Counts: map[string]int{}, Items: make([]ItemView, len(items))}
	for i := range items {
		v.Counts[facts[i].State]++
		v.Items[i] = ItemView{Item: items[i], State: facts[i].State}
	}
	v.Say = v.describe()
	return v
}

// describe says how far the backfill is, for people.
func (v *BackfillView) describe() string {
	if v.Total == 0 {
		switch v.Only {
		case OnlyFailed:
			return "nothing to do: no tick of the window failed"
		case OnlyAll:
			return "nothing to do: nothing was loaded into the hours of the window"
		}
		return "nothing to do: no tick of the window is missing"
	}
	parts := make([]string, 0, len(v.Counts))
	for _, state := range slices.Sorted(maps.Keys(v.Counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", v.Counts[state], state))
	}
	return plural(v.Total, "run") + ", " + v.Order + " first: " + strings.Join(parts, ", ")
}

// previewBackfill says what each item would load if the backfill began now.
func (s *Scheduler) previewBackfill(ctx context.Context, b *Backfill, items []Item, spec *Spec, sets []Set) (*BackfillView, error) {
	v := viewOf(b, items, waitingFacts(items))
	v.ID, v.DryRun = "", true
	for i := range v.Items {
		if v.Items[i].Action != actionRetry {
			v.Items[i].Run = "" // made when it is
		}
	}
	for _, set := range sets {
		var at []int
		var asks []Ask
		for i, it := range items {
			if it.Dataset == set.Dataset {
				at, asks = append(at, i), append(asks, s.askOf(b, &it))
			}
		}
		if len(asks) == 0 {
			continue
		}
		windows, err := s.c.Runner.Windows(ctx, spec, set, asks)
		if err != nil {
			return nil, err
		}
		for n, w := range windows {
			v.Items[at[n]].Window = &w
			v.Rows, v.Bytes, v.Files = v.Rows+w.Rows, v.Bytes+w.Bytes, v.Files+w.Files
		}
	}
	return v, nil
}

// askOf is what the run of an item would plan.
func (s *Scheduler) askOf(b *Backfill, it *Item) Ask {
	r := &Run{Kind: ByBackfill, Again: it.Record, UpTo: it.Tick}
	if it.Action == actionRetry {
		s.mu.Lock()
		if old := s.f.runs[it.Run]; old != nil {
			r = old
		}
		s.mu.Unlock()
	}
	return Ask{Kind: kindOf(r), Tick: it.Tick, UpTo: r.UpTo, From: it.From, AcceptGap: b.AcceptGap, By: b.By, Again: againOf(r)}
}
