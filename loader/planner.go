package loader

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"sawlog/consumer"
	"sawlog/formats"
	"sawlog/formats/parquet"
	"sawlog/offsets"
)

// planner makes one plan.
type planner struct {
	d       *Driver
	spec    *Spec // resolved
	ask     *PlanAsk
	ledger  *Ledger
	fold    *Fold
	topics  []consumer.Topic
	cluster string
	now     time.Time
}

// Plan says what a run would do and writes nothing. An open plan of the same
// rules is given back as it is, for it is to be resumed; the preview says so.
func (d *Driver) Plan(ctx context.Context, s *Spec, ask PlanAsk) (_ *Plan, _ *Preview, err error) {
	defer func() { err = stopped(ctx, err, startsOver, "nothing was changed") }()
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	if ask.Kind == "" {
		ask.Kind = Load
	}
	if ask.Kind != Load && ask.Kind != Backfill && ask.Kind != Supersede {
		return nil, nil, fail(ExitUsage, "a plan is a %s, %s or %s, not a %s", Load, Backfill, Supersede, ask.Kind)
	}
	pl := &planner{d: d, spec: s.resolved(), ask: &ask, now: d.Now()}
	if ask.Replay {
		pl.spec.Start = "earliest"
	}
	p, err := pl.plan(ctx)
	if err != nil {
		return nil, nil, at(d.Sink.Root(), coded(err, ExitFailed))
	}
	status := PreviewReady
	if open, err := pl.open(ctx, p); err != nil {
		return nil, nil, coded(err, ExitFailed)
	} else if open != nil {
		p, status = open, PreviewResume
	}
	preview, err := pl.preview(ctx, p, status)
	return p, preview, coded(err, ExitFailed)
}

func (pl *planner) plan(ctx context.Context) (*Plan, error) {
	var err error
	if pl.ledger, err = pl.d.Ledger(ctx, pl.spec.Dataset, pl.spec.Name); err != nil {
		return nil, err
	}
	pl.fold = pl.ledger.Fold()
	if err := pl.describe(ctx); err != nil {
		return nil, err
	}
	var inputs []PlanInput
	if pl.ask.Kind != Supersede {
		if inputs, err = pl.inputs(ctx); err != nil {
			return nil, err
		}
	}
	// After the ends are known: who wrote a record of the plan had registered its
	// schema before.
	if err := askRegistry(ctx, pl.spec); err != nil {
		return nil, err
	}
	schema, err := pl.schema()
	if err != nil {
		return nil, err
	}
	bucket, err := newBucket(pl.spec)
	if err != nil {
		return nil, &Error{Code: ExitUsage, Err: err}
	}
	if err := haveFields(schema, &pl.spec.Decode, bucket.Fields); err != nil {
		return nil, coded(err, ExitUsage)
	}
	if err := pl.ledger.keepsBuckets(ctx, &bucket); err != nil {
		return nil, err
	}
	s := pl.spec
	p := &Plan{
		V: 1, Dataset: s.Dataset, Job: s.Name, Kind: pl.ask.Kind, Now: pl.now.UnixMilli(), Base: pl.fold.Head,
		Cluster: pl.cluster, Isolation: s.Isolation, Schema: schema, Decode: s.Decode, Bucket: bucket, MaxBad: s.MaxBad,
		Gaps: pl.ask.AcceptGap,
		Writer: Writer{
			Profile: parquet.Profile, Format: s.Format, Codec: s.Codec, Level: s.Level, Encodings: s.Encodings,
			BatchRows: batchRows, BatchBytes: batchBytes, GroupBytes: groupBytes, GroupRows: groupRows,
			PageBytes: pageLimit(schema),
		},
	}
	if p.Gaps != "" {
		p.GapsBy = pl.by()
	}
	if !pl.ask.Tick.IsZero() {
		p.Tick = pl.ask.Tick.UTC().Format(time.RFC3339)
	}
	if p.Topics, err = pl.planTopics(ctx); err != nil {
		return nil, err
	}
	if p.Inputs = inputs; pl.ask.Kind == Supersede {
		if err := pl.supersede(ctx, p); err != nil {
			return nil, err
		}
	}
	p.Splits = cut(pl.sized(p.Inputs), s.TargetBytes, s.Merge)
	return p, nil
}

// planTopics lists the topics. One that was compacted when the plan before was
// made still has the holes, whatever its policy is now.
func (pl *planner) planTopics(ctx context.Context) ([]PlanTopic, error) {
	was := map[offsets.TopicID]bool{}
	for _, rec := range slices.Backward(pl.fold.Records) {
		if rec.Plan == "" || rec.Kind != Load && rec.Kind != Backfill && rec.Kind != Supersede {
			continue
		}
		last, err := pl.ledger.ReadPlan(ctx, rec.Plan)
		if err != nil {
			return nil, err
		}
		for _, t := range last.Topics {
			was[t.ID] = t.Compact
		}
		break
	}
	var out []PlanTopic
	for _, t := range pl.topics {
		out = append(out, PlanTopic{Name: t.Name, ID: t.ID, Compact: t.Compact || was[t.ID]})
	}
	return out, nil
}

func (pl *planner) by() string {
	if pl.ask.By != "" {
		return pl.ask.By
	}
	return pl.d.By
}

// describe asks the cluster for the topics of the spec.
func (pl *planner) describe(ctx context.Context) error {
	topics, cluster, err := consumer.DescribeSure(ctx, pl.d.Cluster, pl.spec.Topics, pl.spec.Pattern, pl.reaches)
	if err != nil {
		return err
	}
	if len(topics) > 1 && !pl.spec.MergeTopics {
		return fail(ExitUsage, "pattern %s matches %d topics: %d topics in one data set need merge_topics", pl.spec.Pattern, len(topics), len(topics))
	}
	for i := range topics {
		topics[i].ID = topicID(&topics[i], cluster)
	}
	pl.topics, pl.cluster = topics, cluster
	return nil
}

// topicID is the id of a topic, or one made up on a cluster from before topic ids.
func topicID(t *consumer.Topic, cluster string) (id offsets.TopicID) {
	if t.ID.IsZero() {
		h := sha256.Sum256([]byte(cluster + "/" + t.Name))
		copy(id[:], h[:])
		return id
	}
	return t.ID
}

func (pl *planner) reaches(topics []consumer.Topic, cluster string) error {
	return reaches(pl.fold, topics, cluster)
}

// reaches wants each log to reach as far as it was loaded.
func reaches(f *Fold, topics []consumer.Topic, cluster string) error {
	for _, t := range topics {
		id := topicID(&t, cluster)
		for _, p := range t.Partitions {
			have := f.Partitions[PartitionKey{cluster, id, p.Index}]
			if have == nil || have.Next() <= p.HighWatermark {
				continue
			}
			tp := offsets.TopicPartition{Topic: t.Name, Partition: p.Index}
			return &Error{Code: ExitMismatch, Err: &consumer.ShortError{TopicPartition: tp, Asked: have.Next(), LogEnd: p.HighWatermark}}
		}
	}
	return nil
}

// schema is what the data set has and the spec declares, together.
func (pl *planner) schema() (*formats.Schema, error) {
	if pl.spec.Schema == nil && pl.fold.Schema != nil && pl.fold.Schema.Inferred {
		return pl.fold.Schema, nil
	}
	base, err := pl.spec.Decode.Base(pl.spec.Schema)
	if err != nil {
		return nil, &Error{Code: ExitUsage, Msg: "schema", Err: err}
	}
	schema, err := extendSchema(pl.fold.Schema, base)
	if err == nil {
		err = schema.Validate()
	}
	if err != nil {
		e := &Error{Code: ExitConflict, Msg: "the job's schema conflicts with the data set's", Err: err}
		if c, ok := errors.AsType[*typeConflict](err); ok && formats.Widens(c.have, c.with) && c.with.Kind != formats.String { // whose values are text
			return nil, e.hint("give all files the wider type first: sawlog out rewrite --root %s --job FILE; or declare column %s as %s under schema:, and values beyond it go to quarantine",
				pl.d.Sink.Root(), c.column, c.have)
		}
		return nil, e.hint("keep the type and load into this data set, or give the job another root")
	}
	return schema, nil
}

func (pl *planner) inputs(ctx context.Context) ([]PlanInput, error) {
	w, err := windows(ctx, pl.d.Cluster, pl.topics, pl.ask)
	if err != nil {
		return nil, err
	}
	r := &ranger{fold: pl.fold, cluster: pl.cluster, windows: w, accept: pl.ask.AcceptGap != ""}
	if r.first, err = firstStarts(ctx, pl.d.Cluster, pl.topics, pl.spec.Start, pl.now); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(pl.topics, func(t consumer.Topic) bool { return !r.knows(t.ID) }) {
		if err := pl.promised(ctx, r.first); err != nil {
			return nil, err
		}
	}
	return r.inputs(pl.topics)
}

// promised takes first starts back to where an open plan has them that retention
// overtook: a data set whose first run failed for a gap has no record that holds
// its start, and the next run would go on past the gap without a word.
func (pl *planner) promised(ctx context.Context, first map[offsets.TopicPartition]offsets.Offset) error {
	open, err := pl.ledger.OpenPlans(ctx)
	if err != nil {
		return err
	}
	for _, ref := range open {
		for i := range ref.Plan.Inputs {
			in := &ref.Plan.Inputs[i]
			tp := offsets.TopicPartition{Topic: in.Topic, Partition: in.Partition}
			start, asked := first[tp]
			if !asked || in.Empty() || ref.Plan.Kind == Supersede || in.Start >= start {
				continue
			}
			if p := pl.partition(in.Key(ref.Plan.Cluster)); p != nil && start == p.LogStart {
				first[tp] = in.Start
			}
		}
	}
	return nil
}

// partition is what the cluster says of a partition; nil = it has none of that id.
func (pl *planner) partition(key PartitionKey) *consumer.Partition {
	for _, t := range pl.topics {
		if t.ID != key.TopicID || pl.cluster != key.Cluster {
			continue
		}
		for i := range t.Partitions {
			if t.Partitions[i].Index == key.Partition {
				return &t.Partitions[i]
			}
		}
	}
	return nil
}

// sized gives the ranges that are to be read the density of their partition.
func (pl *planner) sized(inputs []PlanInput) []sized {
	var out []sized
	for i := range inputs {
		in := &inputs[i]
		r := SplitRange{Topic: in.Topic, TopicID: in.TopicID, Partition: in.Partition, Range: in.Range}
		r.Start += offsets.Offset(in.Gap)
		if !r.Empty() {
			out = append(out, sized{r, pl.density(in.TopicID, in.Partition)})
		}
	}
	return out
}

// density is the bytes of the log per offset of a partition.
func (pl *planner) density(id offsets.TopicID, partition int32) float64 {
	for _, t := range pl.topics {
		for _, p := range t.Partitions {
			if t.ID == id && p.Index == partition && p.Size >= 0 && p.HighWatermark > p.LogStart {
				return float64(max(p.Size, 1)) / float64(p.HighWatermark-p.LogStart)
			}
		}
	}
	return fallbackDensity
}

// open finds an open plan that does what p would: the same kind and rules on
// topics that are still the same, and no range asked for but its own.
func (pl *planner) open(ctx context.Context, p *Plan) (*Plan, error) {
	if p.Kind == Supersede {
		return nil, nil
	}
	refs, err := pl.ledger.OpenPlans(ctx)
	if err != nil {
		return nil, err
	}
	var found *Plan
	for _, ref := range refs {
		same, err := pl.resumes(ref.Plan, p)
		if err != nil {
			return nil, err
		}
		if same && (found == nil || ref.Plan.Now > found.Now) {
			found = ref.Plan
		}
	}
	return found, nil
}

func (pl *planner) resumes(open, p *Plan) (bool, error) {
	if open.Kind != p.Kind || open.Cluster != p.Cluster || open.Gaps == "" && p.Gaps != "" || len(open.Splits) == 0 {
		return false, nil
	}
	if pl.ask.Bounds != nil && !sameRanges(open.Inputs, p.Inputs) {
		return false, nil
	}
	for _, t := range open.Topics {
		if !slices.ContainsFunc(p.Topics, func(now PlanTopic) bool { return now.ID == t.ID && now.Name == t.Name }) {
			return false, nil
		}
	}
	for i := range open.Inputs {
		in := &open.Inputs[i]
		for _, t := range pl.topics {
			for _, part := range t.Partitions {
				if t.ID == in.TopicID && part.Index == in.Partition && in.Start+offsets.Offset(in.Gap) < part.LogStart {
					return false, nil // its records are gone
				}
			}
		}
	}
	a, err := rules(open)
	if err != nil {
		return false, err
	}
	b, err := rules(p)
	return bytes.Equal(a, b), err
}

// sameRanges compares what is to be loaded; empty ranges say nothing.
func sameRanges(a, b []PlanInput) bool {
	loads := func(in []PlanInput) []string {
		var out []string
		for i := range in {
			if !in[i].Empty() {
				out = append(out, fmt.Sprintf("%s/%d %s", in[i].TopicID, in[i].Partition, in[i].Range))
			}
		}
		return out
	}
	return slices.Equal(loads(a), loads(b))
}

// rules is the part of a plan that a job's file decides, without what moves
// with the clock or grows by inference.
func rules(p *Plan) ([]byte, error) {
	r := Plan{Isolation: p.Isolation, Decode: p.Decode, Bucket: p.Bucket, Writer: p.Writer, MaxBad: p.MaxBad}
	r.Decode.Time.PlausibleFrom, r.Decode.Time.PlausibleTo, r.Decode.Writers = nil, nil, nil
	r.Writer.PageBytes = 0
	if !p.Schema.Inferred {
		r.Schema = p.Schema
	}
	return Canonical(r)
}

// revise is the next revision of a plan after some of its splits met paths the
// schema does not know, or ids of writers, the schemas of which are given: those
// are carried out again under the grown schema, the others keep what they staged.
func revise(p *Plan, planID string, results []*Result, writers []formats.WireSchema) (*Plan, error) {
	var report *formats.Report
	met := map[int]bool{}
	for _, r := range results {
		if r.Unknown == nil {
			continue
		}
		if met[r.Split] = true; report == nil {
			report = r.Unknown
		} else {
			report = formats.Merge(report, r.Unknown)
		}
	}
	schema, err := report.Extend(p.Schema, p.Decode)
	if err != nil {
		return nil, &Error{Code: ExitConflict, Msg: "schema", Err: err}
	}
	if err := haveFields(schema, &p.Decode, p.Bucket.Fields); err != nil {
		return nil, coded(err, ExitConflict)
	}
	was, err := Canonical(p.Schema)
	if err != nil {
		return nil, err
	}
	is, err := Canonical(schema)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(was, is) && len(writers) == 0 {
		return nil, errors.New("records hold unknown paths, but none that makes a column")
	}
	next := *p
	next.Schema, next.Replaces, next.Revision = schema, planID, p.Revision+1
	next.Decode.Writers = sortedWriters(append(writers, p.Decode.Writers...))
	next.Writer.PageBytes = pageLimit(schema)
	next.Splits = slices.Clone(p.Splits)
	for i := range next.Splits {
		s := &next.Splits[i]
		if met[s.Index] {
			s.Schema, s.Stage = nil, ""
			continue
		}
		s.Stage = s.StagePlan(planID)
		if s.Schema == nil {
			s.Schema = p.Schema
		}
	}
	return &next, nil
}
