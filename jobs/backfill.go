package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Backfill is a backfill as the journal keeps it: which ticks or hours of a job
// are to be carried out again, and how far that is decided. Where its items
// stand follows from their runs.
type Backfill struct {
	V         int       `json:"v"`
	ID        string    `json:"backfill"`
	Job       string    `json:"job"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to"` // not included
	Only      string    `json:"only"`
	Order     string    `json:"order"`
	Status    string    `json:"status"`
	Cut       bool      `json:"cut,omitempty"` // cancelled once: items without a run get none
	Round     int       `json:"round"`         // how often its failed items were retried
	By        string    `json:"by,omitempty"`
	Reason    string    `json:"reason,omitempty"` // of the last change, and who made it
	ChangedBy string    `json:"changed_by,omitempty"`
	AcceptGap string    `json:"accept_gap,omitempty"`
	Created   time.Time `json:"created"`
	Ended     time.Time `json:"ended,omitzero"`
}

// Open tells whether runs of it may still be queued or going on.
func (b *Backfill) Open() bool { return b.Ended.IsZero() }

// Item is one load of a backfill, as it was frozen when the backfill was made.
type Item struct {
	Tick    time.Time `json:"tick,omitzero"`
	From    time.Time `json:"from,omitzero"`    // the tick before: records that came in (from, tick] are the tick's
	Record  *int64    `json:"record,omitempty"` // with all: the ledger record that is replaced
	Dataset string    `json:"dataset"`
	Topic   string    `json:"topic,omitempty"`
	Was     string    `json:"was"`    // what its tick was: missing, or the status of its last run
	Action  string    `json:"action"` // run | retry | supersede
	Run     string    `json:"run"`    // the run to make, or to retry
	// How it ended, once the backfill has; its run may be forgotten.
	Status string `json:"status,omitempty"`
	Rows   int64  `json:"rows,omitempty"`
}

// itemList is the value of an items record.
type itemList struct {
	V     int    `json:"v"`
	Items []Item `json:"items"`
}

// The choices of a backfill.
const (
	OnlyMissing = "missing" // ticks nothing was made of
	OnlyFailed  = "failed"  // ticks whose last run did not end well
	OnlyAll     = "all"     // what brought rows into the hours of the window, loaded anew

	OldestFirst = "oldest"
	NewestFirst = "newest"
)

const (
	actionRun       = "run"
	actionRetry     = "retry"
	actionSupersede = "supersede"
)

// BackfillAsk says which ticks to carry out again.
type BackfillAsk struct {
	Job       string
	From, To  time.Time
	Only      string // "" = missing
	Order     string // "" = oldest
	By        string
	AcceptGap string
	DryRun    bool
}

func (a *BackfillAsk) check() error {
	if a.Only == "" {
		a.Only = OnlyMissing
	}
	if a.Order == "" {
		a.Order = OldestFirst
	}
	if !slices.Contains([]string{OnlyMissing, OnlyFailed, OnlyAll}, a.Only) {
		return refuse(ErrInvalid, "only %q is not allowed: want missing, failed or all", a.Only)
	}
	if !slices.Contains([]string{OldestFirst, NewestFirst}, a.Order) {
		return refuse(ErrInvalid, "order %q is not allowed: want oldest or newest", a.Order)
	}
	return checkWindow(a.From, a.To)
}

// checkWindow refuses an empty window.
func checkWindow(from, to time.Time) error {
	if !from.Before(to) {
		return refuse(ErrInvalid, "the window %s..%s is empty: want a start before the end", from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	return nil
}

// itemsBytes bounds the record that lists the items, which is one batch of the
// journal.
const itemsBytes = 700_000

// Backfill makes a backfill of a window: its items are frozen and carried out
// one after another in each data set. Missing ticks get a run of their own,
// bounded by the tick; failed ones are retried. With all, the commits that
// brought rows into the hours of the window are replaced, each by a run of its
// own. With DryRun nothing is made, and the answer says what each item would load.
func (s *Scheduler) Backfill(ctx context.Context, ask BackfillAsk) (*BackfillView, error) {
	if err := ask.check(); err != nil {
		return nil, err
	}
	sets, err := s.Sets(ctx, ask.Job)
	if err != nil {
		return nil, err
	}
	spec, err := s.Spec(ask.Job)
	if err != nil {
		return nil, err
	}
	loads := map[string][]int64{}
	if ask.Only == OnlyAll { // a look into the ledgers, which nobody is to wait for
		for _, set := range sets {
			if loads[set.Dataset], err = s.c.Runner.Loads(ctx, spec, set, ask.From, ask.To); err != nil {
				return nil, err
			}
		}
	}
	b, items, err := s.freeze(ctx, ask, spec, sets, loads)
	if err != nil {
		return nil, err
	}
	if ask.DryRun {
		return s.previewBackfill(ctx, b, items, spec, sets)
	}
	s.kick()
	return viewOf(b, items, waitingFacts(items)), nil
}

// freeze lists the items of a backfill and, unless it is a dry run, writes them
// and the backfill down.
func (s *Scheduler) freeze(ctx context.Context, ask BackfillAsk, spec *Spec, sets []Set, loads map[string][]int64) (*Backfill, []Item, error) {
	s.act.Lock()
	defer s.act.Unlock()
	j, err := s.job(ask.Job)
	if err != nil {
		return nil, nil, err
	}
	now := s.now()
	b := &Backfill{
		Job: ask.Job, From: ask.From.UTC(), To: ask.To.UTC(), Only: ask.Only, Order: ask.Order, Status: BackfillRunning,
		By: ask.By, AcceptGap: ask.AcceptGap, Created: now,
	}
	b.ID = s.freshID(ask.Job + "-backfill")
	items := supersedeItems(sets, loads)
	if ask.Only != OnlyAll {
		ticks, err := window(spec, ask.From, ask.To, now)
		if err != nil {
			return nil, nil, err
		}
		s.mu.Lock()
		items = s.f.tickItems(j.Name, spec.Schedule, sets, ticks, ask.Only)
		s.mu.Unlock()
	}
	if ask.Order == NewestFirst {
		slices.Reverse(items)
	}
	for i := range items {
		if items[i].Run == "" {
			items[i].Run = fmt.Sprintf("%s-%04d", b.ID, i)
		}
	}
	if ask.DryRun {
		return b, items, nil
	}
	if len(items) == 0 {
		b.ID, b.Status, b.Ended = "", BackfillCompleted, now // there is nothing to remember
		return b, items, nil
	}
	return b, items, s.writeBackfill(ctx, b, items)
}

// writeBackfill appends a new backfill, its items first: items without a
// backfill were cut off by a crash.
func (s *Scheduler) writeBackfill(ctx context.Context, b *Backfill, items []Item) error {
	if err := s.onlyBackfill(b.Job); err != nil {
		return err
	}
	list := itemsEntry(b.ID, items)
	if text, err := json.Marshal(list.value); err != nil {
		return err
	} else if len(text) > itemsBytes {
		return refuse(ErrInvalid, "%d items are too many for one backfill: take a shorter window", len(items))
	}
	if err := s.append(ctx, list); err != nil {
		return err
	}
	return s.saveBackfill(ctx, b)
}

// onlyBackfill refuses a second open backfill of a job: both would take the same
// ticks.
func (s *Scheduler) onlyBackfill(job string) error {
	open := s.openBackfill(job)
	if open == nil {
		return nil
	}
	return &Refusal{
		Kind: ErrConflict, Msg: fmt.Sprintf("job %s has a backfill that is %s: %s", job, open.Status, open.ID),
		Hint: "sawlog backfill get " + open.ID + " shows it, backfill cancel ends it",
	}
}

// saveBackfill appends a backfill and tells subscribers.
func (s *Scheduler) saveBackfill(ctx context.Context, b *Backfill) error {
	if err := s.append(ctx, backfillEntry(b)); err != nil {
		return err
	}
	s.events.send(Event{Kind: "backfill", At: s.now(), Job: b.Job, Backfill: b.ID, Status: b.Status, Reason: b.Reason})
	return nil
}

// supersedeItems are the items that replace the loads of each data set, oldest
// first.
func supersedeItems(sets []Set, loads map[string][]int64) []Item {
	var items []Item
	for _, set := range sets {
		for _, n := range loads[set.Dataset] {
			items = append(items, Item{Record: &n, Dataset: set.Dataset, Topic: set.Topic, Was: Committed, Action: actionSupersede})
		}
	}
	return items
}

// tickItems are the items that carry out those of the ticks that are missing,
// or those that failed, oldest first. The caller holds mu.
func (f *fold) tickItems(job string, sc *Schedule, sets []Set, ticks []time.Time, only string) []Item {
	var items []Item
	before := sc.Latest(ticks[0].Add(-1).Add(sc.Delay))
	for _, tick := range ticks {
		for _, set := range sets {
			it := Item{Tick: tick.UTC(), From: before.UTC(), Dataset: set.Dataset, Topic: set.Topic}
			state, last := f.tickState(job, tick, set.Dataset)
			it.Was = state
			switch {
			case only == OnlyMissing && state == TickMissing:
				it.Action = actionRun
			case only == OnlyFailed && last != nil && !last.Open() && !last.Good():
				it.Action, it.Run = actionRetry, last.Run
			default:
				continue
			}
			items = append(items, it)
		}
		before = tick
	}
	return items
}

func backfillEntry(b *Backfill) entry {
	b.V = recordVersion
	return entry{"backfill/" + b.ID, b}
}

func itemsEntry(id string, items []Item) entry {
	return entry{"items/" + id, &itemList{V: recordVersion, Items: items}}
}

func (f *fold) applyBackfill(id string, value []byte) error {
	if old := f.backfills[id]; old != nil && f.driven[old.Job] == id {
		delete(f.driven, old.Job)
	}
	if value == nil {
		delete(f.backfills, id)
		return nil
	}
	b := &Backfill{}
	if err := json.Unmarshal(value, b); err != nil {
		return err
	}
	f.backfills[id] = b
	if b.Open() {
		f.driven[b.Job] = id
	}
	return nil
}

func (f *fold) applyItems(id string, value []byte) error {
	if value == nil {
		delete(f.items, id)
		return nil
	}
	var list itemList
	if err := json.Unmarshal(value, &list); err != nil {
		return err
	}
	f.items[id] = list.Items
	return nil
}

// itemState says where an item stands. Its run counts from the moment the
// backfill has queued it; what ended badly in an earlier round waits again.
func (f *fold) itemState(b *Backfill, it *Item) (string, *Run) {
	r := f.runs[it.Run]
	if r != nil && r.Backfill == b.ID {
		if !r.Open() && bad(r.Status) && r.Round < b.Round {
			return ItemWaiting, nil
		}
		return r.Status, r
	}
	switch {
	case it.Status != "" && (!b.Open() || !bad(it.Status)):
		return it.Status, nil
	case it.Status == "" && b.Cut:
		return Cancelled, nil
	}
	return ItemWaiting, nil
}

func bad(status string) bool { return status == Failed || status == Partial }

// facts are what a backfill is decided on, and its runs.
func (f *fold) facts(b *Backfill) ([]itemFact, []*Run) {
	items := f.items[b.ID]
	facts, runs := make([]itemFact, len(items)), make([]*Run, len(items))
	for i := range items {
		state, r := f.itemState(b, &items[i])
		facts[i], runs[i] = itemFact{Dataset: items[i].Dataset, State: state}, r
	}
	return facts, runs
}

// jobBackfills lists the backfills of a job, oldest first.
func (f *fold) jobBackfills(job string) []*Backfill {
	var out []*Backfill
	for _, id := range sortedKeys(f.backfills) {
		if b := f.backfills[id]; b.Job == job {
			out = append(out, b)
		}
	}
	slices.SortStableFunc(out, func(a, b *Backfill) int { return a.Created.Compare(b.Created) })
	return out
}

// surplusBackfills lists the records of ended backfills beyond the last keep.
func (f *fold) surplusBackfills(job string, keep int) []entry {
	var out []entry
	all := f.jobBackfills(job)
	for _, b := range all[:max(0, len(all)-min(keep, backfillsKept))] {
		if !b.Open() {
			out = append(out, entry{key: "backfill/" + b.ID}, entry{key: "items/" + b.ID})
		}
	}
	return out
}

// backfillsKept is how many ended backfills a job keeps at most; one may list
// thousands of items.
const backfillsKept = 50

// orphanBackfills lists what belongs to no job, or to no backfill.
func (f *fold) orphanBackfills() []entry {
	var out []entry
	for _, id := range sortedKeys(f.backfills) {
		if f.jobs[f.backfills[id].Job] == nil {
			out = append(out, entry{key: "backfill/" + id})
		}
	}
	for _, id := range sortedKeys(f.items) {
		if b := f.backfills[id]; b == nil || f.jobs[b.Job] == nil {
			out = append(out, entry{key: "items/" + id})
		}
	}
	return out
}
