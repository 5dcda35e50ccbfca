package loader

import (
	"context"
	"slices"

	"sawlog/offsets"
)

// loaded is one split of a committed plan whose files are visible still.
type loaded struct {
	plan   string
	split  int
	ranges []SplitRange
}

// supersede plans to load offsets again that were loaded before, in units of
// whole old splits: a split any of whose offsets is asked for is taken whole,
// and so is what lies between two of them, until nothing more is touched. Its
// files are retired.
func (pl *planner) supersede(ctx context.Context, p *Plan) error {
	hull, err := pl.hull(ctx)
	if err != nil {
		return err
	}
	if p.Retires, err = pl.again(ctx, hull); err != nil {
		return err
	}
	for _, t := range pl.topics {
		for _, part := range t.Partitions {
			key := PartitionKey{pl.cluster, t.ID, part.Index}
			r, ok := hull[key]
			if !ok {
				continue
			}
			if !pl.fold.Partitions[key].Covered.Covers(r) {
				return fail(ExitConflict, "%s/%d: of %s only %v was loaded", t.Name, part.Index, r, pl.fold.Partitions[key].Covered)
			}
			in := PlanInput{
				Topic: t.Name, TopicID: t.ID, Partition: part.Index, Range: r,
				LogStart: part.LogStart, LastStable: part.LastStable,
			}
			if r.Start < part.LogStart {
				e := fail(ExitMismatch, "%s/%d: offsets %s are to be loaded again, the log starts at %d", t.Name, part.Index, r, part.LogStart)
				return e.hint("what is gone from the log can only stay as it was loaded: ask for a later range")
			}
			p.Inputs = append(p.Inputs, in)
			delete(hull, key)
		}
	}
	for key, r := range hull {
		topic := pl.fold.Partitions[key].Topic
		e := fail(ExitMismatch, "%s/%d: offsets %s are to be loaded again, and the source has this topic (id %s) no more", topic, key.Partition, r, key.TopicID)
		return e.hint("what is gone from the source can only stay as it was loaded: ask for other runs, hours or offsets")
	}
	return nil
}

// hull are the ranges asked for, as far as they were loaded.
func (pl *planner) hull(ctx context.Context) (map[PartitionKey]offsets.Range, error) {
	if pl.ask.Again != nil {
		return pl.againHull(ctx)
	}
	if pl.ask.Bounds == nil {
		return nil, fail(ExitUsage, "a superseding plan needs the range to load again")
	}
	w, err := windows(ctx, pl.d.Cluster, pl.topics, pl.ask)
	if err != nil {
		return nil, err
	}
	hull := map[PartitionKey]offsets.Range{}
	for _, t := range pl.topics {
		for _, part := range t.Partitions {
			tp := offsets.TopicPartition{Topic: t.Name, Partition: part.Index}
			ask, ok := w[tp]
			r := offsets.Range{Start: ask.start, End: ask.end}
			key := PartitionKey{pl.cluster, t.ID, part.Index}
			have := pl.fold.Partitions[key]
			if !ok || have == nil {
				continue
			}
			if pl.ask.Bounds.Start.Kind != offsets.AtOffset { // a time, or an end of the log: what was loaded of it
				r.Start = max(r.Start, have.Start)
			}
			r.End = min(r.End, have.Next())
			if !r.Empty() {
				hull[key] = r
			}
		}
	}
	return hull, nil
}

// again grows ranges until they hold whole splits and lists the visible files of
// those. None are visible where all were dropped.
func (pl *planner) again(ctx context.Context, hull map[PartitionKey]offsets.Range) (retires []string, err error) {
	current, err := pl.current(ctx)
	if err != nil {
		return nil, err
	}
	taken := closure(hull, current, pl.cluster)
	if len(taken) == 0 {
		return nil, fail(ExitNotFound, "nothing of that range was loaded into data set %s", pl.fold.Dataset)
	}
	for _, v := range pl.fold.All() {
		if taken[[2]any{v.Plan, v.Split}] {
			retires = append(retires, v.Path)
		}
	}
	return retires, nil
}

// closure grows the ranges until they hold whole splits only, and tells which.
func closure(hull map[PartitionKey]offsets.Range, current []loaded, cluster string) map[[2]any]bool {
	taken := map[[2]any]bool{}
	for grew := true; grew; {
		grew = false
		for _, s := range current {
			id := [2]any{s.plan, s.split}
			touched := slices.ContainsFunc(s.ranges, func(r SplitRange) bool {
				return hull[PartitionKey{cluster, r.TopicID, r.Partition}].Overlaps(r.Range)
			})
			if taken[id] || !touched {
				continue
			}
			taken[id], grew = true, true
			for _, r := range s.ranges {
				key := PartitionKey{cluster, r.TopicID, r.Partition}
				have, ok := hull[key]
				if !ok {
					have = r.Range
				}
				hull[key] = offsets.Range{Start: min(have.Start, r.Start), End: max(have.End, r.End)}
			}
		}
	}
	return taken
}

// current lists the splits the visible files come from, by reading the plans
// of the records that brought them. A file that a compact record made is a
// split of its own beside those whose rows it has.
func (pl *planner) current(ctx context.Context) ([]loaded, error) {
	var out []loaded
	for i := range pl.fold.Records {
		rec := &pl.fold.Records[i]
		if rec.Plan == "" || rec.Kind == Amend || rec.Kind == Abandon || rec.Kind == Seal {
			continue
		}
		p, err := pl.ledger.ReadPlan(ctx, rec.Plan)
		if err != nil {
			return nil, err
		}
		if p.Kind == Supersede { // it took whole splits
			out = slices.DeleteFunc(out, func(old loaded) bool {
				return slices.ContainsFunc(old.ranges, func(r SplitRange) bool {
					return slices.ContainsFunc(p.Inputs, func(in PlanInput) bool {
						return in.TopicID == r.TopicID && in.Partition == r.Partition && in.Overlaps(r.Range)
					})
				})
			})
		}
		for _, s := range p.Splits {
			out = append(out, loaded{rec.Plan, s.Index, s.Ranges})
		}
	}
	return out, nil
}
