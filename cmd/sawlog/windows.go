package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/offsets"
)

// Windows says what loads of a data set would take if they were carried out in
// this order, now. Nothing is written.
func (r *runner) Windows(ctx context.Context, s *jobs.Spec, set jobs.Set, asks []jobs.Ask) ([]jobs.Window, error) {
	if len(asks) == 0 {
		return nil, nil
	}
	d, spec, done, err := r.open(ctx, s, set)
	if err != nil {
		return nil, err
	}
	defer done()
	if asks[0].Again != nil {
		return againWindows(ctx, d, spec, asks)
	}
	return tickWindows(ctx, d, spec, asks)
}

// againWindows plans each replacement.
func againWindows(ctx context.Context, d *loader.Driver, spec *loader.Spec, asks []jobs.Ask) ([]jobs.Window, error) {
	var out []jobs.Window
	for _, ask := range asks {
		_, preview, err := d.Plan(ctx, spec, loader.PlanAsk{Kind: ask.Kind, Again: ask.Again, AcceptGap: ask.AcceptGap, By: ask.By})
		if err != nil {
			return nil, err
		}
		out = append(out, jobs.Window{
			Ranges: preview.Ranges, Rows: preview.Rows, Bytes: preview.Bytes, Retires: len(preview.Retires),
			Files: int64(max(1, len(preview.Hours)) * len(preview.Splits)),
		})
	}
	return out, nil
}

// tickWindows cuts what is left to load at the bound of each ask in turn.
func tickWindows(ctx context.Context, d *loader.Driver, spec *loader.Spec, asks []jobs.Ask) ([]jobs.Window, error) {
	topics, _, err := consumer.Describe(ctx, d.Cluster, spec.Topics, spec.Pattern)
	if err != nil {
		return nil, err
	}
	_, preview, err := d.Plan(ctx, spec, loader.PlanAsk{Kind: loader.Backfill, AcceptGap: asks[0].AcceptGap})
	if err != nil {
		return nil, err
	}
	left := map[offsets.TopicPartition]offsets.Range{}
	for _, r := range preview.Ranges {
		left[offsets.TopicPartition{Topic: r.Topic, Partition: r.Partition}] = offsets.Range{Start: r.Start, End: r.End}
	}
	density := bytesPerOffset(preview)
	var all []offsets.TopicPartition
	for _, t := range topics {
		for _, p := range t.Partitions {
			tp := offsets.TopicPartition{Topic: t.Name, Partition: p.Index}
			all = append(all, tp)
			if r, some := left[tp]; some { // a plan that is resumed ends earlier
				left[tp] = offsets.Range{Start: r.Start, End: max(r.End, p.LastStable)}
			}
		}
	}
	var out []jobs.Window
	for _, ask := range asks {
		var bounds map[offsets.TopicPartition]offsets.Offset
		if !ask.UpTo.IsZero() {
			if bounds, err = consumer.OffsetForTime(ctx, d.Cluster, all, ask.UpTo.UnixMilli()); err != nil {
				return nil, err
			}
		}
		w := cut(left, bounds)
		w.Bytes = int64(density * float64(w.Rows))
		if w.Rows > 0 {
			w.Files = unitsOf(spec.Unit, ask) * max(1, (w.Bytes+spec.TargetBytes-1)/spec.TargetBytes)
		}
		out = append(out, w)
	}
	return out, nil
}

// cut takes what lies before the bounds off what is left; a partition without a
// bound is taken whole.
func cut(left map[offsets.TopicPartition]offsets.Range, bounds map[offsets.TopicPartition]offsets.Offset) jobs.Window {
	w := jobs.Window{Ranges: []loader.PreviewRange{}}
	for tp, r := range left {
		end := r.End
		if bound, bounded := bounds[tp]; bounded {
			end = min(end, bound)
		}
		if end <= r.Start {
			continue
		}
		w.Ranges = append(w.Ranges, loader.PreviewRange{Topic: tp.Topic, Partition: tp.Partition, Start: r.Start, End: end})
		w.Rows += int64(end - r.Start)
		left[tp] = offsets.Range{Start: end, End: r.End}
	}
	slices.SortFunc(w.Ranges, func(a, b loader.PreviewRange) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return w
}

// bytesPerOffset is how much of the log an offset takes, on average.
func bytesPerOffset(p *loader.Preview) float64 {
	if p.Rows == 0 {
		return 0
	}
	return float64(p.Bytes) / float64(p.Rows)
}

// unitsOf is how many hours or days the records of a tick are from, about.
func unitsOf(unit string, ask jobs.Ask) int64 {
	if ask.From.IsZero() || !ask.From.Before(ask.Tick) {
		return 1
	}
	length := time.Hour
	if unit == "day" {
		length = 24 * time.Hour
	}
	return int64((ask.Tick.Sub(ask.From) + length - 1) / length)
}
