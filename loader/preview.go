package loader

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"sawlog/consumer"
	"sawlog/formats"
	"sawlog/offsets"
)

// Preview is what a plan would do. Ranges and splits are exact; rows are an
// upper bound and hours and sizes estimates, unless Exact.
type Preview struct {
	Plan     string         `json:"plan"`   // id the plan would get
	Status   string         `json:"status"` // ready | covered | resume
	Exact    bool           `json:"exact"`  // the log was read (--scan)
	Ranges   []PreviewRange `json:"ranges"`
	Splits   []PreviewSplit `json:"splits"`
	Rows     int64          `json:"rows"`
	RowsAre  string         `json:"rows_are"` // upper_bound | exact
	Bytes    int64          `json:"bytes"`
	BytesAre string         `json:"bytes_are"` // estimate, of the log
	Hours    []PreviewHour  `json:"hours"`
	HoursAre string         `json:"hours_are"`         // estimate | exact
	Bad      int64          `json:"bad,omitempty"`     // scan only
	Skipped  int64          `json:"skipped,omitempty"` // scan only
	Columns  []string       `json:"columns,omitempty"` // new ones: of the schema, and what a scan found
	Retires  []string       `json:"retires,omitempty"`
	Warnings []string       `json:"warnings,omitempty"` // fields that the job names and no record looked at has
}

// PreviewRange is the frozen range of one partition.
type PreviewRange struct {
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"`
	Start     offsets.Offset `json:"start"`
	End       offsets.Offset `json:"end"`
	Gap       int64          `json:"gap,omitempty"`
}

// PreviewSplit is one split and its estimated size.
type PreviewSplit struct {
	Index  int          `json:"index"`
	Ranges []SplitRange `json:"ranges"`
	Bytes  int64        `json:"bytes"` // estimate, of the log
}

// PreviewHour is one bucket a plan would write to.
type PreviewHour struct {
	Hour string `json:"hour"` // RFC 3339, UTC
	Rows *int64 `json:"rows"` // null where the hours are estimates: only a scan counts them
}

// What a preview says of a plan.
const (
	PreviewReady   = "ready"
	PreviewCovered = "covered" // nothing is left to load
	PreviewResume  = "resume"  // an open plan goes on
)

const (
	exact      = "exact"
	estimate   = "estimate"
	upperBound = "upper_bound"
)

func (pl *planner) preview(ctx context.Context, p *Plan, status string) (*Preview, error) {
	if len(p.Splits) == 0 && status == PreviewReady && !pl.fold.skips(p) && !slices.ContainsFunc(p.Inputs, func(in PlanInput) bool { return !in.Empty() }) {
		status = PreviewCovered
	}
	v := &Preview{
		Plan: PlanID(p), Status: status, RowsAre: upperBound, BytesAre: estimate, HoursAre: estimate, Retires: p.Retires,
		Ranges: []PreviewRange{}, Splits: []PreviewSplit{}, Hours: []PreviewHour{},
	}
	for _, c := range newColumns(pl.fold.Schema, p.Schema) {
		v.Columns = append(v.Columns, c.Name)
	}
	for i := range p.Inputs {
		in := &p.Inputs[i]
		if !in.Empty() {
			v.Ranges = append(v.Ranges, PreviewRange{in.Topic, in.Partition, in.Start, in.End, in.Gap})
			v.Rows += in.Len() - in.Gap
		}
	}
	for _, s := range p.Splits {
		split := PreviewSplit{Index: s.Index, Ranges: s.Ranges}
		for _, r := range s.Ranges {
			split.Bytes += int64(float64(r.Len()) * pl.density(r.TopicID, r.Partition))
		}
		v.Bytes += split.Bytes
		v.Splits = append(v.Splits, split)
	}
	if len(p.Splits) == 0 {
		return v, nil
	}
	look := &looker{cluster: pl.d.Cluster, plan: p, hours: map[int64]int64{}}
	var err error
	if look.buckets, err = newBucketer(p.Bucket); err != nil {
		return nil, err
	}
	look.meet()
	if pl.ask.Scan {
		err = look.scan(ctx, v)
	} else {
		err = look.sample(ctx, pl.sized(p.Inputs))
	}
	for _, key := range slices.Sorted(maps.Keys(look.hours)) {
		hour := PreviewHour{Hour: HourText(key)}
		if v.Exact {
			hour.Rows = new(look.hours[key])
		}
		v.Hours = append(v.Hours, hour)
	}
	if err == nil {
		v.Warnings, err = look.warnings(pl.spec.Schema, pl.fold.Schema)
	}
	return v, err
}

// looker reads the log for a preview.
type looker struct {
	cluster consumer.Cluster
	plan    *Plan
	buckets *bucketer
	hours   map[int64]int64 // rows per bucket
	leaders consumer.Leaders
	met     *formats.Inference // fields of the records; nil = they are known
	looked  int                // records they were noted of
}

// samples is how many places of each range an estimate looks at.
const samples = 8

// maxHours bounds the hours an estimate lists.
const maxHours = 10_000

// sample looks at a few records of each range and takes every hour between the
// first and the last event time it meets to be touched.
func (l *looker) sample(ctx context.Context, ranges []sized) error {
	decoder, err := formats.NewDecoder(l.plan.Schema, l.plan.Decode)
	if err != nil {
		return err
	}
	var low, high formats.Instant
	met := false
	for _, r := range ranges {
		before := offsets.Offset(-1)
		for i := range int64(samples) {
			at := r
			at.Start = r.Start + offsets.Offset(mulDiv(r.Len()-1, i, samples-1))
			if at.Start == before {
				continue // a short range
			}
			before = at.Start
			err := l.read(ctx, at.SplitRange, smallFetch, func(m *formats.Message) error {
				l.look(m)
				when, err := decoder.Time(m)
				if err == nil {
					if !met {
						low, high, met = when, when, true
					}
					low, high = min(low, when), max(high, when)
				}
				return io.EOF
			})
			if err != nil {
				return err
			}
		}
	}
	if !met {
		return nil
	}
	last := l.buckets.Key(high)
	for key := l.buckets.Key(low); len(l.hours) < maxHours; key = l.buckets.End(key) {
		l.hours[key] = 0
		if key >= last {
			break
		}
	}
	return nil
}

const smallFetch = 64 << 10

// read calls fn for the records of a range until it returns io.EOF.
func (l *looker) read(ctx context.Context, r SplitRange, fetch int, fn func(m *formats.Message) error) error {
	t := &task{taskConfig: taskConfig{plan: l.plan}}
	reader := consumer.NewReader(l.cluster, offsets.TopicPartition{Topic: r.Topic, Partition: r.Partition}, r.TopicID, r.Range,
		consumer.Options{FetchBytes: fetch, Isolation: isolationOf(l.plan.Isolation), Compact: t.compact(r.TopicID), Leaders: &l.leaders})
	defer reader.Close()
	t.msg.Topic, t.msg.Partition = r.Topic, r.Partition
	for {
		rec, err := reader.Next(ctx)
		if err == nil {
			t.take(rec)
			err = fn(&t.msg)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// scan reads all of the plan's splits: once for columns the schema has not, if
// it is inferred, and once for the rows.
func (l *looker) scan(ctx context.Context, v *Preview) error {
	schema, decode := l.plan.Schema, l.plan.Decode
	if schema.Inferred || decode.Registry != nil {
		infer := formats.NewInference(schema, decode)
		err := l.each(ctx, func(m *formats.Message) error {
			var bad *formats.BadRecord
			if err := infer.Observe(m); err != nil && !errors.Is(err, formats.ErrSkip) && !errors.As(err, &bad) {
				return err
			}
			return nil
		})
		if err != nil {
			return err
		}
		report := infer.Report()
		if schema, err = report.Extend(schema, decode); err != nil {
			return err
		}
		writers, err := writersOf(ctx, &decode, report.Schemas)
		if err != nil {
			return err
		}
		decode.Writers = sortedWriters(append(writers, decode.Writers...))
		for _, f := range schema.Fields[len(l.plan.Schema.Fields):] {
			v.Columns = append(v.Columns, f.Name)
		}
	}
	decoder, err := formats.NewDecoder(schema, decode)
	if err != nil {
		return err
	}
	columns := formats.NewColumns(schema)
	folders, err := newFolders(l.plan.Bucket, schema)
	if err != nil {
		return err
	}
	v.Rows, v.Exact, v.RowsAre, v.HoursAre = 0, true, exact, exact
	return l.each(ctx, func(m *formats.Message) error {
		l.look(m)
		at, err := decoder.Append(columns, m)
		if err == nil {
			_, err = folders.values(0, columns)
		}
		columns.Reset()
		var bad *formats.BadRecord
		switch {
		case err == nil:
			v.Rows++
			l.hours[l.buckets.Key(at)]++
		case errors.Is(err, formats.ErrSkip):
			v.Skipped++
		case errors.As(err, &bad):
			v.Bad++
		default:
			return err
		}
		return nil
	})
}

func (l *looker) each(ctx context.Context, fn func(m *formats.Message) error) error {
	for _, s := range l.plan.Splits {
		for _, r := range s.Ranges {
			if err := l.read(ctx, r, defaultFetch, fn); err != nil {
				return err
			}
		}
	}
	return nil
}
