package loader

import "context"

// Accepts tells whether the data set has the work of a plan already, and wants it
// to be able to take that work: exit 4 else. A plan is of the state its data set
// was in; carried out under another root it must find one that it goes on from as
// well: what was loaded there ends where the plan begins, nothing left out between,
// and with as many records at least, for it says which of them had sealed hours.
func (l *Ledger) Accepts(ctx context.Context, p *Plan) (done bool, err error) {
	planID := PlanID(p)
	if covered, err := l.standing(p, planID); covered != nil || err != nil {
		return covered != nil, err
	}
	elsewhere := func(e *Error) error {
		return e.hint("make a plan for this root, by a job file that has it under output.root; or load the range into a data set of its own: sawlog replay TOPIC --range RANGE --to ROOT")
	}
	if p.Base > l.fold.Head {
		return false, elsewhere(fail(ExitConflict, "plan %s goes on from record %d of its data set, and %s holds %d records", planID, p.Base, l.sink.Root(), l.fold.Head+1))
	}
	if err := l.keepsBuckets(ctx, &p.Bucket); err != nil || p.Kind != Load && p.Kind != Backfill {
		return false, err
	}
	for i := range p.Inputs {
		in := &p.Inputs[i]
		if in.Empty() {
			continue
		}
		if err := l.fold.CheckStart(in.Key(p.Cluster), in.Topic, in.Start, false); err != nil {
			return false, elsewhere(&Error{Code: ExitConflict, Msg: "plan " + planID + " does not fit " + l.sink.Root(), Err: err})
		}
	}
	return false, nil
}

// keepsBuckets wants rows to go to the buckets and folders that those before them
// went to: a folder of two hours would have the manifest of one, and marks that
// are not true of the other.
func (l *Ledger) keepsBuckets(ctx context.Context, with *Bucket) error {
	had, err := l.Bucket(ctx)
	if err != nil {
		return err
	}
	return had.keptBy(with)
}

// Bucket is the rule that the rows of a data set go by; nil while it holds no hour,
// and may have any.
func (l *Ledger) Bucket(ctx context.Context) (*Bucket, error) {
	if len(l.fold.Hours) == 0 {
		return nil, nil
	}
	last, err := l.lastPlan(ctx)
	if err != nil || last == nil {
		return nil, err
	}
	return &last.Bucket, nil
}

// KeepsBuckets wants a job to put rows where those of a data set are that goes by a
// rule: exit 4 else.
func (s *Spec) KeepsBuckets(had *Bucket) error {
	bucket, err := newBucket(s.resolved())
	if err != nil {
		return coded(err, ExitUsage)
	}
	return had.keptBy(&bucket)
}

// keptBy wants another rule to decide as this one does where rows go.
func (b *Bucket) keptBy(with *Bucket) error {
	if b == nil {
		return nil
	}
	if changed := b.changed(with); changed != "" {
		e := fail(ExitConflict, "partition_by.%s", changed)
		return e.hint("each hour keeps its one folder: leave the rule as it was, or give the job another output.root, where a data set begins anew from source.start")
	}
	return nil
}
