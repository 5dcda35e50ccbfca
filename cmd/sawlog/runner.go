package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/loader/sink"
)

// runner carries out the scheduler's runs with the loader, in this process but
// for the tasks, which are children of it.
type runner struct {
	brokers func() []string // of the server's own cluster, itself first
	rack    string          // of the server: tasks read from replicas in it
	log     *slog.Logger
	timeout time.Duration
	views   views
}

func (r *runner) source(s *jobs.Spec) consumer.Config {
	c := sourceOf(s.Source, r.brokers(), r.timeout)
	if len(s.Source.Brokers) == 0 {
		c.Rack = r.rack
	}
	return c
}

// Topics lists the topics a job's pattern matches.
func (r *runner) Topics(ctx context.Context, s *jobs.Spec) ([]string, error) {
	cluster, err := consumer.Dial(ctx, r.source(s))
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	topics, _, err := consumer.Describe(ctx, cluster, nil, s.Source.Pattern)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(topics))
	for _, t := range topics {
		names = append(names, t.Name)
	}
	return names, nil
}

// open makes the driver of one data set of a job.
func (r *runner) open(ctx context.Context, s *jobs.Spec, set jobs.Set) (*loader.Driver, *loader.Spec, func(), error) {
	spec, err := s.Load(set.Topic, time.Now())
	if err != nil {
		return nil, nil, nil, err
	}
	d, done, err := openDriver(ctx, spec.Root, s.Output.Access, r.source(s), r.log)
	if err != nil {
		return nil, nil, nil, err
	}
	if set.Late {
		spec.Start = "earliest"
	}
	return d, spec, done, nil
}

// Plan freezes what a run is to load.
func (r *runner) Plan(ctx context.Context, s *jobs.Spec, set jobs.Set, ask jobs.Ask) (*jobs.Planned, error) {
	d, spec, done, err := r.open(ctx, s, set)
	if err != nil {
		return nil, err
	}
	defer done()
	want := loader.PlanAsk{Kind: ask.Kind, Tick: ask.Tick, AcceptGap: ask.AcceptGap, By: ask.By, Scan: ask.Scan, Again: ask.Again}
	if !ask.UpTo.IsZero() {
		if want.UpTo, err = boundOf(ctx, d.Cluster, spec, ask.UpTo); err != nil {
			return nil, err
		}
	}
	plan, preview, err := d.Plan(ctx, spec, want)
	if err != nil {
		return nil, err
	}
	return &jobs.Planned{ID: loader.PlanID(plan), Plan: plan, Preview: preview}, nil
}

// Run carries a plan out and commits it.
func (r *runner) Run(ctx context.Context, s *jobs.Spec, set jobs.Set, p *jobs.Planned, e jobs.Exec) (*loader.Outcome, error) {
	d, spec, done, err := r.open(ctx, s, set)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := useEngine(ctx, d, &s.Run); err != nil {
		return nil, err
	}
	d.Observe = func(ev loader.Event) {
		if e.Progress == nil {
			return
		}
		step := jobs.Progress{Task: ev.Task}
		if ev.Task == nil {
			step.Phase = ev.Kind
		} else if ev.Err != nil {
			step.Error = ev.Err.Error()
		}
		e.Progress(step)
	}
	ask, err := runFlags{acceptBad: e.AcceptBad}.ask(spec, e.Run)
	if err != nil {
		return nil, err
	}
	return d.Run(ctx, p.Plan, ask)
}

// Committed finds the outcome of a plan in the ledger; nil when it is not there.
// Whoever committed it may have ended before the offsets of the job's group were
// set, and what the source is to keep: that is made up for.
func (r *runner) Committed(ctx context.Context, s *jobs.Spec, set jobs.Set, plan string) (*loader.Outcome, error) {
	ledger, err := r.ledger(ctx, s, set)
	if err != nil || ledger == nil {
		return nil, err
	}
	if plan, err = lastRevision(ctx, ledger, plan); err != nil {
		return nil, err
	}
	mark, ok := ledger.Fold().Plans[plan]
	if !ok || mark.State != loader.PlanCommitted {
		return nil, nil
	}
	rec, err := ledger.Record(mark.Number)
	if err != nil {
		return nil, err
	}
	if err := r.mirror(ctx, s, set, ledger, plan); err != nil {
		r.log.Warn("what the run before left of its offsets was not made up for", "job", s.Name, "plan", plan, "err", err)
	}
	return loader.OutcomeOf(rec), nil
}

// mirror has a committed plan carried out again, of which nothing is left to do
// but to say how far the job is.
func (r *runner) mirror(ctx context.Context, s *jobs.Spec, set jobs.Set, ledger *loader.Ledger, plan string) error {
	p, err := ledger.ReadPlan(ctx, plan)
	if err != nil {
		return err
	}
	_, err = r.Run(ctx, s, set, &jobs.Planned{ID: plan, Plan: p}, jobs.Exec{})
	return err
}

// Abandon writes a plan off.
func (r *runner) Abandon(ctx context.Context, s *jobs.Spec, set jobs.Set, plan, run, by string) error {
	ledger, err := r.ledger(ctx, s, set)
	if err != nil || ledger == nil {
		return err
	}
	if plan, err = lastRevision(ctx, ledger, plan); err != nil {
		return err
	}
	_, err = ledger.Abandon(ctx, plan, run, loader.CommitOptions{By: by, Why: "cancelled"})
	return err
}

// lastRevision is the plan that a plan has become: a run that met new columns
// went on under a revision of it, and one that was killed did not tell.
func lastRevision(ctx context.Context, ledger *loader.Ledger, plan string) (string, error) {
	if _, named := ledger.Fold().Plans[plan]; named {
		return plan, nil
	}
	first, err := ledger.ReadPlan(ctx, plan)
	if loader.ExitCode(err) == loader.ExitNotFound {
		return plan, nil // it was never written
	}
	if err != nil {
		return "", err
	}
	next := map[string]string{}
	open, err := ledger.Plans(ctx)
	if err != nil {
		return "", err
	}
	for _, ref := range open {
		if ref.Plan != nil {
			next[ref.Plan.Replaces] = ref.ID
		}
	}
	for id, mark := range ledger.Fold().Plans {
		if mark.Number <= first.Base || mark.State != loader.PlanCommitted {
			continue
		}
		p, err := ledger.ReadPlan(ctx, id)
		if err != nil {
			return "", err
		}
		next[p.Replaces] = id
	}
	for next[plan] != "" {
		plan = next[plan]
	}
	return plan, nil
}

// Release takes back what the source keeps of topics for a job.
func (r *runner) Release(ctx context.Context, s *jobs.Spec, topics []string) error {
	cluster, err := consumer.Dial(ctx, r.source(s))
	if err != nil {
		return err
	}
	defer cluster.Close()
	return consumer.Release(ctx, cluster, s.Name, topics)
}

// View folds the data set's ledger.
func (r *runner) View(ctx context.Context, s *jobs.Spec, set jobs.Set) (*jobs.View, error) {
	store, err := storeOf(ctx, s, set)
	if err != nil {
		return nil, err
	}
	return r.views.of(store, func() (*jobs.View, error) { return r.viewIn(ctx, store, set) })
}

// viewIn reads the ledger in a store.
func (r *runner) viewIn(ctx context.Context, store sink.Sink, set jobs.Set) (*jobs.View, error) {
	view := &jobs.View{Head: -1, Hours: map[int64]jobs.HourFacts{}}
	ledger, err := r.ledgerIn(ctx, store, set)
	if err != nil || ledger == nil {
		return view, err
	}
	fold := ledger.Fold()
	view.Head = fold.Head
	for key, h := range fold.Hours {
		view.Hours[key] = jobs.HourFacts{
			Rows: h.Rows, Late: h.Late, Bytes: h.Bytes, Files: int(h.Files),
			Sealed: h.Sealed != loader.NotSealed, SealedIn: h.Sealed,
		}
	}
	if view.Bucket, view.BucketErr = ledger.Bucket(ctx); view.BucketErr != nil { // its runs will say so
		r.log.Warn("the last plan can't be read", "dataset", set.Dataset, "err", view.BucketErr)
	}
	return view, nil
}

// Loads lists the ledger records the hours of [from, to) come from.
func (r *runner) Loads(ctx context.Context, s *jobs.Spec, set jobs.Set, from, to time.Time) ([]int64, error) {
	ledger, err := r.ledger(ctx, s, set)
	if err != nil || ledger == nil {
		return nil, err
	}
	return ledger.LoadsOf(ctx, from.Unix(), to.Unix())
}

// ledger opens the ledger of a data set; nil when nothing was loaded yet.
func (r *runner) ledger(ctx context.Context, s *jobs.Spec, set jobs.Set) (*loader.Ledger, error) {
	store, err := storeOf(ctx, s, set)
	if err != nil {
		return nil, err
	}
	return r.ledgerIn(ctx, store, set)
}

// storeOf opens the root of a data set.
func storeOf(ctx context.Context, s *jobs.Spec, set jobs.Set) (sink.Sink, error) {
	spec, err := s.Load(set.Topic, time.Now())
	if err != nil {
		return nil, err
	}
	return openSink(ctx, spec.Root, s.Output.Access)
}

func (r *runner) ledgerIn(ctx context.Context, store sink.Sink, set jobs.Set) (*loader.Ledger, error) {
	ledger, err := loader.OpenLedger(ctx, store, "", "", loader.LedgerConfig{Logger: r.log, Now: time.Now})
	if loader.ExitCode(err) == loader.ExitNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("data set %s: %w", set.Dataset, err)
	}
	return ledger, nil
}

// rerun remakes the files of a run from its plan.
func (r *runner) rerun(ctx context.Context, s *jobs.Spec, set jobs.Set, what string) (*loader.RerunReport, error) {
	d, _, done, err := r.open(ctx, s, set)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := useEngine(ctx, d, &s.Run); err != nil {
		return nil, err
	}
	return d.Rerun(ctx, what)
}

// verify checks a run or, with what empty, the whole data set.
func (r *runner) verify(ctx context.Context, s *jobs.Spec, set jobs.Set, what string) (*loader.VerifyReport, error) {
	ledger, err := r.ledger(ctx, s, set)
	if err != nil {
		return nil, err
	}
	if ledger == nil {
		return &loader.VerifyReport{Dataset: set.Dataset, Number: -1, OK: true, Problems: []loader.Problem{}}, nil
	}
	return ledger.Verify(ctx, what)
}

// detail gives the splits of a run's plan, and its commit.
func (r *runner) detail(ctx context.Context, s *jobs.Spec, run *jobs.Run) ([]loader.Split, *loader.Record, error) {
	plan, commit, err := r.whole(ctx, s, run)
	if plan == nil {
		return []loader.Split{}, commit, err
	}
	return plan.Splits, commit, err
}

// whole reads what a run was to do from its plan, and what it did from its
// commit.
func (r *runner) whole(ctx context.Context, s *jobs.Spec, run *jobs.Run) (*loader.Plan, *loader.Record, error) {
	ledger, err := r.ledger(ctx, s, jobs.Set{Dataset: run.Dataset, Topic: run.Topic})
	if err != nil || ledger == nil || run.Plan == "" {
		return nil, nil, err
	}
	plan, err := ledger.ReadPlan(ctx, run.Plan)
	if err != nil {
		if loader.ExitCode(err) != loader.ExitNotFound {
			return nil, nil, err
		}
		plan = nil // it was never written, or is gone
	}
	if run.Ledger == nil {
		return plan, nil, nil
	}
	rec, err := ledger.Record(*run.Ledger)
	return plan, rec, err
}
