package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sawlog/loader/sink"
)

// RunAsk says how a plan is carried out; nothing in it changes any byte.
type RunAsk struct {
	Run         string // id of the run
	AcceptBad   bool   // commit although too many records are bad
	Parallelism int    // tasks at a time; 0 = cores
	Memory      int64  // bytes, divided among the tasks; 0 = 512 MiB
	FetchBytes  int
	Rate        int64 // bytes a second all tasks together may fetch; 0 = no limit
	Retries     int
	Timeout     time.Duration // of one attempt
	// Hold is how old records may get that the source is asked to keep for the
	// job past its retention; 0 = it is not asked.
	Hold time.Duration
}

// run is one plan being carried out.
type run struct {
	d       *Driver
	ask     RunAsk
	ledger  *Ledger
	plan    *Plan
	planID  string
	results []*Result

	mu    sync.Mutex
	ended map[int]bool // splits with an attempt that ended well since results were read
}

// maxRevisions bounds how often the schema of one plan may grow.
const maxRevisions = 8

// maxRepairs bounds how often damaged attempts are carried out again.
const maxRepairs = 3

// Run carries a plan out and commits it. The outcome is filled in as far as
// the run came, also beside an error.
func (d *Driver) Run(ctx context.Context, p *Plan, ask RunAsk) (*Outcome, error) {
	r := &run{d: d, ask: ask, plan: p, planID: PlanID(p), ended: map[int]bool{}}
	rec, err := r.carryOut(ctx)
	out := r.outcome(rec)
	switch {
	case err == nil && rec != nil && rec.Run == ask.Run && rec.Kind != Seal:
		out.Status = StatusCommitted
	case err == nil:
		out.Status = StatusCovered
	case ctx.Err() != nil:
		out.Status = StatusInterrupted
		err = r.interrupted(ctx, err)
	default:
		out.Status = StatusFailed
		err = at(d.Sink.Root(), coded(err, ExitFailed))
	}
	d.event(Event{Run: ask.Run, Kind: "done", Text: out.Status, Err: err})
	return out, err
}

func (d *Driver) event(e Event) {
	if d.Observe != nil {
		d.Observe(e)
	}
}

// carryOut is the record that holds the plan's work in the end; nil when there
// was nothing to commit.
func (r *run) carryOut(ctx context.Context) (*Record, error) {
	var err error
	if r.ledger, err = r.d.Ledger(ctx, r.plan.Dataset, r.plan.Job); err != nil {
		return nil, err
	}
	if err := r.ledger.Publish(ctx); err != nil {
		return nil, err
	}
	done, err := r.ledger.Accepts(ctx, r.plan)
	if err != nil {
		return nil, err
	}
	if done {
		r.mirror(ctx) // whoever did it may have ended before
		return nil, nil
	}
	if len(r.plan.Splits) > 0 {
		if err := r.begin(ctx); err != nil {
			return nil, err
		}
		r.holdNew(ctx)
	}
	var rec *Record
	var incomplete *IncompleteError
	for repairs := 0; ; repairs++ {
		if err := r.work(ctx); err != nil {
			return r.overtaken(ctx, err)
		}
		if err := r.tooBad(); err != nil {
			return nil, err
		}
		r.d.event(Event{Run: r.ask.Run, Kind: "commit", Text: r.planID})
		rec, err = r.ledger.Commit(ctx, r.plan, r.planID, r.ask.Run, r.results, CommitOptions{By: r.d.By, Why: r.plan.Gaps})
		if errors.Is(err, sink.ErrNotExist) || errors.As(err, &incomplete) {
			rec, err = r.overtaken(ctx, err) // its stage may have been published, or swept
		}
		if !errors.As(err, &incomplete) || repairs == maxRepairs {
			break
		}
		r.results = slices.DeleteFunc(r.results, func(res *Result) bool { return slices.Contains(incomplete.Splits, res.Split) })
		r.d.Logger.Warn("staged files were damaged: carrying out again", "plan", r.planID, "splits", incomplete.Splits, "err", err)
	}
	if err != nil {
		return rec, err
	}
	if rec != nil {
		r.d.event(Event{Run: r.ask.Run, Kind: "publish", Text: fmt.Sprintf("record %d", rec.Number)})
	}
	r.mirror(ctx) // also of nothing new: the run before may have ended without
	if rec != nil {
		r.sweep(ctx, rec)
	}
	return rec, nil
}

// overtaken tells whether a run failed because another driver did something to
// its plan, or to what the plan reads and replaces, meanwhile: stages are swept,
// files retired under it. What stands in the ledger decides then: a record that
// holds the plan's work covers the run, any other that took it is a conflict, and
// so is a plan that revises it and for which its stage was swept. Else the failure
// stands, and so it does after the plan's own record, which is committed and not
// published.
func (r *run) overtaken(ctx context.Context, failed error) (*Record, error) {
	if ctx.Err() != nil {
		return nil, failed
	}
	if _, err := r.ledger.refresh(ctx); err != nil {
		return nil, errors.Join(failed, err)
	}
	covered, err := r.ledger.standing(r.plan, r.planID)
	switch {
	case err != nil:
		return nil, err
	case covered != nil && covered.Number != r.ledger.wrote:
		return covered, nil
	case covered != nil:
		return nil, failed
	}
	by, err := r.ledger.sweptFor(ctx, r.planID)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	if by == "" {
		return nil, failed
	}
	e := fail(ExitConflict, "plan %s was revised meanwhile, as plan %s", r.planID, by)
	return nil, e.hint("run again: the revision is resumed, or its work is there")
}

// sweep takes away what crashes, earlier runs and old retirements left, once a day:
// with the first run of a day (UTC) that adds a record. Jobs that run less often
// sweep with each. A failure is only logged: what stays is in nobody's way.
func (r *run) sweep(ctx context.Context, rec *Record) {
	if !r.ledger.fold.firstOfDay(rec.Number) {
		return
	}
	report, err := r.ledger.Sweep(ctx, false)
	if err != nil {
		r.d.Logger.Warn("left-overs not swept", "root", r.d.Sink.Root(), "err", err)
		return
	}
	r.d.Logger.Debug("swept", "root", r.d.Sink.Root(), "removed", len(report.Removed), "marked", len(report.Marked))
}

// begin freezes the plan.
func (r *run) begin(ctx context.Context) error {
	planID, err := r.ledger.PutPlan(ctx, r.plan)
	if err != nil {
		return err
	}
	r.planID = planID
	r.d.event(Event{Run: r.ask.Run, Kind: "plan", Text: planID})
	return nil
}

// work has every split carried out that has no result yet, and revises the plan
// while records hold paths its schema does not.
func (r *run) work(ctx context.Context) error {
	for range maxRevisions {
		if err := r.read(ctx); err != nil {
			return err
		}
		if missing := r.missing(); len(missing) > 0 {
			if err := r.engine(ctx, missing); err != nil {
				return err
			}
			if err := r.read(ctx); err != nil {
				return err
			}
			if missing = r.missing(); len(missing) > 0 {
				return fail(ExitUnavailable, "splits %v of plan %s ended without a result that can be read", missing, r.planID)
			}
		}
		if !slices.ContainsFunc(r.results, func(res *Result) bool { return res.Unknown != nil }) {
			return nil
		}
		writers, err := writersOf(ctx, &r.plan.Decode, met(r.results))
		if err != nil {
			return err
		}
		next, err := revise(r.plan, r.planID, r.results, writers)
		if err != nil {
			return err
		}
		planID, err := r.ledger.PutPlan(ctx, next)
		if err != nil {
			return err
		}
		added := len(next.Schema.Fields) - len(r.plan.Schema.Fields)
		r.d.Logger.Info("schema grown", "plan", r.planID, "next", planID, "columns", added, "writers", len(writers))
		r.d.event(Event{Run: r.ask.Run, Kind: "revision", Text: grown(planID, added, len(writers))})
		r.plan, r.planID = next, planID
		r.results = slices.DeleteFunc(r.results, func(res *Result) bool { return res.Unknown != nil })
	}
	return fail(ExitFailed, "plan %s: the schema still grows after %d revisions", r.planID, maxRevisions)
}

// read looks for the results there are.
func (r *run) read(ctx context.Context) error {
	results, err := r.ledger.Results(ctx, r.plan, r.planID)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = results
	clear(r.ended)
	return nil
}

// grown says what a revision adds.
func grown(planID string, columns, writers int) string {
	var more []string
	for _, what := range []struct {
		n         int
		one, many string
	}{{columns, "column", "columns"}, {writers, "schema that records name", "schemas that records name"}} {
		switch what.n {
		case 0:
		case 1:
			more = append(more, "a "+what.one)
		default:
			more = append(more, fmt.Sprintf("%d %s", what.n, what.many))
		}
	}
	return "plan " + planID + " adds " + strings.Join(more, " and ")
}

// missing lists the splits without a result.
func (r *run) missing() []int {
	have := map[int]bool{}
	for _, res := range r.results {
		have[res.Split] = true
	}
	var out []int
	for i := range r.plan.Splits {
		if !have[i] {
			out = append(out, i)
		}
	}
	return out
}

// engine carries out splits. One carried over from an earlier revision is
// staged where that revision staged it.
func (r *run) engine(ctx context.Context, splits []int) error {
	if r.plan.Kind == Compact {
		_, err := r.d.rewrite(ctx, RemakeAsk{PlanID: r.planID, Plan: r.plan, Splits: splits, Number: -1})
		return err
	}
	byStage := map[string][]int{}
	var order []string
	for _, i := range splits {
		stage := r.plan.Splits[i].StagePlan(r.planID)
		if byStage[stage] == nil {
			order = append(order, stage)
		}
		byStage[stage] = append(byStage[stage], i)
	}
	for _, stage := range order {
		tasks, memory := r.d.share(r.ask.Parallelism, r.ask.Memory, len(byStage[stage]))
		if least := leastMemory(r.plan.Schema, &r.plan.Writer); memory < least {
			e := tooLittle(memory, least)
			e.Code = ExitUsage
			return e
		}
		err := r.d.engine(ctx, Work{
			PlanID: stage, Plan: r.plan, Splits: byStage[stage], Parallelism: tasks, Memory: memory,
			FetchBytes: r.ask.FetchBytes, Rate: shareOf(r.ask.Rate, tasks), Retries: r.ask.Retries, Timeout: r.ask.Timeout,
			Done: func(split int, attempt string, err error) {
				if err == nil {
					r.mu.Lock()
					r.ended[split] = true
					r.mu.Unlock()
				}
				r.d.event(Event{Run: r.ask.Run, Kind: "attempt", Task: &TaskProgress{Split: split, Attempt: attempt}, Err: err})
			},
			Progress: func(p TaskProgress) { r.d.event(Event{Run: r.ask.Run, Kind: "task", Task: &p}) },
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tooBad ends a run whose bad records are more than its plan allows.
func (r *run) tooBad() error {
	var bad, all int64
	for _, res := range onePerSplit(r.results) {
		for i := range res.Inputs {
			in := &res.Inputs[i]
			bad += in.Quarantined
			all += in.Data + in.Skipped + in.Quarantined
		}
	}
	limit := r.plan.MaxBad
	over := limit.Count > 0 && bad > limit.Count || limit.PPM > 0 && all >= shareFrom && bad*1_000_000 > limit.PPM*all
	if !over || r.ask.AcceptBad {
		return nil
	}
	e := fail(ExitPartial, "%d of %d records are bad, more than max_bad allows; plan %s keeps what it staged", bad, all, r.planID)
	return e.hint("look at the records under %s of the plan, then commit them with runs retry --accept-bad, or give the plan up with runs cancel", StagesDir)
}

// shareFrom is the number of records from which a share of bad ones counts.
const shareFrom = 1000

// onePerSplit is the first result of each split.
func onePerSplit(results []*Result) []*Result {
	var out []*Result
	seen := map[int]bool{}
	for _, res := range results {
		if !seen[res.Split] {
			seen[res.Split] = true
			out = append(out, res)
		}
	}
	return out
}

// interrupted says what state things are in.
func (r *run) interrupted(ctx context.Context, err error) error {
	if r.ledger == nil || len(r.plan.Splits) == 0 {
		return stopped(ctx, err, startsOver, "nothing was changed")
	}
	if mark, named := r.ledger.Fold().Plans[r.planID]; named && mark.State == PlanCommitted {
		return stopped(ctx, err, goesOn, "plan %s is committed as record %d, and whoever comes next publishes what is left of it", r.planID, mark.Number)
	}
	if errors.Is(err, errUnsure) {
		return stopped(ctx, err, looks, "plan %s may be committed", r.planID)
	}
	next := goesOn
	if r.plan.Kind == Compact {
		next = startsOver + " with a plan of its own, and what was staged is swept"
	}
	return stopped(ctx, err, next, "nothing was committed; plan %s is open with %d of %d splits staged", r.planID, r.staged(), len(r.plan.Splits))
}

// staged is how many splits have a result.
func (r *run) staged() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.plan.Splits) - len(r.missing())
	for _, split := range r.missing() {
		if r.ended[split] {
			n++
		}
	}
	return n
}
