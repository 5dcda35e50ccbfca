package loader

import (
	"context"
	"slices"
)

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
	if p.Kind != Load && p.Kind != Backfill {
		return false, nil
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
	return false, l.keepsFields(ctx, p.Bucket.Fields)
}

// keepsFields wants no other fields than those the data set's folders were named
// by so far.
func (l *Ledger) keepsFields(ctx context.Context, fields []BucketField) error {
	last, err := l.lastPlan(ctx)
	if err != nil || last == nil || slices.Equal(last.Bucket.Fields, fields) {
		return err
	}
	e := fail(ExitConflict, "partition_by.fields are %s, the data set was begun with %s", fieldNames(fields), fieldNames(last.Bucket.Fields))
	return e.hint("load into another root")
}
