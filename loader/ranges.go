package loader

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"sawlog/consumer"
	"sawlog/offsets"
)

// window is what was asked of one partition, resolved to offsets.
type window struct {
	start offsets.Offset
	asked bool // start was asked for; otherwise it follows from the ledger
	end   offsets.Offset
}

// windows resolves an ask against the topics: which partitions take part, and
// between which offsets.
func windows(ctx context.Context, c consumer.Cluster, topics []consumer.Topic, ask *PlanAsk) (map[offsets.TopicPartition]window, error) {
	out := map[offsets.TopicPartition]window{}
	q := ask.Bounds
	if q == nil {
		q = &offsets.Query{Start: offsets.Bound{Kind: offsets.Earliest}, End: offsets.Bound{Kind: offsets.Latest}}
	}
	if err := checkNames(q, topics); err != nil {
		return nil, err
	}
	starts, err := resolve(ctx, c, topics, q.Start)
	if err != nil {
		return nil, err
	}
	ends, err := resolve(ctx, c, topics, q.End)
	if err != nil {
		return nil, err
	}
	for _, t := range topics {
		if q.Topic != "" && q.Topic != t.Name {
			continue
		}
		for _, p := range t.Partitions {
			if q.Partitions != nil && !slices.Contains(q.Partitions, p.Index) {
				continue
			}
			tp := offsets.TopicPartition{Topic: t.Name, Partition: p.Index}
			w := window{start: starts[tp], asked: ask.Bounds != nil, end: ends[tp]}
			if q.End.Kind == offsets.PlusOffsets {
				w.end = w.start + offsets.Offset(q.End.N)
			}
			named := q.End.Kind == offsets.AtOffset || q.End.Kind == offsets.PlusOffsets
			if named && w.end > p.LastStable && ask.AcceptGap == "" {
				short := &Error{Code: ExitMismatch, Err: &consumer.ShortError{TopicPartition: tp, Asked: w.end, LogEnd: p.LastStable}}
				return nil, short.hint("end the range at latest, or take what is there with --accept-gap REASON")
			}
			w.end = min(w.end, p.LastStable)
			if bound, ok := ask.UpTo[tp]; ok {
				w.end = min(w.end, bound)
			}
			out[tp] = w
		}
	}
	return out, nil
}

// checkNames wants the topic and partitions of a query to be there.
func checkNames(q *offsets.Query, topics []consumer.Topic) error {
	var names []string
	known := map[int32]bool{}
	for _, t := range topics {
		names = append(names, t.Name)
		if q.Topic == "" || q.Topic == t.Name {
			for _, p := range t.Partitions {
				known[p.Index] = true
			}
		}
	}
	if q.Topic != "" && !slices.Contains(names, q.Topic) {
		return fail(ExitUsage, "the range names topic %s, the source is %s", q.Topic, strings.Join(names, ", "))
	}
	for _, p := range q.Partitions {
		if !known[p] {
			return fail(ExitNotFound, "the range names partition %d, which %s does not have", p, strings.Join(names, ", "))
		}
	}
	return nil
}

// resolve turns a bound into an offset per partition.
func resolve(ctx context.Context, c consumer.Cluster, topics []consumer.Topic, b offsets.Bound) (map[offsets.TopicPartition]offsets.Offset, error) {
	var tps []offsets.TopicPartition
	out := map[offsets.TopicPartition]offsets.Offset{}
	for _, t := range topics {
		for _, p := range t.Partitions {
			tp := offsets.TopicPartition{Topic: t.Name, Partition: p.Index}
			tps = append(tps, tp)
			switch b.Kind {
			case offsets.Earliest:
				out[tp] = p.LogStart
			case offsets.AtOffset:
				out[tp] = offsets.Offset(b.N)
			case offsets.FromEnd:
				out[tp] = max(p.LastStable-offsets.Offset(b.N), p.LogStart)
			default: // Latest, AtTime beyond the last record
				out[tp] = p.LastStable
			}
		}
	}
	if b.Kind != offsets.AtTime {
		return out, nil
	}
	found, err := consumer.OffsetForTime(ctx, c, tps, b.Time.UnixMilli())
	if err != nil {
		return nil, err
	}
	for tp, at := range found {
		out[tp] = min(at, out[tp])
	}
	return out, nil
}

// firstStarts is where the first run of a data set starts, per partition. A
// partition a group never committed starts at its log start.
func firstStarts(ctx context.Context, c consumer.Cluster, topics []consumer.Topic, start string, now time.Time) (map[offsets.TopicPartition]offsets.Offset, error) {
	if group, ok := strings.CutPrefix(start, startGroup); ok {
		out, err := resolve(ctx, c, topics, offsets.Bound{Kind: offsets.Earliest})
		if err != nil {
			return nil, err
		}
		committed, err := consumer.Committed(ctx, c, group, topics)
		maps.Copy(out, committed)
		return out, err
	}
	bound := offsets.Bound{Kind: offsets.Earliest}
	switch {
	case start == "latest":
		bound.Kind = offsets.Latest
	case strings.HasPrefix(start, "@"):
		at, err := offsets.ParseTime(start[1:], now)
		if err != nil {
			return nil, &Error{Code: ExitUsage, Msg: "source start", Err: err}
		}
		bound = offsets.Bound{Kind: offsets.AtTime, Time: at}
	}
	return resolve(ctx, c, topics, bound)
}

// ranger freezes the range of each partition from what was loaded, what is in
// the log and what was asked for. It decides without looking anywhere else.
type ranger struct {
	fold    *Fold
	cluster string
	windows map[offsets.TopicPartition]window
	first   map[offsets.TopicPartition]offsets.Offset
	accept  bool // gaps
}

// inputs lists the frozen ranges in (topic, partition) order. Empty ones are
// listed too: they freeze starts, and tell that a partition is idle.
func (r *ranger) inputs(topics []consumer.Topic) ([]PlanInput, error) {
	var out []PlanInput
	for _, t := range topics {
		known := r.knows(t.ID)
		for _, p := range t.Partitions {
			w, ok := r.windows[offsets.TopicPartition{Topic: t.Name, Partition: p.Index}]
			if !ok {
				continue
			}
			in, err := r.input(&t, &p, w, known)
			if err != nil {
				return nil, err
			}
			out = append(out, *in)
		}
	}
	return out, nil
}

// knows tells whether the ledger holds any partition of a topic.
func (r *ranger) knows(id offsets.TopicID) bool {
	for key := range r.fold.Partitions {
		if key.Cluster == r.cluster && key.TopicID == id {
			return true
		}
	}
	return false
}

func (r *ranger) input(t *consumer.Topic, p *consumer.Partition, w window, known bool) (*PlanInput, error) {
	key := PartitionKey{r.cluster, t.ID, p.Index}
	tp := offsets.TopicPartition{Topic: t.Name, Partition: p.Index}
	have := r.fold.Partitions[key]
	next := r.next(tp, p, have, w, known)
	in := &PlanInput{
		Topic: t.Name, TopicID: t.ID, Partition: p.Index,
		Range:    offsets.Range{Start: next, End: max(next, w.end)},
		LogStart: p.LogStart, LastStable: p.LastStable,
	}
	if w.asked && w.start != next {
		done, err := r.elsewhere(key, tp, have, w, next)
		switch {
		case err != nil:
			return nil, err
		case done:
			in.End = in.Start
		default:
			in.Gap = int64(min(w.start, in.End) - next)
		}
	}
	if have != nil {
		in.End = beforeNext(have.Covered, in.Range)
	}
	if in.Start < p.LogStart && !in.Empty() {
		lost := int64(min(p.LogStart, in.End) - in.Start)
		if !r.accept {
			e := &Error{Code: ExitMismatch, Err: &consumer.GapError{TopicPartition: tp, Asked: in.Start, LogStart: p.LogStart}}
			return nil, e.hint("go on without them with --accept-gap REASON, which the ledger keeps")
		}
		in.Gap = max(in.Gap, lost)
	}
	return in, nil
}

// next is where a load of the partition goes on, or begins.
func (r *ranger) next(tp offsets.TopicPartition, p *consumer.Partition, have *Partition, w window, known bool) offsets.Offset {
	switch {
	case have != nil:
		return have.Next()
	case known: // a partition added later
		return p.LogStart
	case w.asked:
		return w.start
	default:
		return r.first[tp]
	}
}

// elsewhere deals with a range that does not start where the load goes on: it
// is all loaded already, or starts later and that was accepted, or is refused.
func (r *ranger) elsewhere(key PartitionKey, tp offsets.TopicPartition, have *Partition, w window, next offsets.Offset) (done bool, err error) {
	asked := offsets.Range{Start: w.start, End: w.end}
	switch {
	case asked.Empty() || have != nil && have.Covered.Covers(asked):
		return true, nil
	case w.start > next && r.accept:
		return false, nil
	case have != nil:
		return false, r.fold.CheckStart(key, tp.Topic, w.start, false)
	default:
		e := fail(ExitConflict, "%s: the partition was added later and is loaded from its log start %d, not from %d", tp, next, w.start)
		return false, e.hint("leave the start to the ledger, or accept the gap with --accept-gap REASON")
	}
}

// beforeNext is the end of r, cut where offsets loaded earlier begin.
func beforeNext(covered offsets.Set, r offsets.Range) offsets.Offset {
	for _, have := range covered {
		if have.Start >= r.Start && have.Start < r.End {
			return have.Start
		}
	}
	return r.End
}

// skips tells whether a plan leaves out records of a partition no record names
// yet, as a first run from the latest offset does. Such a plan is committed even
// if it loads nothing, for its starts are to be kept.
func (f *Fold) skips(p *Plan) bool {
	for i := range p.Inputs {
		in := &p.Inputs[i]
		if f.Partitions[in.Key(p.Cluster)] == nil && in.Start > in.LogStart {
			return true
		}
	}
	return false
}
