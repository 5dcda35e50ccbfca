package loader

import (
	"context"
	"slices"

	"sawlog/offsets"
)

// Again says which committed loads a supersede replaces, in whole splits, where
// no Bounds do.
type Again struct {
	Of  []string // runs, plans or record numbers
	Bad bool     // only the splits that have quarantined records
}

// againHull are the ranges an Again asks for.
func (pl *planner) againHull(ctx context.Context) (map[PartitionKey]offsets.Range, error) {
	hull := map[PartitionKey]offsets.Range{}
	grow := func(key PartitionKey, r offsets.Range) {
		if have, ok := hull[key]; ok {
			r = offsets.Range{Start: min(have.Start, r.Start), End: max(have.End, r.End)}
		}
		if !r.Empty() && key.Cluster == pl.cluster {
			hull[key] = r
		}
	}
	for _, what := range pl.ask.Again.Of {
		ref, err := pl.fold.Lookup(what)
		if err != nil {
			return nil, err
		}
		rec, err := pl.ledger.Record(ref.Number)
		if err != nil {
			return nil, err
		}
		if len(rec.Inputs) == 0 {
			return nil, fail(ExitConflict, "record %d (%s) loaded nothing from the log: there is nothing to load again", rec.Number, rec.Kind)
		}
		if !pl.ask.Again.Bad {
			for i := range rec.Inputs {
				grow(rec.Inputs[i].key(), rec.Inputs[i].Range)
			}
			continue
		}
		if err := pl.badHull(ctx, rec, grow); err != nil {
			return nil, err
		}
	}
	if len(hull) == 0 {
		return nil, fail(ExitConflict, "the offsets were loaded from another cluster than the job reads now")
	}
	return hull, nil
}

// badHull grows the hull by the splits of a record that have quarantined records.
func (pl *planner) badHull(ctx context.Context, rec *Record, grow func(PartitionKey, offsets.Range)) error {
	bad := map[int]bool{}
	for _, v := range pl.fold.VisibleOf(rec.Number) {
		if v.Hour == nil {
			bad[v.Split] = true
		}
	}
	if len(bad) == 0 {
		return fail(ExitNotFound, "run %s has no quarantined record", rec.Run)
	}
	p, err := pl.ledger.ReadPlan(ctx, rec.Plan)
	if err != nil {
		return err
	}
	for _, s := range p.Splits {
		if !bad[s.Index] {
			continue
		}
		for _, r := range s.Ranges {
			grow(PartitionKey{p.Cluster, r.TopicID, r.Partition}, r.Range)
		}
	}
	return nil
}

// LoadsOf lists the records whose offsets the hours [from, to) come from: those
// that loaded rows into them and were not superseded since, whether the rows
// are still there or were dropped.
func (l *Ledger) LoadsOf(_ context.Context, from, to int64) ([]int64, error) {
	var records []*Record
	for _, n := range l.fold.touching(from, to) {
		rec, err := l.Record(n)
		if err != nil {
			return nil, err
		}
		if rec.Kind != Load && rec.Kind != Backfill && rec.Kind != Supersede {
			continue
		}
		if rec.Kind == Supersede {
			records = slices.DeleteFunc(records, func(old *Record) bool { return old.overlaps(rec) })
		}
		records = append(records, rec)
	}
	numbers := make([]int64, len(records))
	for i, rec := range records {
		numbers[i] = rec.Number
	}
	return numbers, nil
}

// touching lists the records that changed hours of [from, to), in order.
func (f *Fold) touching(from, to int64) []int64 {
	seen := map[int64]bool{}
	var numbers []int64
	for key, h := range f.Hours {
		if key < from || key >= to {
			continue
		}
		for _, n := range h.Touched {
			if !seen[n] {
				seen[n] = true
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

// overlaps tells whether two records count an offset both.
func (rec *Record) overlaps(other *Record) bool {
	return slices.ContainsFunc(rec.Inputs, func(a Input) bool {
		return slices.ContainsFunc(other.Inputs, func(b Input) bool { return a.key() == b.key() && a.Overlaps(b.Range) })
	})
}
