package jobs

import (
	"context"
	"log/slog"
	"time"

	"sawlog/consumer"
	"sawlog/loader"
	"sawlog/loader/sink"
	"sawlog/offsets"
)

// Drive is the Runner of real life: a loader.Driver for each call.
type Drive struct {
	// Own is how to reach the cluster jobs without brokers load from.
	Own consumer.Config
	// Dial connects to a cluster; the func lets go of it.
	Dial func(ctx context.Context, c consumer.Config) (consumer.Cluster, func(), error)
	// Open opens a data set's root by its URI.
	Open   func(root string) (sink.Sink, error)
	Engine loader.Engine
	Ledger loader.LedgerConfig
	Now    func() time.Time
	Logger *slog.Logger
}

// Reach says how to reach a job's source cluster.
func (d *Drive) Reach(s *Spec) consumer.Config {
	src := s.Source
	if len(src.Brokers) == 0 {
		return d.Own
	}
	c := consumer.Config{Brokers: src.Brokers, TLS: src.TLS != nil}
	if src.TLS != nil {
		c.CAFile, c.CertFile, c.KeyFile = src.TLS.CA, src.TLS.Cert, src.TLS.Key
	}
	if src.SASL != nil {
		c.SASL, c.User, c.PasswordFile = src.SASL.Mechanism, src.SASL.User, src.SASL.Password.Path()
	}
	return c
}

// Topics lists the topics the job's pattern matches.
func (d *Drive) Topics(ctx context.Context, s *Spec) ([]string, error) {
	cluster, done, err := d.Dial(ctx, d.Reach(s))
	if err != nil {
		return nil, err
	}
	defer done()
	topics, _, err := consumer.Describe(ctx, cluster, s.Source.Topics, s.Source.Pattern)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
	}
	return names, nil
}

// With opens a driver on one data set of a job and hands it to do.
func (d *Drive) With(ctx context.Context, s *Spec, set Set, by string, observe func(loader.Event), do func(*loader.Driver, *loader.Spec) error) error {
	spec, err := s.Load(set.Topic, d.Now())
	if err != nil {
		return err
	}
	reach := d.Reach(s)
	spec.Brokers = reach.Brokers
	cluster, done, err := d.Dial(ctx, reach)
	if err != nil {
		return err
	}
	defer done()
	root, err := d.Open(spec.Root)
	if err != nil {
		return err
	}
	return do(&loader.Driver{
		Cluster: cluster, Source: reach, Sink: root, Engine: d.Engine,
		Logger: d.Logger, Now: d.Now, By: by, Observe: observe,
	}, spec)
}

// Plan freezes a plan, or finds the open one that must be resumed.
func (d *Drive) Plan(ctx context.Context, s *Spec, set Set, ask Ask) (*Planned, error) {
	out := &Planned{}
	err := d.With(ctx, s, set, ask.By, nil, func(driver *loader.Driver, spec *loader.Spec) error {
		want := loader.PlanAsk{Kind: ask.Kind, Tick: ask.Tick, AcceptGap: ask.AcceptGap, By: ask.By, Scan: ask.Scan}
		if !ask.UpTo.IsZero() {
			ends, err := endsAt(ctx, driver.Cluster, spec, ask.UpTo)
			if err != nil {
				return err
			}
			want.UpTo = ends
		}
		var err error
		if out.Plan, out.Preview, err = driver.Plan(ctx, spec, want); err == nil {
			out.ID = loader.PlanID(out.Plan)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// endsAt finds, for each partition, the first offset whose timestamp is at or
// after a moment; partitions that end before it are not bounded.
func endsAt(ctx context.Context, c consumer.Cluster, spec *loader.Spec, at time.Time) (map[offsets.TopicPartition]offsets.Offset, error) {
	topics, _, err := consumer.Describe(ctx, c, spec.Topics, spec.Pattern)
	if err != nil {
		return nil, err
	}
	var tps []offsets.TopicPartition
	for _, t := range topics {
		for _, p := range t.Partitions {
			tps = append(tps, offsets.TopicPartition{Topic: t.Name, Partition: p.Index})
		}
	}
	found, err := consumer.OffsetForTime(ctx, c, tps, at.UnixMilli())
	if err != nil {
		return nil, err
	}
	for tp, at := range found {
		if at < 0 {
			delete(found, tp)
		}
	}
	return found, nil
}

// Run carries a plan out and commits it.
func (d *Drive) Run(ctx context.Context, s *Spec, set Set, p *Planned, e Exec) (*loader.Outcome, error) {
	var out *loader.Outcome
	observe := func(ev loader.Event) {
		if e.Progress != nil {
			e.Progress(Progress{Phase: ev.Kind, Task: ev.Task})
		}
	}
	err := d.With(ctx, s, set, "server", observe, func(driver *loader.Driver, spec *loader.Spec) error {
		var err error
		out, err = driver.Run(ctx, p.Plan, loader.RunAsk{
			Run: e.Run, AcceptBad: e.AcceptBad, Parallelism: spec.Parallelism, Memory: spec.Memory,
			FetchBytes: spec.FetchBytes, Retries: spec.Retries, Timeout: spec.Timeout,
		})
		return err
	})
	return out, err
}

// ledger opens the ledger of a data set for reading; nil when there is none yet.
func (d *Drive) ledger(ctx context.Context, s *Spec, set Set) (*loader.Ledger, error) {
	spec, err := s.Load(set.Topic, d.Now())
	if err != nil {
		return nil, err
	}
	root, err := d.Open(spec.Root)
	if err != nil {
		return nil, err
	}
	return loader.OpenLedger(ctx, root, spec.Dataset, spec.Name, d.Ledger)
}

// Committed finds the outcome of a plan in the ledger.
func (d *Drive) Committed(ctx context.Context, s *Spec, set Set, plan string) (*loader.Outcome, error) {
	l, err := d.ledger(ctx, s, set)
	if err != nil {
		return nil, err
	}
	f := l.Fold()
	if f.Plans[plan].State != loader.PlanCommitted {
		return nil, nil
	}
	ref, err := f.Lookup(plan)
	if err != nil {
		return nil, err
	}
	out := &loader.Outcome{
		Run: ref.Run, Job: s.Name, Status: loader.StatusCommitted, Plan: plan, Rows: ref.Rows,
		Quarantined: ref.Quarantined, Files: ref.Files, Bytes: ref.Bytes, Number: ref.Number,
	}
	hours := map[int64]*loader.OutcomeHour{}
	for _, v := range f.VisibleOf(ref.Number) {
		if v.Hour == nil {
			continue
		}
		h := hours[*v.Hour]
		if h == nil {
			h = &loader.OutcomeHour{Hour: loader.HourText(*v.Hour)}
			hours[*v.Hour] = h
		}
		h.Rows, h.Late = h.Rows+v.Rows, h.Late+v.Late
	}
	for _, key := range sortedKeys(hours) {
		out.Hours = append(out.Hours, *hours[key])
	}
	return out, nil
}

// View folds the data set's ledger.
func (d *Drive) View(ctx context.Context, s *Spec, set Set) (*View, error) {
	l, err := d.ledger(ctx, s, set)
	if err != nil {
		return nil, err
	}
	f := l.Fold()
	v := &View{Head: f.Head, Hours: make(map[int64]HourFacts, len(f.Hours))}
	for key, h := range f.Hours {
		v.Hours[key] = HourFacts{
			Rows: h.Rows, Late: h.Late, Bytes: h.Bytes, Files: int(h.Files),
			Sealed: h.Sealed != loader.NotSealed, SealedIn: h.Sealed,
		}
	}
	return v, nil
}
